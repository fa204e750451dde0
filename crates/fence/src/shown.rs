//! The text as it will be shown: what is hidden is written out, before anything is looked for in it.
//!
//! So whatever is found is found in the very text that comes out. A mark that was written out
//! (`\u{200B}`) counts for nothing where words are compared, as the hidden character itself would.

use std::borrow::Cow;

use crate::hidden::{self, Fate};

/// Bytes that are looked through at once.
const BLOCK: usize = 32;

/// Whether `byte` is one of ASCII that shows. Without branches, so that many are looked at in one step.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "branches would keep the compiler from looking at many bytes at once"
)]
#[inline]
const fn shows(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') < 0x5f) | (byte == b'\n') | (byte == b'\t')
}

/// Whether a hidden character may begin with `byte`; of U+061C it is the last one, since half of all
/// Arabic letters begin as it does.
#[expect(clippy::needless_bitwise_bool, reason = "as above")]
#[inline]
const fn may_hide(byte: u8) -> bool {
    ((byte < 0x20) & !shows(byte))
        | (byte == 0x7f)
        | (byte == 0x9c)
        | (byte == 0xc2)
        | (byte == 0xcd)
        | ((byte >= 0xe1) & (byte <= 0xe3))
        | ((byte >= 0xef) & (byte <= 0xf4))
}

/// The text with what is hidden written out, but for what does ordinary work where it stands.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let mut writer = Writer {
        text,
        out: String::new(),
        done: 0,
    };
    let (blocks, tail) = text.as_bytes().as_chunks::<BLOCK>();
    for (n, block) in blocks.iter().enumerate() {
        if block.iter().fold(true, |all, byte| all & shows(*byte)) {
            continue;
        }
        let flags = block.map(|byte| u8::from(may_hide(byte)));
        if flags.iter().fold(0, |any, flag| any | flag) != 0 {
            writer.block(n * BLOCK, &flags);
        }
    }
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(tail) {
        *flag = u8::from(may_hide(*byte));
    }
    writer.block(blocks.len() * BLOCK, &flags);
    writer.finish()
}

/// Copies a text, as late as it can.
struct Writer<'a> {
    text: &'a str,
    out: String,
    done: usize,
}

impl<'a> Writer<'a> {
    /// Looks at the places of a block that are flagged.
    fn block(&mut self, start: usize, flags: &[u8; BLOCK]) {
        for (n, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
            let mut left = u64::from_le_bytes(*eight);
            while left != 0 {
                self.look(start + n * 8 + (left.trailing_zeros() / 8) as usize);
                left &= left - 1;
            }
        }
    }

    fn look(&mut self, at: usize) {
        let bytes = self.text.as_bytes();
        let at = match bytes.get(at..) {
            // Zero-width spaces, marks and overrides of direction, which never do work.
            Some([0xe2, 0x80, third @ (0x8b | 0x8e | 0x8f | 0xa8..=0xae), ..]) => {
                if let Some(c) = char::from_u32(0x2000 | u32::from(third & 0x3f)) {
                    self.copy(at, c);
                    write_escape(c, &mut self.out);
                }
                return;
            }
            // Most of what begins like hidden characters shows.
            Some([0xe2, second, ..]) if !matches!(second, 0x80 | 0x81 | 0xa0) => return,
            Some([0xe3, second, ..]) if *second != 0x85 => return,
            Some([0xef, 0xbc, ..]) => return,
            Some([0x9c, ..]) => match at.checked_sub(1) {
                Some(before) if bytes.get(before) == Some(&0xd8) => before,
                _ => return,
            },
            _ => at,
        };
        let Some((before, rest)) = self.text.split_at_checked(at) else {
            return;
        };
        let mut after = rest.chars();
        let Some(c) = after.next().filter(|c| hidden::is_hidden(*c)) else {
            return;
        };
        match hidden::fate(before, c, after.as_str()) {
            Fate::Stays => {}
            Fate::Escaped => {
                self.copy(at, c);
                write_escape(c, &mut self.out);
            }
            Fate::Dropped => self.copy(at, c),
        }
    }

    /// Copies what stands before the `c` at `at`, and passes over it.
    fn copy(&mut self, at: usize, c: char) {
        if self.out.capacity() == 0 {
            // An eighth for what is written out.
            self.out.reserve(self.text.len() + self.text.len() / 8 + 64);
        }
        self.out
            .push_str(self.text.get(self.done..at).unwrap_or_default());
        self.done = at + c.len_utf8();
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.done == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out
            .push_str(self.text.get(self.done..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}

/// `c` as `\u{200B}`: at least four digits.
pub(crate) fn write_escape(c: char, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let code = u32::from(c);
    let digit = |place: u32| {
        let nibble = (code >> (4 * place)) & 0xf;
        HEX.get(nibble as usize).copied().unwrap_or(b'0')
    };
    let last = [digit(3), digit(2), digit(1), digit(0), b'}'];
    out.push_str("\\u{");
    if code > 0xf_ffff {
        out.push(char::from(digit(5)));
    }
    if code > 0xffff {
        out.push(char::from(digit(4)));
    }
    out.push_str(str::from_utf8(&last).unwrap_or_default());
}

/// The bytes of the hidden character that is written out at the start of `bytes`, or 0.
pub(crate) fn written(bytes: &[u8]) -> usize {
    let Some(digits) = bytes.strip_prefix(b"\\u{") else {
        return 0;
    };
    let mut code = 0_u32;
    let mut len = 0;
    for byte in digits.iter().take(7) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        code = (code << 4) | u32::from(digit);
        len += 1;
    }
    let hides = digits.get(len) == Some(&b'}')
        && (4..=6).contains(&len)
        && char::from_u32(code).is_some_and(hidden::is_hidden);
    if hides { len + 4 } else { 0 }
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
