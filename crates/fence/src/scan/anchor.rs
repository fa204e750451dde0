//! The characters with which a pattern can begin, and the bytes by which they are found.

use crate::byte;

/// How a text is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// From anchor to anchor.
    Anchors,
    /// From character to character: slower, and of the same result.
    #[cfg(test)]
    Everywhere,
}

/// Whether a pattern may begin at this byte.
#[inline]
const fn is_anchor(byte: u8) -> bool {
    byte::is(byte, byte::ANCHOR)
}

/// Bytes that are looked through at once.
const BLOCK: usize = 32;

/// A bit for each anchor, by its place among eight bytes.
static BITS: [[u8; 256]; 8] = bits();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the indices are below 8 and 256, and this runs when it is compiled"
)]
const fn bits() -> [[u8; 256]; 8] {
    let mut bits = [[0; 256]; 8];
    let mut place = 0;
    while place < 8 {
        let mut at = 0;
        while at < 256 {
            if is_anchor(at as u8) {
                bits[place][at] = 1 << place;
            }
            at += 1;
        }
        place += 1;
    }
    bits
}

/// Calls `look` at every anchor of `bytes`.
#[inline]
pub(super) fn each(bytes: &[u8], mut look: impl FnMut(usize)) {
    // Where anchors were, more will be: then asking first whether there is any costs more than it spares.
    let mut dense = false;
    let mut start = 0;
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    let mut last = [0; BLOCK];
    for (slot, byte) in last.iter_mut().zip(tail) {
        *slot = *byte;
    }
    for block in blocks.iter().chain([&last]) {
        if dense || block.iter().fold(false, |any, byte| any | is_anchor(*byte)) {
            let mut mask = mask(block);
            dense = mask.count_ones() > 1;
            while mask != 0 {
                look(start + mask.trailing_zeros() as usize);
                mask &= mask - 1;
            }
        }
        start += BLOCK;
    }
}

/// A bit for each anchor of the block.
#[inline]
fn mask(block: &[u8; BLOCK]) -> u32 {
    let (eights, _) = block.as_chunks::<8>();
    let mut bytes = [0; BLOCK / 8];
    for (mask, [a, b, c, d, e, f, g, h]) in bytes.iter_mut().zip(eights) {
        let [ba, bb, bc, bd, be, bf, bg, bh] = &BITS;
        let low = bit(ba, *a) | bit(bb, *b) | bit(bc, *c) | bit(bd, *d);
        let high = bit(be, *e) | bit(bf, *f) | bit(bg, *g) | bit(bh, *h);
        *mask = low | high;
    }
    u32::from_le_bytes(bytes)
}

#[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
#[inline]
const fn bit(bits: &[u8; 256], byte: u8) -> u8 {
    bits[byte as usize]
}

/// Whether a pattern can begin with `c`, which is not ASCII.
pub(super) const fn may_begin(c: char) -> bool {
    matches!(c,
        '\u{ab}' | '\u{2c2}' | '\u{2d0}' | '\u{2d7}' | '\u{2f8}' | '\u{1438}' | '\u{16b2}' | '\u{2010}'..='\u{2015}' | '\u{2039}'
        | '\u{2022}' | '\u{203b}' | '\u{203f}' | '\u{2043}' | '\u{2045}' | '\u{2046}' | '\u{205a}' | '\u{207a}' | '\u{207b}' | '\u{207c}'
        | '\u{208a}'..='\u{208c}' | '\u{2212}' | '\u{2217}' | '\u{2236}' | '\u{2260}' | '\u{2261}' | '\u{2262}' | '\u{226a}' | '\u{226e}' | '\u{227a}' | '\u{2280}' | '\u{22b2}' | '\u{22d6}' | '\u{22d8}' | '\u{22ea}' | '\u{2329}' | '\u{23af}'
        | '\u{2500}' | '\u{2501}' | '\u{2504}' | '\u{2505}' | '\u{254c}' | '\u{254d}' | '\u{2550}' | '\u{2574}'..='\u{25cf}' | '\u{25e6}' | '\u{2605}' | '\u{2606}'
        | '\u{276c}' | '\u{276e}' | '\u{2770}' | '\u{2772}' | '\u{2773}' | '\u{2796}' | '\u{27e6}'..='\u{27e8}'
        | '\u{27ea}' | '\u{27ec}' | '\u{27ed}' | '\u{298b}'..='\u{2998}' | '\u{2aa1}' | '\u{2b9c}' | '\u{29fc}' | '\u{2a74}'..='\u{2a76}' | '\u{2e3a}' | '\u{2e3b}' | '\u{2e40}'
        | '\u{3008}' | '\u{300a}' | '\u{3010}' | '\u{3011}' | '\u{3013}'..='\u{301c}' | '\u{3030}'
        | '\u{30a0}' | '\u{30fc}' | '\u{3161}' | '\u{a4ff}' | '\u{a789}' | '\u{fb29}' | '\u{fe13}'..='\u{fe19}'
        | '\u{fe30}'..='\u{fe6b}' | '\u{ff01}'..='\u{ff70}' | '\u{ffed}' | '\u{ffee}' | '\u{10780}'..='\u{107ba}' | '\u{1d236}' | '\u{1f12a}' | '\u{1f240}'..='\u{1f248}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold;

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
            assert!(
                is_anchor(lead) || !begins,
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
    }
}
