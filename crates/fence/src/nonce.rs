//! The nonce of the block in the text that stands in it.
//!
//! It is looked for in either case, with hidden characters between its digits, in full-width digits and
//! in escapes. Whoever wrote the text cannot know it; a model that was shown it could repeat it.

use crate::{
    byte::{self, HEX},
    fold,
    hidden::is_hidden,
    scan::Breaks,
    shown,
};

/// Digits of a nonce.
const DIGITS: usize = 32;

/// Whether `c` is a full-width hexadecimal digit.
pub(crate) const fn is_wide(c: char) -> bool {
    matches!(c, '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff26}' | '\u{ff41}'..='\u{ff46}')
}

/// The hexadecimal digit at `at` in small letters, and where it ends.
fn digit(text: &str, at: usize) -> Option<(u8, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii_hexdigit() {
        return Some((byte.to_ascii_lowercase(), at + 1));
    }
    if byte.is_ascii() && !matches!(byte, b'&' | b'%' | b'\\') {
        return None;
    }
    let (c, len) = fold::spelled(text.get(at..)?)?;
    let c = if is_wide(c) {
        char::from_u32(u32::from(c).checked_sub(0xfee0)?)?
    } else {
        c
    };
    let digit = u8::try_from(c).ok().filter(u8::is_ascii_hexdigit)?;
    Some((digit.to_ascii_lowercase(), at + len))
}

/// Passes over hidden characters at `at`, also those that were written out.
fn skip_hidden(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let len = match rest.chars().next() {
            Some('\\') => shown::written(rest.as_bytes()),
            Some(c) if is_hidden(c) => c.len_utf8(),
            _ => 0,
        };
        if len == 0 {
            return at;
        }
        at += len;
    }
}

/// If the nonce begins at `at`: where its first half ends.
pub(crate) fn at(text: &str, at: usize, nonce: &str) -> Option<usize> {
    let mut place = at;
    let mut middle = None;
    for (n, wanted) in nonce.bytes().enumerate() {
        if n > 0 {
            place = skip_hidden(text, place);
        }
        let (found, end) = digit(text, place)?;
        if found != wanted {
            return None;
        }
        place = end;
        if n + 1 == nonce.len() / 2 {
            middle = Some(end);
        }
    }
    middle
}

/// Breaks every nonce that stands in the text as plain digits.
pub(crate) fn plain(text: &str, nonce: &str, breaks: &mut Breaks) {
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(|byte| byte::is(*byte, HEX));
    let mut done = 0;
    // Of every sixteenth place, a run of 32 digits has two in a row, and what is between them.
    for (n, [.., last]) in bytes.as_chunks::<{ DIGITS / 2 }>().0.iter().enumerate() {
        if !byte::is(*last, HEX) {
            continue;
        }
        let probe = n * (DIGITS / 2) + DIGITS / 2 - 1;
        if probe < done || !is_hex(probe + DIGITS / 4) || !is_hex(probe + DIGITS / 2) {
            continue;
        }
        let mut start = probe;
        while start > done && is_hex(start - 1) {
            start -= 1;
        }
        let mut end = probe + 1;
        while is_hex(end) {
            end += 1;
        }
        for first in start..=end.saturating_sub(DIGITS) {
            let same = bytes
                .get(first..first + DIGITS)
                .is_some_and(|digits| digits.eq_ignore_ascii_case(nonce.as_bytes()));
            if same {
                breaks.push(first + DIGITS / 2);
            }
        }
        done = end;
    }
}

/// Whether a digit can stand at `at`, or stands right before it.
#[inline]
pub(crate) fn may_be_around(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    before.is_some_and(u8::is_ascii_hexdigit)
        || bytes
            .get(at)
            .is_some_and(|byte| matches!(byte, b'&' | b'%' | b'\\' | 0xef))
}

/// Breaks every nonce of which the hidden, full-width or escaped character at `at` is a part.
pub(crate) fn around(text: &str, place: usize, nonce: &str, breaks: &mut Breaks) {
    let bytes = text.as_bytes();
    let mut start = place;
    while let Some(before) = start.checked_sub(1)
        && place - before < DIGITS
        && bytes.get(before).is_some_and(u8::is_ascii_hexdigit)
    {
        start = before;
    }
    // A hidden character is no digit: the nonce begins before it.
    let end = if digit(text, place).is_some() {
        place + 1
    } else {
        place
    };
    for first in start..end {
        breaks.extend(at(text, first, nonce));
    }
}
