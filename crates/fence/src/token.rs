//! The tokens by which chat templates say who speaks, in angle brackets and as names.
//!
//! Families: `ChatML`, Qwen, Yi, Llama 2 to 4, Mistral, Gemma 1 to 4, Phi, Command R, `DeepSeek`, GLM, Granite,
//! Harmony, Kimi, `MiniMax`, EXAONE, Hunyuan, Ling, `StarCoder`, Nemotron, and what is built like them. A shape
//! that only templates have is broken whatever its word; elsewhere the word decides.

use crate::{
    byte::{self, WORD},
    fold::{Back, Cursor, Word, is_blank, is_space, is_word},
    place::{is_placeholder, opens_turn},
    stem::{begins, delimits, is_everyday_end, is_stem, numbered},
};

/// Blanks inside of brackets.
const GAP_MAX: usize = 8;
/// Letters between two bars.
const BARRED_MAX: usize = 64;

/// Who speaks, in Chinese.
const USER: &[u8] = "用户".as_bytes();
const ASSISTANT: &[u8] = "助手".as_bytes();
const SYSTEM: &[u8] = "系统".as_bytes();

/// A token, and where it is to be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is nothing else.
    Certain(usize),
    /// It may be something else, such as a word of an ordinary document.
    Doubtful(usize),
    /// `<s>` or `</s>` at `open`: the one, unless it strikes out.
    Letter {
        open: usize,
        place: usize,
        closes: bool,
    },
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
    /// `s`, in the bracket at `open`.
    Letter {
        open: usize,
        closes: bool,
    },
    Marker,
    Other,
}

/// Looks at what begins with a `<` at `at`, and is not [`ordinary`].
pub(crate) fn angle(text: &str, at: usize) -> Option<Angle> {
    let mut cursor = Cursor::new(text, at);
    let open = cursor.next()?;
    let token = |found: bool| found.then_some(Angle::Token(Found::Certain(open.end)));
    let doubled = cursor.pass(3, |c| c == '<') > 0;
    cursor.pass(GAP_MAX, is_space);
    let closes = cursor.pass(2, |c| matches!(c, '/' | '\\')) > 0;
    cursor.pass(GAP_MAX, is_space);
    if cursor.accept(|c| c == '|').is_some() {
        cursor.pass(2, |c| c == '|');
        return token(barred(cursor, '>'));
    }
    if !closes && cursor.accept(|c| c == '[').is_some() {
        return token(in_square(cursor));
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
    // `<<SYS` and the end of its line begin a text in a shell.
    let ends = matches!(next, Some('>' | '/' | '=')) || (spaces > 0 && next.is_some() && !doubled);
    if !ends {
        return Some(Angle::Tag);
    }
    let bare = matches!(next, Some('>' | '/'));
    let raw = text.get(word.start..word.end).unwrap_or_default();
    if word.as_bytes() == b"role" && !closes && next == Some('>') {
        cursor.next();
        return Some(role_element(cursor, text, open.end));
    }
    if !closes && !doubled && is_quotation(text, at) && is_everyday(word.as_bytes()) {
        return Some(Angle::Tag);
    }
    let shape = Shape {
        bare,
        closes,
        doubled,
        assigned: next == Some('='),
    };
    let kind = name(word.as_bytes(), raw, shape);
    Some(kind.seen(text, at, raw, shape).at(open.end))
}

impl Name {
    /// What it is where it stands: a name that is certain elsewhere may be a type's parameter, a place to fill in, or
    /// HTML that strikes out.
    fn seen(self, text: &str, at: usize, raw: &str, shape: Shape) -> Self {
        let Self::Certain = self else {
            let short = matches!(raw.len(), 3 | 5);
            let turn = short && shape.bare && !shape.closes && opens_turn(text, at, raw);
            return if turn { Self::Certain } else { self };
        };
        if shape.doubled || shape.assigned {
            return self;
        }
        if raw.eq_ignore_ascii_case("s") {
            return Self::Letter {
                open: at,
                closes: shape.closes,
            };
        }
        if !shape.closes && shape.bare && is_placeholder(text, at, raw) {
            return Self::Doubtful;
        }
        self
    }

    /// What it makes of a bracket that ends at `end`.
    const fn at(self, end: usize) -> Angle {
        match self {
            Self::Certain => Angle::Token(Found::Certain(end)),
            Self::Doubtful => Angle::Token(Found::Doubtful(end)),
            Self::Letter { open, closes } => Angle::Token(Found::Letter {
                open,
                place: end,
                closes,
            }),
            Self::Marker => Angle::Marker,
            Self::Other => Angle::Tag,
        }
    }
}

/// Quick answers to the plain `<` at `at`: a name between plain bars, and the tags of ordinary documents.
#[inline]
pub(crate) fn ordinary(text: &str, at: usize) -> Option<Angle> {
    let rest = text.as_bytes().get(at + 1..)?;
    if let [b'|', name @ ..] = rest {
        let after = byte::skip_few(name, BARRED_MAX - 1, WORD);
        let closed = matches!(after, [b'|', b'>', ..] | [b'>', ..]);
        return (closed && after.len() < name.len())
            .then_some(Angle::Token(Found::Certain(at + 1)));
    }
    named(text, at, rest)
}

/// The same of what has no bar: `rest` is what comes after the `<`.
fn named(text: &str, at: usize, rest: &[u8]) -> Option<Angle> {
    let (closes, rest) = rest
        .strip_prefix(b"/")
        .map_or((false, rest), |rest| (true, rest));
    let len = byte::letters(rest, 24);
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
        let shape = Shape {
            bare: true,
            closes,
            doubled: false,
            assigned: false,
        };
        return Some(if token {
            Name::Certain.seen(text, at, "s", shape).at(at + 1)
        } else {
            Angle::Tag
        });
    }
    let start = at + 1 + usize::from(closes);
    let raw = text.get(start..start + len).filter(|_| bare)?;
    let mut lower = [0_u8; 24];
    let lower = lower.get_mut(..len)?;
    for (slot, byte) in lower.iter_mut().zip(raw.bytes()) {
        *slot = byte | 0x20;
    }
    let shape = Shape {
        bare: true,
        closes,
        doubled: false,
        assigned: false,
    };
    let kind = flat_name(b"", lower, lower, raw, shape);
    Some(kind.seen(text, at, raw, shape).at(at + 1))
}

#[inline]
pub(crate) fn is_name(c: char) -> bool {
    is_word(c) || matches!(c, ':' | '-' | '\u{2014}' | '.')
}

/// `name|` and the closing bracket, after the first bar.
///
/// With blanks beside the bars it may be two operators: there the word decides.
/// A word after the second bar and a blank is none of the name, nor is one after a single letter (`|a| < |b| and`, `|a|<|b|c`).
fn barred(mut cursor: Cursor<'_>, close: char) -> bool {
    if cursor.pass(GAP_MAX, is_space) > 0 {
        let Some(word) = Word::read(&mut cursor, is_name) else {
            return false;
        };
        cursor.pass(GAP_MAX, is_space);
        let closed = cursor.accept(|c| c == '|').is_some() && {
            cursor.pass(2, |c| c == '|');
            cursor.pass(GAP_MAX, is_space);
            cursor.accept(|c| c == close).is_some()
        };
        return closed && (word.as_bytes().contains(&b'_') || is_template_word(word.as_bytes()));
    }
    let mut letters = 0;
    for _ in 0..BARRED_MAX {
        let Some(glyph) = cursor.next() else {
            return false;
        };
        match glyph.plain {
            '|' => {
                cursor.pass(2, |c| c == '|');
                let gap = cursor.pass(GAP_MAX, is_space) > 0;
                // The bar may stand within the name: `<|DSML|invoke`.
                return letters > 0
                    && cursor.peek().is_some_and(|next| {
                        next.plain == close
                            || (close == '>' && is_word(next.plain) && !gap && letters > 1)
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

/// `<[begin_of_sentence]>`, after the square bracket; `<[u8]>` is a type.
fn in_square(mut cursor: Cursor<'_>) -> bool {
    let Some(word) = Word::read(&mut cursor, is_name) else {
        return false;
    };
    let closed = cursor.accept(|c| c == ']').is_some() && cursor.accept(|c| c == '>').is_some();
    let never = word
        .as_bytes()
        .strip_prefix(b"bos_never")
        .or(word.as_bytes().strip_prefix(b"eos_never"));
    closed && (delimits(word.as_bytes()) || never.is_some())
}

/// Words that templates put between bars.
pub(crate) fn is_template_word(word: &[u8]) -> bool {
    is_speaker(word)
        || matches!(
            word,
            b"end"
                | b"start"
                | b"message"
                | b"channel"
                | b"call"
                | b"return"
                | b"constrain"
                | b"turn"
                | b"think"
                | b"eot"
                | b"eom"
                | b"eos"
                | b"bos"
                | b"endoftext"
                | b"startoftext"
                | b"observation"
                | b"open"
                | b"close"
                | b"sep"
                | b"pad"
                | b"endofturn"
                | b"userprompt"
                | b"response"
        )
}

/// `@name@>`: the same sign inside of both brackets.
fn flanked(mut cursor: Cursor<'_>, sigil: char) -> bool {
    let Some(word) = Word::read(&mut cursor, |c| is_name(c) || matches!(c, '/' | ' ')) else {
        return false;
    };
    if !word.as_bytes().iter().any(u8::is_ascii_alphanumeric) && word.as_bytes().is_ascii() {
        // Two arrows: `<~ ~>`.
        return false;
    }
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
    match word.as_bytes() {
        b"system" | b"assistant" | b"human" | b"observation" | b"tool" | b"developer"
        | b"model" => Angle::Token(Found::Certain(end)),
        b"user" if loud => Angle::Token(Found::Certain(end)),
        b"user" => Angle::Token(Found::Doubtful(end)),
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
                '«' | '‹'
                    | '⟨'
                    | '⟪'
                    | '≪'
                    | '≺'
                    | '⊲'
                    | '⋖'
                    | '\u{2329}'
                    | '\u{3008}'
                    | '\u{300a}'
            )
        })
}

/// Words of ours that people write in quotation marks.
fn is_everyday(word: &[u8]) -> bool {
    matches!(
        word,
        b"s" | b"ai"
            | b"think"
            | b"thinking"
            | b"system"
            | b"assistant"
            | b"observation"
            | b"observations"
            | b"invoke"
            | b"scratchpad"
            | b"pad"
            | b"sep"
            | b"function"
            | b"tool"
            | USER
            | ASSISTANT
            | SYSTEM
    )
}

/// What the tag `name` is.
fn name(name: &[u8], raw: &str, shape: Shape) -> Name {
    let (space, local) = match name.iter().rposition(|byte| *byte == b':') {
        Some(colon) => (
            name.get(..colon).unwrap_or_default(),
            name.get(colon + 1..).unwrap_or_default(),
        ),
        None => (&[][..], name),
    };
    if space.ends_with(b":") || holds(space, b"::") {
        return Name::Other;
    }
    let squashed = Squashed::of(local);
    flat_name(space, local, squashed.as_bytes(), raw, shape)
}

/// Whether `part` stands in `name`.
fn holds(name: &[u8], part: &[u8]) -> bool {
    name.len() >= part.len() && name.windows(part.len()).any(|window| window == part)
}

/// What the tag `space:local` is; `flat` is its name without what joins its words.
fn flat_name(space: &[u8], local: &[u8], flat: &[u8], raw: &str, shape: Shape) -> Name {
    let Shape {
        bare,
        closes,
        doubled,
        assigned,
    } = shape;
    let ours = flat.strip_prefix(b"kazma").is_some_and(|rest| {
        rest.is_empty()
            || begins(
                rest,
                &[
                    b"data",
                    b"untrusted",
                    b"observation",
                    b"fence",
                    b"end",
                    b"begin",
                    b"tool",
                    b"context",
                ],
            )
            .is_some()
    });
    if space == b"kazma" || ours || holds(flat, b"untrusted") {
        return Name::Marker;
    }
    if doubled && (holds(flat, b"external") || holds(flat, b"observation")) {
        return Name::Marker;
    }
    if doubled && is_speaker(flat)
        || matches!(space, b"antml" | b"seed" | b"minimax")
        || flat.starts_with(b"longcat") && local.contains(&b'_')
    {
        return Name::Certain;
    }
    let certain = match flat {
        // A letter on its own is a type parameter, unless it is the token's.
        b"s" => bare && (closes || raw != "S"),
        b"ai"
        | b"bos"
        | b"eos"
        | b"unk"
        | b"pad"
        | b"cls"
        | b"sep"
        | b"eot"
        | b"eom"
        | b"eod"
        | b"sop"
        | b"eop"
        | b"eoh"
        | b"eoa"
        | b"bom"
        | USER
        | ASSISTANT
        | SYSTEM
        | b"system"
        | b"assistant"
        | b"observation"
        | b"observations"
        | b"faketokenaroundimage" => bare,
        // `<C_Q>`, `<C_A>`, `<B_SYS>`.
        b"cq" | b"ca" | b"bsys" | b"busys" => bare && local.contains(&b'_') && is_upper(raw),
        b"think"
        | b"thinking"
        | b"scratchpad"
        | b"invoke"
        | b"argkey"
        | b"argvalue"
        | b"gmask"
        | b"smask"
        | b"ipynbmarker"
        | b"beginningofsentence" => true,
        b"function" | b"parameter" | b"tool" => assigned,
        b"inst" | b"sys" => bare && is_upper(raw),
        b"user" | b"bot" | b"human" | b"end" => bare && local.starts_with(b"_"),
        b"filesep" => bare && local.contains(&b'_'),
        _ if is_control(flat) => bare,
        _ => {
            is_stem(flat, raw)
                || numbered(flat)
                || flat.ends_with(b"softtoken")
                || delimits(local) && !is_everyday_end(flat)
        }
    };
    if certain {
        return Name::Certain;
    }
    if flat == b"parameter" || bare && is_doubtful(flat) {
        Name::Doubtful
    } else {
        Name::Other
    }
}

/// Names that only templates have, whatever brackets are around them: those that belong between bars, and those that
/// tokenizers give to the ends of a text.
pub(crate) fn is_control(flat: &[u8]) -> bool {
    if let Some(end) = flat.strip_suffix(b"token") {
        return matches!(
            end,
            b"bos"
                | b"eos"
                | b"eop"
                | b"pad"
                | b"unk"
                | b"cls"
                | b"sep"
                | b"mask"
                | b"startofturn"
                | b"endofturn"
                | b"system"
                | b"user"
                | b"chatbot"
        );
    }
    match flat {
        [b'i', b'm', rest @ ..] => matches!(
            rest,
            b"start" | b"end" | b"sep" | b"system" | b"user" | b"assistant" | b"middle"
        ),
        [b'e', ..] => matches!(
            flat,
            b"eotid"
                | b"eomid"
                | b"eosys"
                | b"endheaderid"
                | b"endoftext"
                | b"endofturn"
                | b"endofprompt"
        ),
        _ => matches!(
            flat,
            b"startheaderid" | b"startofturn" | b"beginoftext" | b"pythontag" | b"beginaudio"
        ),
    }
}

/// Names that ordinary documents have too.
fn is_doubtful(flat: &[u8]) -> bool {
    matches!(
        flat,
        b"user"
            | b"human"
            | b"bot"
            | b"model"
            | b"developer"
            | b"instruction"
            | b"instructions"
            | b"answer"
            | b"escape"
            | b"reasoning"
            | b"thought"
            | b"reflection"
            | b"tool"
            | b"tools"
            | b"function"
            | b"functions"
            | b"parameter"
            | b"parameters"
            | b"result"
            | b"results"
            | b"output"
            | b"image"
            | b"mask"
            | b"context"
            | b"response"
            | b"usermessage"
            | b"message"
            | b"filesep"
            | b"reponame"
            | b"name"
    )
}

/// A name without what joins its words.
pub(crate) struct Squashed {
    bytes: [u8; 64],
    len: usize,
}

impl Squashed {
    pub(crate) fn of(name: &[u8]) -> Self {
        let mut squashed = Self {
            bytes: [0; 64],
            len: 0,
        };
        for byte in name.iter().filter(|b| !matches!(b, b'_' | b'-' | b'.')) {
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
}

/// Words for who speaks.
pub(crate) fn is_speaker(word: &[u8]) -> bool {
    matches!(
        word,
        b"sys"
            | b"system"
            | b"user"
            | b"human"
            | b"assistant"
            | b"inst"
            | b"instruction"
            | b"instructions"
            | b"tool"
            | b"developer"
            | b"systemprompt"
            | b"root"
            | b"admin"
    )
}
