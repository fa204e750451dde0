//! What every way of running code offers to the broker.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::{BrokerStatus, Chunk, Finished, RunSpec};

/// One execution tier (architecture, section 5).
pub trait Tier: Send + Sync + Debug + 'static {
    /// What it says about itself, at once.
    fn status(&self) -> BrokerStatus;

    /// Runs `spec`, which has been checked, in a fresh sandbox. Ends only when the sandbox is dead.
    /// `cancel` kills it. All chunks together fit the spec's output cap.
    fn run<'a>(
        &'a self,
        spec: &'a RunSpec,
        chunks: &'a UnboundedSender<Chunk>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Finished>;
}
