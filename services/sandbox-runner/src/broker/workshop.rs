//! What the pool and the canary need of a way of making sandboxes.

use std::{
    fmt::{Debug, Display},
    future::Future,
};

use camino::Utf8Path;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Chunk, Enforcement, Finished, Limits,
    canary::{NotReady, Sight},
};
use crate::jail::{Access, RunLimits, Task};

/// What a tier says about itself, once it is known.
#[derive(Debug, Clone)]
pub(super) struct Face {
    /// The tier's name, as on cards.
    pub(super) tier: &'static str,
    /// What makes the boundary, such as `bubblewrap` or `runsc`.
    pub(super) enforcer: String,
    /// The image's id; none where there is no image.
    pub(super) image: Option<String>,
    /// What the boundary does not stop, in one line.
    pub(super) weakness: String,
    pub(super) enforcement: Enforcement,
    pub(super) limits: Limits,
}

/// Makes sandboxes of one kind.
pub(super) trait Workshop: Send + Sync + Debug + 'static {
    type Made: Made;
    type Error: Display + Debug + Clone + Send + Sync + 'static;

    /// What is said of a sandbox that ended while it waited.
    const DIED: Self::Error;

    /// Finds out what there is to work with, before the first sandbox and again after [`Workshop::stale`].
    fn prepare(&self) -> impl Future<Output = Result<(), NotReady>> + Send;

    /// Looks at the folders of the workspace that a sandbox shall be able to write.
    fn look(&self, writable: &[String]) -> Result<Access, Self::Error>;

    /// A fresh sandbox, locked down, its Python ready. Without `access` all of the workspace is read-only.
    fn make(
        &self,
        access: Option<&Access>,
    ) -> impl Future<Output = Result<Self::Made, Self::Error>> + Send;

    /// Whether nobody but root can change the program at this path in the sandbox, as far as the canary cannot see
    /// that from inside.
    fn trusts(&self, program: &Utf8Path) -> bool;

    /// Ends when what was prepared no longer holds.
    fn stale(&self) -> impl Future<Output = ()> + Send;

    fn face(&self) -> Face;

    /// The folder that snippets may read.
    fn workspace(&self) -> &Utf8Path;

    /// Tracks every task that may hold a sandbox, so that the broker's end can wait for all of them.
    fn tracker(&self) -> TaskTracker;

    /// Whether the canary saw what this kind promises, beyond what all promise.
    fn judge(&self, sight: &Sight) -> Result<(), NotReady>;

    /// Why a sandbox could not be made, and what to do about it.
    fn explain(&self, error: &Self::Error) -> NotReady;

    /// Why a snippet cannot read the workspace, and what to do about it.
    fn unreadable(&self, path: &Utf8Path, answer: &str) -> NotReady;
}

/// A sandbox that is started and has run nothing. Dropping it ends it.
pub(super) trait Made: Send + 'static {
    /// The id of the image that it was made from, if there is one.
    fn image(&self) -> Option<&str>;

    /// Ends when the sandbox has.
    fn gone(&self) -> BoxFuture<'static, ()>;

    /// Runs `task` and uses the sandbox up. `cancel` kills it.
    fn run(
        self,
        task: &Task,
        limits: RunLimits,
        chunks: &UnboundedSender<Chunk>,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Finished> + Send;
}
