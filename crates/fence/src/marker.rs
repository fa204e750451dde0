//! Forged fences: our own marker lines, those of the reference system, and others that say the same.

use crate::{
    fold::{self, Cursor, Word, is_blank},
    scan::{BREAK, Change, Changes},
};

/// The longest tag that is looked through.
const TAG_MAX: usize = 300;
/// The longest line that can end in ornaments and be a marker.
const LINE_MAX: usize = 80;
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
pub(crate) fn ornament(text: &str, at: usize, plain: char, raw: bool, changes: &mut Changes) {
    if raw && !is_first(text.as_bytes(), at) {
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
        && let Some(phrase) = Phrase::read(&mut Cursor::new(text, end)).filter(Phrase::is_marker)
    {
        phrase.deface(changes);
    }
    before_ornament(text, at, changes);
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

/// Whether the ornament here is the first of its run.
fn is_first(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1)
        .and_then(|before| bytes.get(before))
        .is_none_or(|before| !is_ornament(*before))
}

/// Whether another ornament can follow here, after blanks.
fn goes_on(bytes: &[u8], at: usize) -> bool {
    bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take(GAP_MAX + 1)
        .find(|byte| !matches!(byte, b' ' | b'\t'))
        .is_some_and(|byte| is_ornament(*byte) || !fold::is_plain(*byte))
}

/// `END OBSERVATION ---`: the words stand before the ornaments, alone on their line.
fn before_ornament(text: &str, at: usize, changes: &mut Changes) {
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
    let line = match head.rfind('\n') {
        Some(feed) => at - head.len() + feed + 1,
        None if head.len() == at => 0,
        None => return,
    };
    let mut cursor = Cursor::new(text, line);
    cursor.pass(GAP_MAX, |c| is_blank(c) || weight(c) > 0);
    if !may_be_phrase(text.as_bytes(), cursor.at()) {
        return;
    }
    let Some(phrase) = Phrase::read(&mut cursor).filter(Phrase::is_marker) else {
        return;
    };
    if phrase.end() <= at
        && text
            .get(phrase.end()..at)
            .is_some_and(|gap| gap.trim().is_empty())
    {
        phrase.deface(changes);
    }
}

/// A few words in a row.
struct Phrase {
    words: [Option<Word>; 4],
}

impl Phrase {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        cursor.pass(GAP_MAX, |c| {
            is_blank(c) || matches!(c, '<' | '[' | '(' | '/' | '"')
        });
        let mut words = [None; 4];
        for slot in &mut words {
            *slot = Word::read(cursor, char::is_alphabetic);
            if slot.is_none()
                || cursor.pass(GAP_MAX, |c| {
                    is_blank(c) || matches!(c, '_' | '-' | ':' | '.' | '/')
                }) == 0
            {
                break;
            }
        }
        words[0].is_some().then_some(Self { words })
    }

    fn word(&self, n: usize) -> &str {
        self.words
            .get(n)
            .and_then(Option::as_ref)
            .map(Word::as_str)
            .unwrap_or_default()
    }

    fn is_marker(&self) -> bool {
        match self.word(0) {
            "kazma" | "beginobservation" | "endobservation" => true,
            "begin" | "end" | "start" | "stop" | "close" | "open" => {
                names_a_fence(self.word(1), self.word(2))
            }
            first => {
                first != "user"
                    && names_a_fence(first, self.word(1))
                    && (matches!(first, "untrusted" | "external")
                        || matches!(self.word(1), "begin" | "end" | "start" | "begins" | "ends")
                        || matches!(self.word(2), "begin" | "end" | "start" | "begins" | "ends"))
            }
        }
    }

    fn end(&self) -> usize {
        self.words
            .iter()
            .flatten()
            .last()
            .map_or(0, |word| word.end)
    }

    /// Breaks every word of it.
    fn deface(&self, changes: &mut Changes) {
        changes.extend(
            self.words
                .iter()
                .flatten()
                .map(|word| (word.first_end, Change::Break)),
        );
    }
}

/// Whether these are the words for what a fence holds.
fn names_a_fence(word: &str, next: &str) -> bool {
    match word {
        "observation" | "observations" | "untrusted" | "kazma" | "fence" => true,
        "external" => matches!(next, "data" | "content" | "input" | "text" | "untrusted"),
        "tool" | "function" => matches!(
            next,
            "result" | "results" | "output" | "outputs" | "response" | "call" | "calls"
        ),
        "system" => matches!(next, "prompt" | "message" | "instruction" | "instructions"),
        "user" => matches!(next, "input" | "message" | "prompt" | "query" | "request"),
        _ => false,
    }
}

/// Breaks a tag that claims to be a fence, all of its words: `</kazma:data>`, `<untrusted source="…">`.
pub(crate) fn tag(text: &str, at: usize, changes: &mut Changes) {
    let mut cursor = Cursor::new(text, at);
    let Some(first) = cursor.next() else { return };
    changes.push((first.end, Change::Break));
    let mut inside = false;
    while cursor.at() < at + TAG_MAX
        && let Some(glyph) = cursor.next()
    {
        if matches!(glyph.plain, '>' | BREAK) {
            break;
        }
        if glyph.plain.is_alphabetic() {
            if !inside {
                changes.push((glyph.end, Change::Break));
            }
            inside = true;
        } else {
            inside = false;
        }
    }
}
