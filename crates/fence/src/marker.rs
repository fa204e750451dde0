//! Forged fences: our own marker lines, those of the reference system, and others that say the same.

use crate::{
    byte::{self, BLANK, GAP, LEAD, LETTER, ORNAMENT, PLAIN},
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

/// Looks at a run of ornaments that begins at `at`: `=== KAZMA …`, `--- END OBSERVATION ---`.
pub(crate) fn ornament(text: &str, at: usize, plain: char, raw: bool, breaks: &mut Breaks) {
    let bytes = text.as_bytes();
    let Some((head, rest)) = bytes.split_at_checked(at) else {
        return;
    };
    let last = last_sign(head);
    if last.is_some_and(|last| is_inside(text, at, last)) {
        // The run is read from where it begins.
        return;
    }
    let (end, total) = if raw {
        let after = byte::skip(rest, ORNAMENT);
        let total = rest.len() - after.len();
        if goes_on(after) {
            run(text, at + total, total)
        } else {
            (at + total, total)
        }
    } else {
        let width = text.get(at..).and_then(fold::spelled).map(|(_, len)| len);
        let after = rest.get(width.unwrap_or(0)..).unwrap_or_default();
        if weight(plain) < 2 && !goes_on(after) {
            return;
        }
        run(text, at, 0)
    };
    if total < 2 {
        return;
    }
    // A heading, what is emphasised, an option and a pointer of C begin like that too.
    let weak = plain == '#' || bytes.get(end).is_some_and(|next| byte::is(*next, LETTER));
    let mut phrase = Phrase::default();
    if may_be_phrase(bytes.get(end..).unwrap_or_default()) && phrase.is_marker(text, end, weak) {
        phrase.deface(breaks);
    }
    if last.is_some_and(may_end_words) {
        words_before(text, at, breaks);
    }
}

/// The last byte of `head` but for blanks, which may be the last of too many blanks.
#[inline]
fn last_sign(head: &[u8]) -> Option<u8> {
    byte::skip_back(head, GAP_MAX, BLANK).last().copied()
}

/// Where a run of ornaments and blanks ends that goes on at `at`, and what it weighs with the `total` before.
fn run(text: &str, at: usize, mut total: usize) -> (usize, usize) {
    let mut cursor = Cursor::new(text, at);
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
fn may_be_phrase(rest: &[u8]) -> bool {
    let [a, b, c, ..] = byte::skip_few(rest, GAP_MAX + 1, BLANK) else {
        return true;
    };
    if !(byte::is(*a, LETTER) && byte::is(*b, LETTER) && byte::is(*c, LETTER)) {
        return !byte::is(*a, PLAIN)
            || (byte::is(*a, LETTER) && !(byte::is(*b, PLAIN) && byte::is(*c, PLAIN)))
            || matches!(a, b'<' | b'[' | b'(' | b'/' | b'"');
    }
    matches!(
        (a | 0x20, b | 0x20, c | 0x20),
        (b'k', b'a', b'z')
            | (b'b', b'e', b'g')
            | (b'e', b'n', b'd')
            | (b's', b't', b'a' | b'o')
            | (b'c', b'l', b'o')
            | (b'o', b'p', b'e')
            | (b'o', b'b', b's')
            | (b'u', b'n', b't')
            | (b'e', b'x', b't')
            | (b't', b'o', b'o')
            | (b'f', b'u' | b'e', b'n')
            | (b's', b'y', b's')
    )
}

/// Whether `last`, which stands before the ornament at `at` and blanks, is one too.
#[inline]
fn is_inside(text: &str, at: usize, last: u8) -> bool {
    if last.is_ascii() {
        byte::is(last, ORNAMENT)
    } else {
        ends_ornament(text.get(..at).unwrap_or_default())
    }
}

/// Whether the last character of `head`, but for blanks, counts as an ornament.
#[cold]
fn ends_ornament(head: &str) -> bool {
    let last = head.trim_end_matches(is_blank).chars().next_back();
    last.is_some_and(|c| {
        let mut pieces = ['\0'; 4];
        let count = fold::fold(c, &mut pieces);
        count == 1 && weight(pieces[0]) > 0
    })
}

/// Whether another ornament can follow here, after blanks.
#[inline]
fn goes_on(rest: &[u8]) -> bool {
    byte::skip_few(rest, GAP_MAX, BLANK)
        .first()
        .is_some_and(|byte| byte::is(*byte, ORNAMENT) || !byte::is(*byte, PLAIN))
}

/// `END OBSERVATION ---`: the words stand before the ornaments, alone on their line.
pub(crate) fn before_ornament(text: &str, at: usize, breaks: &mut Breaks) {
    let head = text.as_bytes().get(..at).unwrap_or_default();
    if last_sign(head).is_some_and(may_end_words) {
        words_before(text, at, breaks);
    }
}

/// Whether the words of a marker can end with this byte.
#[inline]
fn may_end_words(byte: u8) -> bool {
    !byte::is(byte, PLAIN) || byte::is(byte, LETTER) || byte == b'}'
}

/// The same where a word may end before.
fn words_before(text: &str, at: usize, breaks: &mut Breaks) {
    let bytes = text.as_bytes();
    let Some(line) = line_start(text, at) else {
        return;
    };
    // Most lines begin with something else.
    let from = |place: usize| bytes.get(place..).unwrap_or_default();
    if let Some(first) = bytes.get(line)
        && byte::is(*first, LETTER)
    {
        if !may_be_phrase(from(line)) {
            return;
        }
    } else if !bytes.get(line).is_none_or(|first| {
        !byte::is(*first, PLAIN) || byte::is(*first, LEAD) || matches!(first, b'>' | b'|' | b'.')
    }) && !may_be_phrase(from(line + 1))
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
    let mut phrase = Phrase::default();
    if !may_be_phrase(from(cursor.at())) {
        return;
    }
    phrase.read_at(text, cursor.at());
    if !phrase.says(text, phrase.end == at) {
        return;
    }
    let mut gap = Cursor::new(text, phrase.end);
    gap.pass(GAP_MAX, is_blank);
    if gap.peek().is_some_and(|glyph| glyph.start == at) {
        phrase.deface(breaks);
    }
}

/// Where the line begins that goes on at `at`, if that is near.
fn line_start(text: &str, at: usize) -> Option<usize> {
    let near = at.saturating_sub(LINE_MAX);
    match byte::last_feed(text.as_bytes().get(near..at)?) {
        Some(feed) => Some(near + feed + 1),
        None => (text.floor_char_boundary(near) == 0).then_some(0),
    }
}

/// Whether what stands there begins with a plain character, if with any.
#[inline]
fn is_plain_first(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| byte::is(*byte, PLAIN))
}

/// A few words in a row.
#[derive(Default)]
struct Phrase {
    words: [(Term, usize); 4],
    count: usize,
    end: usize,
}

/// What a word says.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
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
    #[default]
    Other,
}

impl Term {
    /// The same of the `len` ASCII letters that `text` begins with, of either case.
    fn plain(text: &[u8], len: usize) -> Self {
        // No word of a marker is longer than what is read.
        byte::small(text).get(..len).map_or(Self::Other, Self::of)
    }

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
    let len = byte::letters(rest, TERM_MAX);
    let ends = rest
        .get(len)
        .is_none_or(|byte| byte::is(*byte, PLAIN) && !byte::is(*byte, LETTER));
    if cursor.is_between() && len > 0 && ends {
        let at = cursor.at();
        cursor.skip_plain(len);
        return Some((Term::plain(rest, len), at + 1, at + len));
    }
    let word = Word::read(cursor, char::is_alphabetic)?;
    Some((Term::of(word.as_bytes()), word.first_end, word.end))
}

/// Whether a sign of this kind stands before the words of a marker, or between them.
#[inline]
fn is_sign(c: char, kind: u32) -> bool {
    u8::try_from(c).is_ok_and(|byte| byte::is(byte, kind))
}

impl Phrase {
    /// Reads the words that stand at `at`. Whether they are those of a marker.
    fn is_marker(&mut self, text: &str, at: usize, weak: bool) -> bool {
        self.read_at(text, at);
        self.says(text, weak)
    }

    /// Reads the words that stand at `at`.
    fn read_at(&mut self, text: &str, at: usize) {
        if self.plain(text.as_bytes(), at).is_none() {
            *self = Self::default();
            self.read(&mut Cursor::new(text, at));
        }
    }

    /// Whether these are the words of a marker; `weak` where ordinary texts put a few ornaments too.
    fn says(&self, text: &str, weak: bool) -> bool {
        let [(first, _), (second, _), (third, _), _] = self.words;
        let terms = || self.words.iter().take(self.count).map(|(term, _)| *term);
        let side = terms().any(|term| term == Term::Side);
        let known = |term| !matches!(term, Term::Other | Term::User);
        let only = terms().all(known);
        match first {
            Term::Kazma => !weak || self.count > 1 && known(second),
            Term::Untrusted if self.count == 1 => !weak && self.is_ruled_off(text),
            Term::Untrusted => side || !weak && only,
            Term::External => names_a_fence(first, second) && (side || !weak && only),
            Term::Side if second == Term::Kazma || second == Term::Untrusted => true,
            // `— end of the observation period —`
            Term::Side => names_a_fence(second, third) && (only || self.is_loud(text)),
            Term::User | Term::Other => false,
            _ => names_a_fence(first, second) && (second == Term::Side || third == Term::Side),
        }
    }

    /// Whether the last word is followed by an ornament.
    fn is_ruled_off(&self, text: &str) -> bool {
        let mut rest = Cursor::new(text, self.end);
        rest.pass(GAP_MAX, is_blank);
        rest.accept(|c| weight(c) > 0).is_some()
    }

    /// Whether the first word has no small letter near its beginning.
    fn is_loud(&self, text: &str) -> bool {
        let [(_, second), ..] = self.words;
        let start = text.floor_char_boundary(second.saturating_sub(1));
        let near = text.get(start..self.end).unwrap_or_default();
        near.chars()
            .take(3)
            .all(|c| !c.is_lowercase() || !c.is_ascii())
    }

    /// Reads them where all that is read is plain ASCII.
    fn plain(&mut self, bytes: &[u8], at: usize) -> Option<()> {
        let mut rest = byte::skip_few(bytes.get(at..)?, GAP_MAX, LEAD);
        let mut named = false;
        while let Some(slot) = self.words.get_mut(self.count) {
            let (word, after) = rest.split_at_checked(byte::letters(rest, TERM_MAX + 1))?;
            if word.len() > TERM_MAX || !is_plain_first(after) {
                return None;
            }
            if word.is_empty() {
                break;
            }
            // After the name and one word more, what follows makes no difference.
            let term = if named && self.count > 1 {
                Term::Other
            } else {
                Term::plain(rest, word.len())
            };
            if self.count == 0 && !term.begins() {
                break;
            }
            named |= self.count == 0 && term == Term::Kazma;
            if term != Term::Filler {
                *slot = (term, bytes.len() - rest.len() + 1);
                self.count += 1;
                self.end = bytes.len() - after.len();
            }
            rest = byte::skip_few(after, GAP_MAX, GAP);
            if rest.len() == after.len() {
                break;
            }
            if !is_plain_first(rest) {
                return None;
            }
        }
        Some(())
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) {
        cursor.pass(GAP_MAX, |c| is_sign(c, LEAD));
        while let Some(slot) = self.words.get_mut(self.count) {
            let Some((term, first_end, end)) = term(cursor) else {
                break;
            };
            if self.count == 0 && !term.begins() {
                break;
            }
            if term != Term::Filler {
                *slot = (term, first_end);
                self.count += 1;
                self.end = end;
            }
            if cursor.pass(GAP_MAX, |c| is_sign(c, GAP)) == 0 {
                break;
            }
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
    let mut phrase = Phrase::default();
    if !may_be_phrase(bytes.get(place..).unwrap_or_default()) {
        return;
    }
    phrase.read_at(text, place);
    let slash = text
        .get(at..phrase.end)
        .is_some_and(|words| words.contains('/'));
    let [(first, _), (second, _), (third, _), _] = phrase.words;
    let says = match first {
        Term::Kazma | Term::Untrusted => true,
        Term::External => names_a_fence(first, second),
        // `[/observation]`
        Term::Observation => {
            slash && close == ']' && phrase.count == 1
                || second == Term::Side
                || third == Term::Side
        }
        _ => phrase.says(text, false),
    };
    if !says {
        return;
    }
    let mut rest = Cursor::new(text, phrase.end);
    rest.pass(GAP_MAX, is_blank);
    rest.pass(1, |c| c == '/');
    if rest.accept(|c| c == close).is_none() {
        return;
    }
    let [_, (_, second), ..] = phrase.words;
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
    if slash || says {
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
