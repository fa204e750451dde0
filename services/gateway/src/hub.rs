//! What happens, to everybody who looks: one follower of the registry's events, many watchers.
//!
//! The follower goes on from the last sequence number it saw, so nothing is lost when the registry or
//! the connection is away. A watcher that does not keep up is let go, and comes back with the last
//! number it saw; nobody else waits for it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use axum::response::sse::Event as Frame;
use futures_util::StreamExt as _;
use kazma_domain::{ThreadId, TurnId};
use kazma_wire::events::{Event, What};
use tokio::sync::{OnceCell, broadcast};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{model::DeltaSink, upstream::Registry};

/// How many news a watcher may be behind.
pub(crate) const BEHIND_MAX: usize = 1024;
/// Replies under way that are remembered for pages opened meanwhile.
const SAYING_MAX: usize = 64;
/// Bytes of one of them.
const SAID_MAX: usize = 64 * 1024;
/// The registry says something at least this often.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// One thing that happened.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// The registry says so.
    Event(Arc<Happening>),
    /// The model says more.
    Delta {
        /// In which thread.
        thread: ThreadId,
        /// In which turn.
        turn: TurnId,
        /// The words.
        text: Arc<str>,
        /// Whether the answer begins anew: what was said before is void.
        anew: bool,
    },
    /// A credential is good no more; `None` for all of a person who was removed.
    SignedOut {
        /// Whose.
        person: Uuid,
        /// Which.
        credential: Option<Uuid>,
    },
}

/// An event, and its form for clients of the API, made once for all of them.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) event: Event,
    /// Written out once: a thousand watchers get copies of its bytes.
    pub(crate) told: OnceCell<Option<Frame>>,
}

impl Happening {
    pub(crate) fn new(event: Event) -> Arc<Self> {
        Arc::new(Self {
            event,
            told: OnceCell::new(),
        })
    }
}

/// The news, for everybody in this process.
#[derive(Debug, Clone)]
pub struct Hub {
    news: broadcast::Sender<News>,
    seen: Arc<AtomicI64>,
    saying: Arc<Mutex<HashMap<ThreadId, Saying>>>,
}

/// What the model has said so far of a reply that is not finished.
#[derive(Debug, Clone)]
pub(crate) struct Saying {
    pub(crate) turn: TurnId,
    pub(crate) text: String,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            news: broadcast::channel(BEHIND_MAX).0,
            seen: Arc::default(),
            saying: Arc::default(),
        }
    }
}

impl DeltaSink for Hub {
    fn begin(&self, thread: ThreadId, turn: TurnId) {
        let mut saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        if saying.len() >= SAYING_MAX {
            saying.clear();
        }
        saying.insert(
            thread,
            Saying {
                turn,
                text: String::new(),
            },
        );
        drop(saying);
        self.tell(News::Delta {
            thread,
            turn,
            text: "".into(),
            anew: true,
        });
    }

    fn text(&self, thread: ThreadId, turn: TurnId, text: &str) {
        if let Some(saying) = self
            .saying
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(&thread)
            && saying.turn == turn
            && saying.text.len() + text.len() <= SAID_MAX
        {
            saying.text.push_str(text);
        }
        self.tell(News::Delta {
            thread,
            turn,
            text: text.into(),
            anew: false,
        });
    }
}

impl Hub {
    /// What the model is saying in a thread, for a page that is opened meanwhile.
    pub(crate) fn saying(&self, thread: ThreadId) -> Option<Saying> {
        self.saying
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&thread)
            .cloned()
    }

    pub(crate) fn signed_out(&self, person: Uuid, credential: Option<Uuid>) {
        self.tell(News::SignedOut { person, credential });
    }

    /// How many news the slowest watcher has yet to hear.
    pub(crate) fn behind(&self) -> usize {
        self.news.len()
    }

    fn tell(&self, news: News) {
        // Nobody may be looking.
        drop(self.news.send(news));
    }

    /// The news from now on, and the last sequence number that is not among them.
    pub(crate) fn watch(&self) -> (broadcast::Receiver<News>, i64) {
        let news = self.news.subscribe();
        (news, self.seen())
    }

    /// The last sequence number that was told.
    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Begins after `seq`, which was told by an earlier process.
    pub(crate) fn begin_after(&self, seq: i64) {
        self.seen.store(seq, Ordering::Release);
    }

    /// Tells everybody what the registry says, until `stop`.
    pub(crate) async fn follow(&self, registry: Arc<dyn Registry>, stop: CancellationToken) {
        let mut pause = Duration::from_millis(50);
        loop {
            let followed = tokio::select! {
                () = stop.cancelled() => return,
                followed = self.follow_once(registry.as_ref()) => followed,
            };
            pause = if followed {
                Duration::from_millis(50)
            } else {
                (pause * 2).min(Duration::from_secs(1))
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows one connection to its end. Whether it told anything.
    async fn follow_once(&self, registry: &dyn Registry) -> bool {
        let mut told = false;
        let mut events = match registry.events(self.seen()).await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(
                    error = error.to_string(),
                    "the registry's events cannot be followed"
                );
                return false;
            }
        };
        while let Ok(Some(next)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
            match next {
                Ok(event) => {
                    told = true;
                    self.pass(event);
                }
                Err(error) => {
                    tracing::warn!(error = error.to_string(), "the registry's events broke off");
                    break;
                }
            }
        }
        told
    }

    pub(crate) fn pass(&self, event: Event) {
        let seq = event.seq;
        if matches!(event.what, What::Beat) || seq.is_some_and(|seq| seq <= self.seen()) {
            return;
        }
        if let What::Call { call, state, .. } = &event.what {
            tracing::info!(call_id = %call, thread_id = %event.thread, state, "a call stands elsewhere");
        }
        // Noted before it is told: a watcher that comes in between reads it from the registry.
        if let Some(seq) = seq {
            self.seen.store(seq, Ordering::Release);
        }
        if matches!(&event.what, What::Reply { .. })
            || matches!(&event.what, What::Turn { state } if !state.is_live())
        {
            self.saying
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&event.thread);
        }
        self.tell(News::Event(Happening::new(event)));
    }
}
