//! The encoding that code says it is written in (PEP 263). Python reads the whole file by it, so that a comment may hold a
//! line end for Python and none for whoever reads UTF-8.

use ruff_text_size::TextSize;

use super::Finding;

/// Encodings in which everything that could be code reads as it stands.
const PLAIN: [&str; 7] = [
    "utf-8",
    "utf8",
    "utf-8-sig",
    "ascii",
    "us-ascii",
    "latin-1",
    "iso-8859-1",
];

/// Refuses code that says it is written in another encoding.
pub(crate) fn check(code: &str) -> Option<Finding> {
    let text = code.trim_start_matches('\u{feff}');
    let mut at = code.len() - text.len();
    for line in text.split_inclusive(['\n', '\r']).take(4) {
        if let Some(name) = declared(line)
            && !PLAIN.contains(&name.to_ascii_lowercase().replace('_', "-").as_str())
        {
            return Some(Finding {
                at: TextSize::try_from(at).unwrap_or_default(),
                reason: format!(
                    "the encoding `{}` is refused: code is read as UTF-8",
                    name.escape_debug()
                ),
            });
        }
        at += line.len();
    }
    None
}

/// The encoding that a line names: `# coding: x`, `# -*- coding: x -*-`, `# vim: set fileencoding=x :`.
fn declared(line: &str) -> Option<&str> {
    let comment = line
        .trim_start_matches([' ', '\t', '\u{c}'])
        .strip_prefix('#')?;
    comment.match_indices("coding").find_map(|(at, word)| {
        let rest = comment.get(at + word.len()..)?;
        let rest = rest
            .strip_prefix([':', '='])?
            .trim_start_matches([' ', '\t']);
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
            .unwrap_or(rest.len());
        rest.get(..end).filter(|name| !name.is_empty())
    })
}
