//! `find`: an expression language of its own.

use crate::argv::{Permitted, Refusal, Tier, options, paths::Workspace, printing, verdict::refuse};

/// Tests, actions and operators without an argument.
const ALONE: &str = "( ) ! , -not -a -and -o -or -daystart -depth -d -mount -xdev -noleaf -ignore_readdir_race \
    -noignore_readdir_race -warn -nowarn -empty -executable -readable -writable -true -false -nouser -nogroup -print \
    -print0 -ls -prune -quit -help --help -version --version";
/// Tests and options that take one argument of words, numbers or a pattern.
const WITH_WORD: &str = "-maxdepth -mindepth -regextype -amin -atime -cmin -ctime -mmin -mtime -used -fstype -gid -group \
    -ilname -iname -inum -ipath -iregex -iwholename -links -lname -name -path -perm -regex -size -type -uid -user \
    -wholename -xtype -context";
/// Tests that take the name of a file.
const WITH_FILE: &str = "-anewer -cnewer -newer -samefile";
/// What is known and refused.
const REFUSED: &[(&str, &str)] = &[
    ("-exec -execdir -ok -okdir", "runs a program"),
    ("-delete", "deletes files"),
    ("-fprint -fprint0 -fprintf -fls", "writes a file"),
    ("-files0-from", "takes the names of files from a file"),
    ("-L -follow", "follows links, also out of the workspace"),
];

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    check(arguments, workspace).map_err(|refusal| Refusal::new(format_args!("find: {refusal}")))?;
    Ok(super::permitted("find", arguments, workspace, Tier::Read))
}

fn check(arguments: &[String], workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let mut rest = arguments.iter().map(String::as_str).peekable();
    // The options that stand before the starting points.
    while let Some(option) = rest.peek().copied() {
        match option {
            "-H" | "-P" | "--" | "-O0" | "-O1" | "-O2" | "-O3" => {
                rest.next();
            }
            _ => break,
        }
    }
    while let Some(start) = rest.peek().copied() {
        if start.starts_with('-') || matches!(start, "(" | ")" | "!" | ",") {
            break;
        }
        options::read(start, workspace)?;
        rest.next();
    }
    while let Some(word) = rest.next() {
        let mut argument = || {
            rest.next()
                .ok_or_else(|| Refusal::new(format_args!("{word} needs an argument")))
        };
        if let Some((_, why)) = REFUSED.iter().find(|(words, _)| has(words, word)) {
            return refuse!("{word} is refused: it {why}");
        }
        if has(ALONE, word) {
            continue;
        }
        if has(WITH_WORD, word) {
            argument()?;
        } else if has(WITH_FILE, word) {
            options::read(argument()?, workspace)?;
        } else if word == "-printf" {
            printing::widths(argument()?)?;
        } else if let Some(kinds) = word.strip_prefix("-newer") {
            let reference = argument()?;
            match kinds.as_bytes() {
                [b'a' | b'B' | b'c' | b'm', b't'] => super::date::description(reference)?,
                [b'a' | b'B' | b'c' | b'm', b'a' | b'B' | b'c' | b'm'] => {
                    options::read(reference, workspace)?;
                }
                _ => return refuse!("{word} is not a test"),
            }
        } else {
            return refuse!(
                "`{}` is not one of the tests and actions that are known to be harmless",
                word.escape_debug()
            );
        }
    }
    Ok(())
}

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}
