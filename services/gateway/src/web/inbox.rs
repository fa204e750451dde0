//! Approvals: the cards that wait, one card, and the decision.

use std::collections::HashMap;

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, StatusCode};
use kazma_domain::{Decision, Digest, GateId, Surface, ThreadId};
use kazma_edge::{ApiError, Path};
use kazma_wire::view::GateView;
use serde::Deserialize;

use super::{
    Frame, by_htmx,
    fill::{self, Reader},
    home, html,
};
use crate::{
    access::{CheckedForm, Decides, SignedIn, Viewer},
    api::gates::{Choice, decide_as, extend_as},
    app::App,
    guard::layers::Facts,
    pages::{ApprovalsPage, Card, CardPart, GatePage, Section},
};

/// Settled cards that stay on the page.
const SETTLED: u32 = 20;
/// Cards that wait and are drawn; the count in the rail counts all.
const WAITING: u32 = 100;

pub(super) async fn list(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &viewer.who,
    };
    let reader = Reader::new(&app, &viewer.who, "/approvals").await;
    let (waiting, settled, titles) = tokio::join!(
        app.registry().gates(Some("pending"), WAITING, None),
        app.registry().gates(Some("settled"), SETTLED, None),
        titles(&app),
    );
    let card = |view: &GateView| Card {
        thread_title: titles.get(&view.thread).cloned().unwrap_or_default(),
        ..reader.card(view)
    };
    let page = ApprovalsPage {
        shell: frame
            .shell("Approvals", Section::Approvals, "/approvals")
            .await,
        waiting: waiting?.iter().map(card).collect(),
        settled: settled?.iter().map(card).collect(),
    };
    html(StatusCode::OK, &page)
}

async fn titles(app: &App) -> HashMap<ThreadId, String> {
    let threads = app.registry().threads().await.unwrap_or_default();
    threads
        .into_iter()
        .map(|thread| (thread.thread, fill::title(&thread.title)))
        .collect()
}

pub(super) async fn show(
    viewer: Viewer,
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    Path(gate): Path<GateId>,
) -> Result<Response, ApiError> {
    let view = app.registry().gate(gate).await?;
    let path = format!("/gates/{gate}");
    let reader = Reader::new(&app, &viewer.who, &path).await;
    let card = reader.card(&view);
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &viewer.who,
    };
    gate_page(&frame, StatusCode::OK, card).await
}

async fn gate_page(
    frame: &Frame<'_>,
    status: StatusCode,
    card: Card,
) -> Result<Response, ApiError> {
    let titles = titles(frame.app).await;
    let title = card
        .thread_id
        .parse()
        .ok()
        .and_then(|thread: ThreadId| titles.get(&thread).cloned());
    let path = format!("/gates/{}", card.gate_id);
    let page = GatePage {
        shell: frame.shell("Approval", Section::Approvals, &path).await,
        card: Card {
            thread_title: title.unwrap_or_default(),
            ..card
        },
    };
    html(status, &page)
}

#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    decision: Decision,
    args_digest: Digest,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    return_to: String,
    #[serde(default)]
    place: String,
}

pub(super) async fn decide(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Path(gate): Path<GateId>,
    headers: HeaderMap,
    CheckedForm { who, form, .. }: CheckedForm<Decides, Answer>,
) -> Result<Response, ApiError> {
    let choice = Choice {
        decision: form.decision,
        card: form.args_digest,
        reason: Some(form.reason),
    };
    let return_to = home(&form.return_to, "/approvals");
    let late = match decide_as(&app, &who, Surface::Web, gate, choice).await {
        Ok(_) if !by_htmx(&headers) => return Ok(Redirect::to(&return_to).into_response()),
        Ok(_) => None,
        Err(ApiError(problem)) if problem.status == 409 => Some(problem),
        Err(error) => return Err(error),
    };
    let view = app.registry().gate(gate).await?;
    let reader = Reader::new(&app, &who, &return_to).await;
    let mut card = Card {
        place: place(&form.place),
        ..reader.card(&view)
    };
    let status = if late.is_some() {
        StatusCode::CONFLICT
    } else {
        StatusCode::OK
    };
    match late {
        Some(problem) if problem.is("card-changed") => card.warnings.insert(
            0,
            "The card changed after you opened it, so nothing was decided. This is how it is now."
                .to_owned(),
        ),
        Some(_) => {
            card.late = match form.decision {
                Decision::Approve => "approval".to_owned(),
                Decision::Deny => "denial".to_owned(),
            };
        }
        None => {}
    }
    if by_htmx(&headers) {
        return card_part(&facts, &who, status, card);
    }
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &who,
    };
    gate_page(&frame, status, card).await
}

/// What comes back with every form of a card.
#[derive(Debug, Deserialize)]
pub(super) struct Whence {
    #[serde(default)]
    return_to: String,
    #[serde(default)]
    place: String,
}

/// More time for a card.
pub(super) async fn extend(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Path(gate): Path<GateId>,
    headers: HeaderMap,
    CheckedForm { who, form, .. }: CheckedForm<Decides, Whence>,
) -> Result<Response, ApiError> {
    let return_to = home(&form.return_to, "/approvals");
    match extend_as(&app, &who, gate).await {
        Ok(_) if !by_htmx(&headers) => return Ok(Redirect::to(&return_to).into_response()),
        Ok(_) => {}
        // It has ended: the card itself says how.
        Err(ApiError(problem)) if problem.status == 409 => {}
        Err(error) => return Err(error),
    }
    let view = app.registry().gate(gate).await?;
    let reader = Reader::new(&app, &who, &return_to).await;
    let card = Card {
        place: place(&form.place),
        ..reader.card(&view)
    };
    if by_htmx(&headers) {
        return card_part(&facts, &who, StatusCode::OK, card);
    }
    let frame = Frame {
        app: &app,
        facts: &facts,
        headers: &headers,
        who: &who,
    };
    gate_page(&frame, StatusCode::OK, card).await
}

/// One card by itself.
pub(super) fn card_part(
    facts: &Facts,
    who: &SignedIn,
    status: StatusCode,
    card: Card,
) -> Result<Response, ApiError> {
    html(
        status,
        &CardPart {
            nonce: facts.nonce.clone(),
            csrf: who.csrf(),
            card,
        },
    )
}

/// Where on its page a card is drawn; anything else than the known places is the flow.
pub(super) fn place(asked: &str) -> String {
    if asked == "side" {
        "side".to_owned()
    } else {
        String::new()
    }
}
