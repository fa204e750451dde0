//! The seam to whatever runs code. The broker's client implements it; tests script it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use kazma_domain::{CallId, plan::Sandbox};

use crate::{broker::Program, executor::Redeemed};

/// Runs code in a sandbox.
pub trait CodeRunner: Send + Sync + std::fmt::Debug + 'static {
    /// What runs code here, and whether it does now.
    fn status(&self) -> BoxFuture<'_, Result<CodeStatus, CodeError>>;

    /// How many sandboxes there are; none where nobody can say.
    fn pool(&self) -> BoxFuture<'_, Option<Pool>> {
        Box::pin(std::future::ready(None))
    }

    /// Runs something once. The permit is spent for it.
    fn run(
        &self,
        permit: Redeemed,
        code: CodeSpec,
    ) -> BoxFuture<'_, Result<BoxStream<'static, CodeEvent>, CodeError>>;

    /// Ends the run of a call, if there is one, and everything in its sandbox.
    fn cancel(&self, call: CallId) -> BoxFuture<'_, Result<(), CodeError>>;
}

/// The code runner did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// It does not answer.
    #[error("the sandbox broker does not answer")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It refuses, and nothing ran.
    #[error("the sandbox broker refuses: {0}")]
    Refused(String),
}

/// What runs code here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeStatus {
    /// The sandbox that every card names.
    pub sandbox: Sandbox,
    /// Why no code can run now; none when it can.
    pub trouble: Option<Trouble>,
    /// The programs that commands may start, by name, with their paths in the sandbox.
    pub programs: BTreeMap<String, String>,
    /// Why no command can write in the workspace; none where some can.
    pub unwritable: Option<String>,
    /// Sandboxes that wait, started and never used.
    pub pool: u32,
    /// Why this tier and no other; empty where the operator named it.
    pub note: String,
}

/// How many sandboxes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How many should wait.
    pub size: usize,
    /// Waiting, started and never used.
    pub idle: usize,
    /// Being started.
    pub starting: usize,
    /// Running a program.
    pub running: usize,
    /// Runs that wait for their turn.
    pub queued: usize,
    /// How many runs may wait.
    pub queue_bound: usize,
    /// Idle ones that were replaced since the broker's start.
    pub replaced: u64,
    /// Whether code can run now.
    pub ready: bool,
}

/// Why no code can run, and what to do about it, in a sentence each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether it is only too early to say.
    pub starting: bool,
    /// Why.
    pub reason: String,
    /// What to do.
    pub fix: String,
}

/// One run of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSpec {
    /// What is run.
    pub program: Program,
    /// The image that the card named; none where it named none.
    pub image: Option<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// How many bytes of each stream are wanted; more is counted and thrown away.
    pub output_cap: usize,
}

/// What happens in a run, in order; [`CodeEvent::Ended`] comes last and once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeEvent {
    /// It printed something.
    Output {
        /// Where.
        stream: Stream,
        /// What.
        bytes: Bytes,
    },
    /// It ended.
    Ended(Ended),
}

/// Where a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The word in chunks and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// In which way.
    pub how: How,
    /// How long it ran.
    pub ran: Duration,
    /// Bytes printed in all, shown or not.
    pub stdout_bytes: u64,
    /// Bytes printed in all, shown or not.
    pub stderr_bytes: u64,
    /// What else is known of why it ended so, in a few words.
    pub remark: Option<String>,
}

/// The ways in which a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By itself.
    Exit {
        /// Its code; 0 means that it did what it was meant to.
        code: i32,
    },
    /// By a signal that none of the limits below sent.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// It ran longer than it may.
    TimeLimit,
    /// It wanted more memory than it may have.
    OutOfMemory {
        /// The limit in MiB.
        limit_mib: u64,
    },
    /// Somebody ended it.
    Cancelled,
    /// Nothing ran.
    NotStarted {
        /// Why.
        why: String,
    },
    /// Its sandbox ended under it. Nothing of it is left.
    Broken {
        /// What is known.
        why: String,
    },
    /// Nobody knows: the sandbox is gone and did not say.
    Unknown {
        /// What is known.
        what: String,
    },
}
