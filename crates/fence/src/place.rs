//! What a name of a template is where it stands: HTML that strikes out, the parameter of a type, a place to fill in.

use crate::{
    fold::{Cursor, Word, is_blank, is_word},
    scan::BREAK,
    token::{is_template_word, is_upper},
};

/// How much is read of the name of a type before its parameter.
const OWNER_MAX: usize = 80;
/// Blanks before the first word.
const GAP_MAX: usize = 8;
/// The longest text that is struck out.
const STRUCK_MAX: usize = 600;
/// How far its other end is looked for: every letter may have a break beside it.
const STRUCK_NEAR: usize = 3 * STRUCK_MAX + 64;

/// Whether the `<s>` at `at`, or the `</s>`, is HTML's, or a type's.
pub(crate) fn strikes(text: &str, at: usize, closes: bool) -> bool {
    is_struck(text, at, closes) || is_cast(text, at, closes)
}

/// Whether the `<s>` at `at`, or the `</s>`, is one of a pair that strikes words out: on both sides of a text that is
/// short, has no empty line and does not begin with who speaks.
fn is_struck(text: &str, at: usize, closes: bool) -> bool {
    let bytes = text.as_bytes();
    let is = |at: usize, tag: &[u8]| {
        bytes
            .get(at..at + tag.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(tag))
    };
    let opens = |at: usize| is(at, b"<s>") || is(at, b"<s ");
    let until = |from: usize| from.saturating_add(STRUCK_NEAR).min(bytes.len());
    // Of either tag two letters say enough to look closer.
    let either =
        |at: usize, next: u8| matches!(next, b's' | b'S' | b'/') && (opens(at) || is(at, b"</s>"));
    let tag = |from: usize, pair: &[u8]| {
        matches!(pair, [b'<', next] if either(from, *next)).then_some(from)
    };
    let (from, to) = if closes {
        let near = at.saturating_sub(STRUCK_NEAR);
        let pairs = bytes.get(near..at).unwrap_or_default().windows(2);
        let mut before = pairs.enumerate().rev();
        let Some(from) = before.find_map(|(place, pair)| tag(near + place, pair)) else {
            return false;
        };
        (from, at)
    } else {
        let pairs = bytes.get(at + 2..until(at)).unwrap_or_default().windows(2);
        let mut after = pairs.enumerate();
        let Some(to) = after.find_map(|(place, pair)| tag(at + 2 + place, pair)) else {
            return false;
        };
        (at, to)
    };
    if !opens(from) || !is(to, b"</s>") {
        return false;
    }
    let Some((_, struck)) = text.get(from..to).and_then(|tag| tag.split_once('>')) else {
        return false;
    };
    let mut first = Cursor::new(struck, 0);
    first.pass(GAP_MAX, is_blank);
    let speaks = Word::read(&mut first, is_word)
        .is_some_and(|word| is_template_word(word.as_bytes()) || word.as_bytes() == b"bot");
    let length = struck.chars().filter(|c| *c != BREAK).map(char::len_utf8);
    !struck.trim().is_empty()
        && !speaks
        && length.sum::<usize>() <= STRUCK_MAX
        && !struck.contains("\n\n")
        && !struck.starts_with('\n')
        && !struck.ends_with('\n')
}

/// `<human>: ` and `<bot>: ` at the start of a line.
pub(crate) fn opens_turn(text: &str, at: usize, raw: &str) -> bool {
    let after = || text.get(at + 1..).and_then(|rest| rest.strip_prefix(raw));
    matches!(raw, "human" | "bot")
        && after().is_some_and(|rest| rest.starts_with(">:"))
        && text
            .get(..at)
            .is_some_and(|head| head.is_empty() || head.ends_with('\n'))
}

/// `static_cast<s>(x)`: what is called with a type.
fn is_cast(text: &str, at: usize, closes: bool) -> bool {
    let bytes = text.as_bytes();
    !closes
        && bytes.get(at + 3) == Some(&b'(')
        && glued(text, at).is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// What stands right before `at`, but for a break, which changes nothing.
fn glued(text: &str, at: usize) -> Option<u8> {
    let head = text.get(..at)?.trim_end_matches(BREAK);
    head.as_bytes().last().copied()
}

/// Whether the name in brackets at `at` is the parameter of a type (`List<Assistant>`, `Box<AI>`), a group of a pattern
/// (`(?P<sep>.)`) or a place in a path or an option to fill in (`builds/<system>`, `--model=<system>`).
pub(crate) fn is_placeholder(text: &str, at: usize, raw: &str) -> bool {
    let plain = text.as_bytes().get(at) == Some(&b'<')
        && raw.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !plain {
        return false;
    }
    let head = text.get(..at).unwrap_or_default().trim_end_matches(BREAK);
    if head.ends_with("(?P") || head.ends_with("(?") {
        return true;
    }
    match head.as_bytes().last() {
        Some(b'/' | b'=' | b'-' | b'_' | b'@') => true,
        Some(byte) if byte.is_ascii_alphanumeric() || *byte == b':' => {
            let near = head.floor_char_boundary(head.len().saturating_sub(OWNER_MAX));
            let head = head.get(near..).unwrap_or_default();
            let start = head
                .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | BREAK)))
                .map_or(0, |before| head.ceil_char_boundary(before + 1));
            let owner = head.get(start..).unwrap_or_default().replace(BREAK, "");
            let is_type = |name: &str| {
                name.starts_with(|c: char| c.is_ascii_uppercase())
                    && (name.len() == 1 || name.contains(|c: char| c.is_ascii_lowercase()))
            };
            // `separated<Sep>(…)`
            let called = text
                .get(at + raw.len() + 2..)
                .is_some_and(|rest| rest.starts_with('('));
            is_type(raw) && (called || is_type(&owner) || owner.ends_with(':'))
                || is_type(&owner) && is_upper(raw)
        }
        _ => false,
    }
}
