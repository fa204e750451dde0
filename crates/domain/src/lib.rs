//! What every service of Kazma means by its words: ids, tools, plans, calls, permits, roles.
//!
//! **Invariant:** nothing here does I/O, awaits, or reads a clock. Time, randomness and identity are
//! parameters, so that every rule can be tried on a table of inputs.

pub mod call;
pub mod canonical;
pub mod card;
pub mod catalogue;
pub mod clock;
pub mod id;
pub mod limits;
pub mod permit;
pub mod person;
pub mod plan;
pub mod service;
pub mod turn;

pub use call::{Call, Denial, Event, Grounds, Outcome, Refusal, State};
pub use canonical::{Digest, canonical_json};
pub use catalogue::{Tier, Tool, Trust};
pub use clock::{Clock, Entropy, Moment};
pub use id::{
    AttemptId, CallId, GateId, Id, MessageId, PermitId, PersonId, RequestId, SessionId, ThreadId,
    TurnId,
};
pub use person::{Actor, Decision, Role, Surface, Vote};
pub use plan::{Action, Plan};
pub use service::Service;
pub use turn::{TurnState, Wait};
