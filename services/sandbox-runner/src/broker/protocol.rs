//! What goes over the broker's socket: JSON in frames with a 32-bit big-endian length. One request per
//! connection; hanging up cancels it.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use kazma_domain::CallId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::{BrokerError, Command, Query};
use crate::jail::{Chunk, Enforcement, Finished, Limits, millis};

/// Bytes of one snippet.
pub const CODE_MAX: usize = kazma_domain::limits::ARGUMENTS_MAX;
/// The longest that a run may take.
pub const TIMEOUT_MAX: Duration = Duration::from_mins(5);
/// The most output that a run may pass on, in bytes.
pub const OUTPUT_CAP_MAX: usize = 1024 * 1024;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Bytes of one frame: a snippet of control characters grows sixfold in JSON.
const FRAME_MAX: usize = CODE_MAX * 6 + 4096;

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Program {
    /// Python source, run as `__main__`.
    Python {
        /// The whole program.
        code: String,
    },
    /// One program with its arguments.
    Command(Command),
    /// One question of one database of the workspace, asked by a program of this build.
    Sqlite(Query),
}

impl Program {
    /// The folders that it may write, from the workspace.
    pub fn writable(&self) -> &[String] {
        match self {
            Self::Python { .. } | Self::Sqlite(_) => &[],
            Self::Command(command) => &command.writable,
        }
    }
}

/// One run. There is nothing in it that could change what the jail is, but for the parts of the workspace that a
/// command may write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The call that this run is the effect of; `cancel` names it.
    pub call_id: CallId,
    /// What is run.
    pub program: Program,
    /// The image that the sandbox must be made from, by id; `None` where the caller does not mind. It cannot
    /// choose one: a sandbox from another is not used.
    #[serde(default)]
    pub image: Option<String>,
    /// When the jail is killed, at most [`TIMEOUT_MAX`].
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// Bytes of output to pass on, at most [`OUTPUT_CAP_MAX`].
    pub output_cap: usize,
}

impl RunSpec {
    /// A run of Python with 30 seconds and 256 KiB of output.
    pub fn new(call_id: CallId, code: impl Into<String>) -> Self {
        Self {
            call_id,
            program: Program::Python { code: code.into() },
            image: None,
            timeout: TIMEOUT_DEFAULT,
            output_cap: kazma_domain::limits::OUTPUT_MAX,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match &self.program {
            Program::Python { code } if code.is_empty() || code.len() > CODE_MAX => {
                return Err(format!("code: must have 1 to {CODE_MAX} bytes"));
            }
            Program::Python { .. } => {}
            Program::Command(command) => command.check_shape()?,
            Program::Sqlite(query) => query.check()?,
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(format!(
                "timeout_ms: must be 1 to {}",
                TIMEOUT_MAX.as_millis()
            ));
        }
        if self.output_cap == 0 || self.output_cap > OUTPUT_CAP_MAX {
            return Err(format!("output_cap: must be 1 to {OUTPUT_CAP_MAX}"));
        }
        Ok(())
    }
}

/// Whether runs can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Readiness {
    /// The canary passed and jails come up.
    Ready,
    /// No run can start.
    NotReady {
        /// What is wrong, in plain words.
        reason: String,
        /// What a person can do about it.
        fix: String,
    },
}

/// How many jails there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDepth {
    /// How many should wait.
    pub size: usize,
    /// Waiting, started and never used.
    pub idle: usize,
    /// Being started.
    pub starting: usize,
    /// Running a snippet.
    pub running: usize,
    /// Runs that wait for their turn.
    pub queued: usize,
    /// How many may.
    pub queue_bound: usize,
    /// Idle jails that were replaced since the start, for age or because they died.
    pub replaced: u64,
}

/// What the broker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerStatus {
    /// Whether runs can start.
    pub readiness: Readiness,
    /// False while the first canary or the first jail is still on its way: not ready yet, and nothing is
    /// wrong.
    pub settled: bool,
    /// The tier's name, as on cards.
    pub tier: String,
    /// What makes the boundary, such as `bubblewrap` or `runc`.
    pub enforcer: String,
    /// What runs the code, such as `Python 3.11.2`; `None` until the canary has passed.
    pub runtime: Option<String>,
    /// The id of the image that sandboxes are made from; `None` where there is no image.
    pub image: Option<String>,
    /// What the boundary does not stop, in one line.
    pub weakness: String,
    /// Why this tier and no other; empty where the operator named it.
    pub note: String,
    /// What holds the limits.
    pub enforcement: Enforcement,
    /// The limits.
    pub limits: Limits,
    /// The programs that commands may start, by name, with their paths in the sandbox; none before the canary has
    /// passed.
    pub programs: BTreeMap<String, String>,
    /// Why no run can write in the workspace; none where some can.
    pub unwritable: Option<String>,
    /// The pool.
    pub pool: PoolDepth,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    Run(RunSpec),
    Cancel { call_id: CallId },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    Status(Box<BrokerStatus>),
    Chunk(Chunk),
    Finished(Finished),
    Cancelled { found: bool },
    Refused { reason: String },
}

/// A connection that speaks frames.
#[derive(Debug)]
pub(crate) struct Wire(Framed<UnixStream, LengthDelimitedCodec>);

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let codec = LengthDelimitedCodec::builder()
            .max_frame_length(FRAME_MAX)
            .new_codec();
        Self(Framed::new(stream, codec))
    }

    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), BrokerError> {
        let frame = serde_json::to_vec(message).map_err(|_| BrokerError::Malformed)?;
        Ok(self.0.send(Bytes::from(frame)).await?)
    }

    /// The next message; `None` once the other side has hung up.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<T, BrokerError>> {
        let frame = self.0.next().await?;
        Some(
            frame.map_err(BrokerError::from).and_then(|frame| {
                serde_json::from_slice(&frame).map_err(|_| BrokerError::Malformed)
            }),
        )
    }
}
