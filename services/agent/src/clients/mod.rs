//! What the agent asks of others, as traits, so that tests can script the answers.

mod mesh;

use std::fmt;

use futures_util::{future::BoxFuture, stream::BoxStream};
use kazma_domain::{Call, CallId, MessageId, ThreadId, TurnId, TurnState};
use kazma_fence::Untrusted;
use kazma_wire::{
    Problem,
    agent::{FinishRequest, LiveTurn, UnroutableRequest},
    model::{ChatRequest, Delta, ModelInfo},
    poll::{Poll, Polled},
    runner::PlanRequest,
};

pub use mesh::{MeshModel, MeshRegistry, MeshRunner};

/// Any error below a client.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The other side said no, and would again.
    #[error("refused: {}", .0.title)]
    Refused(Box<Problem>),
    /// The other side did not answer, or not sensibly. The same request may succeed later.
    #[error("no answer")]
    Silent(#[source] Cause),
}

/// An answer that comes in time or not.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ClientError>>;

/// The registry, as far as the agent may ask it.
pub trait Registry: Send + Sync + fmt::Debug {
    /// The live turns.
    fn turns(&self, poll: Poll) -> Answer<'_, Polled<LiveTurn>>;
    /// A page of a thread's ledger, oldest first: what comes after a place in it.
    fn ledger(&self, thread: ThreadId, after: i64) -> Answer<'_, Polled<Entry>>;
    /// The calls of a turn that changed.
    fn calls(&self, turn: TurnId, poll: Poll) -> Answer<'_, Polled<Seen>>;
    /// Says where a turn stands.
    fn progress(&self, turn: TurnId, state: TurnState) -> Answer<'_, ()>;
    /// Ends a turn.
    fn finish(&self, turn: TurnId, request: FinishRequest) -> Answer<'_, ()>;
    /// Files a call of a tool that no executor has.
    fn unroutable(&self, request: UnroutableRequest) -> Answer<'_, Call>;
}

/// The runner, as far as the agent may ask it.
pub trait Runner: Send + Sync + fmt::Debug {
    /// Names a call.
    fn plan(&self, request: PlanRequest) -> Answer<'_, Call>;
}

/// The words of an answer of the model, line by line.
pub type Deltas = BoxStream<'static, Result<Delta, ClientError>>;

/// The model behind the gateway.
pub trait Model: Send + Sync + fmt::Debug {
    /// Which model there is.
    fn info(&self) -> Answer<'_, ModelInfo>;
    /// Asks it.
    fn chat(&self, request: ChatRequest) -> Answer<'_, Deltas>;
}

/// A ledger entry, with what nobody vouches for marked as such.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Which.
    pub id: MessageId,
    /// Its place in the ledger.
    pub seq: i64,
    /// In which turn.
    pub turn: TurnId,
    /// What.
    pub kind: EntryKind,
}

/// What a ledger entry is.
#[derive(Debug, Clone)]
pub enum EntryKind {
    /// A person's own words.
    Message {
        /// The words.
        text: String,
    },
    /// What a tool returned.
    Result {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// How it ended, in the executor's words.
        summary: String,
        /// Whether it did what it was meant to.
        ok: bool,
        /// What it returned.
        output: Returned,
    },
    /// The agent's words.
    Reply {
        /// The words.
        text: String,
    },
}

/// What a tool returned.
#[derive(Debug, Clone, Default)]
pub struct Returned {
    /// The text.
    pub text: Untrusted<String>,
    /// Where it came from, such as the address of a page; empty where the tool's name says it.
    pub origin: Untrusted<String>,
    /// How many bytes there were in all.
    pub total_bytes: u64,
    /// Whether the executor cut it.
    pub truncated: bool,
}

/// A call of a turn as it stands.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The call.
    pub call: Call,
    /// Its tool.
    pub tool: String,
    /// What it returned, once settled.
    pub output: Option<Returned>,
    /// The sequence number of its last change.
    pub changed: i64,
}

impl From<kazma_wire::executor::Output> for Returned {
    fn from(output: kazma_wire::executor::Output) -> Self {
        Self {
            text: Untrusted::new(output.text),
            origin: Untrusted::new(output.origin),
            total_bytes: output.total_bytes,
            truncated: output.truncated,
        }
    }
}

impl From<kazma_wire::agent::TurnCall> for Seen {
    fn from(call: kazma_wire::agent::TurnCall) -> Self {
        Self {
            call: call.call,
            tool: call.tool,
            output: call.output.map(Returned::from),
            changed: call.changed,
        }
    }
}

impl From<kazma_wire::agent::Entry> for Entry {
    fn from(entry: kazma_wire::agent::Entry) -> Self {
        use kazma_wire::agent::EntryKind as Wire;
        let kind = match entry.kind {
            Wire::Message { text, by: _ } => EntryKind::Message { text },
            Wire::Result {
                call,
                tool,
                summary,
                ok,
                output,
            } => EntryKind::Result {
                call,
                tool,
                summary,
                ok,
                output: output.into(),
            },
            Wire::Reply { text } => EntryKind::Reply { text },
        };
        Self {
            id: entry.id,
            seq: entry.seq,
            turn: entry.turn,
            kind,
        }
    }
}
