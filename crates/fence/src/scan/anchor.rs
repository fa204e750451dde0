//! The characters with which a pattern can begin, and the bytes by which they are found.

/// How a text is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// From anchor to anchor.
    Anchors,
    /// From character to character: slower, and of the same result.
    #[cfg(test)]
    Everywhere,
}

/// The second byte of U+061C, whose first byte begins half of all Arabic letters.
pub(super) const ALM_TAIL: u8 = 0x9c;
/// The first byte of U+061C.
pub(super) const ALM_LEAD: u8 = 0xd8;

/// Bytes at which a pattern or a hidden character may begin.
static ANCHORS: [bool; 256] = anchors();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the index is below 256, and this runs when it is compiled"
)]
const fn anchors() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(
            byte as u8,
            // Controls but line feed and tab, which are taken out below.
            0..=0x1f | 0x7f
            | b'<' | b'[' | b']' | b'{' | b'#' | b'=' | b'-' | b'*' | b'_' | b'~' | b'+' | b':'
            // Escapes.
            | b'&' | b'%' | b'\\'
            // First bytes of characters that are hidden or look like one of these.
            | 0xc2 | 0xcb | 0xcd | 0xe1 | 0xe2 | 0xe3 | 0xea | 0xef | 0xf0..=0xf4 | ALM_TAIL
        ) && !matches!(byte as u8, b'\n' | b'\t');
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
#[inline]
fn is_anchor(byte: u8) -> bool {
    ANCHORS[usize::from(byte)]
}

/// Bytes that are looked through at once.
const BLOCK: usize = 32;

/// Calls `look` at every anchor of `bytes`.
pub(super) fn each(bytes: &[u8], mut look: impl FnMut(usize)) {
    // Where anchors were, more will be: then asking first whether there is any costs more than it spares.
    let mut dense = false;
    for (n, block) in bytes.chunks(BLOCK).enumerate() {
        if !dense && !block.iter().fold(false, |any, byte| any | is_anchor(*byte)) {
            continue;
        }
        let mut mask = 0_u32;
        for (at, byte) in block.iter().enumerate() {
            mask |= u32::from(is_anchor(*byte)) << at;
        }
        dense = mask.count_ones() > 1;
        while mask != 0 {
            let at = mask.trailing_zeros();
            mask &= mask - 1;
            look(n * BLOCK + at as usize);
        }
    }
}

/// Whether a pattern can begin with `c`, which is not ASCII.
pub(super) const fn may_begin(c: char) -> bool {
    matches!(c,
        '\u{ab}' | '\u{2c2}' | '\u{2d0}' | '\u{1438}' | '\u{16b2}' | '\u{2010}'..='\u{2015}' | '\u{2039}'
        | '\u{203f}' | '\u{2043}' | '\u{2045}' | '\u{2046}' | '\u{205a}' | '\u{207a}' | '\u{207b}' | '\u{207c}'
        | '\u{208a}'..='\u{208c}' | '\u{2212}' | '\u{2236}' | '\u{2260}' | '\u{2261}' | '\u{2262}' | '\u{226e}' | '\u{2329}' | '\u{23af}'
        | '\u{2500}' | '\u{2501}' | '\u{2504}' | '\u{2505}' | '\u{254c}' | '\u{254d}' | '\u{2550}' | '\u{2581}'
        | '\u{276c}' | '\u{276e}' | '\u{2770}' | '\u{2772}' | '\u{2773}' | '\u{2796}' | '\u{27e6}'..='\u{27e8}'
        | '\u{27ea}' | '\u{29fc}' | '\u{2a74}'..='\u{2a76}' | '\u{2e3a}' | '\u{2e3b}' | '\u{2e40}'
        | '\u{3008}' | '\u{300a}' | '\u{3010}' | '\u{3011}' | '\u{3013}'..='\u{301c}' | '\u{3030}'
        | '\u{30a0}' | '\u{30fc}' | '\u{a4ff}' | '\u{a789}' | '\u{fb29}' | '\u{fe13}'
        | '\u{fe30}'..='\u{fe6b}' | '\u{ff01}'..='\u{ff70}' | '\u{1d236}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fold, hidden};

    #[test]
    fn every_character_that_can_begin_something_is_seen() {
        for c in ('\0'..=char::MAX).filter(|c| !c.is_ascii_alphanumeric()) {
            let mut pieces = ['\0'; 4];
            let count = fold::fold(c, &mut pieces);
            let begins = count > 0
                && matches!(
                    pieces[count - 1],
                    '<' | '['
                        | ']'
                        | '{'
                        | '#'
                        | '='
                        | '-'
                        | '\u{2014}'
                        | '*'
                        | '_'
                        | '~'
                        | '+'
                        | ':'
                );
            let mut bytes = [0; 4];
            let lead = c.encode_utf8(&mut bytes).as_bytes()[0];
            let anchored = is_anchor(lead) || c == '\u{61c}';
            assert!(
                anchored || !(begins || hidden::is_hidden(c)),
                "U+{:04X} is not anchored",
                u32::from(c)
            );
            assert!(
                c.is_ascii() || may_begin(c) || !begins,
                "U+{:04X} folds to {:?}",
                u32::from(c),
                &pieces[..count]
            );
        }
        assert_eq!("\u{61c}".as_bytes(), [ALM_LEAD, ALM_TAIL]);
    }
}
