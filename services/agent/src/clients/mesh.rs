//! The clients over the mesh.

use futures_util::StreamExt;
use kazma_domain::{Call, ThreadId, TurnId, TurnState};
use kazma_mesh::{CallError, Client};
use kazma_wire::{
    agent::{FinishRequest, LiveTurn, ProgressRequest, TurnCall, UnroutableRequest},
    executor::Filed,
    model::{ChatRequest, Delta, ModelInfo},
    poll::{Poll, Polled},
    runner::{PlanRequest, Planned},
};
use serde::de::IgnoredAny;

use super::{Answer, ClientError, Deltas, Entry, Model, Registry, Runner, Seen};

impl From<CallError> for ClientError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Problem { problem, .. } if problem.status < 500 && problem.status != 429 => {
                Self::Refused(problem)
            }
            // An answer that makes no sense comes from a service of another version: it will be
            // replaced, and the turn waits for that.
            other => Self::Silent(other.into()),
        }
    }
}

/// The registry over the mesh.
#[derive(Debug, Clone)]
pub struct MeshRegistry(pub Client);

/// The runner over the mesh.
#[derive(Debug, Clone)]
pub struct MeshRunner(pub Client);

/// The gateway's model over the mesh.
#[derive(Debug, Clone)]
pub struct MeshModel(pub Client);

fn query(poll: Poll) -> String {
    format!("after={}&wait_ms={}", poll.after, poll.wait_ms)
}

impl Registry for MeshRegistry {
    fn turns(&self, poll: Poll) -> Answer<'_, Polled<LiveTurn>> {
        Box::pin(async move { Ok(self.0.get(&format!("/v1/turns?{}", query(poll))).await?) })
    }

    fn ledger(&self, thread: ThreadId, after: i64) -> Answer<'_, Polled<Entry>> {
        Box::pin(async move {
            let path = format!("/v1/threads/{thread}/ledger?after={after}&wait_ms=0");
            let page: Polled<kazma_wire::agent::Entry> = self.0.get(&path).await?;
            let items = page.items.into_iter().map(Entry::from).collect();
            Ok(Polled {
                items,
                seq: page.seq,
            })
        })
    }

    fn calls(&self, turn: TurnId, poll: Poll) -> Answer<'_, Polled<Seen>> {
        Box::pin(async move {
            let path = format!("/v1/turns/{turn}/calls?{}", query(poll));
            let polled: Polled<TurnCall> = self.0.get(&path).await?;
            let items = polled.items.into_iter().map(Seen::from).collect();
            Ok(Polled {
                items,
                seq: polled.seq,
            })
        })
    }

    fn progress(&self, turn: TurnId, state: TurnState) -> Answer<'_, ()> {
        Box::pin(async move {
            let path = format!("/v1/turns/{turn}/progress");
            let _: IgnoredAny = self.0.post(&path, &ProgressRequest { state }).await?;
            Ok(())
        })
    }

    fn finish(&self, turn: TurnId, request: FinishRequest) -> Answer<'_, ()> {
        Box::pin(async move {
            let _: IgnoredAny = self
                .0
                .post(&format!("/v1/turns/{turn}/finish"), &request)
                .await?;
            Ok(())
        })
    }

    fn unroutable(&self, request: UnroutableRequest) -> Answer<'_, Call> {
        Box::pin(async move {
            let filed: Filed = self.0.post("/v1/calls/unroutable", &request).await?;
            Ok(filed.call)
        })
    }
}

impl Runner for MeshRunner {
    fn plan(&self, request: PlanRequest) -> Answer<'_, Call> {
        Box::pin(async move {
            let planned: Planned = self.0.post("/v1/plans", &request).await?;
            Ok(planned.call)
        })
    }
}

impl Model for MeshModel {
    fn info(&self) -> Answer<'_, ModelInfo> {
        Box::pin(async move { Ok(self.0.get("/v1/model").await?) })
    }

    fn chat(&self, request: ChatRequest) -> Answer<'_, Deltas> {
        Box::pin(async move {
            let lines = self.0.post_lines("/v1/model/chat", &request).await?;
            let deltas = lines.map(|line| {
                serde_json::from_str::<Delta>(&line?)
                    .map_err(|error| ClientError::Silent(error.into()))
            });
            Ok(deltas.boxed())
        })
    }
}
