//! Configuration files of Python tools, searched for keys. Not a parser: it finds more than there is, never less, but
//! for keys written with escapes, which are refused.

use crate::argv::{
    Refusal,
    paths::{Entry, Workspace},
    verdict::refuse,
};

/// The longest configuration file, in bytes.
const LONGEST: usize = 1024 * 1024;

/// The text of a configuration file in a folder, if it is there.
pub(super) fn file(
    folder: &str,
    name: &str,
    workspace: &Workspace<'_>,
) -> Result<Option<String>, Refusal> {
    let path = format!("{folder}/{name}");
    let place = workspace.follow(&path)?;
    if place.entry != Entry::File {
        return Ok(None);
    }
    let bytes = workspace.tree.read(&place.path, LONGEST);
    match bytes.map(String::from_utf8) {
        Some(Ok(text)) => Ok(Some(text)),
        _ => refuse!("{name} cannot be read"),
    }
}

/// What stands behind each `key =`, `"key" =` or `key:` in a text, up to the end of its line, and of the lines over which a
/// list, a long text or an indented value goes on; keys are compared without
/// regard to case, and a longer word that ends in the key does not count.
pub(super) fn assigned<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower.get(from..).and_then(|rest| rest.find(key)) {
        let start = from + at;
        from = start + key.len();
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if lower
            .get(..start)
            .is_some_and(|before| before.ends_with(part))
        {
            continue;
        }
        let after = text.get(from..).unwrap_or_default();
        let after = after.trim_start_matches(['"', '\'', ' ', '\t']);
        if let Some(value) = after.strip_prefix(['=', ':']) {
            found.push(whole(value));
        }
    }
    found
}

/// A value with the lines over which it goes on.
fn whole(text: &str) -> &str {
    let first = text.lines().next().unwrap_or_default();
    let bare = first.trim_start();
    let closed = |end: &str, opened: usize| match first.get(opened..).unwrap_or_default().find(end)
    {
        Some(_) => first.len(),
        None => text
            .get(first.len()..)
            .and_then(|rest| rest.find(end))
            .map_or(text.len(), |at| first.len() + at),
    };
    let blanks = first.len() - bare.len();
    let end = if bare.starts_with('[') {
        closed("]", blanks)
    } else if let Some(mark) = ["\"\"\"", "'''"]
        .into_iter()
        .find(|it| bare.starts_with(it))
    {
        closed(mark, blanks + mark.len())
    } else {
        let mut end = first.len();
        for line in text
            .get(end..)
            .unwrap_or_default()
            .split_inclusive('\n')
            .skip(1)
        {
            if !line.starts_with([' ', '\t']) {
                break;
            }
            end += line.len() + usize::from(end == first.len());
        }
        end
    };
    text.get(..end).unwrap_or(text)
}

/// Whether one of the paths in a value may lie elsewhere.
pub(super) fn leads_out(value: &str) -> bool {
    value
        .split(|c: char| c.is_whitespace() || ",;:=[]\"'".contains(c))
        .any(|path| path.starts_with(['/', '~', '$']) || path.split('/').any(|name| name == ".."))
}

/// Whether a text has a quoted key in which an escape spells a letter.
pub(super) fn has_escaped_key(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        let header = line.starts_with('[') && line.ends_with(']') && !line.contains('=');
        let mut escapes = line
            .match_indices(['u', 'U', 'x'])
            .filter(|(at, _)| line.get(..*at).is_some_and(|before| before.ends_with('\\')));
        escapes.any(|(at, _)| {
            let closed = line.get(at..).and_then(|rest| rest.split_once('"'));
            header
                || closed.is_some_and(|(_, after)| after.trim_start().starts_with(['=', '.', ':']))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_wherever_they_are_set() {
        let text = "[tool.ruff]\nextend = \"a\"\nextend-select = [\"B\"]\n\"extend\" = 'b'\nx = { extend=\"c\" }\nnoextend=1\nEXTEND : d\n";
        let found: Vec<_> = assigned(text, "extend")
            .iter()
            .map(|it| it.trim().to_owned())
            .collect();
        assert_eq!(found, ["\"a\"", "'b'", "\"c\" }", "d"]);
    }

    #[test]
    fn values_go_on_over_lines() {
        let one = |text| assigned(text, "files").concat();
        assert_eq!(one("files = a\nb = 1"), " a");
        assert_eq!(one("files =\n  a,\n  /b\nb = 1"), "\n  a,\n  /b\n");
        assert_eq!(
            one("files = [\n\"a\",\n\"/b\"]\nb = 1"),
            " [\n\"a\",\n\"/b\""
        );
        assert_eq!(one("files = [\"a\"]\n/b = 1"), " [\"a\"]");
        assert_eq!(one("files = \"\"\"\n/b\"\"\"\nc"), " \"\"\"\n/b");
        assert!(leads_out("[\"a\", \"/b\"]") && leads_out("a:../b") && leads_out(" ~/x"));
        assert!(!leads_out("[\"a/b\", 'c..d']") && !leads_out(" src, tests"));
    }

    #[test]
    fn keys_with_escapes_are_seen() {
        for text in [
            "\"ext\\u0065nd\" = 1",
            "a = { \"ext\\u0065nd\" = 1 }",
            "[tool.\"r\\u0075ff\"]",
            "tool.\"r\\u0075ff\".extend = 1",
        ] {
            assert!(has_escaped_key(text), "{text}");
        }
        for text in ["a = \"\\u0065\"", "a = [\"\\u0065\", \"b\"]", "a = '\\d'"] {
            assert!(!has_escaped_key(text), "{text}");
        }
    }
}
