//! Reads arguments by a grammar.

use super::{
    Refusal,
    grammar::{Grammar, Kind, Operands},
    paths::Workspace,
    text,
    verdict::refuse,
};

/// Arguments, understood.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Options in order: the first of their names, and their value.
    pub(super) options: Vec<(&'static str, Option<String>)>,
    /// Operands in order.
    pub(super) operands: Vec<String>,
    /// How many options stood before each operand.
    pub(super) placed: Vec<usize>,
    /// How many of the operands stood before `--`; all of them if there was none.
    pub(super) before_dashes: usize,
    /// Whether there was a `--`.
    pub(super) dashes: bool,
}

impl Parsed {
    /// Whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(name))
    }

    fn operand(&mut self, operand: &str) {
        self.operands.push(operand.to_owned());
        self.placed.push(self.options.len());
    }

    /// The values given to an option, in order.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.options
            .iter()
            .filter(move |(given, _)| *given == name)
            .filter_map(|(_, value)| value.as_deref())
    }
}

/// What an option is in a grammar.
enum Found {
    Flag(&'static str),
    Value(&'static str),
    Optional(&'static str),
}

impl Grammar {
    /// Reads arguments and judges options and operands.
    pub(super) fn read(
        &'static self,
        arguments: &[String],
        workspace: &Workspace<'_>,
    ) -> Result<Parsed, Refusal> {
        let parsed = self.parse(arguments)?;
        for (name, value) in &parsed.options {
            let Some(value) = value else { continue };
            let kind = self.kind(name).unwrap_or(Kind::Text);
            judge_value(kind, value, workspace)
                .map_err(|refusal| Refusal::new(format_args!("{} {name}: {refusal}", self.name)))?;
        }
        self.judge_operands(&parsed, workspace)
            .map_err(|refusal| Refusal::new(format_args!("{}: {refusal}", self.name)))?;
        if let Some(check) = self.check {
            check(&parsed, workspace)
                .map_err(|refusal| Refusal::new(format_args!("{}: {refusal}", self.name)))?;
        }
        Ok(parsed)
    }

    /// Reads arguments without judging values and operands.
    pub(super) fn parse(&'static self, arguments: &[String]) -> Result<Parsed, Refusal> {
        let mut parsed = Parsed::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                parsed.dashes = true;
                parsed.before_dashes = parsed.operands.len();
                rest.for_each(|operand| parsed.operand(operand));
                return Ok(parsed);
            }
            if argument == "-" || !argument.starts_with('-') {
                parsed.operand(argument);
                if !self.permutes {
                    rest.for_each(|operand| parsed.operand(operand));
                    break;
                }
            } else if argument.starts_with("--") {
                self.long(argument, &mut rest, &mut parsed)?;
            } else {
                self.cluster(argument, &mut rest, &mut parsed)?;
            }
        }
        parsed.before_dashes = parsed.operands.len();
        Ok(parsed)
    }

    fn long(
        &'static self,
        argument: &str,
        rest: &mut std::slice::Iter<'_, String>,
        parsed: &mut Parsed,
    ) -> Result<(), Refusal> {
        let (name, glued) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument, None),
        };
        let entry = match (self.find(name)?, glued) {
            (Found::Flag(_), Some(_)) => {
                return refuse!("{}: {name} takes no value", self.name);
            }
            (Found::Flag(name) | Found::Optional(name), None) => (name, None),
            (Found::Value(name) | Found::Optional(name), Some(value)) => (name, Some(value)),
            (Found::Value(name), None) => (name, Some(self.next(name, rest)?)),
        };
        parsed.options.push(entry);
        Ok(())
    }

    fn cluster(
        &'static self,
        argument: &str,
        rest: &mut std::slice::Iter<'_, String>,
        parsed: &mut Parsed,
    ) -> Result<(), Refusal> {
        let mut letters = argument.strip_prefix('-').unwrap_or(argument).chars();
        while let Some(letter) = letters.next() {
            if self.digits && letter.is_ascii_digit() {
                parsed.options.push(("-0", None));
                continue;
            }
            let glued = letters.as_str();
            match self.find(&format!("-{letter}"))? {
                Found::Flag(name) => parsed.options.push((name, None)),
                Found::Optional(name) => {
                    let value = (!glued.is_empty()).then(|| glued.to_owned());
                    parsed.options.push((name, value));
                    break;
                }
                Found::Value(name) => {
                    let value = if glued.is_empty() {
                        self.next(name, rest)?
                    } else {
                        glued.to_owned()
                    };
                    parsed.options.push((name, Some(value)));
                    break;
                }
            }
        }
        Ok(())
    }

    fn next(&self, name: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<String, Refusal> {
        rest.next()
            .cloned()
            .ok_or_else(|| Refusal::new(format_args!("{}: {name} needs a value", self.name)))
    }

    /// Looks an option up by its exact name.
    fn find(&'static self, name: &str) -> Result<Found, Refusal> {
        if let Some(why) = self.why_refused(name) {
            return refuse!("{} {name} is refused: it {why}", self.name);
        }
        if let Some((names, _)) = self.values.iter().find(|(names, _)| has(names, name)) {
            return Ok(Found::Value(first(names)));
        }
        if let Some((names, _)) = self.optional.iter().find(|(names, _)| has(names, name)) {
            return Ok(Found::Optional(first(names)));
        }
        if let Some(flag) = self.flags.split_whitespace().find(|flag| *flag == name) {
            return Ok(Found::Flag(flag));
        }
        if let Some(found) = self.also.iter().find_map(|also| also.find(name).ok()) {
            return Ok(found);
        }
        refuse!(
            "{}: the option `{}` is not one of those that are known to be harmless (names are taken whole, without \
             abbreviation)",
            self.name,
            name.escape_debug()
        )
    }

    fn why_refused(&self, name: &str) -> Option<&'static str> {
        let own = self.refused.iter().find(|(names, _)| has(names, name));
        own.map(|(_, why)| *why)
            .or_else(|| self.also.iter().find_map(|also| also.why_refused(name)))
    }

    fn kind(&self, canonical: &str) -> Option<Kind> {
        self.values
            .iter()
            .chain(self.optional)
            .find(|(names, _)| first(names) == canonical)
            .map(|(_, kind)| *kind)
            .or_else(|| self.also.iter().find_map(|also| also.kind(canonical)))
    }

    fn judge_operands(&self, parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
        let operands = &parsed.operands;
        match self.operands {
            Operands::None => match operands.first() {
                Some(first) => refuse!("the operand `{first}` is refused: it takes none here"),
                None => Ok(()),
            },
            Operands::Text(most) => at_most(operands, most),
            Operands::Read(most) => {
                at_most(operands, most)?;
                operands.iter().try_for_each(|path| read(path, workspace))
            }
            Operands::PatternThenRead(options) => {
                let given = parsed.has(options);
                operands
                    .iter()
                    .skip(usize::from(!given))
                    .try_for_each(|path| read(path, workspace))
            }
            Operands::Write => operands.iter().try_for_each(|path| write(path, workspace)),
            Operands::Judged => Ok(()),
        }
    }
}

/// Judges a file or folder that is read; `-` is standard input, which is empty, as is `/dev/null`.
pub(super) fn read(path: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if path == "-" || path == "/dev/null" {
        return Ok(());
    }
    text::no_expansion(path)?;
    workspace.readable(path).map(|_| ())
}

/// Judges a file or folder that is written.
pub(super) fn write(path: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    text::no_expansion(path)?;
    workspace.writable(path).map(|_| ())
}

fn judge_value(kind: Kind, value: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    match kind {
        Kind::Text => Ok(()),
        Kind::Number => number(value),
        Kind::Words(words) => {
            let known = |word: &str| words.split(' ').any(|known| known == word);
            if value.split(',').all(known) {
                Ok(())
            } else {
                refuse!("`{value}` is none of {words}")
            }
        }
        Kind::Read => read(value, workspace),
        Kind::Write => write(value, workspace),
        Kind::Judged(judge) => judge(value),
    }
}

/// A whole number of at most 18 digits, with a sign and a unit such as `k` or `MiB` at most.
fn number(value: &str) -> Result<(), Refusal> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let unit = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = unsigned.len() - unit.len();
    let known = unit.is_empty()
        || (unit.len() <= 3 && unit.chars().all(|c| c.is_ascii_alphabetic()) || unit == "%");
    // `K` alone is a size; another letter alone is what is left of an old cluster, as `f` in `tail -1cf`.
    let bare = digits == 0 && !unit.starts_with(|c: char| "kKMGTPEZYRQ".contains(c));
    if bare || digits > 18 || !known {
        return refuse!("`{value}` is not a number");
    }
    Ok(())
}

fn at_most(operands: &[String], most: usize) -> Result<(), Refusal> {
    match operands.get(most) {
        Some(extra) => refuse!("the operand `{extra}` is refused: there can be {most} at most"),
        None => Ok(()),
    }
}

fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

fn first(names: &'static str) -> &'static str {
    names.split(' ').next().unwrap_or(names)
}
