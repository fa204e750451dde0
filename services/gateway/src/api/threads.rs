//! Threads and messages.

use axum::extract::State;
use http::StatusCode;
use jiff::Timestamp;
use kazma_domain::{Surface, ThreadId, TurnId, Wait, limits::MESSAGE_MAX};
use kazma_edge::{ApiError, Json, Path};
use kazma_wire::{
    Problem,
    gateway::{AbortRequest, NewMessage, NewThread, ThreadSummary},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::show::Thread;
use crate::{
    access::{Chatter, SignedIn, Viewer},
    app::App,
};

/// The longest idempotency key.
const KEY_MAX: usize = 200;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Threads {
    /// Newest first.
    threads: Vec<Summary>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Summary {
    #[schema(value_type = String)]
    thread_id: ThreadId,
    /// The beginning of its first message.
    title: String,
    #[schema(value_type = String)]
    created_at: Timestamp,
    #[schema(value_type = String)]
    changed_at: Timestamp,
    /// How many cards wait in it.
    pending: u32,
}

impl From<ThreadSummary> for Summary {
    fn from(thread: ThreadSummary) -> Self {
        Self {
            thread_id: thread.thread,
            title: thread.title,
            created_at: thread.created_at,
            changed_at: thread.changed_at,
            pending: thread.pending,
        }
    }
}

/// All threads, newest first.
#[utoipa::path(get, path = "/api/threads", tag = "threads", responses((status = 200, body = Threads)))]
pub(super) async fn list(_: Viewer, State(app): State<App>) -> Result<Json<Threads>, ApiError> {
    let threads = app.registry().threads().await?;
    Ok(Json(Threads {
        threads: threads.into_iter().map(Summary::from).collect(),
    }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Begun {
    #[schema(value_type = String)]
    thread_id: ThreadId,
}

/// Begins a thread.
#[utoipa::path(post, path = "/api/threads", tag = "threads", responses((status = 201, body = Begun)))]
pub(super) async fn begin(
    chatter: Chatter,
    State(app): State<App>,
) -> Result<(StatusCode, Json<Begun>), ApiError> {
    let thread_id = begin_as(&app, &chatter.who).await?;
    Ok((StatusCode::CREATED, Json(Begun { thread_id })))
}

pub(crate) async fn begin_as(app: &App, who: &SignedIn) -> Result<ThreadId, ApiError> {
    Ok(app
        .registry()
        .new_thread(NewThread { actor: who.actor() })
        .await?
        .thread)
}

/// One thread: its messages, turns, gates and calls.
#[utoipa::path(
    get, path = "/api/threads/{id}", tag = "threads", params(("id" = String, Path)),
    responses((status = 200, body = Thread), (status = 404, body = Problem))
)]
pub(super) async fn show(
    _: Viewer,
    State(app): State<App>,
    Path(id): Path<ThreadId>,
) -> Result<Json<Thread>, ApiError> {
    let view = app.registry().thread(id).await?;
    Ok(Json(Thread::from(&view)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Say {
    /// The person's own words, at most 64 KiB.
    text: String,
    /// The same key in the same thread gets the same answer.
    idempotency_key: Option<String>,
    /// How you wait: `parked` (a question waits until its deadline, a day unless set otherwise) or
    /// `blocking` (you wait in line; a question that nobody answers within 60 seconds expires).
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    wait: Wait,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Said {
    #[schema(value_type = String)]
    turn_id: TurnId,
}

/// Says something to the agent, which opens a turn.
#[utoipa::path(
    post, path = "/api/threads/{id}/messages", tag = "threads", params(("id" = String, Path)), request_body = Say,
    responses((status = 202, body = Said), (status = 404, body = Problem), (status = 422, body = Problem))
)]
pub(super) async fn say(
    chatter: Chatter,
    State(app): State<App>,
    Path(id): Path<ThreadId>,
    Json(say): Json<Say>,
) -> Result<(StatusCode, Json<Said>), ApiError> {
    let surface = chatter.who.surface();
    let words = Words {
        surface,
        text: say.text,
        idempotency_key: say.idempotency_key,
        wait: say.wait,
    };
    let turn_id = say_as(&app, &chatter.who, id, words).await?;
    Ok((StatusCode::ACCEPTED, Json(Said { turn_id })))
}

/// What a person says, and how they wait for what follows.
pub(crate) struct Words {
    pub(crate) surface: Surface,
    pub(crate) text: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) wait: Wait,
}

pub(crate) async fn say_as(
    app: &App,
    who: &SignedIn,
    thread: ThreadId,
    words: Words,
) -> Result<TurnId, ApiError> {
    check_text(&words.text)?;
    if words
        .idempotency_key
        .as_ref()
        .is_some_and(|key| key.is_empty() || key.len() > KEY_MAX)
    {
        return Err(wrong(
            "idempotency_key",
            format!("It has 1 to {KEY_MAX} bytes."),
        ));
    }
    let message = NewMessage {
        actor: who.actor(),
        surface: words.surface,
        text: words.text,
        idempotency_key: words.idempotency_key,
        wait: words.wait,
    };
    Ok(app.registry().new_message(thread, message).await?.turn)
}

/// Whether `text` can be a person's message.
pub(crate) fn check_text(text: &str) -> Result<(), ApiError> {
    if text.len() > MESSAGE_MAX {
        return Err(Problem::new(413, "too-large", "The message is too long")
            .detail(format!(
                "It has {} bytes; {MESSAGE_MAX} are the most.",
                text.len()
            ))
            .field("text")
            .into());
    }
    if text.trim().is_empty() {
        Err(wrong("text", "Say something."))
    } else {
        Ok(())
    }
}

/// 422 for one field.
pub(crate) fn wrong(field: &str, detail: impl std::fmt::Display) -> ApiError {
    Problem::new(422, "field", "A field is wrong")
        .detail(format!("{field}: {detail}"))
        .field(field)
        .into()
}

/// Ends a turn: what waits in it is cancelled.
#[utoipa::path(
    post, path = "/api/turns/{id}/abort", tag = "threads", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn abort(
    chatter: Chatter,
    State(app): State<App>,
    Path(id): Path<TurnId>,
) -> Result<StatusCode, ApiError> {
    abort_as(&app, &chatter.who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn abort_as(app: &App, who: &SignedIn, turn: TurnId) -> Result<(), ApiError> {
    Ok(app
        .registry()
        .abort(turn, AbortRequest { actor: who.actor() })
        .await?)
}
