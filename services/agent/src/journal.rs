//! The agent's checkpoints.

use std::collections::HashMap;

use kazma_domain::{CallId, ThreadId, TurnId};
use kazma_faults::{Point, reach};
use kazma_store::{
    Database, StoreError,
    agent::{self, Step},
};

/// What the model said, kept before anything of it is done.
#[derive(Debug, Clone)]
pub(crate) struct Journal(pub(crate) Database);

impl Journal {
    pub(crate) async fn steps(&self, turn: TurnId) -> Result<Vec<Step>, StoreError> {
        self.0
            .read(move |tx| Box::pin(async move { agent::of_turn(tx, turn).await }))
            .await
    }

    pub(crate) async fn record(&self, step: Step) -> Result<(), StoreError> {
        self.0
            .write(move |tx| Box::pin(async move { agent::record(tx, &step).await }))
            .await?;
        reach(Point::CheckpointKept);
        Ok(())
    }

    pub(crate) async fn filed(
        &self,
        turn: TurnId,
        index: u32,
        call: CallId,
    ) -> Result<(), StoreError> {
        self.0
            .write(move |tx| Box::pin(async move { agent::filed(tx, turn, index, call).await }))
            .await
    }

    /// What the model wrote as arguments of a thread's calls.
    pub(crate) async fn arguments(
        &self,
        thread: ThreadId,
    ) -> Result<HashMap<CallId, String>, StoreError> {
        let known = self
            .0
            .read(move |tx| Box::pin(async move { agent::arguments(tx, thread).await }))
            .await?;
        Ok(known.into_iter().collect())
    }

    pub(crate) async fn forget_before(&self, at: jiff::Timestamp) -> Result<u64, StoreError> {
        self.0
            .write(move |tx| Box::pin(async move { agent::forget_before(tx, at).await }))
            .await
    }
}
