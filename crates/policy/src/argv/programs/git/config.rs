//! git's configuration files, read strictly: what git might understand and we do not is an error.

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// In lower case.
    pub(super) section: String,
    pub(super) subsection: Option<String>,
    /// In lower case.
    pub(super) key: String,
    pub(super) value: String,
}

/// Reads a file. None where it is not plainly understood.
pub(super) fn parse(text: &str) -> Option<Vec<Variable>> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            return Some(variables);
        };
        match first {
            '#' | ';' => rest = rest.split_once('\n').map_or("", |(_, rest)| rest),
            '[' => {
                let (header, after) = header(rest.get(1..)?)?;
                section = Some(header);
                rest = after;
            }
            c if c.is_ascii_alphabetic() => {
                let (name, subsection) = section.clone()?;
                let end = rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                    .unwrap_or(rest.len());
                let (key, after) = rest.split_at(end);
                let after = after.trim_start_matches([' ', '\t']);
                let (value, after) = match after.chars().next() {
                    None | Some('\n' | '\r' | '#' | ';') => ("true".to_owned(), after),
                    Some('=') => value(after.get(1..)?)?,
                    Some(_) => return None,
                };
                variables.push(Variable {
                    section: name,
                    subsection,
                    key: key.to_ascii_lowercase(),
                    value,
                });
                rest = after;
            }
            _ => return None,
        }
    }
}

type Header = (String, Option<String>);

/// `name]`, `name.sub]` or `name "sub"]`.
fn header(text: &str) -> Option<(Header, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))?;
    let (name, rest) = text.split_at(end);
    let name = name.to_ascii_lowercase();
    if let Some(rest) = rest.strip_prefix(']') {
        return Some(match name.split_once('.') {
            Some((name, sub)) => ((name.to_owned(), Some(sub.to_owned())), rest),
            None => ((name, None), rest),
        });
    }
    let rest = rest.trim_start_matches([' ', '\t']).strip_prefix('"')?;
    if name.contains('.') {
        return None;
    }
    let mut subsection = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\n' => return None,
            '\\' => match chars.next()? {
                '\n' => return None,
                c => subsection.push(c),
            },
            c => subsection.push(c),
        }
    }
    let rest = chars.as_str().strip_prefix(']')?;
    Some(((name, Some(subsection)), rest))
}

/// A value up to the end of its line.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut quoted = false;
    let mut chars = text.chars();
    loop {
        match chars.next() {
            None | Some('\n') if quoted => return None,
            None | Some('\n') => break,
            Some('"') => quoted = !quoted,
            Some('\\') => match chars.next()? {
                '\n' => {}
                '\r' => {
                    chars = chars.as_str().strip_prefix('\n')?.chars();
                }
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'b' => value.push('\u{8}'),
                c @ ('"' | '\\') => value.push(c),
                _ => return None,
            },
            Some('#' | ';') if !quoted => {
                let rest = chars.as_str();
                let rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
                return Some((value.trim().to_owned(), rest));
            }
            Some('\0') => return None,
            Some(c) => value.push(c),
        }
    }
    Some((value.trim().to_owned(), chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> Option<Vec<String>> {
        Some(
            parse(text)?
                .into_iter()
                .map(|it| {
                    let sub = it
                        .subsection
                        .map(|sub| format!(".{sub}"))
                        .unwrap_or_default();
                    format!("{}{sub}.{}={}", it.section, it.key, it.value)
                })
                .collect(),
        )
    }

    #[test]
    fn files_are_read_as_git_reads_them() {
        let text = "\u{feff}[core]\n\tfileMode = true ; note\n\tbare\n[Remote \"O r\\\"i\"] url = \"a;b\" # x\n[a.B]C=\\\n d\n";
        assert_eq!(
            flat(text).unwrap(),
            [
                "core.filemode=true",
                "core.bare=true",
                "remote.O r\"i.url=a;b",
                "a.b.c=d"
            ]
        );
    }

    #[test]
    fn what_is_not_plain_is_not_understood() {
        for text in [
            "x = 1",
            "[a\nb=1",
            "[a] b c",
            "[a \"b\nc\"]",
            "[a] b = \"c",
            "[a] b = \\q",
            "[a b]",
        ] {
            assert_eq!(flat(text), None, "{text:?}");
        }
    }
}
