//! The services the gateway asks: the registry, which holds all that people see, and the runner.
//!
//! As traits, so that the people's edge can be tried against a scripted registry.

use std::fmt::Debug;

use futures_util::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use kazma_domain::{GateId, ThreadId, TurnId};
use kazma_edge::ApiError;
use kazma_mesh::{CallError, Client};
use kazma_wire::{
    Problem,
    events::Event,
    gateway::{
        AbortRequest, Decided, DecisionRequest, ExtendRequest, Extended, NewMessage, NewThread,
        ThreadCreated, ThreadSummary, TurnOpened,
    },
    runner::RunnerStatus,
    view::{GateView, ThreadView},
};

/// Why another service did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Upstream {
    /// It said no, and why.
    #[error("refused: {}", .0.title)]
    Refused(Problem),
    /// It does not answer, or not as it should.
    #[error("no proper answer")]
    Silent(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<CallError> for Upstream {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Problem { problem, .. } => Self::Refused(*problem),
            other => Self::Silent(Box::new(other)),
        }
    }
}

/// The kinds of refusal that are about what a person asked, and so are theirs to read. Anything else
/// that a service says is about us.
const FOR_PEOPLE: [u16; 5] = [404, 409, 413, 422, 429];

impl From<Upstream> for ApiError {
    fn from(error: Upstream) -> Self {
        match error {
            Upstream::Refused(problem) if FOR_PEOPLE.contains(&problem.status) => Self(problem),
            Upstream::Refused(problem) if problem.is("disk-full") => Self(problem),
            Upstream::Refused(problem) if problem.status == 503 => {
                Self::unavailable("The gate registry is not ready. Nothing was lost; try again.")
            }
            Upstream::Refused(problem) => {
                tracing::error!(
                    kind = problem.kind,
                    status = problem.status,
                    "a service refused the gateway"
                );
                Self::internal(&Upstream::Refused(problem))
            }
            Upstream::Silent(source) => {
                tracing::warn!(cause = source.to_string(), "a service does not answer");
                Self::unavailable("The gate registry does not answer. Nothing was lost; try again.")
            }
        }
    }
}

/// What the gateway asks.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Upstream>>;

/// The gate registry, as the gateway uses it.
pub trait Registry: Debug + Send + Sync {
    /// Begins a thread.
    fn new_thread(&self, request: NewThread) -> Answer<'_, ThreadCreated>;
    /// Writes a person's message and opens a turn.
    fn new_message(&self, thread: ThreadId, request: NewMessage) -> Answer<'_, TurnOpened>;
    /// All threads, newest first.
    fn threads(&self) -> Answer<'_, Vec<ThreadSummary>>;
    /// One thread, whole.
    fn thread(&self, thread: ThreadId) -> Answer<'_, ThreadView>;
    /// Gates, newest first; `pending`, `settled`, or both; those that come after `before`.
    fn gates(
        &self,
        state: Option<&'static str>,
        limit: u32,
        before: Option<GateId>,
    ) -> Answer<'_, Vec<GateView>>;
    /// One gate.
    fn gate(&self, gate: GateId) -> Answer<'_, GateView>;
    /// A person's decision.
    fn decide(&self, gate: GateId, request: DecisionRequest) -> Answer<'_, Decided>;
    /// More time for a card.
    fn extend(&self, gate: GateId, request: ExtendRequest) -> Answer<'_, Extended>;
    /// Ends a turn.
    fn abort(&self, turn: TurnId, request: AbortRequest) -> Answer<'_, ()>;
    /// What happens after `after`, for as long as the connection lives.
    fn events(&self, after: i64) -> Answer<'_, BoxStream<'static, Result<Event, Upstream>>>;
    /// Whether it answers.
    fn alive(&self) -> Answer<'_, ()>;
}

/// The runner, as the gateway uses it.
pub trait Runner: Debug + Send + Sync {
    /// What runs code here, and whether it does.
    fn status(&self) -> Answer<'_, RunnerStatus>;
}

impl Registry for Client {
    fn new_thread(&self, request: NewThread) -> Answer<'_, ThreadCreated> {
        Box::pin(async move { Ok(self.post("/v1/threads", &request).await?) })
    }

    fn new_message(&self, thread: ThreadId, request: NewMessage) -> Answer<'_, TurnOpened> {
        Box::pin(async move {
            Ok(self
                .post(&format!("/v1/threads/{thread}/messages"), &request)
                .await?)
        })
    }

    fn threads(&self) -> Answer<'_, Vec<ThreadSummary>> {
        Box::pin(async move { Ok(self.get("/v1/threads").await?) })
    }

    fn thread(&self, thread: ThreadId) -> Answer<'_, ThreadView> {
        Box::pin(async move { Ok(self.get(&format!("/v1/threads/{thread}")).await?) })
    }

    fn gates(
        &self,
        state: Option<&'static str>,
        limit: u32,
        before: Option<GateId>,
    ) -> Answer<'_, Vec<GateView>> {
        let state = state.map_or_else(String::new, |state| format!("&state={state}"));
        let before = before.map_or_else(String::new, |gate| format!("&before={gate}"));
        Box::pin(async move {
            Ok(self
                .get(&format!("/v1/gates?limit={limit}{state}{before}"))
                .await?)
        })
    }

    fn gate(&self, gate: GateId) -> Answer<'_, GateView> {
        Box::pin(async move { Ok(self.get(&format!("/v1/gates/{gate}")).await?) })
    }

    fn decide(&self, gate: GateId, request: DecisionRequest) -> Answer<'_, Decided> {
        Box::pin(async move {
            Ok(self
                .post(&format!("/v1/gates/{gate}/decision"), &request)
                .await?)
        })
    }

    fn extend(&self, gate: GateId, request: ExtendRequest) -> Answer<'_, Extended> {
        Box::pin(async move {
            Ok(self
                .post(&format!("/v1/gates/{gate}/extend"), &request)
                .await?)
        })
    }

    fn abort(&self, turn: TurnId, request: AbortRequest) -> Answer<'_, ()> {
        Box::pin(async move {
            let _: serde_json::Value = self
                .post(&format!("/v1/turns/{turn}/abort"), &request)
                .await?;
            Ok(())
        })
    }

    fn events(&self, after: i64) -> Answer<'_, BoxStream<'static, Result<Event, Upstream>>> {
        Box::pin(async move {
            let lines = self.get_lines(&format!("/v1/events?after={after}")).await?;
            Ok(lines
                .map(|line| {
                    serde_json::from_str(&line?).map_err(|error| Upstream::Silent(Box::new(error)))
                })
                .boxed())
        })
    }

    fn alive(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let _: serde_json::Value = self.get("/v1/health").await?;
            Ok(())
        })
    }
}

impl Runner for Client {
    fn status(&self) -> Answer<'_, RunnerStatus> {
        Box::pin(async move { Ok(self.get("/v1/status").await?) })
    }
}
