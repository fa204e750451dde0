//! The card: all that a person decides on. Its digest is what a decision is bound to.

use serde::{Deserialize, Serialize};

use crate::{
    canonical::{Digest, NotCanonical},
    id::{GateId, ThreadId, TurnId},
    plan::Plan,
};

/// All that a person decides on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Which question this is.
    pub gate: GateId,
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// What would be done.
    pub plan: Plan,
    /// Why a person is asked, in words.
    pub reason: String,
    /// The name of the rule that asked.
    pub rule: String,
    /// Where each argument came from.
    pub provenance: Vec<Origin>,
    /// How many equal calls this card answers. Each runs once.
    pub count: u32,
}

/// Where one argument came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The argument's name.
    pub argument: String,
    /// From whom.
    pub source: Source,
    /// The same in plain words.
    pub words: String,
}

/// From whom an argument came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// It stands in the person's own words, word for word.
    Person,
    /// It stands in what a tool returned.
    Tool,
    /// It stands nowhere: the model made it.
    Nobody,
}

impl Card {
    /// The digest of all of it.
    ///
    /// # Errors
    ///
    /// Refuses a card that canonical JSON cannot hold.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        Digest::of(self)
    }
}
