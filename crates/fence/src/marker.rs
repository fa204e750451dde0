//! Forged fences: our own marker lines, those of the reference system, and others that say the same.

use crate::{
    fold::{self, Cursor, Word, is_blank},
    scan::{BREAK, Breaks},
};

/// Characters of the longest tag that is looked through.
const TAG_MAX: usize = 300;
/// The longest line that can end in ornaments and be a marker.
const LINE_MAX: usize = 80;
/// Letters of the longest word of a marker, and then some.
const TERM_MAX: usize = 20;
/// Blanks between the words of a marker.
const GAP_MAX: usize = 8;

/// What rules are drawn with. An em dash counts for two.
#[inline]
const fn weight(c: char) -> usize {
    match c {
        '-' | '=' | '*' | '#' | '_' | '~' | '+' => 1,
        '\u{2014}' => 2,
        _ => 0,
    }
}

#[inline]
const fn is_ornament(byte: u8) -> bool {
    byte.is_ascii() && weight(byte as char) > 0
}

/// Looks at a run of ornaments that begins at `at`: `=== KAZMA …`, `--- END OBSERVATION ---`.
pub(crate) fn ornament(text: &str, at: usize, plain: char, raw: bool, breaks: &mut Breaks) {
    if is_inside(text, at) {
        return;
    }
    let width = if raw {
        Some(1)
    } else {
        text.get(at..).and_then(fold::spelled).map(|(_, len)| len)
    };
    let next = width.map_or(at, |width| at + width);
    if weight(plain) < 2 && !goes_on(text.as_bytes(), next) {
        return;
    }
    let (end, total) = run(text, at);
    if total < 2 {
        return;
    }
    if may_be_phrase(text.as_bytes(), end)
        && let Some(phrase) = Phrase::at(text, end).filter(Phrase::is_marker)
    {
        phrase.deface(breaks);
    }
    before_ornament(text, at, breaks);
}

/// Where a run of ornaments and blanks ends, and what it weighs.
fn run(text: &str, at: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let mut place = at;
    let mut total = 0;
    while bytes.get(place).is_some_and(|byte| is_ornament(*byte)) {
        place += 1;
        total += 1;
    }
    if !goes_on(bytes, place) {
        return (place, total);
    }
    let mut cursor = Cursor::new(text, place);
    loop {
        let mut ahead = cursor.clone();
        ahead.pass(GAP_MAX, is_blank);
        let Some(glyph) = ahead.accept(|c| weight(c) > 0) else {
            return (cursor.at(), total);
        };
        total += weight(glyph.plain);
        cursor = ahead;
    }
}

/// Whether the words of a marker can stand here: how the first of them begin.
fn may_be_phrase(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let passed = rest
        .iter()
        .take(GAP_MAX + 1)
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let Some([a, b, c]) = rest.get(passed..).and_then(<[u8]>::first_chunk) else {
        return true;
    };
    if !(a.is_ascii_alphabetic() && b.is_ascii_alphabetic() && c.is_ascii_alphabetic()) {
        return !fold::is_plain(*a)
            || (a.is_ascii_alphabetic() && !(fold::is_plain(*b) && fold::is_plain(*c)))
            || matches!(a, b'<' | b'[' | b'(' | b'/' | b'"');
    }
    matches!(
        &[a | 0x20, b | 0x20, c | 0x20],
        b"kaz"
            | b"beg"
            | b"end"
            | b"sta"
            | b"sto"
            | b"clo"
            | b"ope"
            | b"obs"
            | b"unt"
            | b"ext"
            | b"too"
            | b"fun"
            | b"sys"
            | b"fen"
    )
}

/// Whether an ornament stands before the one here, after blanks: then its run is read from there.
fn is_inside(text: &str, at: usize) -> bool {
    let Some(head) = text.get(..at) else {
        return false;
    };
    let blanks = head
        .bytes()
        .rev()
        .take(GAP_MAX)
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let head = head.get(..at - blanks).unwrap_or_default();
    match head.as_bytes().last() {
        Some(byte) if byte.is_ascii() => is_ornament(*byte),
        Some(_) => head.chars().next_back().is_some_and(|c| {
            let mut pieces = ['\0'; 4];
            let count = fold::fold(c, &mut pieces);
            count == 1 && weight(pieces[0]) > 0
        }),
        None => false,
    }
}

/// Whether another ornament can follow here, after blanks.
fn goes_on(bytes: &[u8], at: usize) -> bool {
    for place in at..=at + GAP_MAX {
        match bytes.get(place) {
            Some(b' ' | b'\t') => {}
            Some(byte) => return is_ornament(*byte) || !fold::is_plain(*byte),
            None => return false,
        }
    }
    false
}

/// `END OBSERVATION ---`: the words stand before the ornaments, alone on their line.
pub(crate) fn before_ornament(text: &str, at: usize, breaks: &mut Breaks) {
    let word = text
        .as_bytes()
        .get(..at)
        .unwrap_or_default()
        .iter()
        .rev()
        .take(GAP_MAX + 1)
        .find(|byte| !matches!(byte, b' ' | b'\t'));
    if word.is_none_or(|byte| fold::is_plain(*byte) && !byte.is_ascii_alphabetic() && *byte != b'}')
    {
        return;
    }
    let head = text.get(text.floor_char_boundary(at.saturating_sub(LINE_MAX))..at);
    let Some(head) = head else { return };
    let line = match head.bytes().rposition(|byte| byte == b'\n') {
        Some(feed) => at - head.len() + feed + 1,
        None if head.len() == at => 0,
        None => return,
    };
    // Most lines begin with something else.
    if !text.as_bytes().get(line).is_none_or(|first| {
        first.is_ascii_alphabetic()
            || !fold::is_plain(*first)
            || is_lead(char::from(*first))
            || matches!(first, b'>' | b'|' | b'.')
    }) && !may_be_phrase(text.as_bytes(), line + 1)
    {
        return;
    }
    let mut cursor = Cursor::new(text, line);
    cursor.pass(GAP_MAX, is_blank);
    // Two ornaments would have been a run of their own.
    cursor.pass(1, |c| weight(c) > 0);
    cursor.pass(GAP_MAX, |c| {
        is_blank(c) || matches!(c, '>' | '|' | '/' | '.')
    });
    if !may_be_phrase(text.as_bytes(), cursor.at()) {
        return;
    }
    let Some(phrase) = Phrase::at(text, cursor.at()).filter(Phrase::is_marker) else {
        return;
    };
    let mut gap = Cursor::new(text, phrase.end);
    gap.pass(GAP_MAX, is_blank);
    if gap.peek().is_some_and(|glyph| glyph.start == at) {
        phrase.deface(breaks);
    }
}

/// A few words in a row.
struct Phrase {
    words: [(Term, usize); 4],
    count: usize,
    end: usize,
}

/// What a word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Kazma,
    Side,
    Observation,
    Untrusted,
    External,
    Content,
    Tool,
    Result,
    System,
    Prompt,
    User,
    /// A small word between others.
    Filler,
    Other,
}

impl Term {
    fn of(word: &[u8]) -> Self {
        match word {
            b"kazma" | b"beginobservation" | b"endobservation" => Self::Kazma,
            b"begin" | b"end" | b"start" | b"stop" | b"close" | b"open" | b"begins" | b"ends" => {
                Self::Side
            }
            b"observation" | b"observations" | b"fence" => Self::Observation,
            b"untrusted" => Self::Untrusted,
            b"external" => Self::External,
            b"data" | b"content" | b"input" | b"text" => Self::Content,
            b"tool" | b"function" => Self::Tool,
            b"result" | b"results" | b"output" | b"outputs" | b"response" | b"call" | b"calls" => {
                Self::Result
            }
            b"system" => Self::System,
            b"prompt" | b"message" | b"instruction" | b"instructions" => Self::Prompt,
            b"user" => Self::User,
            b"of" | b"the" | b"this" => Self::Filler,
            _ => Self::Other,
        }
    }

    /// Whether a marker can begin with it.
    const fn begins(self) -> bool {
        !matches!(
            self,
            Self::Content | Self::Result | Self::Prompt | Self::User | Self::Filler | Self::Other
        )
    }
}

/// Reads a word: what it says, where its first letter ends, and where it ends.
fn term(cursor: &mut Cursor<'_>) -> Option<(Term, usize, usize)> {
    let rest = cursor.rest().as_bytes();
    let mut lower = [0_u8; TERM_MAX];
    let mut len = 0;
    while let Some(byte) = rest.get(len).filter(|byte| byte.is_ascii_alphabetic())
        && let Some(slot) = lower.get_mut(len)
    {
        *slot = byte.to_ascii_lowercase();
        len += 1;
    }
    let ends = rest
        .get(len)
        .is_none_or(|byte| fold::is_plain(*byte) && !byte.is_ascii_alphabetic());
    if cursor.is_between() && len > 0 && ends {
        let at = cursor.at();
        cursor.skip_plain(len);
        return Some((Term::of(lower.get(..len)?), at + 1, at + len));
    }
    let word = Word::read(cursor, char::is_alphabetic)?;
    Some((Term::of(word.as_bytes()), word.first_end, word.end))
}

/// Signs before the words of a marker.
#[inline]
const fn is_lead(c: char) -> bool {
    is_blank(c) || matches!(c, '<' | '[' | '(' | '/' | '"')
}

/// Signs between the words of a marker.
#[inline]
const fn is_gap(c: char) -> bool {
    is_blank(c) || matches!(c, '_' | '-' | ':' | '.' | '/')
}

/// Passes over a few signs like these.
#[inline]
fn pass(bytes: &[u8], mut at: usize, like: impl Fn(char) -> bool) -> usize {
    let end = at + GAP_MAX;
    while at < end && bytes.get(at).is_some_and(|byte| like(char::from(*byte))) {
        at += 1;
    }
    at
}

impl Phrase {
    /// The words that stand at `at`.
    fn at(text: &str, at: usize) -> Option<Self> {
        match Self::plain(text.as_bytes(), at) {
            Some(phrase) => (phrase.count > 0).then_some(phrase),
            None => Self::read(&mut Cursor::new(text, at)),
        }
    }

    /// The same where all that is read is plain ASCII; its count is 0 if there are none.
    fn plain(bytes: &[u8], mut at: usize) -> Option<Self> {
        let mut phrase = Self {
            words: [(Term::Other, 0); 4],
            count: 0,
            end: 0,
        };
        at = pass(bytes, at, is_lead);
        let mut certain = false;
        while let Some(slot) = phrase.words.get_mut(phrase.count) {
            let start = at;
            let mut lower = [0_u8; TERM_MAX];
            let mut len = 0;
            while let Some(byte) = bytes.get(at).filter(|byte| byte.is_ascii_alphabetic()) {
                *lower.get_mut(len)? = byte | 0x20;
                len += 1;
                at += 1;
            }
            if !bytes.get(at).is_none_or(|byte| fold::is_plain(*byte)) {
                return None;
            }
            if len == 0 {
                break;
            }
            // What follows those words makes no difference.
            let term = if certain {
                Term::Other
            } else {
                Term::of(lower.get(..len)?)
            };
            if phrase.count == 0 && !term.begins() {
                return Some(phrase);
            }
            certain |= phrase.count == 0 && matches!(term, Term::Kazma | Term::Untrusted);
            if term != Term::Filler {
                *slot = (term, start + 1);
                phrase.count += 1;
                phrase.end = at;
            }
            let end = at;
            at = pass(bytes, at, is_gap);
            if at == end {
                break;
            }
            if !bytes.get(at).is_none_or(|byte| fold::is_plain(*byte)) {
                return None;
            }
        }
        Some(phrase)
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        cursor.pass(GAP_MAX, is_lead);
        let mut phrase = Self {
            words: [(Term::Other, 0); 4],
            count: 0,
            end: 0,
        };
        while let Some(slot) = phrase.words.get_mut(phrase.count) {
            let Some((term, first_end, end)) = term(cursor) else {
                break;
            };
            if phrase.count == 0 && !term.begins() {
                return None;
            }
            if term != Term::Filler {
                *slot = (term, first_end);
                phrase.count += 1;
                phrase.end = end;
            }
            if cursor.pass(GAP_MAX, is_gap) == 0 {
                break;
            }
        }
        (phrase.count > 0).then_some(phrase)
    }

    fn is_marker(&self) -> bool {
        let [(first, _), (second, _), (third, _), _] = self.words;
        match first {
            Term::Kazma | Term::Untrusted => true,
            Term::Side => second == Term::Kazma || names_a_fence(second, third),
            Term::External => names_a_fence(first, second),
            Term::User => false,
            _ => names_a_fence(first, second) && (second == Term::Side || third == Term::Side),
        }
    }

    /// Breaks every word of it.
    fn deface(&self, breaks: &mut Breaks) {
        let words = self.words.iter().take(self.count);
        breaks.extend(words.map(|(_, first_end)| *first_end));
    }
}

/// Whether these are the words for what a fence holds.
fn names_a_fence(word: Term, next: Term) -> bool {
    match word {
        Term::Observation | Term::Untrusted => true,
        Term::External => matches!(next, Term::Content | Term::Untrusted),
        Term::Tool => next == Term::Result,
        Term::System => next == Term::Prompt,
        Term::User => matches!(next, Term::Prompt | Term::Content),
        _ => false,
    }
}

/// Whether the words of a marker can begin after the bracket that ends at `at`: most tags and indices are
/// something else.
#[inline]
pub(crate) fn may_be_bracketed(bytes: &[u8], at: usize) -> bool {
    let Some([first, second, third, ..]) = bytes.get(at..) else {
        return false;
    };
    let (first, second) = if *first == b'/' {
        (*second, *third)
    } else {
        (*first, *second)
    };
    match first | 0x20 {
        b'k' => second | 0x20 == b'a' || !fold::is_plain(second),
        b'b' => second | 0x20 == b'e' || !fold::is_plain(second),
        b'e' => matches!(second | 0x20, b'n' | b'x') || !fold::is_plain(second),
        b's' => matches!(second | 0x20, b't' | b'y') || !fold::is_plain(second),
        b'c' => second | 0x20 == b'l' || !fold::is_plain(second),
        b'o' => matches!(second | 0x20, b'p' | b'b') || !fold::is_plain(second),
        b'u' => second | 0x20 == b'n' || !fold::is_plain(second),
        b't' => second | 0x20 == b'o' || !fold::is_plain(second),
        b'f' => matches!(second | 0x20, b'u' | b'e') || !fold::is_plain(second),
        _ => {
            !fold::is_plain(first)
                || matches!(first, b'<' | b'[' | b'{' | b'/' | b' ' | b'\t' | b'"')
        }
    }
}

/// Breaks the words of a marker between brackets, `at` the first of which ends: `<end observation>`,
/// `[END UNTRUSTED DATA]`, `[/untrusted]`.
pub(crate) fn bracketed(text: &str, at: usize, close: char, breaks: &mut Breaks) {
    let bytes = text.as_bytes();
    let mut place = at;
    while matches!(bytes.get(place), Some(b'<' | b'[' | b'{' | b'/')) && place < at + GAP_MAX {
        place += 1;
    }
    if !may_be_phrase(bytes, place) {
        return;
    }
    let Some(phrase) = Phrase::at(text, place).filter(Phrase::is_marker) else {
        return;
    };
    let mut rest = Cursor::new(text, phrase.end);
    rest.pass(GAP_MAX, is_blank);
    if rest.accept(|c| c == close).is_none() {
        return;
    }
    let [(first, _), (_, second), ..] = phrase.words;
    let closes = text
        .get(at..phrase.end)
        .is_some_and(|words| words.contains('/'));
    let says = match first {
        // `[kazma]` and `[Kazma guide]` are ordinary; `[kazma:data]` is not.
        Term::Kazma | Term::Untrusted | Term::External => {
            let second = second
                .checked_sub(1)
                .and_then(|second| term(&mut Cursor::new(text, second)));
            phrase.count > 1
                && second.is_some_and(|(term, ..)| !matches!(term, Term::Other | Term::User))
        }
        _ => true,
    };
    if closes || says {
        phrase.deface(breaks);
    }
}

/// Breaks a tag that claims to be a fence, all of its words: `</kazma:data>`, `<untrusted source="…">`.
pub(crate) fn tag(text: &str, at: usize, breaks: &mut Breaks) {
    let mut cursor = Cursor::new(text, at);
    let Some(first) = cursor.next() else { return };
    breaks.push(first.end);
    let mut inside = false;
    for glyph in cursor.take(TAG_MAX) {
        if matches!(glyph.plain, '<' | '>' | BREAK) {
            break;
        }
        if glyph.plain.is_alphabetic() {
            if !inside {
                breaks.push(glyph.end);
            }
            inside = true;
        } else {
            inside = false;
        }
    }
}
