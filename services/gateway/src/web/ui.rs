//! What the pages' own script asks for: parts, events, counts. And the files that pages load.

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Redirect, Response, sse::Event as Frame},
};
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use kazma_domain::{GateId, ThreadId};
use kazma_edge::{ApiError, Path, Query, not_found};
use kazma_wire::events::What;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{THEME, chat, fill::Reader, home, inbox};
use crate::{
    access::{CheckedForm, Reads, Viewer},
    api::events::{After, last_seen, stream, with_id},
    app::App,
    guard::layers::Facts,
    hub::News,
    pages::{self, Card},
};

/// Cards that a page which missed their beginning is told of at once.
const TOLD_AT_ONCE: usize = 200;

/// What happens, for the script of the pages: only what it needs to know where to look again.
pub(super) async fn events(
    viewer: Viewer,
    State(app): State<App>,
    Query(after): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    stream(&app, &viewer.who, None, last_seen(&headers, &after)?, frame)
}

fn frame(_: App, news: News) -> BoxFuture<'static, Option<Frame>> {
    Box::pin(std::future::ready(match news {
        News::Event(happening) => named(&happening.event).and_then(|(name, data)| {
            let frame = Frame::default().event(name).json_data(data).ok()?;
            Some(with_id(frame, &happening))
        }),
        News::Delta {
            thread,
            turn,
            text,
            anew,
        } => Frame::default()
            .event("delta")
            .json_data(json!({"thread_id": thread, "turn_id": turn, "text": *text, "anew": anew}))
            .ok(),
        News::SignedOut { .. } => None,
    }))
}

fn named(event: &kazma_wire::events::Event) -> Option<(&'static str, Value)> {
    let thread = event.thread;
    Some(match &event.what {
        What::Beat | What::Thread => return None,
        What::Message { .. } => ("message", json!({"thread_id": thread, "kind": "message"})),
        What::Reply { .. } => ("message", json!({"thread_id": thread, "kind": "reply"})),
        What::Call { state, .. } => (
            "message",
            json!({"thread_id": thread, "kind": "call", "state": state}),
        ),
        What::Turn { state } => (
            "turn",
            json!({"thread_id": thread, "turn_id": event.turn, "state": state}),
        ),
        What::GatePending { gate } => (
            "gate",
            json!({"gate_id": gate, "thread_id": thread, "state": "pending"}),
        ),
        What::GateSettled { gate, state } => (
            "gate",
            json!({"gate_id": gate, "thread_id": thread, "state": state}),
        ),
        What::Output { call, stream, text } => (
            "output",
            json!({"call_id": call, "stream": stream, "text": text}),
        ),
    })
}

/// How many cards wait, and which.
pub(super) async fn count(_: Viewer, State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let pending = app.registry().gates(Some("pending"), 1000, None).await?;
    let gates: Vec<Value> = pending
        .iter()
        .take(TOLD_AT_ONCE)
        .map(|gate| json!({"gate_id": gate.gate, "thread_id": gate.thread, "state": "pending"}))
        .collect();
    Ok(Json(json!({"pending": pending.len(), "gates": gates})))
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    #[serde(default)]
    place: String,
}

pub(super) async fn gate(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Path(gate): Path<GateId>,
    Query(place): Query<Place>,
) -> Result<Response, ApiError> {
    let view = app.registry().gate(gate).await?;
    let place = inbox::place(&place.place);
    let return_to = if place.is_empty() {
        "/approvals".to_owned()
    } else {
        format!("/threads/{}", view.thread)
    };
    let reader = Reader::new(&app, &viewer.who, &return_to).await;
    let card = Card {
        place,
        ..reader.card(&view)
    };
    inbox::card_part(&facts, &viewer.who, StatusCode::OK, card)
}

pub(super) async fn messages(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Path(thread): Path<ThreadId>,
) -> Result<Response, ApiError> {
    chat::messages(&app, &facts, &viewer.who, thread).await
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Theme {
    Auto,
    Light,
    Dark,
}

#[derive(Debug, Deserialize)]
pub(super) struct Look {
    theme: Theme,
    #[serde(default)]
    return_to: String,
}

pub(super) async fn theme(
    State(app): State<App>,
    CheckedForm { form, .. }: CheckedForm<Reads, Look>,
) -> Result<Response, ApiError> {
    let (word, seconds) = match form.theme {
        Theme::Auto => ("auto", 0),
        Theme::Light => ("light", 31_536_000),
        Theme::Dark => ("dark", 31_536_000),
    };
    let secure = if app.site().is_secure() {
        "; Secure"
    } else {
        ""
    };
    let text =
        format!("{THEME}={word}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut answer = Redirect::to(&home(&form.return_to, "/")).into_response();
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(answer)
}

pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, ApiError> {
    let asset = pages::asset(&name).ok_or_else(not_found)?;
    let media = HeaderValue::from_static(asset.content_type);
    // The name holds the content's digest: another content has another name.
    let cache = HeaderValue::from_static("public, max-age=31536000, immutable");
    Ok((
        [
            (header::CONTENT_TYPE, media),
            (header::CACHE_CONTROL, cache),
        ],
        asset.bytes,
    )
        .into_response())
}
