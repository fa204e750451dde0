//! Server-sent events (WHATWG HTML, section 9.2): what happens, resumable by the last id seen.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response, Sse, sse::Event as Frame, sse::KeepAlive},
};
use futures_util::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{HeaderMap, HeaderName};
use kazma_domain::ThreadId;
use kazma_edge::{ApiError, Path, Query};
use kazma_wire::{
    Problem,
    events::{Event, What},
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast;

use super::{show::Told, threads::wrong};
use crate::{
    access::{SignedIn, Viewer},
    app::{App, StreamPlace},
    hub::{Happening, News},
    upstream::Upstream,
};

/// How often a silent stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long the registry may take over the next event of what was missed.
const REPLAY_PATIENCE: Duration = Duration::from_secs(10);
/// When a client shall come back after a break.
const RETRY: Duration = Duration::from_secs(1);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Only what came after this id; the header Last-Event-ID says the same and goes first.
    pub(crate) after: Option<i64>,
}

/// What happens in one thread. Events with an id are kept and come again after a break; `message.delta` (a piece of
/// the answer as it is made; `anew: true` voids the pieces before it) and `call.output` have none and pass by.
#[utoipa::path(
    get, path = "/api/threads/{id}/events", tag = "events",
    params(("id" = String, Path), After, ("Last-Event-ID" = Option<i64>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 404, body = Problem))
)]
pub(super) async fn of_thread(
    viewer: Viewer,
    State(app): State<App>,
    Path(thread): Path<ThreadId>,
    Query(after): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // A thread that is not there has no events, and says so at once.
    app.registry().thread(thread).await?;
    stream(
        &app,
        &viewer.who,
        Some(thread),
        last_seen(&headers, &after)?,
        api_frame,
    )
}

/// What happens everywhere.
#[utoipa::path(
    get, path = "/api/events", tag = "events", params(After, ("Last-Event-ID" = Option<i64>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(super) async fn all(
    viewer: Viewer,
    State(app): State<App>,
    Query(after): Query<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    stream(
        &app,
        &viewer.who,
        None,
        last_seen(&headers, &after)?,
        api_frame,
    )
}

/// The last id that a client saw.
pub(crate) fn last_seen(headers: &HeaderMap, after: &After) -> Result<Option<i64>, ApiError> {
    let header = match headers.get(LAST_EVENT_ID) {
        None => None,
        Some(value) => match value.to_str().map(str::trim) {
            Ok("") => None,
            Ok(text) => Some(
                text.parse()
                    .map_err(|_| wrong("Last-Event-ID", "It is the id of an event: a number."))?,
            ),
            Err(_) => {
                return Err(wrong(
                    "Last-Event-ID",
                    "It is the id of an event: a number.",
                ));
            }
        },
    };
    let seen: Option<i64> = header.or(after.after);
    match seen {
        Some(seen) if seen < 0 => Err(wrong(
            if header.is_some() {
                "Last-Event-ID"
            } else {
                "after"
            },
            "It is not negative.",
        )),
        seen => Ok(seen),
    }
}

/// How news become a frame; none for what a stream does not tell.
type Framer = fn(App, News) -> BoxFuture<'static, Option<Frame>>;

fn api_frame(app: App, news: News) -> BoxFuture<'static, Option<Frame>> {
    Box::pin(async move {
        match news {
            News::Event(happening) => Told::of(&app, &happening).await,
            News::Delta {
                thread,
                turn,
                text,
                anew,
            } => {
                let data =
                    json!({"thread_id": thread, "turn_id": turn, "text": *text, "anew": anew});
                Frame::default().event("message.delta").json_data(data).ok()
            }
            News::SignedOut { .. } => None,
        }
    })
}

/// Only what is kept has an id, so that a client that comes back names something the registry knows.
pub(crate) fn with_id(frame: Frame, happening: &Happening) -> Frame {
    match happening.event.seq {
        Some(seq) => frame.id(seq.to_string()),
        None => frame,
    }
}

/// A stream of events for a signed-in person: what they missed since `seen`, then what happens.
pub(crate) fn stream(
    app: &App,
    who: &SignedIn,
    thread: Option<ThreadId>,
    seen: Option<i64>,
    frame: Framer,
) -> Result<Response, ApiError> {
    let place = app.stream_place(who.person.id.uuid())?;
    let (news, told) = app.hub().watch();
    let missed = seen.filter(|seen| *seen < told).map(|seen| Missed {
        from: seen,
        to: told,
        events: None,
    });
    let left = who
        .expires_at
        .map(|at| at.duration_since(app.people().now()));
    let watch = Watch {
        app: app.clone(),
        who: who.clone(),
        thread,
        last: seen.unwrap_or(0),
        missed,
        news,
        frame,
        ended: false,
        // A session that has no end has one far away.
        expires: tokio::time::Instant::now()
            + left
                .and_then(|left| Duration::try_from(left).ok())
                .unwrap_or(Duration::from_hours(24)),
        _place: place,
    };
    let hello = stream::iter([Ok::<_, Infallible>(
        Frame::default().retry(RETRY).comment("kazma"),
    )]);
    let frames = hello.chain(stream::unfold(watch, Watch::next));
    let mut answer = Sse::new(frames)
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response();
    // Proxies hold back what they think is a page.
    answer
        .headers_mut()
        .insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    Ok(answer)
}

/// What a client missed, read from the registry.
struct Missed {
    from: i64,
    to: i64,
    events: Option<BoxStream<'static, Result<Event, Upstream>>>,
}

/// One open stream.
struct Watch {
    app: App,
    who: SignedIn,
    thread: Option<ThreadId>,
    last: i64,
    missed: Option<Missed>,
    news: broadcast::Receiver<News>,
    frame: Framer,
    ended: bool,
    expires: tokio::time::Instant,
    _place: StreamPlace,
}

impl Watch {
    async fn next(mut self) -> Option<(Result<Frame, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        loop {
            let Some(news) = self.news().await else {
                self.ended = true;
                // The page closes on this one, so that nothing sent before is lost in a broken line.
                return Some((Ok(Frame::default().event("end").data("{}")), self));
            };
            if let Some(frame) = (self.frame)(self.app.clone(), news).await {
                return Some((Ok(frame), self));
            }
        }
    }

    /// The next news that are for this stream; none at its end.
    async fn news(&mut self) -> Option<News> {
        loop {
            let news = if self.missed.is_some() {
                self.replayed().await?
            } else {
                self.live().await?
            };
            match &news {
                News::SignedOut { person, credential } => {
                    let mine = *person == self.who.person.id.uuid()
                        && credential.is_none_or(|credential| credential == self.who.credential);
                    if mine {
                        return None;
                    }
                }
                News::Delta { thread, .. } if self.wants(*thread) => return Some(news),
                News::Delta { .. } => {}
                News::Event(happening) => {
                    let event = &happening.event;
                    if event.seq.is_some_and(|seq| seq <= self.last) {
                        continue;
                    }
                    self.last = event.seq.unwrap_or(self.last);
                    if self.wants(event.thread) {
                        return Some(news);
                    }
                }
            }
        }
    }

    fn wants(&self, thread: ThreadId) -> bool {
        self.thread.is_none_or(|wanted| wanted == thread)
    }

    async fn live(&mut self) -> Option<News> {
        tokio::select! {
            biased;
            () = self.app.stop().cancelled() => None,
            () = tokio::time::sleep_until(self.expires) => None,
            // Whoever is too far behind is let go, and comes back with the last id they saw.
            news = self.news.recv() => news.ok(),
        }
    }

    /// The next event that was missed; the stream ends where the registry does not say, so that the
    /// client comes back with the last id it saw and nothing is skipped.
    async fn replayed(&mut self) -> Option<News> {
        loop {
            let missed = self.missed.as_mut()?;
            if self.last >= missed.to {
                self.missed = None;
                return self.live().await;
            }
            let event = tokio::time::timeout(REPLAY_PATIENCE, missed.next(&self.app))
                .await
                .ok()?;
            match event {
                Some(Ok(event)) if matches!(event.what, What::Beat) => {}
                Some(Ok(event)) => return Some(News::Event(Happening::new(event))),
                Some(Err(error)) => {
                    tracing::warn!(error = error.to_string(), "missed events could not be read");
                    return None;
                }
                None => return None,
            }
        }
    }
}

impl Missed {
    async fn next(&mut self, app: &App) -> Option<Result<Event, Upstream>> {
        if self.events.is_none() {
            match app.registry().events(self.from).await {
                Ok(events) => self.events = Some(events),
                Err(error) => return Some(Err(error)),
            }
        }
        match self.events.as_mut() {
            Some(events) => events.next().await,
            None => None,
        }
    }
}
