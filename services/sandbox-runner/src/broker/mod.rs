//! The broker: the only process that can start a sandbox, and that does nothing else.
//!
//! It listens on a unix socket, serves only the uids it was told to, and takes three requests:
//! status, run, cancel. **Invariant:** a run carries its program, a time limit, an output cap and the folders of the
//! workspace that it may write; everything else about its sandbox is the operator's [`BrokerOptions`].

mod canary;
mod client;
mod commands;
mod docker;
mod native;
mod options;
mod pool;
mod pooled;
mod protocol;
mod query;
mod server;
mod tier;
mod workshop;

pub use client::{BrokerClient, Collected, RunEvent, RunStream};
pub use commands::Command;
pub(crate) use commands::OWN;
pub use docker::{
    DockerTier, EngineOptions, EngineReport, EngineRuntime, SANDBOX_IMAGE, engine_report,
};
pub use native::NativeTier;
pub use options::{BrokerOptions, TierChoice};
pub use protocol::{
    BrokerStatus, CODE_MAX, OUTPUT_CAP_MAX, PoolDepth, Program, Readiness, RunSpec, TIMEOUT_MAX,
};
pub use query::{QUERY_LIMIT_MAX, Query};
pub use server::{listen, serve, serve_tier};
pub use tier::Tier;

pub use crate::jail::{
    Chunk, EnforcedBy, Enforcement, Finished, Limits, Outcome, OutputStream, StartFailure, Totals,
};

use camino::Utf8PathBuf;

/// The broker cannot serve or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A setting cannot be used.
    #[error("{setting}: {problem}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The socket cannot be made or listened on.
    #[error("cannot listen on {path}")]
    Listen {
        /// Where.
        path: Utf8PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What an earlier broker left cannot be taken away.
    #[error(
        "the socket that an earlier broker left at {path} cannot be removed: its folder must belong to uid {uid}, which \
         this broker runs as, or be writable for it"
    )]
    Stale {
        /// Where.
        path: Utf8PathBuf,
        /// Who the broker is.
        uid: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something else than a socket is where the socket belongs.
    #[error("cannot listen on {0}: something is there that is no socket, and is left alone")]
    Taken(Utf8PathBuf),
    /// The broker cannot be reached.
    #[error("the sandbox broker cannot be reached at {path}")]
    Unreachable {
        /// Where it was looked for.
        path: Utf8PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to the sandbox broker broke")]
    Connection(#[from] std::io::Error),
    /// The broker would not do it.
    #[error("the sandbox broker refused: {0}")]
    Refused(String),
    /// The other side does not speak this protocol.
    #[error("the sandbox broker's answer cannot be read")]
    Malformed,
}
