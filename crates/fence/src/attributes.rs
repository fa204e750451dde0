//! The attributes of a tag, read as a browser reads them.

use crate::{scan::BREAK, shown};

const BREAK_BYTES: [u8; 2] = {
    let mut bytes = [0; 2];
    BREAK.encode_utf8(&mut bytes);
    bytes
};

/// How far a tag is read, but for its quoted values.
const TAG_MAX: usize = 1_500;
/// How much of quoted values is read in one tag.
const QUOTED_MAX: usize = 65_536;

/// How many `<` are read as parts of names in one tag. More of them, and it is not read to its end.
const OPENED_MAX: u32 = 4;

/// An attribute of a tag, by its places in the text.
pub(crate) struct Attribute {
    pub(crate) name_start: usize,
    pub(crate) name_end: usize,
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
}

/// Reads attributes as a browser does, until the tag ends.
pub(crate) struct Attributes<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    /// How much longer the tag may get by quoted values.
    room: usize,
    /// How many `<` were read in names.
    opened: u32,
}

impl<'a> Attributes<'a> {
    /// The attributes from `at` on. Of `breaks` it is known that they stand there: they do not count, so that
    /// a tag is read as far with breaks as without.
    pub(crate) fn new(text: &'a str, at: usize, breaks: usize) -> Self {
        let more = breaks * BREAK.len_utf8();
        Self {
            bytes: text.as_bytes(),
            at,
            end: at + TAG_MAX + more,
            room: QUOTED_MAX + more,
            opened: 0,
        }
    }

    /// How many breaks stand from `at` to where it was read.
    pub(crate) fn breaks_from(&self, at: usize) -> usize {
        let read = self.bytes.get(at..).unwrap_or_default();
        read.windows(2)
            .take(self.end.saturating_sub(at))
            .filter(|pair| BREAK_BYTES == **pair)
            .count()
    }

    /// Whether the tag was too long to be read to its end.
    pub(crate) fn is_unread(&self) -> bool {
        self.at >= self.end && self.bytes.len() > self.end
    }

    /// Whether the tag was not read to its end because it looks like none: there are too many `<` in it.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.opened > OPENED_MAX
    }

    fn byte(&self, at: usize) -> Option<u8> {
        (at < self.end)
            .then(|| self.bytes.get(at).copied())
            .flatten()
    }

    /// Where the value ends that `quote` began before `at`. Pictures stand in tags, so it may be long.
    fn quoted_end(&mut self, at: usize, quote: u8) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let rest = rest.get(..rest.len().min(self.room)).unwrap_or_default();
        let Some(len) = rest.iter().position(|byte| *byte == quote) else {
            self.end = self.end.min(at + rest.len());
            return at + rest.len();
        };
        self.room -= len;
        self.end += len;
        at + len
    }

    /// Where a value without quotation marks ends. A `<` in it is a part of it.
    fn bare_end(&self, mut at: usize) -> usize {
        while let Some(byte) = self.byte(at)
            && byte != b'>'
            && blank(self.bytes, at) == 0
        {
            at += 1;
        }
        at
    }

    /// Passes over what parts attributes, and over `also`.
    fn pass_parting(&self, mut at: usize, also: impl Fn(u8) -> bool) -> usize {
        while let Some(byte) = self.byte(at) {
            match parting(self.bytes, at) {
                0 if also(byte) => at += 1,
                0 => break,
                len => at += len,
            }
        }
        at
    }
}

/// How many bytes a blank at `at` has; a form feed and a carriage return were written out.
fn blank(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..) {
        Some([byte, ..]) if byte.is_ascii_whitespace() => 1,
        Some([b'\\', b'u', b'{', b'0', b'0', b'0', b'C' | b'D', b'}', ..]) => 8,
        _ => 0,
    }
}

/// Where the breaks end that begin at `at`.
pub(crate) fn skip_breaks(bytes: &[u8], mut at: usize) -> usize {
    while bytes
        .get(at..)
        .is_some_and(|rest| rest.starts_with(&BREAK_BYTES))
    {
        at += BREAK_BYTES.len();
    }
    at
}

/// How many bytes part two attributes at `at`: a blank, a slash, a control character that was written out.
pub(crate) fn parting(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..) {
        Some([b'/', ..]) => 1,
        Some(rest @ [b'\\', b'u', b'{', b'0', b'0', b'0' | b'1' | b'7', ..]) => {
            shown::written(rest)
        }
        _ => blank(bytes, at),
    }
}

impl Iterator for Attributes<'_> {
    type Item = Attribute;

    fn next(&mut self) -> Option<Attribute> {
        loop {
            let name_start = self.pass_parting(self.at, |byte| matches!(byte, b'"' | b'\''));
            let Some(first) = self.byte(name_start) else {
                self.at = name_start;
                return None;
            };
            if first == b'>' {
                return None;
            }
            // A browser takes whatever stands first for a part of the name, and a `<` anywhere in it.
            let mut name_end = name_start;
            while self
                .byte(name_end)
                .is_some_and(|byte| byte != b'>' && (byte != b'=' || name_end == name_start))
                && parting(self.bytes, name_end) == 0
            {
                self.opened += u32::from(self.byte(name_end) == Some(b'<'));
                name_end += 1;
            }
            if self.opened > OPENED_MAX {
                self.at = name_start;
                return None;
            }
            let equals = self.pass_parting(name_end, |_| false);
            if self.byte(equals) != Some(b'=') {
                self.at = equals.max(name_start + 1);
                continue;
            }
            let mut value = equals + 1;
            while value < self.end {
                match blank(self.bytes, value) {
                    0 => break,
                    len => value += len,
                }
            }
            let (value_start, value_end) = match self.byte(value) {
                Some(quote @ (b'"' | b'\'')) => (value + 1, self.quoted_end(value + 1, quote)),
                _ => (value, self.bare_end(value)),
            };
            self.at = value_end.max(equals + 1);
            return Some(Attribute {
                name_start,
                name_end,
                value_start,
                value_end,
            });
        }
    }
}
