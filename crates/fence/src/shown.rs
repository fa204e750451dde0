//! The text as it will be shown: what is hidden is written out, before anything is looked for in it.
//!
//! So whatever is found is found in the very text that comes out. A mark that was written out
//! (`\u{200B}`) counts for nothing where words are compared, as the hidden character itself would.

use std::borrow::Cow;

use crate::{
    byte::{self, HIDES, UPPER, may_hide, shows},
    hidden::{self, Fate},
};

/// Bytes that are looked through at once.
const BLOCK: usize = 32;

/// Of so many bytes that do not show each is looked at by itself.
const FEW: u8 = 8;

/// The text with what is hidden written out, but for what does ordinary work where it stands.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let mut writer = Writer {
        text,
        rest: text,
        out: String::new(),
    };
    let (blocks, tail) = text.as_bytes().as_chunks::<BLOCK>();
    let mut start = 0;
    for block in blocks {
        start += BLOCK;
        if block.iter().fold(true, |all, byte| all & shows(*byte)) {
            continue;
        }
        let other = block.map(|byte| u8::from(!shows(byte)));
        let count = other.iter().fold(0_u8, |sum, flag| sum.wrapping_add(*flag));
        if count > FEW {
            let flags = block.map(|byte| u8::from(may_hide(byte)));
            if flags.iter().fold(0, |any, flag| any | flag) != 0 {
                writer.block(start - BLOCK, &flags);
            }
        } else {
            writer.block(start - BLOCK, &other);
        }
    }
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(tail) {
        *flag = u8::from(may_hide(*byte));
    }
    writer.block(start, &flags);
    writer.finish()
}

/// Copies a text, as late as it can.
struct Writer<'a> {
    text: &'a str,
    /// What is not copied yet.
    rest: &'a str,
    out: String,
}

impl<'a> Writer<'a> {
    /// Looks at the places of a block that are flagged.
    fn block(&mut self, mut start: usize, flags: &[u8; BLOCK]) {
        for eight in flags.as_chunks::<8>().0 {
            let mut left = u64::from_le_bytes(*eight);
            while left != 0 {
                let at = start + (left.trailing_zeros() / 8) as usize;
                if self
                    .text
                    .as_bytes()
                    .get(at)
                    .is_some_and(|byte| byte::is(*byte, HIDES))
                {
                    self.look(at);
                }
                left &= left - 1;
            }
            start += 8;
        }
    }

    fn look(&mut self, at: usize) {
        let Some((at, c, fate)) = self.hidden(at) else {
            return;
        };
        self.copy(at, c);
        if fate == Fate::Escaped {
            write_escape(c, &mut self.out);
        }
    }

    /// The hidden character at `at`, where it begins, and what becomes of it, unless it stays.
    #[inline]
    fn hidden(&self, at: usize) -> Option<(usize, char, Fate)> {
        let bytes = self.text.as_bytes();
        let at = match bytes.get(at..) {
            // Zero-width spaces, marks and overrides of direction, which never do work.
            Some([0xe2, 0x80, third @ (0x8b | 0x8e | 0x8f | 0xa8..=0xae), ..]) => {
                let c = char::from_u32(0x2000 | u32::from(third & 0x3f))?;
                return Some((at, c, Fate::Escaped));
            }
            // Most of what begins like hidden characters shows.
            Some([0xe2, second, ..]) if !matches!(second, 0x80 | 0x81 | 0xa0) => return None,
            Some([0xe3, second, ..]) if *second != 0x85 => return None,
            Some([0xef, 0xbc, ..]) => return None,
            Some([0x9c, ..]) => at
                .checked_sub(1)
                .filter(|before| bytes.get(*before) == Some(&0xd8))?,
            _ => at,
        };
        self.judged(at)
    }

    /// The same of any character.
    fn judged(&self, at: usize) -> Option<(usize, char, Fate)> {
        let (before, rest) = self.text.split_at_checked(at)?;
        let mut after = rest.chars();
        let c = after.next().filter(|c| hidden::is_hidden(*c))?;
        let fate = hidden::fate(before, c, after.as_str());
        (fate != Fate::Stays).then_some((at, c, fate))
    }

    /// Copies what stands before the `c` at `at`, and passes over it.
    #[inline]
    fn copy(&mut self, at: usize, c: char) {
        if self.out.capacity() == 0 {
            // An eighth for what is written out.
            self.out.reserve(self.text.len() + self.text.len() / 8 + 64);
        }
        let done = self.text.len() - self.rest.len();
        if let Some((before, rest)) = at
            .checked_sub(done)
            .and_then(|len| self.rest.split_at_checked(len))
        {
            self.out.push_str(before);
            self.rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.rest.len() == self.text.len() {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(self.rest);
        Cow::Owned(self.out)
    }
}

/// The first of the punctuation among which most of what is hidden stands: spaces, marks and joiners.
const GENERAL: u32 = 0x2000;
/// How many of it there are.
const GENERALS: usize = 0x70;
/// The bytes of an escape of four digits.
const ESCAPE: usize = 8;

/// The escapes of all of it, one after the other.
static ESCAPES: &str = match str::from_utf8(&ESCAPE_BYTES) {
    Ok(escapes) => escapes,
    Err(_) => "",
};

static ESCAPE_BYTES: [u8; ESCAPE * GENERALS] = escapes();

#[expect(
    clippy::indexing_slicing,
    reason = "the indices are below the length and 16, and this runs when it is compiled"
)]
const fn escapes() -> [u8; ESCAPE * GENERALS] {
    let mut escapes = [0; ESCAPE * GENERALS];
    let mut at = 0;
    while at < escapes.len() {
        let low = at / ESCAPE;
        let escape = [
            b'\\',
            b'u',
            b'{',
            b'2',
            b'0',
            HEX[low >> 4],
            HEX[low & 0xf],
            b'}',
        ];
        escapes[at] = escape[at % ESCAPE];
        at += 1;
    }
    escapes
}

const HEX: [u8; 16] = *b"0123456789ABCDEF";

/// `c` as `\u{200B}`: at least four digits.
#[inline]
pub(crate) fn write_escape(c: char, out: &mut String) {
    let general = u32::from(c).checked_sub(GENERAL).and_then(|n| {
        let at = ESCAPE * n as usize;
        ESCAPES.get(at..at + ESCAPE)
    });
    match general {
        Some(escape) => out.push_str(escape),
        None => write_other(c, out),
    }
}

/// The same of a character from elsewhere.
#[cold]
fn write_other(c: char, out: &mut String) {
    let code = u32::from(c);
    let digit = |place: u32| {
        let nibble = (code >> (4 * place)) & 0xf;
        char::from(HEX.get(nibble as usize).copied().unwrap_or(b'0'))
    };
    out.push_str("\\u{");
    for place in (0..6)
        .rev()
        .filter(|place| *place < 4 || code >> (4 * place) > 0)
    {
        out.push(digit(place));
    }
    out.push('}');
}

/// The bytes of the hidden character that is written out at the start of `bytes`, or 0.
pub(crate) fn written(bytes: &[u8]) -> usize {
    let [b'\\', b'u', b'{', digits @ ..] = bytes else {
        return 0;
    };
    let Some((code, len)) = upper(digits) else {
        return 0;
    };
    if char::from_u32(code).is_some_and(hidden::is_hidden) {
        len + 4
    } else {
        0
    }
}

/// The number of four to six capital hexadecimal digits before a brace, and how many they are.
#[inline]
fn upper(digits: &[u8]) -> Option<(u32, usize)> {
    let [a, b, c, d, rest @ ..] = digits else {
        return None;
    };
    let all = byte::of(*a) & byte::of(*b) & byte::of(*c) & byte::of(*d);
    if all & UPPER == 0 {
        return None;
    }
    let mut code = [a, b, c, d]
        .iter()
        .fold(0, |code, digit| (code << 4) | byte::value(**digit));
    for (more, byte) in rest.iter().take(3).enumerate() {
        if *byte == b'}' {
            return Some((code, 4 + more));
        }
        if !byte::is(*byte, UPPER) {
            return None;
        }
        code = (code << 4) | byte::value(*byte);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hidden_character_is_seen_and_read_back() {
        for c in ('\0'..=char::MAX).filter(|c| hidden::is_hidden(*c)) {
            let text = format!("{}x{c}y", "a".repeat(u32::from(c) as usize % 40));
            let mut out = String::new();
            write_escape(c, &mut out);
            assert_eq!(written(out.as_bytes()), out.len(), "{out}");
            assert_eq!(shown(&text), text.replace(c, &out), "{out}");
        }
    }

    #[test]
    fn what_shows_is_not_copied() {
        for text in [
            "",
            "plain",
            "用户手册：第一章（系统）",
            "می\u{200c}خواهم",
            "👩\u{200d}💻",
        ] {
            assert!(matches!(shown(text), Cow::Borrowed(_)), "{text}");
        }
        for no in [
            "\\u{0041}",
            "\\u{200b}",
            "\\u{00200B}",
            "\\u{200B",
            "u{200B}",
            "",
        ] {
            assert!(written(no.as_bytes()) == 0 || no == "\\u{00200B}", "{no}");
        }
    }
}
