//! Threads: the first page, the list, the conversation.

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode};
use kazma_domain::{Surface, ThreadId, TurnId, Wait};
use kazma_edge::{ApiError, Path, Query};
use serde::Deserialize;

use super::{
    Frame, by_htmx,
    fill::{self, Reader},
    home, html,
};
use crate::{
    access::{Chats, CheckedForm, Viewer},
    api::threads::{self, abort_as, begin_as, check_text, say_as},
    app::App,
    guard::layers::Facts,
    pages::{ChatPage, Example, MessagesPart, Moment, Section, ThreadPage, ThreadRow, ThreadsPage},
};

/// Threads on one page of the list.
const PER_PAGE: usize = 50;

#[derive(Debug, Deserialize)]
pub(super) struct Text {
    #[serde(default)]
    text: String,
}

/// A key under which a form that is sent twice is written once.
fn key(app: &App) -> String {
    let mut bytes = [0_u8; 16];
    app.people().entropy().fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) async fn begin(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    Query(text): Query<Text>,
) -> Result<Response, ApiError> {
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &viewer.who,
    };
    let page = ChatPage {
        shell: frame.shell("Chat", Section::Chat, "/chat").await,
        can_write: viewer.who.person.role.may_chat(),
        text: text.text,
        examples: Example::demo(),
        idempotency_key: key(&app),
    };
    html(StatusCode::OK, &page)
}

#[derive(Debug, Deserialize)]
pub(super) struct Older {
    #[serde(default)]
    skip: usize,
}

pub(super) async fn list(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    Query(older): Query<Older>,
) -> Result<Response, ApiError> {
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &viewer.who,
    };
    let all = app.registry().threads().await?;
    let more = all.len() > older.skip.saturating_add(PER_PAGE);
    let threads = all
        .into_iter()
        .skip(older.skip)
        .take(PER_PAGE)
        .map(|thread| ThreadRow {
            thread_id: thread.thread.to_string(),
            title: fill::title(&thread.title),
            last: String::new(),
            at: Moment::from_unix_ms(thread.changed_at.as_millisecond()),
            pending: u64::from(thread.pending),
            running: false,
        })
        .collect();
    let page = ThreadsPage {
        shell: frame.shell("Threads", Section::Threads, "/threads").await,
        threads,
        older: if more {
            format!("/threads?skip={}", older.skip + PER_PAGE)
        } else {
            String::new()
        },
    };
    html(StatusCode::OK, &page)
}

#[derive(Debug, Deserialize)]
pub(super) struct Words {
    #[serde(deserialize_with = "own_line_ends")]
    text: String,
    #[serde(default)]
    idempotency_key: String,
}

/// The words with the line ends their writer made: a browser sends every one of a form's as CR LF (HTML,
/// "construct the entry list"), and a carriage return in code would be on the card.
fn own_line_ends<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| text.replace("\r\n", "\n"))
}

impl Words {
    fn spoken(&self) -> threads::Words {
        threads::Words {
            surface: Surface::Web,
            text: self.text.clone(),
            idempotency_key: (!self.idempotency_key.is_empty())
                .then(|| self.idempotency_key.clone()),
            // A page is left and come back to.
            wait: Wait::Parked,
        }
    }
}

/// A first message, which begins a thread. Sent twice, it begins one.
pub(super) async fn open(
    State(app): State<App>,
    CheckedForm { who, form, .. }: CheckedForm<Chats, Words>,
) -> Result<Response, ApiError> {
    check_text(&form.text)?;
    let mut begun = app.begun().await;
    let key = format!("{} {}", who.person.id, form.idempotency_key);
    let thread = if let Some(thread) = begun.find(&key) {
        thread
    } else {
        let thread = begin_as(&app, &who).await?;
        begun.remember(key, thread);
        thread
    };
    drop(begun);
    say_as(&app, &who, thread, form.spoken()).await?;
    Ok(Redirect::to(&format!("/threads/{thread}")).into_response())
}

pub(super) async fn show(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    Path(thread): Path<ThreadId>,
) -> Result<Response, ApiError> {
    let view = app.registry().thread(thread).await?;
    let path = format!("/threads/{thread}");
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &viewer.who,
    };
    let reader = Reader::new(&app, &viewer.who, &path).await;
    let title = fill::thread_title(&view);
    let live = view.turns.iter().rev().find(|turn| turn.state.is_live());
    let saying = app
        .hub()
        .saying(thread)
        .filter(|saying| live.is_some_and(|turn| turn.turn == saying.turn));
    let page = ThreadPage {
        shell: frame.shell(&title, Section::Threads, &path).await,
        thread_id: thread.to_string(),
        thread_title: title,
        messages: reader.messages(&view),
        status: fill::status(&view).to_owned(),
        turn_id: live.map(|turn| turn.turn.to_string()).unwrap_or_default(),
        running: saying.map(|saying| saying.text).unwrap_or_default(),
        side: reader.side(&view),
        can_write: viewer.who.person.role.may_chat(),
        idempotency_key: key(&app),
    };
    html(StatusCode::OK, &page)
}

pub(super) async fn say(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Path(thread): Path<ThreadId>,
    headers: HeaderMap,
    CheckedForm { who, form, .. }: CheckedForm<Chats, Words>,
) -> Result<Response, ApiError> {
    say_as(&app, &who, thread, form.spoken()).await?;
    if !by_htmx(&headers) {
        return Ok(Redirect::to(&format!("/threads/{thread}")).into_response());
    }
    messages(&app, &facts, &who, thread).await
}

/// The messages of a thread by themselves.
pub(super) async fn messages(
    app: &App,
    facts: &Facts,
    who: &crate::access::SignedIn,
    thread: ThreadId,
) -> Result<Response, ApiError> {
    let view = app.registry().thread(thread).await?;
    let path = format!("/threads/{thread}");
    let reader = Reader::new(app, who, &path).await;
    let part = MessagesPart {
        nonce: facts.nonce.clone(),
        csrf: who.csrf(),
        thread_id: thread.to_string(),
        messages: reader.messages(&view),
        status: fill::status(&view).to_owned(),
    };
    html(StatusCode::OK, &part)
}

#[derive(Debug, Deserialize)]
pub(super) struct Back {
    #[serde(default)]
    return_to: String,
}

pub(super) async fn abort(
    State(app): State<App>,
    Path(turn): Path<TurnId>,
    CheckedForm { who, form, .. }: CheckedForm<Chats, Back>,
) -> Result<Response, ApiError> {
    abort_as(&app, &who, turn).await?;
    Ok(Redirect::to(&home(&form.return_to, "/threads")).into_response())
}
