//! What the registry shows the gateway: threads and gates, whole.

use jiff::Timestamp;
use kazma_domain::{
    Call, Digest, GateId, MessageId, ThreadId, TurnId, TurnState, Vote, card::Card,
};
use serde::{Deserialize, Serialize};

use crate::{agent::EntryKind, executor::Output};

/// `GET /v1/threads/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadView {
    /// Which.
    pub thread: ThreadId,
    /// When it began.
    pub created_at: Timestamp,
    /// Its ledger, oldest first.
    pub entries: Vec<EntryView>,
    /// Its turns, oldest first.
    pub turns: Vec<TurnView>,
    /// Its gates, oldest first, whatever their state.
    pub gates: Vec<GateView>,
    /// Its calls, oldest first, asked or not.
    pub calls: Vec<CallView>,
    /// The last event of this thread.
    pub seq: i64,
}

/// One entry of a ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EntryView {
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

/// One turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnView {
    /// Which.
    pub turn: TurnId,
    /// Where it stands.
    pub state: TurnState,
    /// When it was opened.
    pub opened_at: Timestamp,
}

/// One call, asked or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallView {
    /// The call.
    pub call: Call,
    /// Its tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: serde_json::Value,
    /// When it was filed.
    pub filed_at: Timestamp,
    /// What it returned, once settled.
    pub output: Option<Output>,
}

/// One gate with its calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GateView {
    /// Which.
    pub gate: GateId,
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// The whole card.
    pub card: Card,
    /// The digest of the card: what a decision must name.
    pub args_digest: Digest,
    /// The word for where it stands: the state of its calls, the least advanced first.
    pub state: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When silence becomes a denial, the grace after a start included; none once it no longer waits.
    pub expires_at: Option<Timestamp>,
    /// What people said so far.
    pub votes: Vec<Vote>,
    /// Its calls, each with what it returned.
    pub calls: Vec<CallView>,
}
