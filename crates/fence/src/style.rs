//! Style sheets that would load something from elsewhere.

use crate::{
    fold::{Cursor, is_space},
    target::{Target, is_remote, target},
};

/// What functions of CSS that load are called at their end: `url`, `src`, `image-set`, `image`.
const LOADERS: [&[u8]; 4] = [b"url", b"src", b"set", b"image"];

/// The style sheets of a text, each of which is read once.
#[derive(Debug, Default)]
pub(crate) struct Sheets {
    /// How far they were read.
    until: usize,
    /// The last place there that loads something.
    last: Option<usize>,
}

impl Sheets {
    /// Whether the sheet that begins at `from`, in its tag, loads something.
    pub(crate) fn loads(&mut self, text: &str, from: usize) -> bool {
        if from >= self.until {
            self.until = end(text.as_bytes(), from);
            self.last = last_load(text, from, self.until);
        }
        self.last.is_some_and(|last| last >= from)
    }
}

/// Whether an address begins with letters of which CSS spells one by its number.
fn is_escaped(mut address: Cursor<'_>) -> bool {
    address.pass(4, |c| is_space(c) || matches!(c, '"' | '\''));
    let near = address.rest().as_bytes();
    let letters = near
        .iter()
        .take(8)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    matches!(near.get(letters..), Some([b'\\', digit, ..]) if digit.is_ascii_hexdigit())
}

/// Whether the bracket at `at` follows `expression`.
fn is_expression(text: &str, at: usize) -> bool {
    const NAME: &[u8] = b"expression";
    at.checked_sub(NAME.len())
        .and_then(|start| text.as_bytes().get(start..at))
        .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// Where the sheet ends that begins at `from`.
fn end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let len = rest
        .windows(b"</style".len())
        .position(|tag| tag.first() == Some(&b'<') && tag.eq_ignore_ascii_case(b"</style"));
    from + len.unwrap_or(rest.len())
}

/// Whether a style between these places loads something from elsewhere.
pub(crate) fn loads(text: &str, from: usize, to: usize) -> bool {
    last_load(text, from, to).is_some()
}

/// The last place of a style that loads something from elsewhere.
///
/// An address stands in brackets or in quotation marks. Names of functions can be spelled in many ways
/// (`u\72l`, `&#117;rl`), so a whole address counts whatever the name is; what has no host counts in
/// functions that load.
fn last_load(text: &str, from: usize, to: usize) -> Option<usize> {
    let whole = text.get(..to)?;
    let mut last = None;
    let mut name = [0_u8; 5];
    let mut import = 0;
    for glyph in Cursor::new(whole, from) {
        let after = || Cursor::new(whole, glyph.end);
        let loads = match glyph.plain {
            '(' => {
                let loader = LOADERS.iter().any(|loader| name.ends_with(loader));
                // `url(\68 ttps://…)`: CSS reads its own escapes there. `expression(…)` was a program.
                is_remote(after())
                    || loader && (target(after()) != Target::Near || is_escaped(after()))
                    || name.ends_with(b"ssion") && is_expression(whole, glyph.start)
            }
            '"' | '\'' | ',' => is_remote(after()),
            // `@import //e.example` has neither.
            '@' => {
                import = glyph.end;
                false
            }
            c => import > 0 && is_space(c) && is_remote(after()),
        };
        if loads {
            last = Some(glyph.start);
        }
        if matches!(glyph.plain, ';' | '{' | '}') {
            import = 0;
        }
        name.rotate_left(1);
        if let Some(slot) = name.last_mut() {
            *slot = u8::try_from(glyph.plain).unwrap_or_default();
        }
    }
    last
}
