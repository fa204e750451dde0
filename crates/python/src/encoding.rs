//! The encoding that code says it is written in (PEP 263). Python reads the whole file by it, so that a comment may hold a
//! line end for Python and none for whoever reads UTF-8.

use ruff_text_size::TextSize;

use super::Finding;

/// Encodings in which every byte of ASCII is that character and nothing else is one, so that what could be code reads as
/// it stands. In those of several bytes a quotation mark may belong to a letter.
const PLAIN: [&str; 13] = [
    "utf-8",
    "utf8",
    "utf-8-sig",
    "ascii",
    "us-ascii",
    "latin-1",
    "latin1",
    "l1",
    "iso-8859-1",
    "iso8859-1",
    "iso-8859-15",
    "cp1252",
    "windows-1252",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encodings_that_read_as_they_stand_pass() {
        for line in [
            "# coding: utf-8",
            "# -*- coding: UTF_8 -*-",
            "#!/usr/bin/python3\n# vim: set fileencoding=latin1 :",
            "# coding=cp1252",
            "# coding style: PEP 8",
            "x = 1  # coding: utf-7",
            "print('# coding: utf-7')",
            "# decoding",
            "1\n2\n3\n4\n# coding: utf-7",
        ] {
            assert!(check(line).is_none(), "{line}");
        }
        for line in [
            "# coding: unicode_escape",
            "#coding=utf-7",
            " \t\u{c}# -*- coding: raw_unicode_escape -*-",
            "\u{feff}# coding: utf-16",
            "\n# encoding: gbk",
            "# x\r# coding: shift_jis",
            "# coding coding: utf_7",
            "# coding: mbcs",
        ] {
            assert!(check(line).is_some(), "{line}");
        }
    }
}
