//! How a run ended and what it said.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which of the two streams some output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Some output, at most 16 KiB. While the stream is UTF-8, a chunk ends on a character boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it came from.
    pub stream: OutputStream,
    /// The bytes (base64 on the wire).
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Bytes,
}

fn to_base64<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD
        .decode(text)
        .map(Bytes::from)
        .map_err(serde::de::Error::custom)
}

/// Why no code ran at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum StartFailure {
    /// The sandbox is not ready on this machine.
    #[error("the sandbox is not ready: {reason}")]
    NotReady {
        /// What is wrong, in plain words.
        reason: String,
        /// What a person can do about it.
        fix: String,
    },
    /// Too many runs wait already.
    #[error("{bound} runs wait for a sandbox already")]
    QueueFull {
        /// How many may wait.
        bound: usize,
    },
    /// No sandbox became free in time.
    #[error("no sandbox became free within {} seconds", waited.as_secs())]
    QueueTimeout {
        /// How long it waited.
        #[serde(with = "millis")]
        waited: Duration,
    },
    /// A jail could not be started or did not take the code.
    #[error("{reason}")]
    Jail {
        /// What went wrong.
        reason: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The snippet's process exited. 1 also means an uncaught exception, as with any Python script.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The snippet's process was ended by a signal, for another cause than the ones below.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It was killed when its time was up.
    TimedOut {
        /// The time it had.
        #[serde(with = "millis")]
        after: Duration,
    },
    /// The kernel killed it for want of memory, as the jail's control group counted.
    OutOfMemory {
        /// The bytes it had.
        limit_bytes: u64,
    },
    /// Somebody cancelled it, or who asked for it went away.
    Cancelled,
    /// It never ran.
    StartFailed {
        /// Why.
        #[serde(flatten)]
        failure: StartFailure,
    },
    /// It ran, and its sandbox ended before it could be said how. Nothing of it is left.
    Broken {
        /// What is known.
        reason: String,
    },
    /// It ran, and nobody can say how it ended: its jail or the broker is gone.
    Lost {
        /// What is known.
        reason: String,
    },
}

/// What a run used and produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Bytes written to standard output, passed on or not.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, passed on or not.
    pub stderr_bytes: u64,
    /// Bytes passed on in chunks.
    pub kept_bytes: u64,
    /// Whether some output was not passed on.
    pub truncated: bool,
    /// From sending the code to knowing the end.
    #[serde(rename = "elapsed_ms", with = "millis")]
    pub elapsed: Duration,
    /// The most memory in use at once, in bytes; `None` without a memory cgroup.
    pub peak_memory_bytes: Option<u64>,
    /// How many processes the kernel killed for want of memory; `None` without a memory cgroup. The main
    /// process can exit well although a child was killed.
    pub oom_kills: Option<u64>,
    /// How many new processes were refused; `None` without a pids cgroup.
    pub pids_refused: Option<u64>,
    /// Python's last words were a `MemoryError`. The snippet can write those words itself, so this is a
    /// hint for the reader and nothing more.
    pub memory_error_seen: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used and produced.
    pub totals: Totals,
}

impl Finished {
    /// The end of a run that never began.
    pub fn not_started(failure: StartFailure) -> Self {
        Self::without_output(Outcome::StartFailed { failure })
    }

    /// An end with nothing to count.
    pub fn without_output(outcome: Outcome) -> Self {
        Self {
            outcome,
            totals: Totals::default(),
        }
    }
}

/// Durations as whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
