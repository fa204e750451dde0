//! A turn: what follows one message of a person.

use std::{fmt, str::FromStr};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::limits;

/// How whoever spoke waits for the turn, and with it how long its questions may wait for an answer.
/// Source: architecture, section 2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Nobody waits in line: a question waits as long as the operator set.
    #[default]
    Parked,
    /// A caller waits in line: a question that nobody answers within [`limits::BLOCKING_WAIT`]
    /// expires, so that the caller gets an end.
    Blocking,
}

impl Wait {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Parked, Self::Blocking];

    /// The word in storage and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Blocking => "blocking",
        }
    }

    /// How long a question waits, where a parked one waits for `parked`. A blocking one never waits
    /// longer than that.
    pub fn span(self, parked: SignedDuration) -> SignedDuration {
        match self {
            Self::Parked => parked,
            Self::Blocking => parked.min(limits::BLOCKING_WAIT),
        }
    }
}

/// The text names no way to wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a way to wait: parked or blocking")]
pub struct UnknownWait;

impl FromStr for Wait {
    type Err = UnknownWait;

    fn from_str(name: &str) -> Result<Self, UnknownWait> {
        Self::ALL
            .into_iter()
            .find(|wait| wait.name() == name)
            .ok_or(UnknownWait)
    }
}

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// Written; no agent has taken it up.
    Open,
    /// The agent works on it.
    Running,
    /// It waits for a person.
    Parked,
    /// It ended with a reply.
    Done,
    /// It ended with an error that the thread shows.
    Failed,
    /// A person ended it.
    Aborted,
}

impl TurnState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Running,
        Self::Parked,
        Self::Done,
        Self::Failed,
        Self::Aborted,
    ];

    /// Whether calls may still be filed in it.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Open | Self::Running | Self::Parked)
    }

    /// The word in storage, answers and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for TurnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no state of a turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a turn state")]
pub struct UnknownTurnState;

impl FromStr for TurnState {
    type Err = UnknownTurnState;

    fn from_str(name: &str) -> Result<Self, UnknownTurnState> {
        Self::ALL
            .into_iter()
            .find(|state| state.name() == name)
            .ok_or(UnknownTurnState)
    }
}
