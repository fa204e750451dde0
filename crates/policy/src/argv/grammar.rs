//! The form in which a program's grammar is written down.

use super::{Refusal, options::Parsed, paths::Workspace, verdict::Tier};

/// What a program understands, as far as it is let.
///
/// Names are written as in the manual, with their dashes; the names of one option stand together, the first is the one
/// that the code speaks of. Whatever is in none of the lists is refused.
#[derive(Debug)]
pub(super) struct Grammar {
    /// The program, as reasons name it.
    pub(super) name: &'static str,
    /// Options without a value, separated by blanks.
    pub(super) flags: &'static str,
    /// Options that take the next argument, or what is glued to them.
    pub(super) values: &'static [(&'static str, Kind)],
    /// Options that take a value only if it is glued to them.
    pub(super) optional: &'static [(&'static str, Kind)],
    /// Options that are known and refused, and what they would do.
    pub(super) refused: &'static [(&'static str, &'static str)],
    /// Grammars whose options it has too.
    pub(super) also: &'static [&'static Grammar],
    /// Whether `-5` is a number.
    pub(super) digits: bool,
    /// Whether options may follow operands.
    pub(super) permutes: bool,
    /// What the operands are.
    pub(super) operands: Operands,
    /// What is to be said beyond the lists.
    pub(super) check: Option<Check>,
}

/// A last word on parsed arguments.
pub(super) type Check = fn(&Parsed, &Workspace<'_>) -> Result<(), Refusal>;

impl Grammar {
    /// A program that has no option and no operand.
    pub(super) const EMPTY: Self = Self {
        name: "",
        flags: "",
        values: &[],
        optional: &[],
        refused: &[],
        also: &[],
        digits: false,
        permutes: true,
        operands: Operands::None,
        check: None,
    };
}

/// What a value of an option is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Anything: a pattern, a separator, a name.
    Text,
    /// A whole number, with a sign and a unit at most.
    Number,
    /// One of these words, or several with commas.
    Words(&'static str),
    /// A file to be read.
    Read,
    /// A file or folder to be written.
    Write,
    /// What this says.
    Judged(fn(&str) -> Result<(), Refusal>),
}

/// What the operands are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operands {
    /// There are none.
    None,
    /// Words that are only printed, at most so many.
    Text(usize),
    /// Files and folders to be read, at most so many.
    Read(usize),
    /// A pattern, unless one of these options gave it, then files and folders to be read.
    PatternThenRead(&'static [&'static str]),
    /// Files and folders to be written.
    Write,
    /// What the program's check says.
    Judged,
}

/// How much a program of a plain grammar can do.
pub(super) const fn tier(operands: Operands) -> Tier {
    match operands {
        Operands::Write => Tier::Write,
        _ => Tier::Read,
    }
}
