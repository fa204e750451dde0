//! The gate machine: one call, its state, and the one function that changes it.
//!
//! ```text
//! pending ──approve──▶ approved ──redeem──▶ claimed ──settle──▶ settled
//!    │ deny, expire,       │ withdraw, expire   │ executor lost
//!    ▼ cancel, supersede   ▼                    ▼
//! denied … superseded   denied, expired      orphaned
//! ```
//!
//! **Invariants**, each proven by a test below: an ended call never changes; a call is claimed at most
//! once; nothing is claimed that was not approved; no event that fails changes anything.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    canonical::Digest,
    clock::{Moment, after},
    id::{AttemptId, CallId, GateId, PermitId, PersonId, ThreadId, TurnId},
    limits,
    person::{Decision, Role, Vote},
    service::Service,
};

mod apply;
#[cfg(test)]
mod tests;

/// The version of a call as it is filed.
pub const FIRST_VERSION: u64 = 1;

/// One proposed call of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Which call.
    pub id: CallId,
    /// The question that people were asked about it, if any.
    pub gate: Option<GateId>,
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// The how-manieth call of the turn, from 0.
    pub index: u32,
    /// Who proposed it.
    pub principal: Service,
    /// Who alone may run it.
    pub executor: Service,
    /// What exactly would run.
    pub plan: Digest,
    /// Counts the changes of this row; every write names the version it saw.
    pub version: u64,
    /// Where it stands.
    pub state: State,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// People are asked.
    Pending {
        /// Silence becomes a denial then.
        expires_at: Timestamp,
        /// The digest of the card that people see.
        card: Digest,
        /// What they said so far: one vote a person.
        votes: Vec<Vote>,
    },
    /// It may run; its executor has not begun.
    Approved {
        /// Why it may.
        grounds: Grounds,
        /// Not any more from then on.
        use_before: Timestamp,
    },
    /// Its executor began.
    Claimed {
        /// Why it may run.
        grounds: Grounds,
        /// The permit that was redeemed.
        permit: PermitId,
        /// The attempt that redeemed it.
        attempt: AttemptId,
        /// Since when.
        at: Timestamp,
        /// When the executor last said that it still works on it.
        reported_at: Timestamp,
    },
    /// It ran, and how it ended is known.
    Settled {
        /// Why it was allowed.
        grounds: Grounds,
        /// How it ended.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
    /// It will not run.
    Denied {
        /// By whom or what.
        by: Denial,
        /// When.
        at: Timestamp,
    },
    /// Nobody answered, or nobody collected, in time.
    Expired {
        /// Whether it had been approved.
        approved: bool,
        /// When.
        at: Timestamp,
    },
    /// The turn was ended before anything ran.
    Cancelled {
        /// When.
        at: Timestamp,
    },
    /// Another question took its place.
    Superseded {
        /// Which.
        by: GateId,
        /// When.
        at: Timestamp,
    },
    /// It began and nobody knows how it ended. It never runs again; a person is told.
    Orphaned {
        /// Why it was allowed.
        grounds: Grounds,
        /// What is known, in words.
        what: String,
        /// When.
        at: Timestamp,
    },
}

/// Why a call may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Grounds {
    /// A rule allows it without a card.
    Rule {
        /// Its name.
        rule: String,
    },
    /// A person approved exactly this card.
    Person {
        /// Their vote.
        vote: Vote,
        /// The card they saw.
        card: Digest,
    },
}

/// Who or what denied a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Denial {
    /// A rule, with its reason in words.
    Rule {
        /// Its name.
        rule: String,
        /// Why.
        reason: String,
    },
    /// People; the last vote settled it.
    People {
        /// All votes, the deciding one last.
        votes: Vec<Vote>,
    },
    /// What would run is no longer what was approved.
    Changed {
        /// What changed, in words.
        reason: String,
    },
}

/// How a call that ran ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Outcome {
    /// Whether it did what it was meant to.
    pub ok: bool,
    /// How it ended in a few words, such as `exit 0 after 0.04 s`.
    pub summary: String,
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A person answers the card.
    Vote {
        /// What they say. Its time must be the registry's.
        vote: Vote,
        /// What they may do.
        role: Role,
        /// The digest of the card they saw.
        card: Digest,
        /// How many persons are expected to answer, this one included.
        electorate: u32,
    },
    /// An equal call joined the question: the card is another now, and votes on the old one are void.
    Recard {
        /// The digest of the new card.
        card: Digest,
    },
    /// A person asks for more time to answer. It never shortens what is left.
    Extend {
        /// What they may do.
        role: Role,
    },
    /// The executor redeems a permit.
    Redeem {
        /// Which permit.
        permit: PermitId,
        /// Until when it is good.
        permit_expires_at: Timestamp,
        /// The plan it was signed for.
        plan: Digest,
        /// Who redeems.
        executor: Service,
        /// Its attempt. The same again is the same answer; another one finds the call claimed.
        attempt: AttemptId,
    },
    /// The executor says that it still works on it.
    Report {
        /// Who says so.
        executor: Service,
    },
    /// The executor says how it ended.
    Settle {
        /// Who says so.
        executor: Service,
        /// How it ended.
        outcome: Outcome,
    },
    /// The executor found that what would run is no longer what it planned, and made another plan, for
    /// which the rules were asked again. Only what a rule allowed, and only once: what a person
    /// approved is refused as changed.
    Replan {
        /// Who says so.
        executor: Service,
        /// The digest of the new plan.
        plan: Digest,
    },
    /// The executor found that what would run is no longer what was approved.
    Withdraw {
        /// Who says so.
        executor: Service,
        /// What changed.
        reason: String,
    },
    /// The executor, started anew, does not know how it ended.
    Lose {
        /// Who says so.
        executor: Service,
        /// What is known.
        what: String,
    },
    /// The turn was ended.
    Cancel,
    /// Another question takes its place.
    Supersede {
        /// Which.
        by: GateId,
    },
    /// Time passes.
    Tick,
}

/// Why an event did not change a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Somebody decided first.
    #[error("somebody decided first")]
    Decided {
        /// The vote that settled it.
        by: Vote,
    },
    /// The call has ended or moved on; the event does not fit where it stands.
    #[error("the call is {state}")]
    NotNow {
        /// The word for where it stands.
        state: &'static str,
    },
    /// The deadline has passed.
    #[error("the time to answer has passed")]
    TooLate,
    /// The card that was answered is not the card of this call.
    #[error("the card has changed since it was shown")]
    OtherCard,
    /// The person may not decide.
    #[error("the role {role} may not decide")]
    MayNot {
        /// Their role.
        role: Role,
    },
    /// Another service's call.
    #[error("only the executor of a call may do this")]
    NotTheExecutor,
    /// The permit was signed for another plan.
    #[error("the permit was signed for another plan")]
    OtherPlan,
    /// A person approved exactly its plan, or it was planned again before.
    #[error("only what a rule allowed is planned again, and once")]
    NotAgain,
    /// The permit has expired.
    #[error("the permit has expired")]
    PermitExpired,
    /// The permit was used.
    #[error("the permit was already redeemed")]
    Redeemed,
    /// The call was settled with another outcome.
    #[error("the call was settled otherwise")]
    SettledOtherwise,
}

/// What an accepted event comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The call as it stands now, one version on.
    Changed(Box<Call>),
    /// The event is a repetition: everything is as it should be.
    Unchanged,
}

impl State {
    /// The word in storage, answers and pages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Approved { .. } => "approved",
            Self::Claimed { .. } => "claimed",
            Self::Settled { .. } => "settled",
            Self::Denied { .. } => "denied",
            Self::Expired { .. } => "expired",
            Self::Cancelled { .. } => "cancelled",
            Self::Superseded { .. } => "superseded",
            Self::Orphaned { .. } => "orphaned",
        }
    }

    /// Whether nothing can change it any more.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Approved { .. } | Self::Claimed { .. } => false,
            Self::Settled { .. }
            | Self::Denied { .. }
            | Self::Expired { .. }
            | Self::Cancelled { .. }
            | Self::Superseded { .. }
            | Self::Orphaned { .. } => true,
        }
    }

    /// When silence changes it, the grace after a start aside. [`State::due`] has it included.
    pub fn deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Pending { expires_at, .. } => Some(*expires_at),
            Self::Approved { use_before, .. } => Some(*use_before),
            Self::Claimed { reported_at, .. } => Some(after(*reported_at, limits::CLAIM_SILENCE)),
            _ => None,
        }
    }

    /// The moment from which [`Event::Tick`] changes it, for a registry that started at `started`.
    pub fn due(&self, started: Timestamp) -> Option<Timestamp> {
        let grace = match self {
            // A claim is judged by the registry's own uptime: it was deaf while it was down.
            Self::Claimed { .. } => limits::CLAIM_SILENCE,
            _ => limits::GRACE_AFTER_START,
        };
        Some(self.deadline()?.max(after(started, grace)))
    }

    /// Whether `by` said `decision` and that is part of what settled it.
    pub(crate) fn has_vote(&self, by: PersonId, decision: Decision) -> bool {
        let votes = match self {
            Self::Denied {
                by: Denial::People { votes },
                ..
            } => votes.as_slice(),
            _ => self.settling_vote().map_or(&[][..], std::slice::from_ref),
        };
        votes.iter().any(|vote| repeats(vote, by, decision))
    }

    /// The vote that settled it, if a person did.
    pub fn settling_vote(&self) -> Option<&Vote> {
        match self {
            Self::Approved { grounds, .. }
            | Self::Claimed { grounds, .. }
            | Self::Settled { grounds, .. }
            | Self::Orphaned { grounds, .. } => grounds.vote(),
            Self::Denied {
                by: Denial::People { votes },
                ..
            } => votes.last(),
            _ => None,
        }
    }
}

impl Grounds {
    /// The vote that approved, if a person did.
    pub const fn vote(&self) -> Option<&Vote> {
        match self {
            Self::Person { vote, .. } => Some(vote),
            Self::Rule { .. } => None,
        }
    }
}

/// Whether `vote` is what `by` already said.
fn repeats(vote: &Vote, by: PersonId, decision: Decision) -> bool {
    vote.by == by && vote.decision == decision
}
