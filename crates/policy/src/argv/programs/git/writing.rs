//! git's subcommands that write, where nothing is lost by them and nothing of the repository's runs.

use crate::argv::{
    Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options::Parsed,
    paths::{Entry, Workspace},
    verdict::refuse,
};

use super::{
    history::{COLOURS, pretty},
    subcommands::{Subcommand, name_or_path, names_and_paths},
};

const LOSES: &str = "takes away what is there";
const ASKS: &str = "asks somebody who is not there";
const SIGNS: &str = "runs a program to sign";

static ADD: Grammar = Grammar {
    name: "git add",
    flags: "-n --dry-run -v --verbose -f --force -u --update -A --all --no-ignore-removal --no-all --ignore-removal -N \
            --intent-to-add --refresh --ignore-errors --ignore-missing",
    values: &[("--chmod", Kind::Words("+x -x"))],
    refused: &[
        ("-i --interactive -p --patch -e --edit", ASKS),
        ("--pathspec-from-file", "takes names from a file"),
        ("--renormalize", "runs filters"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static COMMIT: Grammar = Grammar {
    name: "git commit",
    flags: "-a --all -q --quiet --allow-empty --allow-empty-message -n --no-verify --dry-run --short --branch \
            --porcelain --long -z --no-status --status -s --signoff --no-signoff --amend --no-gpg-sign \
            --no-post-rewrite -o --only --include --no-edit --reset-author",
    values: &[
        ("-m --message", Kind::Text),
        ("-F --file", Kind::Read),
        ("-C --reuse-message", Kind::Text),
        ("--author", Kind::Text),
        ("--date", Kind::Text),
        (
            "--cleanup",
            Kind::Words("strip whitespace verbatim scissors default"),
        ),
    ],
    optional: &[("-u --untracked-files", Kind::Words("no normal all"))],
    refused: &[
        (
            "-v --verbose",
            "shows differences by programs that the repository names",
        ),
        ("-S --gpg-sign", SIGNS),
        (
            "-i",
            "is easily taken for another option; --include says it",
        ),
        (
            "-p --patch --interactive -e --edit -c --reedit-message --fixup --squash",
            ASKS,
        ),
        (
            "-t --template --pathspec-from-file",
            "takes text from a file",
        ),
        ("--trailer", "can run a program"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static BRANCH: Grammar = Grammar {
    name: "git branch",
    flags: "-a --all -r --remotes -l --list -v -vv --verbose --show-current --no-color -q --quiet -i --ignore-case \
            --omit-empty --no-column --no-abbrev --no-track",
    values: &[
        ("--points-at", Kind::Text),
        ("--sort", Kind::Judged(pretty)),
        ("--format", Kind::Judged(pretty)),
    ],
    optional: &[
        ("--contains", Kind::Text),
        ("--no-contains", Kind::Text),
        ("--merged", Kind::Text),
        ("--no-merged", Kind::Text),
        ("--abbrev", Kind::Number),
        ("--color", COLOURS),
        ("--column", Kind::Text),
    ],
    refused: &[
        ("-d --delete -D -m --move -M -C -c --copy -f --force", LOSES),
        ("--edit-description", ASKS),
        (
            "-u --set-upstream-to --unset-upstream -t --track",
            "changes the configuration",
        ),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static TAG: Grammar = Grammar {
    name: "git tag",
    flags: "-l --list -i --ignore-case --omit-empty --no-column --no-color -a --annotate --no-sign",
    values: &[
        ("-m --message", Kind::Text),
        ("-F --file", Kind::Read),
        ("--points-at", Kind::Text),
        ("--sort", Kind::Judged(pretty)),
        ("--format", Kind::Judged(pretty)),
        ("--cleanup", Kind::Words("strip whitespace verbatim")),
    ],
    optional: &[
        ("-n", Kind::Number),
        ("--contains", Kind::Text),
        ("--no-contains", Kind::Text),
        ("--merged", Kind::Text),
        ("--no-merged", Kind::Text),
        ("--color", COLOURS),
        ("--column", Kind::Text),
    ],
    refused: &[
        ("-d --delete -f --force", LOSES),
        ("-s --sign -u --local-user -v --verify", SIGNS),
        ("-e --edit", ASKS),
        ("--trailer", "can run a program"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static SWITCH: Grammar = Grammar {
    name: "git switch",
    flags: "-q --quiet --detach -d --no-guess --guess --no-track --progress --no-progress",
    values: &[("-c --create", Kind::Text)],
    refused: &[
        (
            "-f --force --discard-changes -C --force-create -m --merge",
            LOSES,
        ),
        ("--recurse-submodules", "starts git in submodules"),
        ("-t --track --orphan", "changes more than the branch"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static CHECKOUT: Grammar = Grammar {
    name: "git checkout",
    flags: "-q --quiet --detach -d --no-guess --guess --no-track --progress --no-progress",
    values: &[("-b", Kind::Text)],
    refused: &[
        (
            "-f --force -B -m --merge --ours --theirs -p --patch --overwrite-ignore",
            LOSES,
        ),
        ("--recurse-submodules", "starts git in submodules"),
        ("-t --track --orphan", "changes more than the branch"),
        ("--pathspec-from-file", "takes names from a file"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static RESTORE: Grammar = Grammar {
    name: "git restore",
    flags: "-S --staged -q --quiet --progress --no-progress",
    values: &[("-s --source", Kind::Text)],
    refused: &[
        ("-W --worktree --ours --theirs -m --merge", LOSES),
        ("-p --patch", ASKS),
        ("--pathspec-from-file", "takes names from a file"),
        ("--recurse-submodules", "starts git in submodules"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static RM: Grammar = Grammar {
    name: "git rm",
    flags: "--cached -r -n --dry-run -q --quiet --ignore-unmatch",
    refused: &[
        ("-f --force", LOSES),
        ("--pathspec-from-file", "takes names from a file"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static MV: Grammar = Grammar {
    name: "git mv",
    flags: "-k -n --dry-run -v --verbose",
    refused: &[("-f --force", LOSES)],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static STASH: Grammar = Grammar {
    name: "git stash",
    flags: "-k --keep-index --no-keep-index -q --quiet -u --include-untracked -a --all -S --staged --index",
    values: &[("-m --message", Kind::Text)],
    refused: &[
        ("-p --patch", ASKS),
        ("--pathspec-from-file", "takes names from a file"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

const WRITES: Subcommand = Subcommand {
    tier: |_| Tier::Write,
    ..Subcommand::READS
};

pub(super) static SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "add",
        grammar: &ADD,
        check: kept_paths,
        ..WRITES
    },
    Subcommand {
        name: "commit",
        grammar: &COMMIT,
        check: commit,
        ..WRITES
    },
    Subcommand {
        name: "branch",
        grammar: &BRANCH,
        tier: branch_tier,
        ..WRITES
    },
    Subcommand {
        name: "tag",
        grammar: &TAG,
        tier: tag_tier,
        check: tag,
        ..WRITES
    },
    Subcommand {
        name: "switch",
        grammar: &SWITCH,
        check: switch,
        ..WRITES
    },
    Subcommand {
        name: "checkout",
        grammar: &CHECKOUT,
        check: checkout,
        last: &["--"],
        ..WRITES
    },
    Subcommand {
        name: "restore",
        grammar: &RESTORE,
        check: restore,
        ..WRITES
    },
    Subcommand {
        name: "rm",
        grammar: &RM,
        check: remove,
        ..WRITES
    },
    Subcommand {
        name: "mv",
        grammar: &MV,
        check: kept_paths,
        ..WRITES
    },
    Subcommand {
        name: "stash push",
        grammar: &STASH,
        check: kept_paths,
        ..WRITES
    },
    Subcommand {
        name: "stash save",
        grammar: &STASH,
        ..WRITES
    },
    Subcommand {
        name: "stash pop",
        grammar: &STASH,
        merges: true,
        ..WRITES
    },
    Subcommand {
        name: "stash apply",
        grammar: &STASH,
        merges: true,
        ..WRITES
    },
];

/// Paths that git keeps or will keep.
fn kept_paths(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    for operand in &parsed.operands {
        name_or_path(operand, workspace)?;
        let place = workspace.follow_parents(operand)?;
        workspace.not_git(operand, &place.path)?;
    }
    Ok(())
}

fn commit(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if !parsed.has(&["-m", "-F", "-C", "--no-edit", "--dry-run"]) {
        return refuse!("without a message (-m) it asks for one in an editor");
    }
    kept_paths(parsed, workspace)
}

/// Whether a branch command only lists.
fn branch_tier(parsed: &Parsed) -> Tier {
    let lists = parsed.has(&[
        "-a",
        "--all",
        "-r",
        "--remotes",
        "-l",
        "--list",
        "--show-current",
        "--points-at",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
    ]);
    if lists || parsed.operands.is_empty() {
        Tier::Read
    } else {
        Tier::Write
    }
}

fn tag_tier(parsed: &Parsed) -> Tier {
    let lists = parsed.has(&[
        "-l",
        "--list",
        "-n",
        "--points-at",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
    ]);
    if lists || parsed.operands.is_empty() {
        Tier::Read
    } else {
        Tier::Write
    }
}

fn tag(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if parsed.has(&["-a", "--annotate"]) && !parsed.has(&["-m", "-F"]) {
        return refuse!("without a message (-m) it asks for one in an editor");
    }
    names_and_paths(parsed, workspace)
}

fn switch(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    most(parsed, 1)?;
    names_and_paths(parsed, workspace)
}

/// A branch, and nothing that could be a path: that would be put back as it was committed.
fn checkout(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    most(parsed, 1)?;
    if parsed.dashes {
        return refuse!("paths would be put back as they were committed, and changes lost");
    }
    for operand in &parsed.operands {
        if operand.starts_with(':') || operand.contains(['*', '?', '[']) {
            return refuse!("`{operand}` is a pattern of paths, not a branch");
        }
        name_or_path(operand, workspace)?;
        if workspace.follow_parents(operand)?.entry != Entry::Missing {
            return refuse!(
                "`{operand}` is a path: it would be put back as it was committed, and changes lost"
            );
        }
    }
    Ok(())
}

fn restore(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if !parsed.has(&["-S", "--staged"]) {
        return refuse!("without --staged it puts files back as they were, and changes are lost");
    }
    kept_paths(parsed, workspace)
}

fn remove(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if !parsed.has(&["--cached"]) {
        return refuse!("without --cached it deletes files");
    }
    kept_paths(parsed, workspace)
}

fn most(parsed: &Parsed, most: usize) -> Result<(), Refusal> {
    match parsed.operands.get(most) {
        Some(extra) => refuse!("the operand `{extra}` is one too many"),
        None => Ok(()),
    }
}
