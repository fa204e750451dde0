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

/// The same as a text.
const DOT: &str = "·";

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
#[inline(never)]
fn broken(text: &str, breaks: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + breaks.len() * DOT.len());
    let mut rest = text;
    for at in breaks.iter().copied() {
        let done = text.len() - rest.len();
        let (piece, after) = at
            .checked_sub(done)
            .and_then(|len| rest.split_at_checked(len))
            .unwrap_or(("", rest));
        out.push_str(piece);
        rest = after;
        if piece.as_bytes().last().is_some_and(u8::is_ascii)
            && rest.as_bytes().first().is_none_or(u8::is_ascii)
        {
            out.push_str(DOT);
        } else {
            rest = part(rest, &mut out);
        }
    }
    out.push_str(rest);
    out
}

/// Puts a break between what stands at the end of `out` and `text`, and says how the text goes on.
/// A joiner or a selector that it parts from its letter does no work any more, and is written out.
#[cold]
fn part<'a>(mut text: &'a str, out: &mut String) -> &'a str {
    let mut back = out.chars();
    if let Some(c) = back.next_back().filter(|c| hidden::is_hidden(*c))
        && hidden::fate(back.as_str(), c, DOT) != Fate::Stays
    {
        out.truncate(out.len() - c.len_utf8());
        shown::write_escape(c, out);
    }
    out.push(BREAK);
    loop {
        let mut after = text.chars();
        let Some(c) = after.next().filter(|c| hidden::is_hidden(*c)) else {
            return text;
        };
        if hidden::fate(DOT, c, after.as_str()) == Fate::Stays {
            return text;
        }
        shown::write_escape(c, out);
        text = after.as_str();
    }
}

#[cfg(test)]
mod tests;
