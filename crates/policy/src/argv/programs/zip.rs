//! `zip` and `unzip`: options of one or two letters, in clusters.

use crate::argv::{
    Permitted, Refusal, Tier, options,
    paths::{Entry, Workspace},
    verdict::refuse,
};

/// zip's options of two letters that are taken, and those that are known: both are read before single letters.
const PAIRS: [&str; 3] = ["ll", "sf", "nw"];
const OTHER_PAIRS: &str = "AS AC DF FF FI FS MM RE SC TT UN ZZ db dc dd dg ds du dv h2 ic la lf li mm sb sc sd so sp \
    su sU sv tt ws wl hh";
/// zip's single letters without a value that are taken.
const LETTERS: &str = "rqvjufDXylognk0123456789h";

pub(super) fn judge_zip(
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    zip(arguments, workspace).map_err(|refusal| Refusal::new(format_args!("zip: {refusal}")))
}

fn zip(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let mut operands: Vec<&str> = Vec::new();
    let mut rest = arguments.iter().map(String::as_str).peekable();
    let (mut shows, mut plain) = (false, false);
    while let Some(argument) = rest.next() {
        if plain || argument == "-" || !argument.starts_with('-') {
            operands.push(argument);
            continue;
        }
        if argument == "--" {
            plain = true;
            continue;
        }
        if let Some(long) = argument.strip_prefix("--") {
            match long {
                "recurse-paths" | "quiet" | "verbose" | "junk-paths" | "update" | "freshen"
                | "no-dir-entries" | "no-extra" | "symlinks" => {}
                "version" | "help" | "show-files" => shows = true,
                "exclude" | "include" => patterns("", &mut rest)?,
                _ => {
                    return refuse!(
                        "the option `{}` is not known or refused",
                        argument.escape_debug()
                    );
                }
            }
            continue;
        }
        let mut letters = argument.get(1..).unwrap_or_default();
        while let Some(letter) = letters.chars().next() {
            let pair = letters.get(..2).unwrap_or_default();
            if PAIRS.contains(&pair) {
                shows |= pair == "sf";
                letters = letters.get(2..).unwrap_or_default();
                continue;
            }
            let after = letters.get(letter.len_utf8()..).unwrap_or_default();
            if OTHER_PAIRS.split_whitespace().any(|known| known == pair) {
                return refuse!("the option `-{pair}` is refused");
            }
            match letter {
                'x' | 'i' => {
                    patterns(after, &mut rest)?;
                    break;
                }
                'n' => {
                    if after.is_empty() && rest.next().is_none() {
                        return refuse!("-n needs a value");
                    }
                    break;
                }
                'T' => return refuse!("-T is refused: it runs unzip through a shell"),
                'm' => return refuse!("-m is refused: it deletes what it packs"),
                _ if LETTERS.contains(letter) => shows |= letter == 'h',
                _ => {
                    return refuse!(
                        "the option `-{}` is not known or refused",
                        letter.escape_debug()
                    );
                }
            }
            letters = after;
        }
    }
    let mut tier = Tier::Read;
    if let Some((archive, members)) = operands.split_first() {
        if *archive != "-" && !shows {
            tier = Tier::Write;
            options::write(archive, workspace)?;
            if !archive
                .rsplit('/')
                .next()
                .is_some_and(|name| name.contains('.'))
            {
                options::write(&format!("{archive}.zip"), workspace)?;
            }
        }
        for member in members {
            if member.starts_with('@') {
                return refuse!("`{member}` takes names from a file");
            }
            options::read(member, workspace)?;
        }
    }
    let mut argv = vec!["zip".to_owned()];
    // Without it, what links lead to is packed.
    argv.push("-y".to_owned());
    argv.extend(arguments.iter().cloned());
    Ok(super::rewritten(argv, workspace, tier))
}

/// The patterns after `-x` or `-i`, up to an `@` or the next option.
fn patterns<'a>(
    glued: &str,
    rest: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<(), Refusal> {
    let glued = glued.strip_prefix('=').unwrap_or(glued);
    if glued.starts_with('@') {
        return refuse!("`{glued}` takes patterns from a file");
    }
    if !glued.is_empty() {
        return Ok(());
    }
    let mut any = false;
    while let Some(pattern) = rest.next_if(|next| !next.starts_with('-')) {
        if pattern == "@" && any {
            return Ok(());
        }
        if pattern.starts_with('@') {
            return refuse!("`{pattern}` takes patterns from a file");
        }
        any = true;
    }
    Ok(())
}

pub(super) fn judge_unzip(
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    unzip(arguments, workspace).map_err(|refusal| Refusal::new(format_args!("unzip: {refusal}")))
}

/// What an archive is never unpacked to: git folders, and files that say where one is.
const GIT: [&str; 4] = [
    ".[gG][iI][tT]",
    ".[gG][iI][tT]/*",
    "*/.[gG][iI][tT]",
    "*/.[gG][iI][tT]/*",
];

fn unzip(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let mut operands: Vec<&str> = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    let (mut prints, mut target, mut excluded, mut keeps, mut info) =
        (false, None, false, false, false);
    let mut lowers = false;
    // As it was asked for, but for the names after -x, which come last.
    let mut argv: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            return refuse!("`--` is refused");
        }
        if argument == "-" || !argument.starts_with('-') {
            if excluded {
                names.push(argument.to_owned());
            } else {
                operands.push(argument);
                argv.push(argument.to_owned());
            }
            continue;
        }
        let mut kept = "-".to_owned();
        let mut folders = None;
        let mut letters = argument.chars().skip(1);
        while let Some(letter) = letters.next() {
            match letter {
                'Z' if operands.is_empty() => (prints, info) = (true, true),
                'l' | 'p' | 't' | 'v' | 'z' | 'c' => prints = true,
                '1' | '2' | 's' | 'm' | 'h' | 'T' if info => {}
                'n' => keeps = true,
                // Its help, which it shows instead of all else.
                'h' if operands.is_empty() && matches!(arguments, [_]) => prints = true,
                'L' => lowers = true,
                'q' | 'a' | 'b' | 'C' | 'U' | 'W' | 'D' | 'j' => {}
                'x' => {
                    excluded = true;
                    if letters.next().is_some() {
                        return refuse!("-x takes its names as arguments of their own");
                    }
                    continue;
                }
                'd' => {
                    let glued: String = letters.by_ref().collect();
                    let folder = if glued.is_empty() {
                        rest.next().map(str::to_owned)
                    } else {
                        Some(glued)
                    };
                    let Some(folder) = folder.filter(|it| !it.is_empty()) else {
                        return refuse!("-d needs a folder");
                    };
                    options::write(&folder, workspace)?;
                    excluded = false;
                    folders = Some(folder);
                }
                'o' => return refuse!("-o is refused: it writes over what is there"),
                ':' => return refuse!("-: is refused: it unpacks out of the folder"),
                _ => {
                    return refuse!(
                        "the option `-{}` is not known or refused",
                        letter.escape_debug()
                    );
                }
            }
            kept.push(letter);
        }
        if kept.len() > 1 {
            argv.push(kept);
        }
        if let Some(folder) = folders {
            argv.push(folder.clone());
            target = Some(folder);
        }
    }
    let Some(archive) = operands.first() else {
        return Ok(super::permitted("unzip", arguments, workspace, Tier::Read));
    };
    archive_place(archive, workspace)?;
    if prints {
        return Ok(super::permitted("unzip", arguments, workspace, Tier::Read));
    }
    if lowers {
        return refuse!("-L is refused: it unpacks under other names than those that are judged");
    }
    unpacks_to(target.as_deref().unwrap_or("."), workspace)?;
    let keep = (!keeps).then(|| "-n".to_owned());
    let argv = std::iter::once("unzip".to_owned())
        .chain(keep)
        .chain(argv)
        .chain(["-x".to_owned()])
        .chain(names)
        .chain(GIT.map(str::to_owned));
    Ok(super::rewritten(argv.collect(), workspace, Tier::Write))
}

/// Where the archive is.
fn archive_place(archive: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if archive.contains(['*', '?', '[']) {
        return refuse!("`{archive}`: name one archive, without wildcards");
    }
    // It also looks for names with an ending of its own.
    for name in [
        archive.to_owned(),
        format!("{archive}.zip"),
        format!("{archive}.ZIP"),
    ] {
        options::read(&name, workspace)?;
    }
    Ok(())
}

/// Refuses to unpack to where a link would carry members out of the workspace.
fn unpacks_to(folder: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let folder = workspace.writable(folder)?;
    if folder.entry == Entry::Folder && !workspace.keeps_inside(&folder.path, super::tar::LOOKED_AT)
    {
        return refuse!(
            "it would unpack into a folder with links that lead out of the workspace or into .git, or with too much in \
             it; unpack into a new folder with -d"
        );
    }
    Ok(())
}
