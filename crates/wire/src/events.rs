//! What happens, as the registry tells it to the gateway.
//!
//! `GET /v1/events?after=SEQ` streams one JSON object a line. Only durable events have a sequence
//! number; output passes by and is gone.

use jiff::Timestamp;
use kazma_domain::{CallId, GateId, MessageId, ThreadId, TurnId, TurnState};
use serde::{Deserialize, Serialize};

/// One line of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the ledger; none for what is not kept.
    pub seq: Option<i64>,
    /// When, by the registry's clock.
    pub at: Timestamp,
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn, if in one.
    pub turn: Option<TurnId>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A thread began.
    Thread,
    /// A person spoke.
    Message {
        /// The ledger entry.
        message: MessageId,
    },
    /// The agent spoke.
    Reply {
        /// The ledger entry.
        message: MessageId,
    },
    /// A turn changed.
    Turn {
        /// Where it stands now.
        state: TurnState,
    },
    /// A call changed.
    Call {
        /// Which.
        call: CallId,
        /// The tool.
        tool: String,
        /// The word for where it stands now.
        state: String,
        /// The question it belongs to, if it was asked.
        gate: Option<GateId>,
    },
    /// A card waits, or has changed while it waits.
    GatePending {
        /// Which.
        gate: GateId,
    },
    /// A card no longer waits, or what it allowed has gone a step on.
    GateSettled {
        /// Which.
        gate: GateId,
        /// The word for where its calls stand now.
        state: String,
    },
    /// A running call printed something. Not kept.
    Output {
        /// Which call.
        call: CallId,
        /// `stdout` or `stderr`.
        stream: String,
        /// What it printed.
        text: String,
    },
    /// Nothing; the stream lives. Not kept.
    Beat,
}
