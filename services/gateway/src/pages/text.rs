//! Untrusted text as HTML text.

use std::fmt::Write as _;

use askama::filters::Safe;

use super::visible::{Span, visible};

/// Escapes `text` for element content and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&#38;"),
            '<' => out.push_str("&#60;"),
            '>' => out.push_str("&#62;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// `text` escaped, with a chip for each character that would not be seen.
pub fn shown_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for span in visible(text) {
        match &span {
            Span::Plain(text) => out.push_str(&escape(text)),
            Span::Hidden(c) => out.push_str(&chip(*c)),
        }
    }
    out
}

/// [`shown_html`] for templates.
pub fn shown(text: &str) -> Safe<String> {
    Safe(shown_html(text))
}

/// The same of one argument or name, in which a tab is a character like any other: it is drawn as its code.
pub fn shown_word(text: &str) -> Safe<String> {
    let mut out = String::with_capacity(text.len());
    for (n, part) in text.split('\t').enumerate() {
        if n > 0 {
            out.push_str(&chip('\t'));
        }
        out.push_str(&shown_html(part));
    }
    Safe(out)
}

/// A character that does not show itself, as its code.
fn chip(c: char) -> String {
    format!(
        "<span class=\"hid\" title=\"A character that does not show itself\">U+{:04X}</span>",
        u32::from(c)
    )
}

/// A host name of mixed alphabets, with the code point of each letter that is not Latin beside it.
pub fn spelled(host: &str) -> Safe<String> {
    let mut out = String::new();
    for c in host.chars() {
        out.push_str(&escape(c.encode_utf8(&mut [0; 4])));
        if !c.is_ascii() {
            let _ = write!(out, "<span class=\"hid\">U+{:04X}</span>", u32::from(c));
        }
    }
    Safe(out)
}

/// A span of time as a person reads it: `4:32`, `23 h 59 min`, `2 days`.
pub fn span(seconds: u64) -> String {
    let (minutes, rest) = (seconds / 60, seconds % 60);
    match minutes {
        0..60 => format!("{minutes}:{rest:02}"),
        60..2880 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_chips_and_markup_stays_text() {
        assert_eq!(
            shown_html("<a>\u{200B}\"'&"),
            "&#60;a&#62;<span class=\"hid\" title=\"A character that does not show itself\">U+200B</span>&#34;&#39;&#38;"
        );
    }

    #[test]
    fn times_are_short() {
        assert_eq!(
            [5, 272, 86_340, 200_000].map(span),
            ["0:05", "4:32", "23 h 59 min", "2 days"]
        );
    }
}
