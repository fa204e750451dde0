//! What the gateway asks of the registry on behalf of a signed-in person. Where no answer is named, it
//! is empty (204).

use jiff::Timestamp;
use kazma_domain::{Actor, Decision, Digest, GateId, Surface, ThreadId, TurnId, Wait};
use serde::{Deserialize, Serialize};

/// `POST /v1/threads`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewThread {
    /// Who begins it.
    pub actor: Actor,
}

/// The answer to [`NewThread`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadCreated {
    /// The thread.
    pub thread: ThreadId,
}

/// `POST /v1/threads/{id}/messages`: message and open turn in one transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Who speaks.
    pub actor: Actor,
    /// Where.
    pub surface: Surface,
    /// Their words, whole.
    pub text: String,
    /// The same key in the same thread gets the same answer; with another text it is refused (409).
    pub idempotency_key: Option<String>,
    /// How the sender waits for the end of the turn.
    #[serde(default)]
    pub wait: Wait,
}

/// The answer to [`NewMessage`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnOpened {
    /// The turn.
    pub turn: TurnId,
}

/// `POST /v1/gates/{id}/decision`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// Who decides.
    pub actor: Actor,
    /// Where.
    pub surface: Surface,
    /// What.
    pub decision: Decision,
    /// The digest of the card they saw.
    pub card: Digest,
    /// How many persons are expected to answer, this one included.
    pub electorate: u32,
    /// Why, if they say so.
    pub reason: Option<String>,
}

/// The answer to a decision that was taken (200). A conflict (409) is a problem of kind
/// `gate-decided` with `decision`, `decided_by`, `surface`, `decided_at`; of kind `gate-ended` with
/// `state`; or of kind `card-changed` with `args_digest`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Decided {
    /// Whether the question is settled.
    pub settled: bool,
    /// The word for where its calls stand now.
    pub state: String,
    /// All votes so far.
    pub votes: Vec<kazma_domain::Vote>,
}

/// `POST /v1/gates/{id}/extend`: more time to answer, the same card. Answered with [`Extended`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// Who asks.
    pub actor: Actor,
}

/// The answer to [`ExtendRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extended {
    /// Until when it can be answered now.
    pub expires_at: Timestamp,
}

/// `POST /v1/turns/{id}/abort`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbortRequest {
    /// Who ends it.
    pub actor: Actor,
}

/// `GET /v1/gates?state=…&limit=…`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateQuery {
    /// `pending` or `settled` (everything that no longer waits); both unless set.
    pub state: Option<String>,
    /// At most this many, newest first; 200 unless set, at most 1,000.
    pub limit: Option<u32>,
    /// Only those that come after this one in that order: the last one of an earlier answer.
    pub before: Option<GateId>,
}

/// `GET /v1/threads`: one thread, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Which.
    pub thread: ThreadId,
    /// The beginning of its first message; empty before the first.
    pub title: String,
    /// When it began.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub changed_at: Timestamp,
    /// How many cards wait in it.
    pub pending: u32,
}
