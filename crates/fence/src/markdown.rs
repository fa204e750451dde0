//! Pictures and links of Markdown that would load something from elsewhere, or run a program.

use std::collections::{HashSet, VecDeque};

use crate::{
    fold::Cursor,
    scan::{BREAK, Breaks},
    target::{Target, target},
};

/// The longest label of a reference (the specification has 999 characters).
const LABEL_MAX: usize = 1_000;
/// Brackets that are open at once.
const NESTED_MAX: usize = 1_000;

/// The open brackets of Markdown, to find pictures that load from elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// Where each bracket stands, and whether it opens a picture.
    open: VecDeque<(usize, bool)>,
    /// Pictures whose address is defined elsewhere: their breaks and labels.
    referring: Vec<(usize, String)>,
    /// Labels of addresses that lead elsewhere.
    defined: HashSet<String>,
    /// The last picture whose bracket was closed and led nowhere. In backquotes that bracket was none.
    closed: Option<usize>,
}

/// A label as it is compared: whatever its case is (`ſ` is an `s`), with single blanks, and without breaks.
fn label(text: &str) -> String {
    text.replace(BREAK, "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
        .to_uppercase()
}

impl Brackets {
    /// A `[` at `at`.
    pub(crate) fn open(&mut self, text: &str, at: usize, breaks: &mut Breaks) {
        if is_literal(text.as_bytes(), at) {
            return;
        }
        let before = text.get(..at).unwrap_or_default();
        // One that was broken before counts as one: else a text that is fenced again would read otherwise.
        let picture = before.strip_suffix(BREAK).unwrap_or(before).ends_with('!');
        if self.open.len() == NESTED_MAX {
            // Where such a picture leads is not known any more.
            if let Some((open, true)) = self.open.pop_front() {
                cut(text, open, breaks);
            }
        }
        self.open.push_back((at, picture));
    }

    /// A `]` at `at`.
    pub(crate) fn close(&mut self, text: &str, at: usize, breaks: &mut Breaks) {
        let bytes = text.as_bytes();
        if is_literal(bytes, at) {
            return;
        }
        let next = bytes.get(at + 1);
        let opened = self.open.pop_back();
        let named = |open: usize| text.get(open + 1..at).unwrap_or_default();
        match (next, opened) {
            (Some(b'('), opened) => match (target(Cursor::new(text, at + 2)), opened) {
                (Target::Near, opened) => {
                    let picture = opened.filter(|(_, picture)| *picture);
                    self.closed = picture.map(|(open, _)| open).or(self.closed);
                }
                (Target::Far, opened @ (Some((_, false)) | None)) => {
                    // ``![`]`](https://…)``: the first bracket was code.
                    let around = self.closed.filter(|open| {
                        at - open < LABEL_MAX
                            && opened.is_none_or(|(link, _)| is_text(text, link, *open))
                            && named(*open).contains('`')
                    });
                    if let Some(open) = around {
                        cut(text, open, breaks);
                    }
                }
                (Target::Far, Some((open, true))) => cut(text, open, breaks),
                (Target::Program(colon), opened) => {
                    breaks.push(colon);
                    if let Some((open, true)) = opened {
                        cut(text, open, breaks);
                    }
                }
            },
            (Some(b':'), Some((open, false))) if at - open < LABEL_MAX => {
                match target(Cursor::new(text, at + 2)) {
                    Target::Near => return,
                    Target::Far => {}
                    Target::Program(colon) => breaks.push(colon),
                }
                self.defined.insert(label(named(open)));
            }
            // Some readers of Markdown allow a blank there.
            (Some(b' '), Some((open, true)))
                if bytes.get(at + 2) == Some(&b'(')
                    && target(Cursor::new(text, at + 3)) == Target::Far =>
            {
                cut(text, open, breaks);
            }
            // `![alt][label]`, `![label][]` and `![label]`.
            (_, Some((open, true))) if at - open < LABEL_MAX => {
                self.closed = Some(open);
                let other = text
                    .get(at + 1..)
                    .and_then(|rest| rest.strip_prefix('['))
                    .and_then(until_bracket)
                    .filter(|other| !other.is_empty() && other.len() < LABEL_MAX);
                // What follows may be no label after all.
                let labels = other.into_iter().chain([named(open)]);
                self.referring
                    .extend(labels.map(|name| (open, label(name))));
            }
            _ => {}
        }
    }

    /// Breaks the pictures that refer to an address that leads elsewhere.
    pub(crate) fn finish(&self, text: &str, breaks: &mut Breaks) {
        for (open, label) in &self.referring {
            if self.defined.contains(label) {
                cut(text, *open, breaks);
            }
        }
    }
}

/// Parts a picture's `!` from its bracket at `open`, unless it is parted.
fn cut(text: &str, open: usize, breaks: &mut Breaks) {
    if !text
        .get(..open)
        .is_some_and(|before| before.ends_with(BREAK))
    {
        breaks.push(open);
    }
}

/// Whether what begins at `to` is no code in the brackets of a link that begins before it, at `from`.
fn is_text(text: &str, from: usize, to: usize) -> bool {
    from < to
        && to - from < LABEL_MAX
        && text
            .get(from..to)
            .is_some_and(|between| between.matches('`').count() % 2 == 0)
}

/// What stands before the first `]` that no backslash makes a plain one; all of it if there is none.
fn until_bracket(text: &str) -> Option<&str> {
    let end = text
        .match_indices(']')
        .find(|(at, _)| !is_literal(text.as_bytes(), *at))
        .map_or(text.len(), |(at, _)| at);
    text.get(..end)
}

/// Whether a backslash makes the character at `at` a plain one.
fn is_literal(bytes: &[u8], at: usize) -> bool {
    let slashes = bytes
        .get(..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .take(64)
        .take_while(|byte| **byte == b'\\')
        .count();
    slashes % 2 == 1
}
