//! People, what they may do, and what they decide.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::PersonId;

/// What a signed-in person may do. Each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads and decides.
    Approver,
    /// Chats and decides.
    Operator,
    /// All, people and settings included.
    Admin,
}

impl Role {
    /// Every role, weakest first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Approver, Self::Operator, Self::Admin];

    /// Whether this role may decide a gate.
    pub fn may_decide(self) -> bool {
        self >= Self::Approver
    }

    /// Whether this role may speak to the agent.
    pub fn may_chat(self) -> bool {
        self >= Self::Operator
    }

    /// Whether this role may change people and settings.
    pub fn may_administer(self) -> bool {
        self >= Self::Admin
    }

    /// The word in settings, commands and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Approver => "approver",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a role: use viewer, approver, operator or admin")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|r| r.name() == name)
            .ok_or(UnknownRole)
    }
}

/// Where a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    /// A page in a browser.
    Web,
    /// The HTTP API with a bearer token.
    Api,
    /// The command line.
    Terminal,
}

impl Surface {
    /// The word in answers and on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Api => "api",
            Self::Terminal => "terminal",
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The person behind a request, as the gateway vouches for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Who.
    pub id: PersonId,
    /// The name others see.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

/// The two answers to a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Run exactly this.
    Approve,
    /// Do not.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        })
    }
}

/// One person's answer to one card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// What they said.
    pub decision: Decision,
    /// Who.
    pub by: PersonId,
    /// The name others see.
    pub name: String,
    /// Where.
    pub surface: Surface,
    /// When, by the registry's clock.
    pub at: Timestamp,
    /// Why, in their words, if they gave any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
