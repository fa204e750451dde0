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

/// What stands behind each `key =`, `"key" =` or `key:` in a text, up to the end of its line; keys are compared without
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
            found.push(value.lines().next().unwrap_or_default());
        }
    }
    found
}

/// Whether a text has a quoted key with an escape in it.
pub(super) fn has_escaped_key(text: &str) -> bool {
    text.lines().any(|line| {
        let key = line.split('=').next().unwrap_or_default();
        key.trim_start().starts_with('"') && key.contains('\\')
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
        assert!(has_escaped_key("\"ext\\u0065nd\" = 1") && !has_escaped_key("a = \"\\u0065\""));
    }
}
