//! Pictures and links of Markdown that would load something from elsewhere, or run a program.

use std::collections::HashSet;

use crate::{
    fold::Cursor,
    scan::{BREAK, Breaks},
    target::{Target, target},
};

/// The longest label of a reference (the specification has 999 characters).
const LABEL_MAX: usize = 1_000;
/// Brackets that are open at once.
const NESTED_MAX: usize = 16;

/// The open brackets of Markdown, to find pictures that load from elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// Where each bracket stands, and whether it opens a picture.
    open: [(usize, bool); NESTED_MAX],
    depth: usize,
    /// Pictures whose address is defined elsewhere: their breaks and labels.
    referring: Vec<(usize, String)>,
    /// Labels of addresses that lead elsewhere.
    defined: HashSet<String>,
}

/// A label as it is compared: in small letters, with single blanks, and without breaks.
fn label(text: &str) -> String {
    text.replace(BREAK, "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

impl Brackets {
    /// A `[` at `at`.
    pub(crate) fn open(&mut self, text: &str, at: usize) {
        if is_literal(text.as_bytes(), at) {
            return;
        }
        let picture = at
            .checked_sub(1)
            .and_then(|before| text.as_bytes().get(before))
            == Some(&b'!');
        if self.depth == NESTED_MAX {
            self.open.rotate_left(1);
            self.depth -= 1;
        }
        if let Some(slot) = self.open.get_mut(self.depth) {
            *slot = (at, picture);
            self.depth += 1;
        }
    }

    /// A `]` at `at`.
    pub(crate) fn close(&mut self, text: &str, at: usize, breaks: &mut Breaks) {
        let bytes = text.as_bytes();
        if is_literal(bytes, at) {
            return;
        }
        let next = bytes.get(at + 1);
        let opened = self.depth.checked_sub(1).and_then(|depth| {
            self.depth = depth;
            self.open.get(depth).copied()
        });
        let named = |open: usize| text.get(open + 1..at).unwrap_or_default();
        match (next, opened) {
            (Some(b'('), opened) => match (target(Cursor::new(text, at + 2)), opened) {
                (Target::Near, _) | (Target::Far, Some((_, false)) | None) => {}
                (Target::Far, Some((open, true))) => breaks.push(open),
                (Target::Program(colon), opened) => {
                    breaks.push(colon);
                    let picture = opened.filter(|(_, picture)| *picture);
                    breaks.extend(picture.map(|(open, _)| open));
                }
            },
            (Some(b':'), Some((open, false)))
                if target(Cursor::new(text, at + 2)) != Target::Near && at - open < LABEL_MAX =>
            {
                self.defined.insert(label(named(open)));
            }
            // `![alt][label]`, `![label][]` and `![label]`.
            (_, Some((open, true))) if at - open < LABEL_MAX => {
                let other = text
                    .get(at + 1..)
                    .and_then(|rest| rest.strip_prefix('['))
                    .and_then(|rest| rest.split(']').next())
                    .filter(|other| !other.is_empty() && other.len() < LABEL_MAX);
                self.referring
                    .push((open, label(other.unwrap_or_else(|| named(open)))));
            }
            _ => {}
        }
    }

    /// The breaks of pictures that refer to an address that leads elsewhere.
    pub(crate) fn pictures(&self) -> impl Iterator<Item = usize> {
        self.referring
            .iter()
            .filter(|(_, label)| self.defined.contains(label))
            .map(|(at, _)| *at)
    }
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
