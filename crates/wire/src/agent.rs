//! What the agent asks of the registry. Where no answer is named, it is empty (204).

use jiff::Timestamp;
use kazma_domain::{Call, MessageId, ThreadId, TurnId, TurnState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executor::Output;

/// `GET /v1/turns`: a live turn (open, running or parked). Long-polled: a turn appears again whenever
/// its state changes, also by the agent's own doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTurn {
    /// Which.
    pub turn: TurnId,
    /// In which thread.
    pub thread: ThreadId,
    /// Where it stands.
    pub state: TurnState,
    /// Where its message stands in the ledger.
    pub seq: i64,
}

/// `GET /v1/threads/{id}/ledger`: one entry, oldest first. Polled by `seq`, a bounded page at a time:
/// ask again with the answer's `seq` until nothing comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Which.
    pub id: MessageId,
    /// Its place in the ledger.
    pub seq: i64,
    /// In which turn.
    pub turn: TurnId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EntryKind,
}

/// What a ledger entry is. Its writer is fixed by its kind, and so is its trust.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryKind {
    /// A person's own words. Only the gateway writes these.
    Message {
        /// The words.
        text: String,
        /// Who spoke.
        by: String,
    },
    /// What a tool returned. Only executors write these, inside settle.
    Result {
        /// The call.
        call: kazma_domain::CallId,
        /// The tool.
        tool: String,
        /// How it ended in a few words.
        summary: String,
        /// Whether it did what it was meant to.
        ok: bool,
        /// What it returned.
        output: Output,
    },
    /// The agent's words; never taken for the person's.
    Reply {
        /// The words.
        text: String,
    },
}

/// `POST /v1/turns/{id}/progress`: where a live turn stands. Only `running` and `parked`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressRequest {
    /// Where it stands now.
    pub state: TurnState,
}

/// `POST /v1/turns/{id}/finish`: the last words and the end, in one transaction. Idempotent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// `done` or `failed`.
    pub state: TurnState,
    /// What the agent says; never empty.
    pub text: String,
}

/// `POST /v1/calls/unroutable`: a call of a tool that no executor has. Always denied, always recorded.
/// Answered with [`crate::executor::Filed`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnroutableRequest {
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// The how-manieth call of the turn.
    pub index: u32,
    /// The tool as the model named it.
    pub tool: String,
    /// The arguments as the model gave them.
    pub arguments: Value,
}

/// `GET /v1/turns/{id}/calls`: a call of the turn and what it returned.
///
/// Long-polled: `after` is the largest `changed` seen; a call appears again whenever its state changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnCall {
    /// The call.
    pub call: Call,
    /// Its tool.
    pub tool: String,
    /// What it returned, once settled.
    pub output: Option<Output>,
    /// The sequence number of its last change.
    pub changed: i64,
}
