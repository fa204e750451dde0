//! The copy in which markers are looked for: lower case, look-alikes made plain, nothing hidden, escapes
//! read. It is never written out; it is made a few characters at a time, where something might begin.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_security::confusable_detection::skeleton;

use crate::{
    byte, escape,
    hidden::{is_hidden, joins},
    scan::BREAK,
};

/// One character of the folded copy, and which bytes of the text it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glyph {
    /// The folded character.
    pub(crate) plain: char,
    /// Where the original starts.
    pub(crate) start: usize,
    /// Where the original ends.
    pub(crate) end: usize,
}

/// The longest escape that is read backwards, in bytes.
const SPELLING_MAX: usize = 40;

/// What one character folds to: at most so many.
const PIECES: usize = 4;

/// Reads a text folded, forwards from a place.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// What is left of a character that folds to several (`ﬆ`), the next one last.
    pending: [char; PIECES],
    left: usize,
    start: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) const fn new(text: &'a str, at: usize) -> Self {
        Self {
            text,
            at,
            pending: ['\0'; PIECES],
            left: 0,
            start: at,
        }
    }

    /// The next character where it is a plain one.
    #[inline]
    fn plain(&self) -> Option<Glyph> {
        let byte = *self.text.as_bytes().get(self.at)?;
        (self.left == 0 && is_plain(byte)).then(|| Glyph {
            plain: char::from(byte.to_ascii_lowercase()),
            start: self.at,
            end: self.at + 1,
        })
    }

    /// The next character without taking it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Glyph> {
        self.plain().or_else(|| self.clone().fold_next())
    }

    /// Takes the next character if it is one of these.
    #[inline]
    pub(crate) fn accept(&mut self, wanted: impl Fn(char) -> bool) -> Option<Glyph> {
        if let Some(glyph) = self.plain() {
            if !wanted(glyph.plain) {
                return None;
            }
            self.start = glyph.start;
            self.at = glyph.end;
            return Some(glyph);
        }
        let mut ahead = self.clone();
        let glyph = ahead.fold_next().filter(|glyph| wanted(glyph.plain))?;
        *self = ahead;
        Some(glyph)
    }

    /// Passes over characters like these, at most `max`, and says how many there were.
    #[inline]
    pub(crate) fn pass(&mut self, max: usize, like: impl Fn(char) -> bool) -> usize {
        let mut count = 0;
        while count < max && self.accept(&like).is_some() {
            count += 1;
        }
        count
    }

    /// Whether no character has been read in part.
    #[inline]
    pub(crate) const fn is_between(&self) -> bool {
        self.left == 0
    }

    /// Passes over `len` plain characters.
    #[inline]
    pub(crate) const fn skip_plain(&mut self, len: usize) {
        self.at += len;
        self.start = self.at;
    }

    /// The text that has not been read.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Where the text goes on that has not been read.
    #[inline]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }
}

impl Iterator for Cursor<'_> {
    type Item = Glyph;

    #[inline]
    fn next(&mut self) -> Option<Glyph> {
        if let Some(glyph) = self.plain() {
            self.start = glyph.start;
            self.at = glyph.end;
            return Some(glyph);
        }
        self.fold_next()
    }
}

impl Cursor<'_> {
    /// The next character where it is more than a plain one.
    fn fold_next(&mut self) -> Option<Glyph> {
        loop {
            if let Some(left) = self.left.checked_sub(1) {
                self.left = left;
                return Some(Glyph {
                    plain: *self.pending.get(left)?,
                    start: self.start,
                    end: self.at,
                });
            }
            let (c, len) = spelled(self.text.get(self.at..)?)?;
            self.start = self.at;
            self.at += len;
            self.left = fold(c, &mut self.pending);
        }
    }
}

/// Whether a byte stands for itself: it is ASCII, shows, and begins no escape.
#[inline]
pub(crate) const fn is_plain(byte: u8) -> bool {
    byte::is(byte, byte::PLAIN)
}

/// The character at the start of `text`, which may be spelled by an escape, and its bytes.
pub(crate) fn spelled(text: &str) -> Option<(char, usize)> {
    let raw = text.chars().next()?;
    let escape = if raw.is_ascii() {
        escape::decode(text)
    } else {
        None
    };
    escape.or(Some((raw, raw.len_utf8())))
}

/// Writes what `c` folds to into `out`, last piece first, and says how many pieces there are.
pub(crate) fn fold(c: char, out: &mut [char; PIECES]) -> usize {
    if is_hidden(c) {
        return 0;
    }
    if c.is_ascii() {
        out[0] = c.to_ascii_lowercase();
        return 1;
    }
    if let Some(plain) = punctuation(c).or_else(|| enclosed(c)) {
        out[0] = plain;
        return 1;
    }
    if is_mark(c) {
        return 0;
    }
    if c == BREAK || joins(c) || is_hangul(c) || stays(c) {
        out[0] = c;
        return 1;
    }
    decomposed(c, out)
}

/// The same, of a character that is no punctuation.
fn decomposed(c: char, out: &mut [char; PIECES]) -> usize {
    let mut pieces = [c; PIECES];
    let mut count = 0;
    let mut mark = false;
    decompose_compatible(c, |piece| {
        if is_hidden(piece) || is_mark(piece) {
            mark = true;
        } else if let Some(slot) = pieces.get_mut(count) {
            *slot = punctuation(piece).unwrap_or_else(|| letter(piece));
            count += 1;
        }
    });
    if count == 0 && !mark {
        pieces[0] = c;
        count = 1;
    }
    for (slot, piece) in out.iter_mut().zip(pieces.iter().take(count).rev()) {
        *slot = *piece;
    }
    count
}

/// What is common in texts, is not taken for anything else, and takes long to find out about.
const fn stays(c: char) -> bool {
    matches!(c, '\u{2018}'..='\u{201f}' | '\u{3001}' | '\u{3002}' | '\u{300c}'..='\u{300f}')
}

/// Korean, whose syllables decompose into strokes that look like anything.
const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{a960}'..='\u{a97c}' | '\u{ac00}'..='\u{d7ff}')
}

/// Marks that are drawn over, under or through the letter before them, of whatever script.
fn is_mark(c: char) -> bool {
    !matches!(c, '\0'..'\u{300}' | '\u{3400}'..='\u{9fff}') && is_combining_mark(c)
}

/// The letter that a sign draws in brackets, on a disc or on a square.
fn enclosed(c: char) -> Option<char> {
    let first = match c {
        '\u{249c}'..='\u{24b5}' => '\u{249c}',
        '\u{1f110}'..='\u{1f129}' => '\u{1f110}',
        '\u{1f150}'..='\u{1f169}' => '\u{1f150}',
        '\u{1f170}'..='\u{1f189}' => '\u{1f170}',
        '\u{1f1e6}'..='\u{1f1ff}' => '\u{1f1e6}',
        _ => return None,
    };
    char::from_u32(u32::from(c) - u32::from(first) + u32::from('a'))
}

/// Upright lines.
const fn is_bar(c: char) -> bool {
    matches!(
        c,
        '\u{a6}'
        | '\u{1c0}'
        | '\u{1c1}'
        | '\u{5c0}'
        | '\u{964}'
        | '\u{2016}'
        | '\u{2223}'
        | '\u{2225}'
        | '\u{205e}'
        | '\u{22ee}'
        | '\u{239c}'
        | '\u{239f}'
        | '\u{23a2}'
        | '\u{23a5}'
        | '\u{23aa}'
        | '\u{23ae}'
        | '\u{23b8}'
        | '\u{23b9}'
        | '\u{23fd}'
        | '\u{23d0}'
        | '\u{2502}'
        | '\u{2503}'
        | '\u{2506}'
        | '\u{2507}'
        | '\u{250a}'
        | '\u{250b}'
        | '\u{254e}'
        | '\u{254f}'
        | '\u{2551}'
        | '\u{258f}'
        | '\u{2595}'
        | '\u{2980}'
        | '\u{2aff}'
        | '\u{3163}'
        | '\u{4e28}'
        | '\u{2758}'..='\u{275a}'
        | '\u{2999}'
        | '\u{2e3d}'
        | '\u{2e3e}'
        | '\u{fe19}'
        | '\u{1d100}'
        | '\u{fe31}'..='\u{fe33}'
        | '\u{ffe4}'
        | '\u{ffe8}'
    )
}

/// What lists and rules are drawn with.
const fn is_ornament(c: char) -> bool {
    matches!(
        c,
        '\u{2022}'
        | '\u{203b}'
        | '\u{2217}'
        | '\u{2580}'
        | '\u{2582}'..='\u{258e}'
        | '\u{2590}'..='\u{2594}'
        | '\u{2596}'..='\u{25b5}'
        | '\u{25c6}'..='\u{25cf}'
        | '\u{25e6}'
        | '\u{2605}'
        | '\u{2606}'
    )
}

/// Punctuation that is taken for that of ASCII.
const fn punctuation(c: char) -> Option<char> {
    Some(match c {
        '\u{ff01}'..='\u{ff5e}' => match char::from_u32(c as u32 - 0xfee0) {
            Some(plain) => plain.to_ascii_lowercase(),
            None => return None,
        },
        _ if is_bar(c) => '|',
        '\u{ab}'
        | '\u{2c2}'
        | '\u{1438}'
        | '\u{16b2}'
        | '\u{2039}'
        | '\u{226a}'
        | '\u{227a}'
        | '\u{22b2}'
        | '\u{22d6}'
        | '\u{22d8}'
        | '\u{2329}'
        | '\u{276c}'
        | '\u{25c0}'..='\u{25c5}'
        | '\u{2991}'
        | '\u{2aa1}'
        | '\u{2b9c}'
        | '\u{276e}'
        | '\u{2770}'
        | '\u{27e8}'
        | '\u{27ea}'
        | '\u{29fc}'
        | '\u{3008}'
        | '\u{300a}'
        | '\u{fe64}'
        | '\u{1d236}' => '<',
        '\u{bb}'
        | '\u{2c3}'
        | '\u{1433}'
        | '\u{203a}'
        | '\u{226b}'
        | '\u{227b}'
        | '\u{22b3}'
        | '\u{22d7}'
        | '\u{22d9}'
        | '\u{232a}'
        | '\u{276d}'
        | '\u{276f}'
        | '\u{25b6}'..='\u{25bb}'
        | '\u{2992}'
        | '\u{2aa2}'
        | '\u{2b9e}'
        | '\u{2771}'
        | '\u{27e9}'
        | '\u{27eb}'
        | '\u{29fd}'
        | '\u{3009}'
        | '\u{300b}'
        | '\u{fe65}'
        | '\u{16f3f}'
        | '\u{1d237}' => '>',
        '\u{2045}' | '\u{2772}' | '\u{27e6}' | '\u{27ec}' | '\u{298b}' | '\u{298d}'
        | '\u{298f}' | '\u{2997}' | '\u{3010}' | '\u{3014}' | '\u{3016}' | '\u{3018}'
        | '\u{301a}' => '[',
        '\u{2046}' | '\u{2773}' | '\u{27e7}' | '\u{27ed}' | '\u{298c}' | '\u{298e}'
        | '\u{2990}' | '\u{2998}' | '\u{3011}' | '\u{3015}' | '\u{3017}' | '\u{3019}'
        | '\u{301b}' => ']',
        '\u{2d7}'
        | '\u{2010}'..='\u{2013}'
        | '\u{2043}'
        | '\u{2212}'
        | '\u{23af}'
        | '\u{2500}'
        | '\u{2501}'
        | '\u{2504}'
        | '\u{2505}'
        | '\u{254c}'
        | '\u{254d}'
        | '\u{2574}'
        | '\u{2576}'
        | '\u{2578}'
        | '\u{257a}'
        | '\u{2796}'
        | '\u{3161}'
        | '\u{fe58}'
        | '\u{fe63}' => '-',
        '\u{2014}' | '\u{2015}' | '\u{2e3a}' | '\u{2e3b}' | '\u{301c}' | '\u{3030}'
        | '\u{30fc}' => '\u{2014}',
        '\u{2550}' | '\u{2e40}' | '\u{30a0}' | '\u{3013}' | '\u{2261}' | '\u{a4ff}' => '=',
        '\u{2581}' | '\u{203f}' => '_',
        '\u{2d0}' | '\u{2f8}' | '\u{2236}' | '\u{a789}' | '\u{fe13}' | '\u{fe30}' | '\u{fe55}'
        | '\u{205a}' => ':',
        _ if is_ornament(c) => '*',
        '\u{2044}' | '\u{2215}' | '\u{2571}' | '\u{29f8}' => '/',
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            ' '
        }
        _ => return None,
    })
}

/// The plain small letter that `c`, which is decomposed already, is taken for.
fn letter(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    match c {
        'ᴀ' => return 'a',
        'в' | 'В' | 'Β' | 'β' | 'ʙ' => return 'b',
        'ᴄ' => return 'c',
        'ᴅ' => return 'd',
        'ε' | 'ᴇ' => return 'e',
        'ꜰ' => return 'f',
        'ɢ' => return 'g',
        'н' | 'Н' | 'Η' | 'ʜ' => return 'h',
        'І' | 'Ι' | 'Ӏ' | 'ɪ' | 'ı' | 'ɩ' | 'ι' | 'Ꮖ' | 'ꓲ' | 'ⵏ' | 'ᛁ' | '𐌠' | '𖼨' =>
        {
            return 'i';
        }
        'ᴊ' => return 'j',
        'к' | 'К' | 'κ' | 'Κ' | 'ĸ' | 'ᴋ' => return 'k',
        'ʟ' => return 'l',
        'м' | 'М' | 'Μ' | 'ᴍ' => return 'm',
        'η' | 'ɴ' => return 'n',
        'ᴏ' => return 'o',
        'ᴘ' => return 'p',
        'ʀ' => return 'r',
        'ѕ' | 'Ѕ' | 'ꜱ' => return 's',
        'т' | 'Т' | 'τ' | 'Τ' | 'ᴛ' => return 't',
        'ᴜ' => return 'u',
        'ν' | 'ᴠ' => return 'v',
        'ᴡ' => return 'w',
        'ʏ' => return 'y',
        'ᴢ' => return 'z',
        _ => {}
    }
    let mut bytes = [0; 4];
    let mut same = skeleton(c.encode_utf8(&mut bytes));
    match (same.next(), same.next(), same.next()) {
        (Some(plain), None, None) if plain.is_ascii_alphanumeric() => plain.to_ascii_lowercase(),
        (Some('r'), Some('n'), None) => 'm',
        _ => c.to_lowercase().next().unwrap_or(c),
    }
}

/// Reads a text backwards from its end, as it stands but for what is hidden.
#[derive(Debug, Clone)]
pub(crate) struct Back<'a>(&'a str);

impl<'a> Back<'a> {
    pub(crate) const fn new(head: &'a str) -> Self {
        Self(head)
    }

    /// What is left to read, as it stands.
    pub(crate) const fn unread(&self) -> &'a str {
        self.0
    }

    /// What is left to read, without the hidden characters at its end.
    pub(crate) fn rest(&mut self) -> &'a str {
        if self
            .0
            .as_bytes()
            .last()
            .is_some_and(|byte| is_plain(*byte) && *byte != b'}')
        {
            return self.0;
        }
        while let Some(shorter) = without_hidden(self.0) {
            self.0 = shorter;
        }
        self.0
    }
}

impl Iterator for Back<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        let c = self.rest().chars().next_back()?;
        let start = self.0.len() - c.len_utf8();
        self.0 = self.0.get(..start)?;
        Some((start, c))
    }
}

/// `head` without the hidden character at its end, which may be one that the fence wrote out.
fn without_hidden(head: &str) -> Option<&str> {
    let last = head.chars().next_back()?;
    if is_hidden(last) {
        return head.get(..head.len() - last.len_utf8());
    }
    if last != '}' {
        return None;
    }
    let near = head.floor_char_boundary(head.len().saturating_sub(12));
    let start = near + head.get(near..)?.rfind("\\u{")?;
    let (c, len) = escape::decode(head.get(start..)?)?;
    (is_hidden(c) && start + len == head.len()).then(|| head.get(..start))?
}

/// The character at the end of `head`, which may be spelled by an escape, and where it starts.
pub(crate) fn spelled_back(head: &str) -> Option<(char, usize)> {
    let last = head.chars().next_back()?;
    let raw = (last, head.len() - last.len_utf8());
    if !(last.is_ascii_alphanumeric() || matches!(last, ';' | '}')) {
        return Some(raw);
    }
    let near = head.floor_char_boundary(head.len().saturating_sub(SPELLING_MAX));
    let leads = head.bytes().enumerate().skip(near);
    leads
        .filter(|(_, byte)| matches!(byte, b'&' | b'%' | b'\\'))
        .find_map(|(start, _)| {
            let (c, len) = escape::decode(head.get(start..)?)?;
            (start + len == head.len()).then_some((c, start))
        })
        .or(Some(raw))
}

/// A run of characters of the copy, short enough to be a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    bytes: [u8; Self::MAX],
    len: usize,
    /// Where its first character ends in the text.
    pub(crate) first_end: usize,
    /// Where it starts and ends in the text.
    pub(crate) start: usize,
    /// Where it ends in the text.
    pub(crate) end: usize,
}

impl Word {
    /// The most bytes of a name.
    const MAX: usize = 48;

    /// Reads the longest run of characters like these. Nothing if there is none, or it is no name: too long.
    pub(crate) fn read(cursor: &mut Cursor<'_>, like: impl Fn(char) -> bool) -> Option<Self> {
        let first = cursor.accept(&like)?;
        let mut word = Self {
            bytes: [0; Self::MAX],
            len: 0,
            first_end: first.end,
            start: first.start,
            end: first.end,
        };
        word.push(first.plain)?;
        loop {
            // Plain letters, of which most names are, without asking for each what it might be.
            while cursor.left == 0
                && let Some(byte) = cursor.text.as_bytes().get(cursor.at)
                && is_plain(*byte)
            {
                let plain = byte.to_ascii_lowercase();
                if !like(char::from(plain)) {
                    return Some(word);
                }
                *word.bytes.get_mut(word.len)? = plain;
                word.len += 1;
                cursor.at += 1;
                word.end = cursor.at;
            }
            let Some(glyph) = cursor.accept(&like) else {
                break;
            };
            word.push(glyph.plain)?;
            word.end = glyph.end;
        }
        Some(word)
    }

    #[inline]
    fn push(&mut self, c: char) -> Option<()> {
        // In a name a long dash joins as a short one does.
        let c = if c == '\u{2014}' { '-' } else { c };
        if c.is_ascii() {
            *self.bytes.get_mut(self.len)? = u8::try_from(c).unwrap_or_default();
            self.len += 1;
            return Some(());
        }
        let room = self.bytes.get_mut(self.len..self.len + c.len_utf8())?;
        c.encode_utf8(room);
        self.len += c.len_utf8();
        Some(())
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        self.bytes
            .get(..self.len)
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

#[inline]
pub(crate) const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

#[inline]
pub(crate) const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

/// Letters, digits and the low line.
#[inline]
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        Cursor::new(text, 0).map(|glyph| glyph.plain).collect()
    }

    #[test]
    fn look_alikes_become_plain() {
        for (text, plain) in [
            ("＜/ＫＡＺＭＡ：data＞", "</kazma:data>"),
            ("</kаzmа:dаtа>", "</kazma:data>"),
            ("𝐊𝑎𝔷𝓂𝕒 ᴋᴀᴢᴍᴀ Ⓚⓐⓩⓜⓐ", "kazma kazma kazma"),
            ("КΑΖМΑ", "kazma"),
            ("k\u{301}a\u{336}zmá", "kazma"),
            ("syﬆem", "system"),
            ("<｜end▁of▁sentence｜>", "<|end_of_sentence|>"),
            ("‹a› 〈b〉 ❮c❯", "<a> <b> <c>"),
            ("[ІNЅТ] [ΙNST]", "[inst] [inst]"),
            ("&lt;|im%5fstart\\u007c&#62;", "<|im_start|>"),
            ("a\u{200b}\u{202e}\rb", "ab"),
        ] {
            assert_eq!(folded(text), plain, "{text}");
        }
    }

    #[test]
    fn what_stays_would_stay() {
        for c in ('\0'..=char::MAX).filter(|c| stays(*c)) {
            let mut pieces = ['\0'; PIECES];
            assert_eq!(decomposed(c, &mut pieces), 1, "{c}");
            assert_eq!(pieces[0], c);
        }
    }

    #[test]
    fn other_scripts_stay_what_they_are() {
        for text in ["مرحبا", "नमस्ते", "用户手册", "한국어"] {
            assert!(
                folded(text).chars().all(|c| !c.is_ascii()),
                "{text} {}",
                folded(text)
            );
        }
    }
}
