//! The tokens by which chat templates say who speaks, in angle brackets and as names.
//!
//! Families: `ChatML`, Qwen, Yi, Llama 2 to 4, Mistral, Gemma 1 to 4, Phi, Command R, `DeepSeek`, GLM, Granite,
//! Harmony, Kimi, `MiniMax`, EXAONE, Hunyuan, Ling, `StarCoder`, Nemotron, and what is built like them. A shape
//! that only templates have is broken whatever its word; elsewhere the word decides.

use crate::fold::{Back, Cursor, Word, is_blank, is_space, is_word};

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
    if let Some(quick) = ordinary(text, at) {
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
    let ends = matches!(next, Some('>' | '/' | '=')) || (spaces > 0 && next.is_some());
    if !ends {
        return Some(Angle::Tag);
    }
    let bare = matches!(next, Some('>' | '/'));
    let raw = text.get(word.start..word.end).unwrap_or_default();
    if word.as_str() == "role" && !closes && next == Some('>') {
        cursor.next();
        return Some(role_element(cursor, text, open.end));
    }
    if !closes && !doubled && is_quotation(text, at) && is_everyday(word.as_str()) {
        return Some(Angle::Tag);
    }
    let kind = name(
        word.as_str(),
        raw,
        Shape {
            bare,
            closes,
            doubled,
            assigned: next == Some('='),
        },
    );
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
fn ordinary(text: &str, at: usize) -> Option<Angle> {
    let Some((b'<', rest)) = text.as_bytes().get(at..).and_then(<[u8]>::split_first) else {
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
    if len == 1 && rest.get(1) == Some(&b'>') {
        let token = closes || rest.first() == Some(&b's');
        return Some(if token {
            Angle::Token(Found::Certain(at + 1))
        } else {
            Angle::Tag
        });
    }
    let start = at + 1 + usize::from(closes);
    let raw = text.get(start..start + len).filter(|_| bare)?;
    let mut lower = [0_u8; 24];
    let lower = lower.get_mut(..len)?;
    lower.copy_from_slice(raw.as_bytes());
    lower.make_ascii_lowercase();
    let lower = str::from_utf8(lower).ok()?;
    let shape = Shape {
        bare: true,
        closes,
        doubled: false,
        assigned: false,
    };
    Some(name(lower, raw, shape).at(at + 1))
}

#[inline]
pub(crate) fn is_name(c: char) -> bool {
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
pub(crate) fn is_template_word(word: &str) -> bool {
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
    if cursor.accept(|c| c == sigil).is_none() {
        return false;
    }
    if sigil == '@' {
        cursor.pass(GAP_MAX, is_blank);
    }
    cursor.accept(|c| c == '>').is_some()
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

/// Whether it has capital letters and no small ones, as it stands but for what is hidden.
pub(crate) fn is_upper(raw: &str) -> bool {
    let mut letters = Back::new(raw).map(|(_, c)| c);
    letters.clone().any(char::is_uppercase) && !letters.any(char::is_lowercase)
}

/// What stands around a name.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four marks that a tag has or has not"
)]
struct Shape {
    /// It has no attributes.
    bare: bool,
    /// `</name`.
    closes: bool,
    /// `<<name`.
    doubled: bool,
    /// `<name=`.
    assigned: bool,
}

/// Whether the bracket at `at` is one that texts quote with, or a mathematical one.
fn is_quotation(text: &str, at: usize) -> bool {
    text.get(at..)
        .and_then(|rest| rest.chars().next())
        .is_some_and(|c| {
            matches!(
                c,
                '«' | '‹' | '⟨' | '⟪' | '\u{2329}' | '\u{3008}' | '\u{300a}'
            )
        })
}

/// Words of ours that people write in quotation marks.
fn is_everyday(word: &str) -> bool {
    matches!(
        word,
        "s" | "ai"
            | "think"
            | "thinking"
            | "system"
            | "assistant"
            | "observation"
            | "observations"
            | "invoke"
            | "scratchpad"
            | "pad"
            | "sep"
            | "function"
            | "tool"
            | "用户"
            | "助手"
            | "系统"
    )
}

/// What the tag `name` is.
fn name(name: &str, raw: &str, shape: Shape) -> Name {
    let Shape {
        bare,
        closes,
        doubled,
        assigned,
    } = shape;
    let (space, local) = if name.as_bytes().contains(&b':') {
        name.rsplit_once(':').unwrap_or(("", name))
    } else {
        ("", name)
    };
    let squashed = Squashed::of(local);
    let flat = squashed.as_str();
    if space.ends_with(':') || space.contains("::") {
        return Name::Other;
    }
    let ours = flat.strip_prefix("kazma").is_some_and(|rest| {
        rest.is_empty()
            || [
                "data",
                "untrusted",
                "observation",
                "fence",
                "end",
                "begin",
                "tool",
                "context",
            ]
            .iter()
            .any(|word| rest.starts_with(word))
    });
    let untrusted = flat.len() >= "untrusted".len() && flat.contains("untrusted");
    if space == "kazma" || ours || untrusted {
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
        "s" => bare && (closes || raw != "S"),
        "ai" | "bos" | "eos" | "unk" | "pad" | "cls" | "sep" | "eot" | "eom" | "eod" | "sop"
        | "eop" | "eoh" | "eoa" | "bom" | "用户" | "助手" | "系统" | "system" | "assistant"
        | "observation" | "observations" => bare,
        // `<C_Q>`, `<C_A>`, `<B_SYS>`.
        "cq" | "ca" | "bsys" | "busys" => bare && local.contains('_') && is_upper(raw),
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
                || flat.ends_with("softtoken")
                || delimits(local)
        }
    };
    if certain {
        return Name::Certain;
    }
    if flat == "parameter" || bare && is_doubtful(flat) {
        Name::Doubtful
    } else {
        Name::Other
    }
}

/// Names that ordinary documents have too.
fn is_doubtful(flat: &str) -> bool {
    matches!(
        flat,
        "user"
            | "human"
            | "bot"
            | "model"
            | "developer"
            | "instruction"
            | "instructions"
            | "answer"
            | "escape"
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
    )
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
pub(crate) fn numbered(flat: &str) -> bool {
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
pub(crate) struct Squashed {
    bytes: [u8; 64],
    len: usize,
}

impl Squashed {
    pub(crate) fn of(name: &str) -> Self {
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

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// Words for who speaks.
pub(crate) fn is_speaker(word: &str) -> bool {
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
