//! Tokens in square brackets and braces: `[INST]`, `[|system|]`, `[[SYSTEM]]`, `]~b]`, `{|system|}`.

use crate::{
    byte::{self, WORD},
    fold::{self, Cursor, Word, is_blank, is_space, is_word},
    stem::numbered,
    token::{Found, Squashed, is_control, is_name, is_speaker, is_template_word, is_upper},
};

/// Blanks inside of brackets.
const GAP_MAX: usize = 8;
/// Letters of a name between brackets that look outwards.
const NAME_MAX: usize = 40;

/// Looks at what begins with a `[` at `at`.
pub(crate) fn square(text: &str, at: usize) -> Option<Found> {
    if let Some((name, closes, end)) = plain_square(text.as_bytes(), at) {
        let name = text.get(name..end)?;
        if !begins_name(*name.as_bytes().first()?) {
            return None;
        }
        let calls = text.as_bytes().get(end + 1) == Some(&b'{');
        return square_name(name.as_bytes(), name, closes, calls, at + 1);
    }
    if !may_be_square(text.as_bytes(), at) {
        return None;
    }
    let mut cursor = Cursor::new(text, at);
    let open = cursor.next()?;
    let certain = |found: bool| found.then_some(Found::Certain(open.end));
    if let Some(second) = cursor.peek()
        && second.plain == '|'
    {
        cursor.next();
        return certain(in_square_bars(cursor));
    }
    if cursor.peek().is_some_and(|glyph| glyph.plain == '[') {
        return doubled_square(cursor, text, open.end);
    }
    if let Some(found) = unbalanced(text, at) {
        return Some(found);
    }
    if cursor.pass(GAP_MAX, is_space) > 0 && cursor.accept(|c| c == '|').is_some() {
        return certain(in_spaced_bars(cursor));
    }
    let closes = cursor.pass(1, |c| matches!(c, '/' | '\\')) > 0;
    cursor.pass(GAP_MAX, is_space);
    let word = Word::read(&mut cursor, |c| is_word(c) || c == '-')?;
    cursor.pass(GAP_MAX, is_space);
    if cursor.next()?.plain != ']' {
        return None;
    }
    let raw = text.get(word.start..word.end).unwrap_or_default();
    let calls = cursor.peek().is_some_and(|glyph| glyph.plain == '{');
    square_name(word.as_bytes(), raw, closes, calls, open.end)
}

/// `[word]` or `[/word]` in plain letters: where the word begins, whether a slash is before it, and where
/// it ends.
fn plain_square(bytes: &[u8], at: usize) -> Option<(usize, bool, usize)> {
    let (b'[', rest) = bytes.get(at..)?.split_first()? else {
        return None;
    };
    let closes = rest.first() == Some(&b'/');
    let start = usize::from(closes);
    let len = byte::run(rest.get(start..)?, 40, WORD);
    let ends = rest.get(start + len) == Some(&b']');
    (len > 0 && ends).then_some((at + 1 + start, closes, at + 1 + start + len))
}

/// What `[name]` is; `calls` if arguments follow, `end` where its bracket ends.
fn square_name(name: &[u8], raw: &str, closes: bool, calls: bool, end: usize) -> Option<Found> {
    let certain = |found: bool| found.then_some(Found::Certain(end));
    if name.eq_ignore_ascii_case(b"inst") {
        return Some(Found::Certain(end));
    }
    let squashed = Squashed::of(name);
    match squashed.as_bytes() {
        b"inst" | b"systemprompt" | b"availabletools" | b"toolcalls" | b"toolcall"
        | b"toolresults" | b"toolresult" | b"toolcontent" | b"gmask" | b"smask" | b"callid"
        | b"think" | b"modelsettings" | b"imgbreak" | b"imgend" => Some(Found::Certain(end)),
        b"sep" | b"cls" => certain(raw != "sep" && raw != "Sep"),
        b"sys" => certain(closes || is_upper(raw)),
        b"img" => certain(!closes && is_upper(raw)),
        b"bos" | b"eos" => certain(is_upper(raw)),
        b"args" if calls => Some(Found::Certain(end)),
        b"eot" | b"eom" if is_upper(raw) => Some(Found::Doubtful(end)),
        b"args" | b"system" | b"user" | b"assistant" | b"human" | b"mask" | b"pad" | b"unk"
        | b"prefix" | b"suffix" | b"middle" => Some(Found::Doubtful(end)),
        flat => certain(numbered(flat) || is_control(flat)),
    }
}

/// Whether what stands in plain brackets can be a token: one word, of which the first letter is one of
/// these.
fn may_be_square(bytes: &[u8], at: usize) -> bool {
    let Some((b'[', rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
        return true;
    };
    let Some(first) = rest.first() else {
        return false;
    };
    if !first.is_ascii_alphanumeric() {
        return !matches!(
            first,
            b']' | b'"' | b'(' | b'{' | b'$' | b'.' | b',' | b'`' | b'\'' | b'^'
        );
    }
    let end = rest
        .iter()
        .take(40)
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')));
    match end.and_then(|end| rest.get(end)) {
        Some(b']') => begins_name(*first),
        Some(byte) => matches!(byte, b'~' | b'!' | b' ' | b'\t' | b'\n') || !fold::is_plain(*byte),
        None => true,
    }
}

/// Whether the name of a token in plain brackets begins so.
const fn begins_name(first: u8) -> bool {
    matches!(
        first.to_ascii_lowercase(),
        b'i' | b's'
            | b'a'
            | b't'
            | b'g'
            | b'c'
            | b'm'
            | b'u'
            | b'b'
            | b'h'
            | b'p'
            | b'r'
            | b'd'
            | b'f'
            | b'e'
    )
}

/// `[|system|]`, after the first bar. With blanks beside the word, or a name of one or two letters, it may be an array of
/// F# or OCaml (`[| x |]`): there the word decides.
fn in_square_bars(mut cursor: Cursor<'_>) -> bool {
    let mut gaps = cursor.pass(GAP_MAX, is_blank);
    cursor.pass(1, |c| c == '/');
    let Some(word) = Word::read(&mut cursor, is_name) else {
        return false;
    };
    gaps += cursor.pass(GAP_MAX, is_blank);
    let closed = cursor.accept(|c| c == '|').is_some() && cursor.accept(|c| c == ']').is_some();
    let letters = word.as_str().chars().filter(|c| c.is_alphabetic()).count();
    let squashed = Squashed::of(word.as_bytes());
    let named = is_template_word(squashed.as_bytes()) || is_control(squashed.as_bytes());
    closed && (named || gaps == 0 && letters > 2)
}

/// `[ |system| ]` and `[ | system | ]`, after the first bar; `[ |x| ]` is mathematics.
fn in_spaced_bars(mut cursor: Cursor<'_>) -> bool {
    cursor.pass(GAP_MAX, is_blank);
    let Some(word) = Word::read(&mut cursor, is_name) else {
        return false;
    };
    cursor.pass(GAP_MAX, is_blank);
    cursor.accept(|c| c == '|').is_some()
        && cursor.pass(GAP_MAX, is_blank) > 0
        && cursor.accept(|c| c == ']').is_some()
        && is_template_word(word.as_bytes())
}

/// `[[SYSTEM]]`, at its second bracket. `[[user]]` may be a link of a wiki.
fn doubled_square(mut cursor: Cursor<'_>, text: &str, end: usize) -> Option<Found> {
    cursor.next();
    cursor.pass(GAP_MAX, is_blank);
    let closes = cursor.pass(1, |c| matches!(c, '/' | '#')) > 0;
    let word = Word::read(&mut cursor, is_name)?;
    cursor.pass(GAP_MAX, is_blank);
    let ends = cursor.accept(|c| c == ']').is_some() && cursor.accept(|c| c == ']').is_some();
    let squashed = Squashed::of(word.as_bytes());
    if !ends || !is_speaker(squashed.as_bytes()) {
        return None;
    }
    let loud = is_upper(text.get(word.start..word.end).unwrap_or_default());
    let plain = matches!(
        squashed.as_bytes(),
        b"user" | b"human" | b"tool" | b"developer" | b"root" | b"admin"
    );
    Some(if closes || loud || !plain {
        Found::Certain(end)
    } else {
        Found::Doubtful(end)
    })
}

/// Brackets that do not match around letters and a tilde, as in `]~b]` and `[e~[`.
pub(crate) fn unbalanced(text: &str, at: usize) -> Option<Found> {
    if let Some((b'[' | b']', near)) = text.as_bytes().get(at..)?.split_first() {
        let first = *near.first()?;
        let outwards = matches!(first, b'<' | b'\\' | b'&' | b'%') || !fold::is_plain(first);
        if !outwards && !first.is_ascii_alphabetic() && !matches!(first, b'~' | b'!') {
            return None;
        }
        let near = near.get(..near.len().min(7))?;
        let all_plain = near.iter().all(|byte| fold::is_plain(*byte));
        if all_plain && !near.contains(&b'~') && !outwards {
            return None;
        }
    }
    if turned_out(text, at) {
        return Some(Found::Certain(Cursor::new(text, at).next()?.end));
    }
    let mut cursor = Cursor::new(text, at);
    let open = cursor.next()?;
    let mut tilde = false;
    for _ in 0..7 {
        match cursor.next()?.plain {
            '~' => tilde = true,
            c if c.is_ascii_alphabetic() || c == '!' => {}
            '[' | ']' if !tilde => return None,
            '[' => return Some(Found::Certain(open.end)),
            ']' if open.plain == ']' => return Some(Found::Certain(open.end)),
            _ => return None,
        }
    }
    None
}

/// `]<]image[>[`: brackets that all look outwards, around a name.
fn turned_out(text: &str, at: usize) -> bool {
    let mut cursor = Cursor::new(text, at);
    let mut all = |signs: &str| {
        signs
            .chars()
            .all(|sign| cursor.accept(|c| c == sign).is_some())
    };
    if !all("]<]") {
        return false;
    }
    let named = cursor.pass(NAME_MAX, |c| is_name(c) || is_blank(c)) > 0;
    let mut all = |signs: &str| {
        signs
            .chars()
            .all(|sign| cursor.accept(|c| c == sign).is_some())
    };
    named && all("[>[")
}

/// `{|system|}`.
pub(crate) fn brace(text: &str, at: usize) -> Option<Found> {
    if text.as_bytes().get(at) == Some(&b'{')
        && text
            .as_bytes()
            .get(at + 1)
            .is_none_or(|next| fold::is_plain(*next) && *next != b'|')
    {
        return None;
    }
    let mut cursor = Cursor::new(text, at);
    let open = cursor.next()?;
    cursor.accept(|c| c == '|')?;
    let word = Word::read(&mut cursor, is_word)?;
    let closed = cursor.accept(|c| c == '|').is_some() && cursor.accept(|c| c == '}').is_some();
    let squashed = Squashed::of(word.as_bytes());
    let ours = is_speaker(squashed.as_bytes()) || is_control(squashed.as_bytes());
    (closed && ours).then_some(Found::Certain(open.end))
}
