//! Finding what looks like a marker, a speaker token or active content, and breaking it so that it shows.
//!
//! The search runs over a folded copy ([`crate::fold`]); what is broken is the original. Every pattern
//! begins with one of a few characters, its anchor. [`Walk::Anchors`] looks at these places only and is
//! what runs; [`Walk::Everywhere`] looks at every character and is what tests compare it with.

mod anchor;
mod finder;

use crate::hidden::Fate;
pub(crate) use anchor::Walk;
use finder::Finder;
pub(crate) use finder::glyph_end;

/// What is put into a span to break it.
pub const BREAK: char = '·';

/// A change at one place of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// A break goes in here.
    Break,
    /// The character here is written as an escape.
    Escape,
    /// The character here goes.
    Drop,
}

/// The changes of a text, by byte offset.
pub(crate) type Changes = Vec<(usize, Change)>;

/// Breaks marker and token look-alikes in `text` and writes hidden characters out, for text that goes
/// to a model without a block of its own, such as a person's reason.
pub fn defuse(text: &str) -> String {
    harmless(text, None, Walk::Anchors)
}

/// The same, with the nonce of the block that the text will stand in.
pub(crate) fn harmless(text: &str, nonce: Option<&str>, walk: Walk) -> String {
    let changes = Finder::new(text, nonce).changes(walk);
    if changes.is_empty() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + changes.len() * 8);
    let mut done = 0;
    for (at, change) in changes {
        out.push_str(text.get(done..at).unwrap_or_default());
        done = done.max(at);
        match change {
            Change::Break => out.push(BREAK),
            Change::Drop => done += 1,
            Change::Escape => {
                let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else {
                    continue;
                };
                done += c.len_utf8();
                write_escape(c, &mut out);
            }
        }
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// `c` as `\u{200B}`: at least four digits.
fn write_escape(c: char, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let code = u32::from(c);
    let mut escape = *b"\\u{000000}";
    let digits = match code {
        0..=0xffff => 4,
        0x1_0000..=0xf_ffff => 5,
        _ => 6,
    };
    for (place, slot) in escape.iter_mut().skip(3).take(digits).rev().enumerate() {
        let nibble = (code >> (4 * place)) & 0xf;
        *slot = HEX.get(nibble as usize).copied().unwrap_or(b'0');
    }
    if let Some(end) = escape.get_mut(3 + digits) {
        *end = b'}';
    }
    let written = escape.get(..4 + digits).unwrap_or_default();
    out.push_str(str::from_utf8(written).unwrap_or_default());
}

impl From<Fate> for Option<Change> {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Stays => None,
            Fate::Escaped => Some(Change::Escape),
            Fate::Dropped => Some(Change::Drop),
        }
    }
}

#[cfg(test)]
mod tests;
