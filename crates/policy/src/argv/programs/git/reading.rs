//! git's subcommands that only read.

use crate::argv::{
    Refusal,
    grammar::{Grammar, Kind, Operands},
    verdict::refuse,
};

use super::{
    history::{COLOURS, DIFF, HISTORY, pretty},
    subcommands::{Subcommand, config, grep, none, objects, to_stdout},
};

const PLAIN_DIFF: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
];
const IGNORES: Kind = Kind::Words("all dirty");

static STATUS: Grammar = Grammar {
    name: "git status",
    flags: "-s --short -v --verbose -b --branch --no-branch --show-stash --long --ahead-behind --no-ahead-behind -z --renames \
            --no-renames --no-column",
    optional: &[
        ("--porcelain", Kind::Words("v1 v2 1 2")),
        ("-u --untracked-files", Kind::Words("no normal all")),
        ("--ignored", Kind::Words("traditional no matching")),
        ("--ignore-submodules", IGNORES),
        ("--column", Kind::Text),
        ("-M --find-renames", Kind::Number),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static DIFFS: Grammar = Grammar {
    name: "git diff",
    flags: "--cached --staged --merge-base -0 -1 -2 -3 --base --ours --theirs -c --cc -m -q",
    also: &[&DIFF],
    digits: true,
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static LOG: Grammar = Grammar {
    name: "git log",
    also: &[&HISTORY],
    digits: true,
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static SHORTLOG: Grammar = Grammar {
    name: "git shortlog",
    flags: "-n --numbered -s --summary -e --email -c --committer",
    values: &[("--group", Kind::Judged(pretty))],
    optional: &[("-w", Kind::Judged(pretty))],
    also: &[&HISTORY],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static STASH_SHOW: Grammar = Grammar {
    name: "git stash show",
    flags: "--include-untracked -u --only-untracked --no-include-untracked",
    also: &[&DIFF],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static REV_PARSE: Grammar = Grammar {
    name: "git rev-parse",
    flags: "--verify -q --quiet --symbolic --symbolic-full-name --show-toplevel --git-dir --absolute-git-dir \
            --is-inside-work-tree --is-inside-git-dir --is-bare-repository --show-prefix --show-cdup --git-common-dir \
            --is-shallow-repository --all --not --sq --revs-only --no-revs --flags --no-flags --local-env-vars \
            --show-superproject-working-tree",
    values: &[
        ("--default", Kind::Text),
        ("--since --after", Kind::Text),
        ("--until --before", Kind::Text),
        ("--exclude", Kind::Text),
        ("--glob", Kind::Text),
        ("--disambiguate", Kind::Text),
        ("--path-format", Kind::Words("absolute relative")),
        ("--git-path", Kind::Text),
    ],
    optional: &[
        ("--abbrev-ref", Kind::Words("strict loose")),
        ("--short", Kind::Number),
        ("--branches", Kind::Text),
        ("--tags", Kind::Text),
        ("--remotes", Kind::Text),
        ("--show-object-format", Kind::Text),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static LS_FILES: Grammar = Grammar {
    name: "git ls-files",
    flags: "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k --killed -z -t \
            -v -f --directory --no-empty-directory --eol --deduplicate --full-name --error-unmatch --exclude-standard \
            --debug --sparse --resolve-undo",
    values: &[
        ("-x --exclude", Kind::Text),
        ("-X --exclude-from", Kind::Read),
        ("--with-tree", Kind::Text),
        ("--format", Kind::Judged(pretty)),
    ],
    optional: &[("--abbrev", Kind::Number)],
    refused: &[
        ("--recurse-submodules", "starts git in submodules"),
        ("--exclude-per-directory", "names files that are read"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static LS_TREE: Grammar = Grammar {
    name: "git ls-tree",
    flags: "-d -r -t -l --long -z --name-only --name-status --object-only --full-name --full-tree",
    values: &[("--format", Kind::Judged(pretty))],
    optional: &[("--abbrev", Kind::Number)],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static BLAME: Grammar = Grammar {
    name: "git blame",
    flags: "-b --root -c -f --show-name -n --show-number -s -t -l -p --porcelain --line-porcelain --incremental -e \
            --show-email -w --show-stats --score-debug --progress --no-progress --minimal --first-parent --reverse \
            --color-lines --color-by-age",
    values: &[
        ("-L", Kind::Text),
        ("--since", Kind::Text),
        (
            "--date",
            Kind::Words(
                "relative local default iso iso8601 rfc rfc2822 short raw human unix iso-strict",
            ),
        ),
        ("--ignore-rev", Kind::Text),
        ("--ignore-revs-file", Kind::Read),
        ("--encoding", Kind::Text),
    ],
    optional: &[
        ("--abbrev", Kind::Number),
        ("-M", Kind::Judged(score)),
        ("-C", Kind::Judged(score)),
    ],
    refused: &[
        ("--contents", "shows another file"),
        ("-S", "reads a file that is no operand"),
        ("--textconv", "runs a program"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

/// A score of blame's, or more of the letter: `-CCC`.
fn score(value: &str) -> Result<(), Refusal> {
    if value.len() < 10
        && value
            .chars()
            .all(|c| c.is_ascii_digit() || "MC".contains(c))
    {
        return Ok(());
    }
    refuse!("`{value}` is not a score")
}

static DESCRIBE: Grammar = Grammar {
    name: "git describe",
    flags: "--all --tags --always --long --contains --debug --exact-match --first-parent",
    values: &[
        ("--candidates", Kind::Number),
        ("--match", Kind::Text),
        ("--exclude", Kind::Text),
    ],
    optional: &[
        ("--abbrev", Kind::Number),
        ("--dirty", Kind::Text),
        ("--broken", Kind::Text),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static GREP: Grammar = Grammar {
    name: "git grep",
    flags: "--cached --untracked --exclude-standard --no-exclude-standard -i --ignore-case -w --word-regexp -v \
            --invert-match -h -H --full-name -E --extended-regexp -G --basic-regexp -P --perl-regexp -F \
            --fixed-strings -n --line-number -l --files-with-matches --name-only -L --files-without-match -c --count \
            -o --only-matching -z --null -q --quiet -p --show-function -W --function-context --heading --break \
            --column --all-match --and --or --not -a --text -I -r --recursive --no-recursive --no-textconv --no-color",
    values: &[
        ("-e", Kind::Text),
        ("-f", Kind::Read),
        ("-A --after-context", Kind::Number),
        ("-B --before-context", Kind::Number),
        ("-C --context", Kind::Number),
        ("-m --max-count", Kind::Number),
        ("--max-depth", Kind::Number),
        ("--threads", Kind::Number),
    ],
    optional: &[("--color", COLOURS)],
    refused: &[
        ("-O --open-files-in-pager", "runs a program"),
        ("--no-index", "searches files that git does not keep"),
        ("--recurse-submodules", "starts git in submodules"),
        ("--textconv", "runs a program"),
    ],
    digits: true,
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static CAT_FILE: Grammar = Grammar {
    name: "git cat-file",
    flags: "-t -s -e -p --mailmap --use-mailmap --batch-all-objects --buffer --unordered",
    optional: &[
        ("--batch", Kind::Judged(pretty)),
        ("--batch-check", Kind::Judged(pretty)),
    ],
    refused: &[
        ("--textconv --filters", "runs a program"),
        ("--batch-command", "takes orders from its input"),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static REFS: Grammar = Grammar {
    name: "git for-each-ref",
    flags: "--shell --perl --python --tcl --ignore-case --omit-empty --include-root-refs --heads --branches --tags -d \
            --dereference -q --quiet --verify --head",
    values: &[
        ("--count", Kind::Number),
        ("--sort", Kind::Judged(pretty)),
        ("--format", Kind::Judged(pretty)),
        ("--points-at", Kind::Text),
        ("--exclude", Kind::Text),
    ],
    optional: &[
        ("--contains", Kind::Text),
        ("--no-contains", Kind::Text),
        ("--merged", Kind::Text),
        ("--no-merged", Kind::Text),
        ("--color", COLOURS),
        ("-s --hash", Kind::Number),
        ("--abbrev", Kind::Number),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static COMMITS: Grammar = Grammar {
    name: "git",
    flags: "-a --all --octopus --independent --is-ancestor --fork-point -v --name-only --always --tags --no-undefined",
    values: &[("--refs", Kind::Text), ("--exclude", Kind::Text)],
    optional: &[("--abbrev", Kind::Number)],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static SHOW_BRANCH: Grammar = Grammar {
    name: "git show-branch",
    flags: "-a --all -r --remotes --current --topo-order --date-order --sparse --list --merge-base --independent \
            --no-name --sha1-name --topics --no-color",
    optional: &[("--more", Kind::Number), ("--color", COLOURS)],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static NAMES: Grammar = Grammar {
    name: "git",
    flags: "--branch --allow-onelevel --no-allow-onelevel --refspec-pattern --normalize --print",
    operands: Operands::Text(8),
    ..Grammar::EMPTY
};

static CHECKS: Grammar = Grammar {
    name: "git",
    flags: "-v --verbose -n --non-matching -q --quiet --no-index -a --all --cached -z -H --human-readable",
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static FSCK: Grammar = Grammar {
    name: "git fsck",
    flags: "--full --no-full --strict --dangling --no-dangling --unreachable --root --tags --no-reflogs --verbose \
            --connectivity-only --no-progress --progress --name-objects --no-name-objects",
    ..Grammar::EMPTY
};

static SYMBOLIC_REF: Grammar = Grammar {
    name: "git symbolic-ref",
    flags: "-q --quiet --short --recurse --no-recurse",
    refused: &[("-d --delete -m", "changes the reference")],
    operands: Operands::Text(1),
    ..Grammar::EMPTY
};

static REFLOG: Grammar = Grammar {
    name: "git reflog",
    also: &[&HISTORY],
    digits: true,
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static REMOTE: Grammar = Grammar {
    name: "git remote",
    flags: "-v --verbose --push --all",
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static WORKTREES: Grammar = Grammar {
    name: "git worktree list",
    flags: "-v --verbose --porcelain -z",
    ..Grammar::EMPTY
};

static VAR: Grammar = Grammar {
    name: "git var",
    flags: "-l",
    operands: Operands::Text(1),
    ..Grammar::EMPTY
};

static CONFIG: Grammar = Grammar {
    name: "git config",
    flags: "--local -l --list --get --get-all --get-regexp --name-only --show-origin --show-scope -z --null --bool --int \
            --bool-or-int --path --no-includes",
    values: &[
        ("--type", Kind::Words("bool int bool-or-int path color")),
        ("--default", Kind::Text),
    ],
    refused: &[
        (
            "--global --system --worktree --file -f --blob",
            "is about another file",
        ),
        (
            "--add --replace-all --unset --unset-all --rename-section --remove-section -e --edit",
            "changes what git runs",
        ),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

static FORMAT_PATCH: Grammar = Grammar {
    name: "git format-patch",
    flags: "--stdout -k --keep-subject --no-numbered --numbered -N --no-signature --no-stat --zero-commit --no-binary",
    values: &[
        ("--subject-prefix", Kind::Text),
        ("--start-number", Kind::Number),
    ],
    also: &[&HISTORY],
    digits: true,
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

const READS: Subcommand = Subcommand::READS;

pub(super) static SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "status",
        grammar: &STATUS,
        converts: |parsed| parsed.has(&["-v", "--verbose"]),
        forced: &["--ignore-submodules=dirty"],
        ..READS
    },
    Subcommand {
        name: "diff",
        grammar: &DIFFS,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "diff-tree",
        grammar: &LOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "diff-index",
        grammar: &DIFFS,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "diff-files",
        grammar: &DIFFS,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "log",
        grammar: &LOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "show",
        grammar: &LOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "rev-list",
        grammar: &LOG,
        ..READS
    },
    Subcommand {
        name: "shortlog",
        grammar: &SHORTLOG,
        ..READS
    },
    Subcommand {
        name: "reflog show",
        grammar: &REFLOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "range-diff",
        grammar: &DIFFS,
        forced: &["--no-ext-diff", "--no-textconv"],
        converts: |_| true,
        ..READS
    },
    Subcommand {
        name: "stash list",
        grammar: &LOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "stash show",
        grammar: &STASH_SHOW,
        forced: &["--no-ext-diff", "--no-textconv"],
        ..READS
    },
    Subcommand {
        name: "rev-parse",
        grammar: &REV_PARSE,
        ..READS
    },
    Subcommand {
        name: "ls-files",
        grammar: &LS_FILES,
        ..READS
    },
    Subcommand {
        name: "ls-tree",
        grammar: &LS_TREE,
        ..READS
    },
    Subcommand {
        name: "blame",
        grammar: &BLAME,
        forced: &["--no-textconv"],
        ..READS
    },
    Subcommand {
        name: "annotate",
        grammar: &BLAME,
        converts: |_| true,
        ..READS
    },
    Subcommand {
        name: "describe",
        grammar: &DESCRIBE,
        ..READS
    },
    Subcommand {
        name: "grep",
        grammar: &GREP,
        forced: &["--no-textconv"],
        check: grep,
        ..READS
    },
    Subcommand {
        name: "cat-file",
        grammar: &CAT_FILE,
        check: objects,
        ..READS
    },
    Subcommand {
        name: "for-each-ref",
        grammar: &REFS,
        ..READS
    },
    Subcommand {
        name: "show-ref",
        grammar: &REFS,
        ..READS
    },
    Subcommand {
        name: "merge-base",
        grammar: &COMMITS,
        ..READS
    },
    Subcommand {
        name: "name-rev",
        grammar: &COMMITS,
        ..READS
    },
    Subcommand {
        name: "cherry",
        grammar: &COMMITS,
        ..READS
    },
    Subcommand {
        name: "check-ignore",
        grammar: &CHECKS,
        ..READS
    },
    Subcommand {
        name: "check-attr",
        grammar: &CHECKS,
        ..READS
    },
    Subcommand {
        name: "show-branch",
        grammar: &SHOW_BRANCH,
        ..READS
    },
    Subcommand {
        name: "check-ref-format",
        grammar: &NAMES,
        check: |_, _| Ok(()),
        ..READS
    },
    Subcommand {
        name: "check-mailmap",
        grammar: &NAMES,
        check: |_, _| Ok(()),
        ..READS
    },
    Subcommand {
        name: "fsck",
        grammar: &FSCK,
        ..READS
    },
    Subcommand {
        name: "symbolic-ref",
        grammar: &SYMBOLIC_REF,
        ..READS
    },
    Subcommand {
        name: "count-objects",
        grammar: &CHECKS,
        ..READS
    },
    Subcommand {
        name: "remote",
        grammar: &REMOTE,
        check: |parsed, _| none(parsed),
        ..READS
    },
    Subcommand {
        name: "remote get-url",
        grammar: &REMOTE,
        ..READS
    },
    Subcommand {
        name: "worktree list",
        grammar: &WORKTREES,
        ..READS
    },
    Subcommand {
        name: "var",
        grammar: &VAR,
        check: |_, _| Ok(()),
        ..READS
    },
    Subcommand {
        name: "whatchanged",
        grammar: &LOG,
        forced: PLAIN_DIFF,
        ..READS
    },
    Subcommand {
        name: "config",
        grammar: &CONFIG,
        forced: &["--local"],
        check: config,
        ..READS
    },
    Subcommand {
        name: "config get",
        grammar: &CONFIG,
        forced: &["--local"],
        ..READS
    },
    Subcommand {
        name: "config list",
        grammar: &CONFIG,
        forced: &["--local"],
        ..READS
    },
    Subcommand {
        name: "format-patch",
        grammar: &FORMAT_PATCH,
        forced: &[
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=dirty",
            "--no-signature",
        ],
        check: to_stdout,
        ..READS
    },
];
