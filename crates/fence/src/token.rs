//! The tokens by which chat templates say who speaks, in brackets of every kind.
//!
//! Families: `ChatML`, Qwen, Yi, Llama 2 to 4, Mistral, Gemma 1 to 4, Phi, Command R, `DeepSeek`, GLM, Granite,
//! Harmony, Kimi, `MiniMax`, EXAONE, Hunyuan, Ling, `StarCoder`, Nemotron, and what is built like them. A shape
//! that only templates have is broken whatever its word; elsewhere the word decides.

use crate::fold::{self, Cursor, Word, is_blank, is_space, is_word};

/// Blanks inside of brackets.
const GAP_MAX: usize = 8;
/// Letters between two bars.
const BARRED_MAX: usize = 64;

/// A token, and where it is to be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is nothing else.
    Certain(usize),
    /// It may be something else, such as a word of an ordinary document.
    Doubtful(usize),
}

/// What begins with `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Angle {
    /// A token of a template.
    Token(Found),
    /// A forged fence.
    Marker,
    /// Some other tag.
    Tag,
}

/// What a name in angle brackets is.
enum Name {
    Certain,
    Doubtful,
    Marker,
    Other,
}

/// Looks at what begins with a `<` at `at`.
pub(crate) fn angle(text: &str, at: usize) -> Option<Angle> {
    if let Some(quick) = ordinary(text.as_bytes(), at) {
        return Some(quick);
    }
    let mut cursor = Cursor::new(text, at);
    let open = cursor.next()?;
    let token = |found: bool| found.then_some(Angle::Token(Found::Certain(open.end)));
    let doubled = cursor.pass(3, |c| c == '<') > 0;
    cursor.pass(GAP_MAX, is_space);
    let closes = cursor.pass(2, |c| matches!(c, '/' | '\\')) > 0;
    cursor.pass(GAP_MAX, is_space);
    if cursor.accept(|c| c == '|').is_some() {
        return token(barred(cursor, '>'));
    }
    if let Some(sigil) = cursor.accept(|c| matches!(c, '@' | '~' | '^' | '$' | '&' | '§' | '¦')) {
        return token(flanked(cursor, sigil.plain));
    }
    let word = Word::read(&mut cursor, is_name)?;
    let spaces = cursor.pass(GAP_MAX, is_space);
    let next = cursor.peek().map(|glyph| glyph.plain);
    if next == Some('|') {
        cursor.next();
        cursor.pass(GAP_MAX, is_space);
        if cursor.peek().is_some_and(|glyph| glyph.plain == '>') {
            return token(true);
        }
    }
    let ends = matches!(next, Some('>' | '/' | '=') | None) || spaces > 0;
    if !ends {
        return Some(Angle::Tag);
    }
    let bare = matches!(next, Some('>' | '/') | None);
    let raw = text.get(word.start..word.end).unwrap_or_default();
    // A quotation mark or a mathematical bracket around a short word is just that.
    let quotes = !matches!(
        text.as_bytes().get(at),
        Some(b'<' | b'&' | b'%' | b'\\' | 0xef)
    );
    if quotes && word.as_str().len() < 6 {
        return Some(Angle::Tag);
    }
    if word.as_str() == "role" && !closes && next == Some('>') {
        cursor.next();
        return Some(role_element(cursor, text, open.end));
    }
    let kind = name(word.as_str(), raw, bare, next == Some('='), doubled);
    Some(kind.at(open.end))
}

impl Name {
    /// What it makes of a bracket that ends at `end`.
    const fn at(self, end: usize) -> Angle {
        match self {
            Self::Certain => Angle::Token(Found::Certain(end)),
            Self::Doubtful => Angle::Token(Found::Doubtful(end)),
            Self::Marker => Angle::Marker,
            Self::Other => Angle::Tag,
        }
    }
}

/// Quick answers: a name between plain bars, and the tags of ordinary documents.
fn ordinary(bytes: &[u8], at: usize) -> Option<Angle> {
    let Some((b'<', rest)) = bytes.get(at..).and_then(<[u8]>::split_first) else {
        return None;
    };
    if let Some((b'|', name)) = rest.split_first() {
        let len = name
            .iter()
            .take(BARRED_MAX - 1)
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let closed = matches!(name.get(len..)?, [b'|', b'>', ..] | [b'>', ..]);
        return (len > 0 && closed).then_some(Angle::Token(Found::Certain(at + 1)));
    }
    let (closes, rest) = rest
        .strip_prefix(b"/")
        .map_or((false, rest), |rest| (true, rest));
    let len = rest
        .iter()
        .take(24)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let first = rest.first()?.to_ascii_lowercase();
    match rest.get(len) {
        Some(b'>') => {}
        Some(b' ') => {
            let next = rest.get(len + 1)?;
            // A bar may follow after blanks.
            if !next.is_ascii_alphanumeric() {
                return None;
            }
        }
        _ => return None,
    }
    let ours = match len {
        0 => return None,
        1 => first == b's',
        2 => first == b'a' && rest.get(1).is_some_and(|i| i.eq_ignore_ascii_case(&b'i')),
        _ => !matches!(first, b'l' | b'q' | b'v' | b'w' | b'x' | b'y' | b'z'),
    };
    if !ours {
        return Some(Angle::Tag);
    }
    // A role's element holds its word after it.
    let bare = rest.get(len) == Some(&b'>') && (closes || first != b'r');
    let raw = rest.get(..len).filter(|_| bare)?;
    let mut lower = [0_u8; 24];
    let lower = lower.get_mut(..len)?;
    lower.copy_from_slice(raw);
    lower.make_ascii_lowercase();
    let (lower, raw) = (str::from_utf8(lower).ok()?, str::from_utf8(raw).ok()?);
    Some(name(lower, raw, true, false, false).at(at + 1))
}

#[inline]
fn is_name(c: char) -> bool {
    is_word(c) || matches!(c, ':' | '-' | '.')
}

/// `name|` and the closing bracket, after the first bar.
///
/// With blanks beside the bars it may be two operators: there the word decides.
fn barred(mut cursor: Cursor<'_>, close: char) -> bool {
    if cursor.pass(GAP_MAX, is_space) > 0 {
        let Some(word) = Word::read(&mut cursor, is_name) else {
            return false;
        };
        cursor.pass(GAP_MAX, is_space);
        let closed = cursor.accept(|c| c == '|').is_some() && {
            cursor.pass(GAP_MAX, is_space);
            cursor.accept(|c| c == close).is_some()
        };
        return closed && (word.as_str().contains('_') || is_template_word(word.as_str()));
    }
    let mut letters = 0;
    for _ in 0..BARRED_MAX {
        let Some(glyph) = cursor.next() else {
            return false;
        };
        match glyph.plain {
            '|' => {
                cursor.pass(GAP_MAX, is_space);
                // The bar may stand within the name: `<|DSML|invoke`.
                return letters > 0
                    && cursor.peek().is_some_and(|next| {
                        next.plain == close || (close == '>' && is_word(next.plain))
                    });
            }
            c if c == close => return letters > 0 && close == '>',
            '"' | '\'' => letters += 1,
            c if is_word(c) => letters += 1,
            c if is_blank(c)
                || matches!(c, ':' | '-' | '.' | '/' | '@' | '#' | '+' | '!' | '*') => {}
            _ => return false,
        }
    }
    false
}

/// Words that templates put between bars.
fn is_template_word(word: &str) -> bool {
    is_speaker(word)
        || matches!(
            word,
            "end"
                | "start"
                | "message"
                | "channel"
                | "call"
                | "return"
                | "constrain"
                | "turn"
                | "think"
                | "eot"
                | "eom"
                | "eos"
                | "bos"
                | "endoftext"
                | "startoftext"
                | "observation"
                | "open"
                | "close"
                | "sep"
                | "pad"
                | "endofturn"
                | "userprompt"
                | "response"
        )
}

/// `@name@>`: the same sign inside of both brackets.
fn flanked(mut cursor: Cursor<'_>, sigil: char) -> bool {
    let Some(_) = Word::read(&mut cursor, |c| is_name(c) || matches!(c, '/' | ' ')) else {
        return false;
    };
    cursor.accept(|c| c == sigil).is_some() && cursor.accept(|c| c == '>').is_some()
}

/// `<role>SYSTEM</role>`, but not `<role>manager</role>`.
fn role_element(mut cursor: Cursor<'_>, text: &str, end: usize) -> Angle {
    cursor.pass(GAP_MAX, is_space);
    let Some(word) = Word::read(&mut cursor, is_word) else {
        return Angle::Tag;
    };
    cursor.pass(GAP_MAX, is_space);
    if cursor.peek().is_none_or(|glyph| glyph.plain != '<') {
        return Angle::Tag;
    }
    let loud = is_upper(text.get(word.start..word.end).unwrap_or_default());
    match word.as_str() {
        "system" | "assistant" | "human" | "observation" | "tool" | "developer" | "model" => {
            Angle::Token(Found::Certain(end))
        }
        "user" if loud => Angle::Token(Found::Certain(end)),
        "user" => Angle::Token(Found::Doubtful(end)),
        _ => Angle::Tag,
    }
}

fn is_upper(raw: &str) -> bool {
    raw.chars().any(char::is_uppercase) && !raw.chars().any(char::is_lowercase)
}

/// What the tag `name` is. `bare`: it has no attributes; `assigned`: `<name=`; `doubled`: `<<name`.
fn name(name: &str, raw: &str, bare: bool, assigned: bool, doubled: bool) -> Name {
    let (space, local) = name.rsplit_once(':').unwrap_or(("", name));
    let squashed = Squashed::of(local);
    let flat = squashed.as_str();
    if space.starts_with("kazma") || flat.starts_with("kazma") || flat.contains("untrusted") {
        return Name::Marker;
    }
    if doubled && (flat.contains("external") || flat.contains("observation")) {
        return Name::Marker;
    }
    if doubled && is_speaker(flat) || matches!(space, "antml" | "seed" | "minimax") {
        return Name::Certain;
    }
    let certain = match flat {
        // A letter on its own is a type parameter, unless it is the token's.
        "s" => bare && raw != "S",
        "ai" => bare && raw != "ai" && raw != "Ai",
        "bos" | "eos" | "unk" | "pad" | "cls" | "sep" | "eot" | "eom" | "eod" | "sop" | "eop"
        | "eoh" | "eoa" | "bom" | "用户" | "助手" | "系统" | "system" | "assistant"
        | "observation" | "observations" => bare,
        "think"
        | "thinking"
        | "scratchpad"
        | "invoke"
        | "argkey"
        | "argvalue"
        | "gmask"
        | "smask"
        | "ipynbmarker"
        | "beginningofsentence" => true,
        "function" | "parameter" | "tool" => assigned,
        _ => {
            let first = flat.as_bytes().first();
            STEMS
                .iter()
                .any(|stem| stem.as_bytes().first() == first && flat.starts_with(stem))
                || numbered(flat)
                || delimits(local)
        }
    };
    if certain {
        return Name::Certain;
    }
    let doubtful = flat == "parameter"
        || bare
            && matches!(
                flat,
                "user"
                    | "human"
                    | "bot"
                    | "model"
                    | "developer"
                    | "instruction"
                    | "instructions"
                    | "answer"
                    | "reasoning"
                    | "thought"
                    | "reflection"
                    | "tool"
                    | "tools"
                    | "function"
                    | "functions"
                    | "parameter"
                    | "parameters"
                    | "result"
                    | "results"
                    | "output"
                    | "image"
                    | "mask"
                    | "context"
                    | "response"
                    | "usermessage"
                    | "message"
                    | "filesep"
                    | "reponame"
                    | "name"
            );
    if doubtful {
        Name::Doubtful
    } else {
        Name::Other
    }
}

/// How the names of tokens begin, without what joins their words.
const STEMS: [&str; 36] = [
    "toolcall",
    "toolresult",
    "toolresponse",
    "tooluse",
    "tooloutput",
    "toolcode",
    "toolrequest",
    "tooldeclar",
    "toolsep",
    "toolinput",
    "functioncall",
    "functionresult",
    "functionresponse",
    "functionoutput",
    "availabletools",
    "startfunctioncall",
    "endfunctioncall",
    "startfunctionresponse",
    "endfunctionresponse",
    "startfunctiondecl",
    "endfunctiondecl",
    "systemprompt",
    "systemreminder",
    "systemmessage",
    "systeminstruction",
    "systemnote",
    "systemoverride",
    "systemdirective",
    "systemrole",
    "systemturn",
    "assistantresponse",
    "assistantmessage",
    "assistantturn",
    "userquery",
    "userturn",
    "beginofsentence",
];

/// `start_of_turn`, `end_of_utterance`; not `startOffset`.
fn delimits(local: &str) -> bool {
    ["start", "end", "begin", "beginning"].iter().any(|side| {
        local
            .strip_prefix(side)
            .and_then(|rest| rest.strip_prefix(['_', '-']))
            .and_then(|rest| rest.strip_prefix("of"))
            .is_some_and(|rest| rest.starts_with(['_', '-']))
    })
}

/// `extra_id_0`, `SPECIAL_10`, `unused7`, `reserved_106`.
fn numbered(flat: &str) -> bool {
    let stem = flat.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.len() < flat.len()
        && matches!(
            stem,
            "extraid"
                | "special"
                | "specialtoken"
                | "unused"
                | "unusedtoken"
                | "reserved"
                | "reservedtoken"
                | "reservedspecialtoken"
                | "tokensunused"
                | "placeholder"
                | "dummy"
        )
        || matches!(
            flat,
            "fimprefix" | "fimmiddle" | "fimsuffix" | "fimpad" | "fimhole" | "fimbegin" | "fimend"
        )
}

/// A name without what joins its words.
struct Squashed {
    bytes: [u8; 64],
    len: usize,
}

impl Squashed {
    fn of(name: &str) -> Self {
        let mut squashed = Self {
            bytes: [0; 64],
            len: 0,
        };
        for byte in name.bytes().filter(|b| !matches!(b, b'_' | b'-' | b'.')) {
            if let Some(slot) = squashed.bytes.get_mut(squashed.len) {
                *slot = byte.to_ascii_lowercase();
                squashed.len += 1;
            }
        }
        squashed
    }

    fn as_str(&self) -> &str {
        self.bytes
            .get(..self.len)
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

/// Words for who speaks.
fn is_speaker(word: &str) -> bool {
    matches!(
        word,
        "sys"
            | "system"
            | "user"
            | "human"
            | "assistant"
            | "inst"
            | "instruction"
            | "instructions"
            | "tool"
            | "developer"
            | "systemprompt"
            | "root"
            | "admin"
    )
}

/// Looks at what begins with a `[` at `at`.
pub(crate) fn square(text: &str, at: usize) -> Option<Found> {
    if !may_be_square(text.as_bytes(), at) {
        return None;
    }
    if let Some((name, closes, end)) = plain_square(text.as_bytes(), at) {
        let name = text.get(name..end)?;
        let calls = text.as_bytes().get(end + 1) == Some(&b'{');
        return square_name(name, name, closes, calls, at + 1);
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
    cursor.pass(GAP_MAX, is_blank);
    let closes = cursor.pass(1, |c| matches!(c, '/' | '\\')) > 0;
    cursor.pass(GAP_MAX, is_blank);
    let word = Word::read(&mut cursor, |c| is_word(c) || c == '-')?;
    cursor.pass(GAP_MAX, is_blank);
    if cursor.next()?.plain != ']' {
        return None;
    }
    let raw = text.get(word.start..word.end).unwrap_or_default();
    let calls = cursor.peek().is_some_and(|glyph| glyph.plain == '{');
    square_name(word.as_str(), raw, closes, calls, open.end)
}

/// `[word]` or `[/word]` in plain letters: where the word begins, whether a slash is before it, and where
/// it ends.
fn plain_square(bytes: &[u8], at: usize) -> Option<(usize, bool, usize)> {
    let (b'[', rest) = bytes.get(at..)?.split_first()? else {
        return None;
    };
    let closes = rest.first() == Some(&b'/');
    let start = usize::from(closes);
    let len = rest
        .get(start..)?
        .iter()
        .take(40)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let ends = rest.get(start + len) == Some(&b']');
    (len > 0 && ends).then_some((at + 1 + start, closes, at + 1 + start + len))
}

/// What `[name]` is; `calls` if arguments follow, `end` where its bracket ends.
fn square_name(name: &str, raw: &str, closes: bool, calls: bool, end: usize) -> Option<Found> {
    let certain = |found: bool| found.then_some(Found::Certain(end));
    let squashed = Squashed::of(name);
    match squashed.as_str() {
        "inst" | "systemprompt" | "availabletools" | "toolcalls" | "toolcall" | "toolresults"
        | "toolresult" | "toolcontent" | "gmask" | "smask" | "callid" | "think"
        | "modelsettings" | "imgbreak" | "imgend" => Some(Found::Certain(end)),
        "sep" | "cls" => certain(raw != "sep" && raw != "Sep"),
        "sys" | "img" => certain(closes || is_upper(raw)),
        "args" if calls => Some(Found::Certain(end)),
        "args" | "system" | "user" | "assistant" | "human" | "mask" | "pad" | "unk" | "prefix"
        | "suffix" | "middle" => Some(Found::Doubtful(end)),
        flat => certain(numbered(flat)),
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
        Some(b']') => matches!(
            first.to_ascii_lowercase(),
            b'i' | b's'
                | b'a'
                | b't'
                | b'g'
                | b'c'
                | b'm'
                | b'u'
                | b'h'
                | b'p'
                | b'r'
                | b'd'
                | b'e'
        ),
        Some(byte) => matches!(byte, b'~' | b'!' | b' ' | b'\t') || !fold::is_plain(*byte),
        None => true,
    }
}

/// `[|system|]`, after the first bar.
fn in_square_bars(mut cursor: Cursor<'_>) -> bool {
    cursor.pass(GAP_MAX, is_blank);
    cursor.pass(1, |c| c == '/');
    Word::read(&mut cursor, is_name)
        .is_some_and(|word| word.as_str().chars().any(char::is_alphabetic))
        && {
            cursor.pass(GAP_MAX, is_blank);
            cursor.accept(|c| c == '|').is_some()
        }
        && cursor.accept(|c| c == ']').is_some()
}

/// `[[SYSTEM]]`, at its second bracket. In small letters it may be a link of a wiki.
fn doubled_square(mut cursor: Cursor<'_>, text: &str, end: usize) -> Option<Found> {
    cursor.next();
    cursor.pass(GAP_MAX, is_blank);
    let closes = cursor.pass(1, |c| matches!(c, '/' | '#')) > 0;
    let word = Word::read(&mut cursor, is_name)?;
    cursor.pass(GAP_MAX, is_blank);
    let ends = cursor.accept(|c| c == ']').is_some() && cursor.accept(|c| c == ']').is_some();
    let squashed = Squashed::of(word.as_str());
    if !ends || !is_speaker(squashed.as_str()) {
        return None;
    }
    let loud = is_upper(text.get(word.start..word.end).unwrap_or_default());
    Some(if closes || loud {
        Found::Certain(end)
    } else {
        Found::Doubtful(end)
    })
}

/// Brackets that do not match around letters and a tilde, as in `]~b]` and `[e~[`.
pub(crate) fn unbalanced(text: &str, at: usize) -> Option<Found> {
    let near = text.as_bytes().get(at + 1..)?;
    let near = near.get(..near.len().min(7))?;
    let all_plain = near.iter().all(|byte| fold::is_plain(*byte));
    if all_plain && !near.contains(&b'~') {
        return None;
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
    let squashed = Squashed::of(word.as_str());
    (closed && is_speaker(squashed.as_str())).then_some(Found::Certain(open.end))
}
