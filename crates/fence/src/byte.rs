//! What kind of byte this is, looked up in a table: the fence asks that of most bytes more than once.

/// It stands for itself: ASCII that shows, and no beginning of an escape.
pub(crate) const PLAIN: u32 = 1;
/// An ASCII letter.
pub(crate) const LETTER: u32 = 1 << 1;
/// An ASCII digit.
pub(crate) const DIGIT: u32 = 1 << 2;
/// A hexadecimal digit in either case.
pub(crate) const HEX: u32 = 1 << 3;
/// A space or a tab.
pub(crate) const BLANK: u32 = 1 << 4;
/// What rules are drawn with.
pub(crate) const ORNAMENT: u32 = 1 << 5;
/// The low line, which words have as well.
pub(crate) const LOW: u32 = 1 << 6;
/// A pattern may begin there.
pub(crate) const ANCHOR: u32 = 1 << 7;
/// A sign that may stand before the words of a marker.
pub(crate) const LEAD: u32 = 1 << 8;
/// A sign that may stand between the words of a marker.
pub(crate) const GAP: u32 = 1 << 9;
/// Nothing begins with it alone, but for what [`MORE`] names.
pub(crate) const SOLO: u32 = 1 << 10;
/// What may begin something after such a sign.
pub(crate) const MORE: u32 = 1 << 11;
/// A hexadecimal digit that is no small letter.
pub(crate) const UPPER: u32 = 1 << 12;
/// A hidden character may begin there, or be about to.
pub(crate) const HIDES: u32 = 1 << 13;
/// Above these bits stands what a hexadecimal digit counts.
const VALUE: u32 = 28;
/// Letters, digits and the low line.
pub(crate) const WORD: u32 = LETTER | DIGIT | LOW;

static KINDS: [u32; 256] = kinds();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the index is below 256, and this runs when it is compiled"
)]
const fn kinds() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = kind(at as u8);
        at += 1;
    }
    table
}

const fn kind(byte: u8) -> u32 {
    let mut kind = 0;
    if matches!(byte, b'\t' | b'\n' | b' '..=b'~') && !matches!(byte, b'&' | b'%' | b'\\') {
        kind |= PLAIN;
    }
    if byte.is_ascii_alphabetic() {
        kind |= LETTER;
    }
    if byte.is_ascii_digit() {
        kind |= DIGIT;
    }
    if byte.is_ascii_hexdigit() {
        kind |= HEX;
    }
    let value = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => 0,
    };
    kind |= (value as u32) << VALUE;
    if byte.is_ascii_hexdigit() && !byte.is_ascii_lowercase() {
        kind |= UPPER;
    }
    if matches!(byte, b' ' | b'\t') {
        kind |= BLANK;
    }
    if matches!(byte, b'-' | b'=' | b'*' | b'#' | b'_' | b'~' | b'+') {
        kind |= ORNAMENT;
    }
    if byte == b'_' {
        kind |= LOW;
    }
    if matches!(byte, b' ' | b'\t' | b'<' | b'[' | b'(' | b'/' | b'"') {
        kind |= LEAD;
    }
    if matches!(byte, b' ' | b'\t' | b'_' | b'-' | b':' | b'.' | b'/') {
        kind |= GAP;
    }
    if matches!(byte, b'-' | b'*' | b'_' | b'~' | b'+' | b'{') {
        kind |= SOLO;
    }
    if kind & PLAIN == 0 || kind & (BLANK | ORNAMENT) > 0 || matches!(byte, b'|' | b'{') {
        kind |= MORE;
    }
    if may_hide(byte) {
        kind |= HIDES;
    }
    let begins = matches!(
        byte,
        b'<' | b'[' | b']' | b'{' | b'#' | b'=' | b'-' | b'*' | b'_' | b'~' | b'+' | b':'
        // Escapes.
        | b'&' | b'%' | b'\\'
        // First bytes of characters that look like one of these.
        | 0xc2 | 0xcb | 0xe1 | 0xe2 | 0xe3 | 0xea | 0xef | 0xf0
    );
    if begins {
        kind |= ANCHOR;
    }
    kind
}

/// Whether `byte` is one of ASCII that shows. Without branches, so that many are looked at in one step.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "branches would keep the compiler from looking at many bytes at once"
)]
#[inline]
pub(crate) const fn shows(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') < 0x5f) | (byte == b'\n') | (byte == b'\t')
}

/// Whether a hidden character may begin with `byte`; of U+061C it is the last one, since half of all
/// Arabic letters begin as it does.
#[expect(clippy::needless_bitwise_bool, reason = "as above")]
#[inline]
pub(crate) const fn may_hide(byte: u8) -> bool {
    ((byte < 0x20) & !shows(byte))
        | (byte == 0x7f)
        | (byte == 0x9c)
        | (byte == 0xc2)
        | (byte == 0xcd)
        | ((byte >= 0xe1) & (byte <= 0xe3))
        | ((byte >= 0xef) & (byte <= 0xf4))
}

/// What kinds of byte this is.
#[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
#[inline]
pub(crate) const fn of(byte: u8) -> u32 {
    KINDS[byte as usize]
}

/// Whether `byte` is of one of these kinds.
#[inline]
pub(crate) const fn is(byte: u8, kinds: u32) -> bool {
    of(byte) & kinds != 0
}

/// What a hexadecimal digit counts; nothing, if `byte` is none.
#[inline]
pub(crate) const fn value(byte: u8) -> u32 {
    of(byte) >> VALUE
}

/// `bytes` without those of one of these kinds at their start.
#[inline]
pub(crate) fn skip(mut bytes: &[u8], kinds: u32) -> &[u8] {
    while let [byte, after @ ..] = bytes
        && is(*byte, kinds)
    {
        bytes = after;
    }
    bytes
}

/// The same, but for what comes after `max` of them.
#[inline]
pub(crate) fn skip_few(mut bytes: &[u8], max: usize, kinds: u32) -> &[u8] {
    for _ in 0..max {
        match bytes {
            [byte, after @ ..] if is(*byte, kinds) => bytes = after,
            _ => break,
        }
    }
    bytes
}

/// The same at their end.
#[inline]
pub(crate) fn skip_back(mut bytes: &[u8], max: usize, kinds: u32) -> &[u8] {
    for _ in 0..max {
        match bytes {
            [before @ .., byte] if is(*byte, kinds) => bytes = before,
            _ => break,
        }
    }
    bytes
}

/// Of how many bytes of one of these kinds `bytes` begin, of at most `max`.
#[inline]
pub(crate) fn run(bytes: &[u8], max: usize, kinds: u32) -> usize {
    bytes.len() - skip_few(bytes, max, kinds).len()
}

/// How many ASCII letters `bytes` begin with, of at most `max`.
#[inline]
pub(crate) fn letters(bytes: &[u8], max: usize) -> usize {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let bytes = bytes.get(..max).unwrap_or(bytes);
    let mut rest = bytes;
    while let Some((eight, after)) = rest.split_first_chunk::<8>() {
        let eight = u64::from_le_bytes(*eight);
        let small = (eight | all(0x20)) & all(0x7f);
        // In each top bit: at least an `a`, past a `z`, beyond ASCII.
        let (low, high) = (small + all(0x80 - b'a'), small + all(0x7f - b'z'));
        let other = !(low & !high & !eight) & all(0x80);
        if other != 0 {
            return bytes.len() - rest.len() + (other.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    bytes.len() - skip(rest, LETTER).len()
}

/// The first bytes of `text`, of which those that are ASCII letters are made small ones.
#[inline]
pub(crate) fn small(text: &[u8]) -> [u8; 16] {
    const SMALL: u128 = u128::from_ne_bytes([0x20; 16]);
    let first = text.first_chunk().copied().unwrap_or_else(|| {
        let mut first = [0; 16];
        for (slot, byte) in first.iter_mut().zip(text) {
            *slot = *byte;
        }
        first
    });
    (u128::from_ne_bytes(first) | SMALL).to_ne_bytes()
}

/// Where the last line feed of `head` stands.
pub(crate) fn last_feed(head: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    const FEEDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    let (first, eights) = head.as_rchunks::<8>();
    for (n, eight) in eights.iter().enumerate().rev() {
        let other = u64::from_le_bytes(*eight) ^ FEEDS;
        // The top bit of every byte that is zero, and no other.
        let feeds = !(((other & LOW) + LOW) | other | LOW);
        if feeds != 0 {
            return Some(first.len() + n * 8 + 7 - (feeds.leading_zeros() / 8) as usize);
        }
    }
    first.iter().rposition(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        for (byte, kinds) in [
            (b'a', PLAIN | LETTER | HEX),
            (b'G', PLAIN | LETTER),
            (b'7', PLAIN | DIGIT | HEX),
            (b'\t', PLAIN | BLANK),
            (b'\n', PLAIN),
            (b'\r', 0),
            (b'\\', ANCHOR),
            (b'_', PLAIN | ORNAMENT | LOW | ANCHOR),
            (b'}', PLAIN),
            (0xc3, 0),
            (0xe2, ANCHOR),
        ] {
            assert_eq!(of(byte) & 0xff, kinds, "{byte:#x}");
        }
    }

    #[test]
    fn runs_end_where_another_kind_begins() {
        let text = b"ab12-- x";
        assert_eq!(skip(text, LETTER), b"12-- x");
        assert_eq!(skip_few(text, 3, WORD), b"2-- x");
        assert_eq!(skip_few(text, 9, WORD), b"-- x");
        assert_eq!(skip(b"xyz", LETTER), b"");
        assert_eq!(skip(b"", LETTER), b"");
        assert_eq!(skip_back(b"ab12", 9, DIGIT), b"ab");
        assert_eq!(skip_back(b"ab12", 3, WORD), b"a");
        assert_eq!(skip_back(b"ab", 9, LETTER), b"");
        assert_eq!(run(text, 9, WORD), 4);
    }

    proptest! {
        #[test]
        fn letters_end_where_something_else_begins(
            bytes in proptest::collection::vec(prop_oneof![9 => b'a'..=b'z', 9 => b'A'..=b'Z', 2 => any::<u8>()], 0..40),
            max in 0..48_usize,
        ) {
            prop_assert_eq!(letters(&bytes, max), run(&bytes, max, LETTER));
        }

        #[test]
        fn the_last_feed_is_found(head in proptest::collection::vec(prop_oneof![
            6 => any::<u8>(), 2 => Just(b'\n'), 1 => Just(0x8a_u8), 1 => Just(0x0b_u8)], 0..40)) {
            prop_assert_eq!(last_feed(&head), head.iter().rposition(|byte| *byte == b'\n'));
        }
    }
}
