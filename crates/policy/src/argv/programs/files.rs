//! `mkdir`, `touch`, `cp` and `mv`: they write where their operands say.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options::{self, Parsed},
    paths::{Entry, Workspace},
    text,
    verdict::refuse,
};

/// Entries looked at before a folder is copied over another one.
const LOOKED_AT: usize = 20_000;

static MKDIR: Grammar = Grammar {
    name: "mkdir",
    flags: "-p --parents -v --verbose --help --version",
    values: &[("-m --mode", Kind::Judged(mode))],
    refused: &[("-Z --context", "sets a security label")],
    operands: Operands::Write,
    ..Grammar::EMPTY
};

static TOUCH: Grammar = Grammar {
    name: "touch",
    flags: "-a -c --no-create -f -h --no-dereference -m --help --version",
    values: &[
        ("-d --date", Kind::Judged(super::date::description)),
        ("-t", Kind::Text),
        ("-r --reference", Kind::Read),
        ("--time", Kind::Words("access atime use modify mtime")),
    ],
    operands: Operands::Write,
    ..Grammar::EMPTY
};

const BACKUPS: Kind = Kind::Words("none off numbered t existing nil simple never");

static CP: Grammar = Grammar {
    name: "cp",
    flags: "-a --archive --attributes-only -b -d -f --force -i --interactive -n --no-clobber -P --no-dereference -p \
            --parents -R -r --recursive --remove-destination --strip-trailing-slashes -T --no-target-directory -u -v \
            --verbose -x --one-file-system --debug --help --version",
    values: &[
        ("-t --target-directory", Kind::Write),
        ("-S --suffix", Kind::Judged(suffix)),
        (
            "--no-preserve",
            Kind::Words("mode ownership timestamps context links xattr all"),
        ),
        ("--sparse", Kind::Words("auto always never")),
    ],
    optional: &[
        ("--backup", BACKUPS),
        ("--update", Kind::Words("all none none-fail older")),
        ("--reflink", Kind::Words("auto always never")),
        (
            "--preserve",
            Kind::Words("mode ownership timestamps links xattr all"),
        ),
    ],
    refused: &[
        (
            "-L --dereference -H",
            "follows links, also out of the workspace",
        ),
        ("-l --link", "makes hard links"),
        ("-s --symbolic-link", "makes symbolic links"),
        ("--copy-contents", "reads devices and pipes"),
        ("-Z --context", "sets a security label"),
    ],
    operands: Operands::Judged,
    check: Some(copy),
    ..Grammar::EMPTY
};

static MV: Grammar = Grammar {
    name: "mv",
    flags: "-b -f --force -i --interactive -n --no-clobber --no-copy --strip-trailing-slashes -T \
            --no-target-directory -u -v --verbose --debug --help --version",
    values: &[
        ("-t --target-directory", Kind::Write),
        ("-S --suffix", Kind::Judged(suffix)),
    ],
    optional: &[
        ("--backup", BACKUPS),
        ("--update", Kind::Words("all none none-fail older")),
    ],
    refused: &[("-Z --context", "sets a security label")],
    operands: Operands::Judged,
    check: Some(copy),
    ..Grammar::EMPTY
};

pub(super) fn judge(
    name: &str,
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    let grammar = match name {
        "mkdir" => &MKDIR,
        "touch" => &TOUCH,
        "mv" => &MV,
        _ => &CP,
    };
    let parsed = grammar.read(arguments, workspace)?;
    if name == "mv" {
        leave(&parsed, workspace)?;
    }
    Ok(super::permitted(name, arguments, workspace, Tier::Write))
}

/// Where sources and destination are, and whether what would be made at the destination is in the workspace.
fn copy(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let Some((sources, target)) = ends(parsed) else {
        return Ok(());
    };
    options::write(target, workspace)?;
    let place = workspace.writable(target)?;
    let deep = parsed.has(&["-r", "-R", "--recursive", "-a", "--archive"]);
    let whole = parsed.has(&["--parents"]);
    for source in sources {
        text::no_expansion(source)?;
        // mv takes a link itself, and so does cp where it copies whole folders; neither reads through it.
        let from = if deep {
            workspace.follow_parents(source)?
        } else {
            workspace.readable(source)?
        };
        if matches!(from.entry, Entry::Other) {
            return refuse!("`{source}` is neither a file nor a folder");
        }
        let into = place.entry == Entry::Folder && !parsed.has(&["-T", "--no-target-directory"]);
        let said = if !into {
            target.to_owned()
        } else if whole {
            format!("{target}/{source}")
        } else {
            let name = source.trim_end_matches('/').rsplit('/').next();
            match name {
                None | Some("" | "." | "..") => target.to_owned(),
                Some(name) => format!("{target}/{name}"),
            }
        };
        let to = workspace.writable(&said)?;
        if deep && to.entry == Entry::Folder && workspace.may_hold_git(&from.path, LOOKED_AT) {
            return refuse!(
                "`{source}` may hold a .git folder, which would go over what is in `{said}`"
            );
        }
        if deep && to.entry == Entry::Folder && !workspace.keeps_inside(&to.path, LOOKED_AT) {
            return refuse!(
                "`{said}` is there already and has links that lead out of the workspace or into .git; copy to a new \
                 folder"
            );
        }
    }
    Ok(())
}

/// A move also takes its sources away.
fn leave(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let (sources, _) = ends(parsed).unwrap_or_default();
    for source in sources {
        let place = workspace.follow_parents(source)?;
        workspace.not_git(source, &place.path)?;
        if place.path == workspace.tree.root() {
            return refuse!("mv: `{source}` is the workspace itself");
        }
    }
    Ok(())
}

/// Sources, and the operand or option that says where to.
fn ends(parsed: &Parsed) -> Option<(&[String], &str)> {
    let given = parsed.values("-t").last();
    if let Some(target) = given {
        return Some((&parsed.operands, target));
    }
    let (target, sources) = parsed.operands.split_last()?;
    Some((sources, target))
}

/// Permission bits that a folder may get: no set-user-id, set-group-id or sticky bit.
fn mode(mode: &str) -> Result<(), Refusal> {
    let octal = !mode.is_empty() && mode.chars().all(|c| ('0'..='7').contains(&c));
    let plain = if octal {
        u32::from_str_radix(mode, 8).is_ok_and(|bits| bits <= 0o777)
    } else {
        mode.chars().all(|c| "ugoa=+-rwxX,".contains(c))
    };
    if plain {
        Ok(())
    } else {
        refuse!("`{mode}` is more than plain permission bits")
    }
}

fn suffix(suffix: &str) -> Result<(), Refusal> {
    if suffix.is_empty() || suffix.contains('/') || suffix.starts_with('-') {
        return refuse!("`{suffix}` is not the end of a file name");
    }
    // What is there is kept under its name and this: `.gi` and `t`.
    if suffix.len() < 4 && ".git".ends_with(&suffix.to_ascii_lowercase()) {
        return refuse!("`{suffix}` could make a .git, which steers git, of what is there");
    }
    Ok(())
}
