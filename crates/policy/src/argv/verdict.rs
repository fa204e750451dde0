//! What the judge answers.

use std::{collections::BTreeMap, fmt};

/// The judge's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be put before a person, and run exactly so.
    Allow(Permitted),
    /// It is refused before anybody is asked.
    Refuse(Refusal),
}

/// What may run, as it is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permitted {
    /// How much it can do.
    pub tier: Tier,
    /// The arguments to start, beginning with the program's bare name; they may differ from what was asked for.
    pub argv: Vec<String>,
    /// The whole environment but for `PATH`, `HOME` and `TMPDIR`, which the runner sets.
    pub env: BTreeMap<String, String>,
    /// The folder to start in, from the workspace's root; empty for the root.
    pub cwd: String,
    /// The folders and files that it must be able to write, from the workspace's root; an empty path is the root.
    pub writable: Vec<String>,
    /// Why it may, in a sentence.
    pub reason: String,
}

/// How much a permitted command can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// It reads the workspace.
    Read,
    /// It writes in the workspace.
    Write,
    /// It runs code of the workspace: only ever in the jail.
    SandboxExec,
}

impl Tier {
    /// The word in verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::SandboxExec => "sandbox_exec",
        }
    }
}

/// Why a command is refused, in plain words that name the option or operand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// Refuses for this reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

/// Refuses for a reason that is put together.
macro_rules! refuse {
    ($($text:tt)*) => {
        Err($crate::argv::verdict::Refusal::new(format_args!($($text)*)))
    };
}

pub(super) use refuse;
