//! Finding what looks like a marker or a speaker token, and breaking it so that it shows.
//!
//! The search runs over a folded copy (lower case, look-alikes made plain, hidden characters left
//! out); what is broken is the original. The patterns go by structure, not by a list of vendors, as
//! far as that leaves ordinary text alone.

use crate::shown::{self, Kind};

/// What is put into a span to break it.
pub const BREAK: char = '·';

/// One character of the folded copy.
struct Seen {
    /// The folded character.
    plain: char,
    /// Where the original ends, in bytes.
    end: usize,
}

/// Names that are tokens in square brackets, such as `[INST]`.
const SQUARE: [&str; 7] = [
    "inst",
    "system_prompt",
    "available_tools",
    "tool_calls",
    "tool_results",
    "tool_content",
    "gmask",
];

/// Names that are tokens in angle brackets, such as `<tool_call>`.
const ANGLE: [&str; 17] = [
    "tool_call",
    "tool_response",
    "function_results",
    "arg_key",
    "arg_value",
    "think",
    "start_of_turn",
    "end_of_turn",
    "end_of_utterance",
    "bos",
    "eos",
    "s",
    "sop",
    "seed:bos",
    "seed:eos",
    "用户",
    "ai",
];

/// Breaks marker and token look-alikes in `text` and writes hidden characters out, for text that goes
/// to a model without a block of its own, such as a person's reason.
pub fn defuse(text: &str) -> String {
    harmless(text, None)
}

/// The same, with the nonce of the block that the text will stand in.
pub(crate) fn harmless(text: &str, nonce: Option<&str>) -> String {
    let copy = fold(text);
    let plain: Vec<char> = copy.iter().map(|seen| seen.plain).collect();
    let nonce: Vec<char> = nonce.unwrap_or_default().chars().collect();
    let mut breaks: Vec<usize> = (0..plain.len())
        .filter_map(|at| break_at(&plain, at, &nonce))
        .filter_map(|at| copy.get(at).map(|seen| seen.end))
        .collect();
    breaks.sort_unstable();
    breaks.dedup();
    write(text, &breaks)
}

fn fold(text: &str) -> Vec<Seen> {
    text.char_indices()
        .filter(|(_, c)| shown::kind(*c) == Kind::Shown)
        .map(|(at, c)| Seen {
            plain: shown::folded(c),
            end: at + c.len_utf8(),
        })
        .collect()
}

/// The text with a break at each of `breaks` (ascending byte offsets) and hidden characters as escapes.
fn write(text: &str, breaks: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + breaks.len() * 2);
    let mut breaks = breaks.iter().peekable();
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        match shown::kind(c) {
            Kind::Shown => out.push(c),
            Kind::Joiner if shown::joins(before) => out.push(c),
            // A line of text that came from Windows ends like any other.
            Kind::Hidden if c == '\r' && next == Some('\n') => {}
            Kind::Joiner | Kind::Hidden => {
                out.extend(escaped(c));
            }
        }
        before = Some(c);
        if breaks.next_if(|end| **end == at + c.len_utf8()).is_some() {
            out.push(BREAK);
        }
    }
    out
}

/// `c` as an escape in ASCII.
fn escaped(c: char) -> impl Iterator<Item = char> {
    format!("\\u{{{:04X}}}", u32::from(c))
        .chars()
        .collect::<Vec<_>>()
        .into_iter()
}

/// If a span begins at `at`: the index of the character after which it is broken.
fn break_at(text: &[char], at: usize, nonce: &[char]) -> Option<usize> {
    let rest = text.get(at..)?;
    let first = *rest.first()?;
    if !nonce.is_empty() && rest.starts_with(nonce) {
        return Some(at + nonce.len() / 2);
    }
    let found = match first {
        '<' => bar_token(rest) || named(rest, '>', &ANGLE) || doubled(rest),
        '[' => named(rest, ']', &SQUARE) || square_bar(rest) || starts(rest, "[e~["),
        ']' => starts(rest, "]~b]"),
        '=' => marker(rest),
        '#' => heading(text, at),
        '|' => return closes_token(text, at).then_some(at),
        _ => false,
    };
    found.then_some(at)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn starts(rest: &[char], word: &str) -> bool {
    let mut expected = word.chars();
    rest.iter().zip(&mut expected).all(|(a, b)| *a == b) && expected.next().is_none()
}

fn skip_blanks(rest: &[char]) -> &[char] {
    let blanks = rest.iter().take_while(|c| **c == ' ').count();
    rest.get(blanks..).unwrap_or_default()
}

/// `<|word`, `<|"`, or with blanks the whole of `< | word | >`.
fn bar_token(rest: &[char]) -> bool {
    match rest {
        ['<', '|', next, ..] if is_word(*next) || matches!(next, '"' | '/' | '@' | '\'') => true,
        ['<', after @ ..] => {
            let ['|', after @ ..] = skip_blanks(after) else {
                return false;
            };
            let word = skip_blanks(after);
            let length = word.iter().take_while(|c| is_word(**c)).count();
            let after = skip_blanks(word.get(length..).unwrap_or_default());
            length > 0
                && matches!(after, ['|', after @ ..] if skip_blanks(after).first() == Some(&'>'))
        }
        _ => false,
    }
}

/// `|>` right after a word or a quote, as in `<turn|>`.
fn closes_token(text: &[char], at: usize) -> bool {
    text.get(at + 1) == Some(&'>')
        && at
            .checked_sub(1)
            .and_then(|before| text.get(before))
            .is_some_and(|c| is_word(*c) || matches!(c, '"' | '\''))
}

/// `<name>`, `</name>`, `[NAME]`, `[/NAME]`, blanks allowed.
fn named(rest: &[char], close: char, names: &[&str]) -> bool {
    let inner = skip_blanks(rest.get(1..).unwrap_or_default());
    let inner = match inner {
        ['/', after @ ..] => skip_blanks(after),
        other => other,
    };
    names.iter().any(|name| {
        starts(inner, name)
            && inner
                .get(name.chars().count()..)
                .is_some_and(|after| skip_blanks(after).first() == Some(&close))
    })
}

/// `<<SYS>>` and `<</SYS>>`.
fn doubled(rest: &[char]) -> bool {
    starts(rest, "<<sys>>") || starts(rest, "<</sys>>")
}

/// `[|word|]`.
fn square_bar(rest: &[char]) -> bool {
    let ['[', '|', word @ ..] = rest else {
        return false;
    };
    let length = word.iter().take_while(|c| is_word(**c)).count();
    length > 0 && matches!(word.get(length..), Some(['|', ']', ..]))
}

/// Our own marker.
fn marker(rest: &[char]) -> bool {
    matches!(rest, ['=', '=', after @ ..] if starts(skip_blanks(after), "=kazma")
        || matches!(skip_blanks(after), ['=', after @ ..] if starts(skip_blanks(after), "kazma")))
}

/// `### Instruction:` and `### Response:` at the start of a line.
fn heading(text: &[char], at: usize) -> bool {
    let begins_line = at
        .checked_sub(1)
        .is_none_or(|before| text.get(before) == Some(&'\n'));
    let rest = text.get(at..).unwrap_or_default();
    begins_line && (starts(rest, "### instruction:") || starts(rest, "### response:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaker_tokens_of_every_shape_are_broken() {
        for token in [
            "<|im_start|>",
            "<|turn>",
            "<turn|>",
            "<|\"|>",
            "< | im_end | >",
            "<｜User｜>",
            "<｜end▁of▁sentence｜>",
            "＜|eot_id|＞",
            "[INST]",
            "[/INST]",
            "[ /inst ]",
            "<<SYS>>",
            "<</SYS>>",
            "</s>",
            "[TOOL_CALLS]",
            "[gMASK]",
            "[|system|]",
            "<tool_call>",
            "</ tool_response >",
            "<start_of_turn>",
            "]~b]",
            "### Instruction:",
            "<|zorblat_9|>",
            "<\u{200b}|im\u{200d}_start|>",
            "=== KAZMA UNTRUSTED DATA",
            "====  Kаzma",
        ] {
            let shown = defuse(&format!("a\n{token}\nb"));
            assert!(!shown.contains(token), "{token:?} is whole in {shown:?}");
            assert!(
                shown.contains(BREAK),
                "{token:?} is not broken in {shown:?}"
            );
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "xs |> List.map (fun x -> x <| 3)",
            "let f = |x| x + 1; // <|> is an operator",
            "Use `<|` and `|>` in Elm.",
            "<psi|H|psi> >= E_0, [0|1], a << 2 > 1",
            "[INSTALL] [INSTRUMENT] [x] done",
            "### Instructions for assembly\n=== Results ===",
            "<role>manager</role> <!-- note -->",
            "नमस्ते क्\u{200d}षेत्र می\u{200c}خواهم",
            "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈",
            "tabs\tand\nlines",
            "",
        ] {
            assert_eq!(defuse(text), text);
        }
    }

    #[test]
    fn what_does_not_show_is_written_out() {
        for (text, shown) in [
            ("a\u{200b}b", "a\\u{200B}b"),
            ("a\u{202e}b", "a\\u{202E}b"),
            ("a\0b", "a\\u{0000}b"),
            ("x\u{e0041}", "x\\u{E0041}"),
            ("a\r\nb", "a\nb"),
            ("a\rb", "a\\u{000D}b"),
            ("im\u{200d}age", "im\\u{200D}age"),
        ] {
            assert_eq!(defuse(text), shown);
        }
    }
}
