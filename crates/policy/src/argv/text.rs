//! What may stand in an argument at all, and how one line of text becomes arguments without a shell.

use std::collections::BTreeMap;

use super::{Refusal, verdict::refuse};

/// Arguments in one command.
const ARGUMENTS: usize = 1024;
/// Bytes of all arguments together.
const BYTES: usize = 128 * 1024;

/// Refuses arguments that no honest command has.
pub(super) fn check(argv: &[String]) -> Result<(), Refusal> {
    if argv.len() > ARGUMENTS || argv.iter().map(String::len).sum::<usize>() > BYTES {
        return refuse!("more than {ARGUMENTS} arguments or {BYTES} bytes");
    }
    for argument in argv {
        if let Some(found) = argument.chars().find(|c| is_hidden(*c)) {
            return refuse!(
                "a control or hidden character (U+{:04X}) in `{}`",
                u32::from(found),
                argument.escape_debug()
            );
        }
    }
    Ok(())
}

/// Whether a character could make a person read another command than the one that runs: controls but the tab, what
/// turns the direction of writing, and what shows as nothing. Joiners of letters and emoji are not among them.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{a}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether an argument is, whole, something that only a shell would understand.
pub(super) fn is_operator(argument: &str) -> bool {
    let bare = argument.trim_start_matches(|c: char| c.is_ascii_digit());
    matches!(
        bare,
        "|" | "||" | "|&" | "&" | "&&" | ";" | ";;" | "<" | "<<" | "<<<" | ">" | ">>" | ">|" | "&>"
    ) || bare.starts_with(">&")
        || bare.starts_with("<(")
        || bare.starts_with(">(")
}

/// Refuses a path in which the caller counts on a shell that is not there.
pub(super) fn no_expansion(path: &str) -> Result<(), Refusal> {
    // `~`, `~/x`, `~root/x`
    let home = path.strip_prefix('~').is_some_and(|rest| {
        let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
        let login = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
        name.is_empty() || !below.is_empty() && name.chars().all(login)
    });
    if home {
        return refuse!("`{path}`: there is no shell here, so `~` is not replaced; name the path");
    }
    let lower = path.to_ascii_lowercase();
    if ["%2e", "%2f", "%5c", "%00"]
        .iter()
        .any(|code| lower.contains(code))
        || path.contains("..\\")
    {
        return refuse!("`{path}`: escapes and backslashes are not read as parts of a path here");
    }
    if path.starts_with('$') || path.contains("$(") || path.contains("${") || path.contains('`') {
        return refuse!("`{path}`: there is no shell here, so nothing in it is replaced");
    }
    if is_operator(path)
        || path.starts_with('>')
        || path.starts_with("2>")
        || path.starts_with("1>")
        || path.starts_with("&>")
        || path.contains([';', '|'])
        || path.starts_with('<')
    {
        return refuse!(
            "`{path}`: there is no shell here, so no pipe, redirection or second command"
        );
    }
    Ok(())
}

/// Refuses arguments that a program would replace by the lines of a file, wherever they stand: also as the value of an
/// option, and behind `--`.
pub(super) fn no_response_files(arguments: &[String]) -> Result<(), Refusal> {
    match arguments.iter().find(|it| it.starts_with('@')) {
        Some(file) => refuse!(
            "`{}` takes arguments from a file; a value that begins with @ is glued to its option, as in --option=@x",
            file.escape_debug()
        ),
        None => Ok(()),
    }
}

/// The variables a caller may set, each with a value that names no file.
pub(super) fn environment(
    wanted: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    for (name, value) in wanted {
        let plain = |extra: &str| {
            value.len() <= 64
                && value
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        };
        let known = match name.as_str() {
            "LANG" | "LANGUAGE" | "LC_ALL" | "LC_COLLATE" | "LC_CTYPE" | "LC_MESSAGES"
            | "LC_MONETARY" | "LC_NUMERIC" | "LC_TIME" => plain("_.@-"),
            "TZ" => plain("_+-/") && !value.starts_with('/'),
            "TERM" => plain("-."),
            "NO_COLOR" | "CLICOLOR" | "COLUMNS" | "LINES" => plain(""),
            _ => {
                return refuse!(
                    "the variable `{}` is not on the list of those a command may set",
                    name.escape_debug()
                );
            }
        };
        if !known {
            return refuse!("the variable {name} cannot be `{}`", value.escape_debug());
        }
    }
    Ok(wanted.clone())
}

/// Splits a line into arguments as a POSIX shell splits plain words: blanks separate, `'…'` takes all as it is, in
/// `"…"` a backslash frees `"`, `\`, `$` and `` ` ``, outside it frees any character.
///
/// Whatever a shell would treat as more than words is refused unless it is quoted.
pub fn split(line: &str) -> Result<Vec<String>, Refusal> {
    if let Some(found) = line.chars().find(|c| is_hidden(*c)) {
        return refuse!(
            "a control or hidden character (U+{:04X}) in the command",
            u32::from(found)
        );
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return refuse!("a quotation mark is not closed"),
                    }
                }
            }
            '"' => quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return refuse!("the command ends in a backslash"),
            },
            '#' if word.is_none() => {
                return refuse!("`#` starts a comment in a shell; quote it");
            }
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '`' | '$' | '!' if !harmless(c, &rest) => {
                return refuse!(
                    "`{c}` without quotation marks: there is no shell here, so no pipes, redirections, second commands \
                     or substitutions"
                );
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() {
        return refuse!("the command is empty");
    }
    Ok(words)
}

/// `!` alone is an operator of find, and `$` before a blank or at the end is itself.
fn harmless(c: char, rest: &std::str::Chars<'_>) -> bool {
    let next = rest.clone().next();
    match c {
        '!' => true,
        '$' => matches!(next, None | Some(' ' | '\t')),
        _ => false,
    }
}

fn quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), Refusal> {
    loop {
        match rest.next() {
            Some('"') => return Ok(()),
            Some('\\') => match rest.next() {
                Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                Some(c) => word.extend(['\\', c]),
                None => return refuse!("a quotation mark is not closed"),
            },
            Some('`') => return refuse!("a backquote in double quotation marks: nothing is run"),
            Some('$')
                if rest.clone().next().is_some_and(|c| {
                    c.is_alphanumeric()
                        || matches!(c, '(' | '{' | '_' | '@' | '*' | '#' | '?' | '!' | '$' | '-')
                }) =>
            {
                return refuse!(
                    "`$` in double quotation marks: nothing is replaced here; use single ones"
                );
            }
            Some(c) => word.push(c),
            None => return refuse!("a quotation mark is not closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for (line, words) in [
            ("ls -la src", vec!["ls", "-la", "src"]),
            (
                "grep -E '^a|b$' a.txt",
                vec!["grep", "-E", "^a|b$", "a.txt"],
            ),
            ("jq \".n | length\" x", vec!["jq", ".n | length", "x"]),
            (
                "echo 'it'\\''s' \"\" a\\ b",
                vec!["echo", "it's", "", "a b"],
            ),
            ("grep x$ a", vec!["grep", "x$", "a"]),
            ("find . ! -name x", vec!["find", ".", "!", "-name", "x"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn what_only_a_shell_could_do_is_refused() {
        for line in [
            "ls && id",
            "ls;id",
            "cat a|sh",
            "echo $(id)",
            "echo `id`",
            "echo $HOME",
            "cat <(id)",
            "echo x > y",
            "ls\nid",
            "ls &",
            "echo \"$HOME\"",
            "echo \"$(id)\"",
            "echo 'x",
            "",
            "   ",
            "ls \\",
            "echo a\u{202e}b",
            "ls # x",
            "(ls)",
            "echo \"`id`\"",
        ] {
            assert!(split(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn only_listed_variables_with_plain_values_pass() {
        let one = |name: &str, value: &str| {
            environment(&BTreeMap::from([(name.to_owned(), value.to_owned())])).is_ok()
        };
        assert!(
            one("LANG", "C.UTF-8") && one("TZ", "Europe/Berlin") && one("TERM", "xterm-256color")
        );
        for (name, value) in [
            ("LD_PRELOAD", "x"),
            ("PATH", "."),
            ("HOME", "/"),
            ("GIT_DIR", "x"),
            ("TZ", "/etc/passwd"),
            ("TZ", ":x"),
            ("TZ", "../x"),
            ("LC_ALL", "../x"),
            ("lang", "C"),
            ("LANG ", "C"),
        ] {
            assert!(!one(name, value), "{name}={value}");
        }
    }
}
