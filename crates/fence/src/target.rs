//! Where an address leads, as a page that draws it would find.

use crate::fold::{self, Cursor, is_space};

/// The longest scheme of an address.
const SCHEME_MAX: usize = 20;

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// To a place of the same site, or nowhere.
    Near,
    /// To another host.
    Far,
    /// It is a program; its colon stands here.
    Program(usize),
}

/// Reads the address that `cursor` stands before.
pub(crate) fn target(mut cursor: Cursor<'_>) -> Target {
    cursor.pass(16, |c| is_space(c) || matches!(c, '<' | '"' | '\'' | '`'));
    let near = cursor.rest().as_bytes();
    // A backslash that begins an escape of our own is none.
    let raw = matches!(near, [b'/' | b'\\', b'/', ..])
        || matches!(near, [b'/' | b'\\', b'\\', rest @ ..] if !rest.starts_with(b"u{"));
    // Parsers of addresses leave line feeds and tabs out.
    let folded = cursor
        .clone()
        .take(40)
        .filter(|glyph| !matches!(glyph.plain, '\n' | '\t' | '\r'))
        .take(2)
        .filter(|glyph| matches!(glyph.plain, '/' | '\\'))
        .count();
    let mixed = near.first() == Some(&b'&') && is_mixed(cursor.rest());
    if raw || folded == 2 || mixed {
        return Target::Far;
    }
    let mut scheme = [0_u8; SCHEME_MAX];
    let mut len = 0;
    for glyph in cursor.by_ref().take(40) {
        match glyph.plain {
            // Parsers of addresses leave these out.
            '\n' | '\t' => {}
            ':' => {
                let scheme = scheme.get(..len).and_then(|name| str::from_utf8(name).ok());
                return of_scheme(scheme.unwrap_or_default(), glyph.start, cursor);
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.') => {
                let Some((slot, byte)) = scheme.get_mut(len).zip(u8::try_from(c).ok()) else {
                    return Target::Near;
                };
                *slot = byte;
                len += 1;
            }
            _ => return Target::Near,
        }
    }
    Target::Near
}

/// Whether `text` begins with a slash that is spelled by a name or number of HTML, and a backslash, which as it stands
/// would belong to the spelling: `&#x5c;\`.
fn is_mixed(text: &str) -> bool {
    let near = text.get(..text.floor_char_boundary(12)).unwrap_or_default();
    let Some(len) = near.find(';').map(|at| at + 1) else {
        return false;
    };
    let (spelling, rest) = text.split_at(len);
    let rest = rest.trim_start_matches(['\n', '\t']);
    rest.starts_with('\\')
        && !rest.starts_with("\\u{")
        && fold::spelled(spelling).is_some_and(|(c, _)| matches!(c, '/' | '\\'))
}

/// Whether `cursor` stands before an address that names a host, or a program.
pub(crate) fn is_remote(mut cursor: Cursor<'_>) -> bool {
    match target(cursor.clone()) {
        Target::Near => false,
        Target::Program(_) => true,
        Target::Far => {
            cursor.pass(16, |c| is_space(c) || matches!(c, '<' | '"' | '\'' | '`'));
            let scheme = cursor.pass(SCHEME_MAX, |c| {
                c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '\n' | '\t')
            });
            if scheme > 0 && cursor.accept(|c| c == ':').is_none() {
                return false;
            }
            cursor.pass(2, |c| matches!(c, '/' | '\\')) > 0
        }
    }
}

fn of_scheme(scheme: &str, colon: usize, rest: Cursor<'_>) -> Target {
    match scheme {
        "javascript" | "vbscript" | "livescript" | "jscript" => Target::Program(colon),
        "data" => {
            let kind: String = rest.take(24).map(|glyph| glyph.plain).collect();
            if is_program(&kind) {
                Target::Program(colon)
            } else {
                Target::Near
            }
        }
        // A drive's letter, a part of the same mail.
        "cid" | "mid" | "about" => Target::Near,
        other if other.len() < 2 => Target::Near,
        _ => Target::Far,
    }
}

/// Whether data of this media type can act.
pub(crate) fn is_program(kind: &str) -> bool {
    let kind = kind.trim_start();
    [
        "text/html",
        "text/xml",
        "text/javascript",
        "text/css",
        "application/",
        "image/svg",
    ]
    .iter()
    .any(|start| kind.starts_with(start))
}
