//! Finding what looks like a marker, a speaker token or active content, and breaking it so that it shows.
//!
//! First what is hidden is written out ([`crate::shown`]). The search runs over a folded copy of what
//! comes of it ([`crate::fold`]), and that is what is broken. Every pattern begins with one of a few
//! characters, its anchor. [`Walk::Anchors`] looks at these places only and is what runs;
//! [`Walk::Everywhere`] looks at every character and is what tests compare it with.

mod anchor;
mod finder;

use crate::{
    hidden::{self, Fate},
    shown,
};
pub(crate) use anchor::Walk;
use finder::Finder;
pub(crate) use finder::glyph_end;

/// What is put into a span to break it.
pub const BREAK: char = '·';

/// Where breaks go in, by byte offset.
pub(crate) type Breaks = Vec<usize>;

/// Breaks marker and token look-alikes in `text` and writes hidden characters out, for text that goes
/// to a model without a block of its own, such as a person's reason.
pub fn defuse(text: &str) -> String {
    harmless(text, None, Walk::Anchors)
}

/// The same, with the nonce of the block that the text will stand in.
pub(crate) fn harmless(text: &str, nonce: Option<&str>, walk: Walk) -> String {
    let text = shown::shown(text);
    let breaks = Finder::new(&text, nonce).breaks(walk);
    if breaks.is_empty() {
        text.into_owned()
    } else {
        broken(&text, &breaks)
    }
}

/// The text with breaks at these places, which ascend.
fn broken(text: &str, breaks: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + breaks.len() * BREAK.len_utf8());
    let bytes = text.as_bytes();
    let mut done = 0;
    for at in breaks.iter().copied() {
        out.push_str(text.get(done..at).unwrap_or_default());
        done = done.max(at);
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if before.is_some_and(u8::is_ascii) && bytes.get(at).is_none_or(u8::is_ascii) {
            out.push(BREAK);
        } else {
            done = part(text, done, &mut out);
        }
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// Puts a break between what stands at the end of `out` and at `at`, and says where the text goes on.
/// A joiner or a selector that it parts from its letter does no work any more, and is written out.
#[cold]
fn part(text: &str, mut at: usize, out: &mut String) -> usize {
    const PARTED: &str = "·";
    let mut back = out.chars();
    if let Some(c) = back.next_back().filter(|c| hidden::is_hidden(*c))
        && hidden::fate(back.as_str(), c, PARTED) != Fate::Stays
    {
        out.truncate(out.len() - c.len_utf8());
        shown::write_escape(c, out);
    }
    out.push(BREAK);
    loop {
        let mut after = text.get(at..).unwrap_or_default().chars();
        let Some(c) = after.next().filter(|c| hidden::is_hidden(*c)) else {
            return at;
        };
        if hidden::fate(PARTED, c, after.as_str()) == Fate::Stays {
            return at;
        }
        shown::write_escape(c, out);
        at += c.len_utf8();
    }
}

#[cfg(test)]
mod tests;
