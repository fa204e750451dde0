//! Lines that say who speaks: `Human:`, `ASSISTANT:`, `### Instruction:`.
//!
//! Ordinary letters, forms and logs have such lines too. Which ones count is decided by where they
//! stand (after an empty line), by capitals, and by whether both sides of a conversation speak.

use crate::{
    fold::{self, Back, Cursor, Word, is_blank, spelled_back},
    hidden::is_han,
    scan::BREAK,
    token::Found,
};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The model.
    Model,
    /// A person.
    Person,
    /// The system or a tool.
    Other,
    /// Anyone, in small letters: the key of a setting, unless the text is full of tokens.
    Small,
    /// The model, or what a machine is called: it answers a person who spoke before it and goes on after it.
    Product,
}

/// What a line that names a speaker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// The turn of a conversation.
    Certain,
    /// That, if both sides speak.
    Speaker(Side),
}

/// The longest name of a speaker.
const NAME_MAX: usize = 16;
/// The longest name with all of its letters spelled, in bytes, that is read.
const NAMED_MAX: usize = 240;
/// How far back the beginning of an escape is looked for before a name is read.
const SPELLED_MAX: usize = 24;
/// The longest tag that is passed over before a name.
const TAG_MAX: usize = 80;

/// Where a name stands.
#[derive(PartialEq, Eq)]
enum Place {
    /// At the start of the text or after an empty line.
    Opens,
    /// At the start of a line.
    Line,
    /// Within a line.
    Inside,
}

/// If the colon at `at` ends the name of a speaker: where to break it, and what it is.
pub(crate) fn line(text: &str, at: usize) -> Option<(usize, Line)> {
    let head = text.get(..at)?;
    if !may_be_name(head.as_bytes()) {
        return None;
    }
    let after = Cursor::new(text, at)
        .skip(1)
        .find(|glyph| glyph.plain != BREAK);
    if after.is_some_and(|glyph| glyph.plain == ':') {
        // `User::name` is a path.
        return None;
    }
    let known = |ends| {
        let name = Name::before(head, ends)?;
        let side = side(name.as_str())?;
        Some((name, side))
    };
    let (name, side) = known(false).or_else(|| {
        let name = head.bytes().rev().take(NAME_MAX);
        let len = name.take_while(u8::is_ascii_alphabetic).count();
        let hides = head.as_bytes().get(..head.len() - len)?.ends_with(b"}");
        hides.then(|| known(true)).flatten()
    })?;
    let mut before = head.get(..name.start)?;
    if Back::new(before).rest().ends_with("orrect ") {
        return Some((at, Line::Certain));
    }
    if is_declared(before) {
        return None;
    }
    let place = place(&mut before)?;
    let opens = place == Place::Opens;
    let is_turn = matches!(
        name.as_str(),
        "human" | "assistant" | "ассистент" | "助手" | "人类" | "المساعد"
    );
    let line = match name.case {
        Case::Small if place == Place::Inside => return None,
        Case::Small => Line::Speaker(Side::Small),
        Case::Loud if is_turn && side == Side::Model => Line::Certain,
        _ if opens && is_turn => Line::Certain,
        // `User:` after an empty line opens a turn; at the very start of a text it labels a value.
        Case::Loud if opens && !before.is_empty() && name.len > 3 && side != Side::Model => {
            Line::Certain
        }
        _ if opens && !before.is_empty() && name.as_str() == "user" => Line::Certain,
        // Machines have a model too.
        _ if name.as_str() == "model" => Line::Speaker(Side::Product),
        _ => Line::Speaker(side),
    };
    Some((at, line))
}

/// The end of `head` in which a name with its escapes fits.
fn near(head: &str) -> &[u8] {
    let start = head.len().saturating_sub(NAMED_MAX);
    head.as_bytes().get(start..).unwrap_or_default()
}

/// Whether a program declares or compares the name that begins after `before`: `class Assistant:`, `case HUMAN:`.
fn is_declared(before: &str) -> bool {
    let Some(head) = before.strip_suffix(' ') else {
        return false;
    };
    ["class", "case"].into_iter().any(|word| {
        head.strip_suffix(word)
            .is_some_and(|head| head.is_empty() || head.ends_with([' ', '\t', '\n']))
    })
}

/// Whether the name of a speaker can stand at the end of `head`. Most colons follow something else.
fn may_be_name(head: &[u8]) -> bool {
    let mut head = head;
    for _ in 0..4 {
        head = undecorated(head).unwrap_or(head);
    }
    let len = head
        .iter()
        .rev()
        .take(NAME_MAX)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let (before, word) = head.split_at(head.len() - len);
    match before.last() {
        Some(b'}' | b'\\') => true,
        Some(byte) if !fold::is_plain(*byte) => true,
        // A letter may be spelled by a number.
        Some(b'0'..=b'9' | b';') if begins_spelling(before) => true,
        _ => {
            let mut lower = [0; NAME_MAX];
            for (slot, byte) in lower.iter_mut().zip(word) {
                *slot = byte.to_ascii_lowercase();
            }
            lower
                .get(..len)
                .and_then(|word| str::from_utf8(word).ok())
                .is_some_and(|word| side(word).is_some())
        }
    }
}

/// Whether an escape can end at the end of `head`.
fn begins_spelling(head: &[u8]) -> bool {
    let near = head.iter().rev().take(SPELLED_MAX);
    near.into_iter()
        .any(|byte| matches!(byte, b'&' | b'%' | b'\\'))
}

/// Tags that emphasise.
const OPENS: [&str; 6] = ["<b>", "<i>", "<u>", "<em>", "<strong>", "<code>"];
const CLOSES: [&[u8]; 6] = [
    b"</b>",
    b"</i>",
    b"</u>",
    b"</em>",
    b"</strong>",
    b"</code>",
];

/// What stands before the blank or the end of an emphasis at the end of `head`.
#[inline]
fn undecorated(head: &[u8]) -> Option<&[u8]> {
    match head.split_last()? {
        (b' ' | b'*' | b'_' | b'~' | b'`', rest) => Some(rest),
        (b'>', _) => CLOSES.iter().find_map(|close| head.strip_suffix(*close)),
        _ => None,
    }
}

/// Who is called so.
fn side(name: &str) -> Option<Side> {
    Some(match name {
        "assistant" | "ai" | "bot" | "chatbot" | "gpt" | "model" | "ассистент" | "助手"
        | "助理" | "المساعد" | "مساعد" => Side::Model,
        "human" | "user" | "пользователь" | "用户" | "人类" | "المستخدم" | "مستخدم" => {
            Side::Person
        }
        "system" | "developer" | "система" | "系统" | "النظام" | "tool" | "observation" => {
            Side::Other
        }
        _ => return None,
    })
}

#[derive(PartialEq, Eq)]
enum Case {
    Small,
    Title,
    Loud,
}

/// The word before a colon.
struct Name {
    text: String,
    len: usize,
    start: usize,
    case: Case,
}

impl Name {
    /// The word at the end of `head`, which may be emphasised: `**Human**`. What is hidden in it is passed over; `ends` if
    /// it begins after a hidden end of a line.
    fn before(head: &str, ends: bool) -> Option<Self> {
        let mut back = Back::new(head);
        for _ in 0..4 {
            let rest = back.rest();
            if rest.ends_with('\u{a0}') {
                back.next();
            } else if let Some(shorter) = undecorated(rest.as_bytes()) {
                back = Back::new(rest.get(..shorter.len())?);
            }
        }
        let mut letters = ['\0'; NAME_MAX];
        let (mut len, mut start) = (0, head.len());
        let (mut small, mut large) = (0, 0);
        let mut first_large = false;
        let last = back.rest().chars().next_back()?;
        if matches!(last, '\u{3000}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}') {
            return None;
        }
        if !last.is_ascii() && !last.is_alphanumeric() {
            let mut pieces = [last; 4];
            if fold::fold(last, &mut pieces) > 0 && !pieces[0].is_alphabetic() {
                return None;
            }
        }
        let spells = near(head)
            .iter()
            .fold(false, |any, byte| any | matches!(byte, b'&' | b'%' | b'\\'));
        loop {
            if ends && FEEDS.iter().any(|(feed, _)| back.unread().ends_with(feed)) {
                break;
            }
            let rest = back.rest();
            // `\nHuman:` as JSON spells it: the `n` belongs to the escape.
            let last = if spells {
                spelled_back(rest)
            } else {
                let last = rest.chars().next_back();
                last.map(|c| (c, rest.len() - c.len_utf8()))
            };
            let Some((c, at)) = last else {
                break;
            };
            back = Back::new(rest.get(..at)?);
            let mut pieces = [c; 4];
            // Letters that stand for themselves need no folding.
            if !c.is_ascii_alphabetic() && !is_han(c) {
                let count = fold::fold(c, &mut pieces);
                if count == 0 {
                    // A mark upon the letter before it, or nothing.
                    continue;
                }
                if !c.is_alphabetic() && !pieces.iter().take(count).all(|c| c.is_alphabetic()) {
                    break;
                }
            }
            *letters.get_mut(len)? = c;
            len += 1;
            start = at;
            // Letters that only look like letters have one case.
            let apart = !c.is_ascii() && pieces[0].is_ascii() && !has_cases(c);
            first_large = apart || !c.is_lowercase();
            small += usize::from(c.is_lowercase() && !apart);
            large += usize::from(c.is_uppercase() || apart);
        }
        let letters = letters.get(..len)?;
        let mut text: String = letters
            .iter()
            .rev()
            .flat_map(|c| c.to_lowercase())
            .collect();
        if !text.is_ascii() && side(&text).is_none() {
            // Not a word of its own script: perhaps an English one in look-alikes.
            text.clear();
            for c in letters.iter().rev() {
                let mut pieces = ['\0'; 4];
                let count = fold::fold(*c, &mut pieces);
                text.extend(pieces.iter().take(count).rev());
            }
        }
        let case = if large > 0 && small == 0 {
            Case::Loud
        } else if first_large {
            Case::Title
        } else {
            Case::Small
        };
        (len > 1).then_some(Self {
            text,
            len,
            start,
            case,
        })
    }

    fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether there is a large and a small letter of it.
fn has_cases(c: char) -> bool {
    !c.to_uppercase().eq(c.to_lowercase())
}

/// Characters that end a line and do not show, as they were written out, and how many lines they end.
const FEEDS: [(&str, usize); 6] = [
    ("\\u{000B}", 1),
    ("\\u{000C}", 1),
    ("\\u{000D}", 1),
    ("\\u{0085}", 1),
    ("\\u{2028}", 1),
    ("\\u{2029}", 2),
];

/// What stands before the end of a line at the end of `before`, in text, strings, HTML or an address, and how many lines
/// end there: none with a carriage return that is spelled.
fn fed(before: &str) -> Option<(&str, usize)> {
    if let Some(rest) = before.strip_suffix('\n') {
        return Some((rest, 1));
    }
    if let Some(found) = FEEDS
        .iter()
        .find_map(|(feed, lines)| Some((before.strip_suffix(feed)?, *lines)))
    {
        return Some(found);
    }
    if before.ends_with('>') {
        let near = before.floor_char_boundary(before.len().saturating_sub(TAG_MAX));
        let start = near + before.get(near..)?.rfind('<')?;
        let tag = before.get(start + 1..)?.trim_start_matches('/');
        let len = tag.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = tag.get(..len)?;
        let ends = name.eq_ignore_ascii_case("br") || name.eq_ignore_ascii_case("p");
        return ends.then_some((before.get(..start)?, 1));
    }
    match spelled_back(before)? {
        ('\n', at) => Some((before.get(..at)?, 1)),
        ('\r', at) => Some((before.get(..at)?, 0)),
        _ => None,
    }
}

/// What stands before a tag that emphasises, or before `_` and `~` that do: those in `my_user` do not.
fn emphasised(before: &str) -> Option<&str> {
    if let Some(rest) = OPENS.iter().find_map(|open| before.strip_suffix(open)) {
        return Some(rest);
    }
    let rest = before.trim_end_matches(['_', '~']);
    let begins = rest.is_empty() || rest.ends_with(['\n', ' ', '\t', '>', '*']);
    (begins && rest.len() < before.len() && before.len() - rest.len() <= 3).then_some(rest)
}

/// Where a name stands that begins after `before`. None if something is glued to it.
fn place(before: &mut &str) -> Option<Place> {
    let mut feeds = 0;
    let mut gap = false;
    for _ in 0..64 {
        if let Some((rest, lines)) = fed(before) {
            feeds += lines;
            *before = rest;
            if feeds > 1 {
                break;
            }
            continue;
        }
        *before = Back::new(before).rest();
        if let Some((rest, lines)) = fed(before) {
            feeds += lines;
            *before = rest;
        } else if let Some(rest) = emphasised(before) {
            gap = true;
            *before = rest;
        } else if let Some(rest) =
            before.strip_suffix([' ', '\t', '*', '>', '\u{a0}', '"', '\'', '-', '`', '('])
        {
            gap = true;
            *before = rest;
        } else {
            break;
        }
        if feeds > 1 {
            break;
        }
    }
    if before.is_empty() || feeds > 1 {
        return Some(Place::Opens);
    }
    if feeds == 1 {
        return Some(Place::Line);
    }
    let last = before.chars().next_back()?;
    (gap || matches!(last, ']' | ')' | '}' | '|' | '.' | '!' | '?' | ';' | ','))
        .then_some(Place::Inside)
}

/// `### Instruction:` and its like at the start of a line.
pub(crate) fn heading(text: &str, at: usize) -> Option<Found> {
    let second = text.as_bytes().get(at + 1)?;
    if fold::is_plain(*second) && *second != b'#' && text.as_bytes().get(at) == Some(&b'#') {
        return None;
    }
    let before = text.get(..at)?;
    let begins = Back::new(before)
        .map(|(_, c)| c)
        .find(|c| !matches!(c, ' ' | '\t' | '>' | '*'))
        .is_none_or(|c| c == '\n')
        || Back::new(before).rest().ends_with("\\n");
    if !begins {
        return None;
    }
    let mut cursor = Cursor::new(text, at);
    let level = cursor.pass(8, |c| c == '#');
    if level < 2 {
        return None;
    }
    cursor.pass(8, |c| is_blank(c) || c == '*');
    let word = Word::read(&mut cursor, char::is_alphabetic)?;
    cursor.pass(8, |c| is_blank(c) || c == '*');
    let Some(colon) = cursor.accept(|c| c == ':') else {
        return heads_turn(&word, cursor).then_some(Found::Doubtful(word.first_end));
    };
    match word.as_str() {
        // Templates have two or three signs there.
        "instruction" | "response" | "human" | "assistant" if level < 4 => {
            Some(Found::Certain(colon.start))
        }
        "instruction" | "response" | "human" | "assistant" | "user" | "system" | "input" | "ai"
        | "bot" | "tool" | "observation" | "instructions" => Some(Found::Doubtful(colon.start)),
        _ => None,
    }
}

/// `### System Prompt`, `### Assistant`: a heading without a colon that names a turn.
fn heads_turn(word: &Word, mut cursor: Cursor<'_>) -> bool {
    let second = Word::read(&mut cursor, char::is_alphabetic);
    cursor.pass(8, is_blank);
    let ends = cursor.peek().is_none_or(|glyph| glyph.plain == '\n');
    let known = match second {
        None => matches!(
            word.as_str(),
            "instruction" | "response" | "human" | "assistant" | "system" | "user"
        ),
        Some(second) => {
            matches!(word.as_str(), "system" | "user" | "assistant")
                && matches!(second.as_str(), "prompt" | "message" | "response")
        }
    };
    ends && known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Line> {
        line(text, text.rfind(':').unwrap()).map(|(_, line)| line)
    }

    #[test]
    fn turns_are_told_from_labels() {
        for text in [
            "ok\n\nHuman:",
            "ok\n\nAssistant:",
            "ok\r\n\r\nHuman:",
            "ok\\n\\nHuman:",
            "a\n\n**Human:",
            "a\n\n__Human:",
            "a\n\n_Human_:",
            "a\n\n~~Human~~:",
            "a\n\n<b>Human:",
            "a\n\n<strong>Human</strong>:",
            "a\n\n`Human`:",
            "x ASSISTANT:",
            "GPT4 Correct User:",
            "Human:",
            "a\n\nUser:",
            "a\n\n\u{200b}Human :",
        ] {
            assert_eq!(of(text), Some(Line::Certain), "{text}");
        }
        for text in [
            "a\nUser:",
            "x USER:",
            "a\nAssistant:",
            "User:",
            "a\n\nSystem:",
            ". Ассистент:",
        ] {
            assert!(
                matches!(of(text), Some(Line::Speaker(_))),
                "{text} {:?}",
                of(text)
            );
        }
        for text in [
            "the user:",
            "superuser:",
            "my_user:",
            "MY_USER:",
            "GOOGLE_ASSISTANT:",
            "a~User:",
            "https:",
            "{\"user\":",
            "human resources:",
            "x:",
            ":",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
