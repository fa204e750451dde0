//! The options of git's diff and history families (git-diff(1), git-log(1), git-rev-list(1)).

use crate::argv::{
    Refusal,
    grammar::{Grammar, Kind},
    printing,
    verdict::refuse,
};

pub(super) const COLOURS: Kind = Kind::Words("always never auto");
const WRITES: &str = "writes a file";
const RUNS: &str = "runs a program";

pub(super) static DIFF: Grammar = Grammar {
    name: "git",
    flags: "-p -u --patch -s --no-patch --raw --patch-with-raw --indent-heuristic --no-indent-heuristic --minimal \
            --patience --histogram --compact-summary --numstat --shortstat --cumulative --summary --patch-with-stat -z \
            --name-only --name-status --no-color --no-color-moved --no-color-moved-ws --no-renames --rename-empty \
            --no-rename-empty --check --full-index --binary -R --no-relative -a --text --ignore-cr-at-eol \
            --ignore-space-at-eol -b --ignore-space-change -w --ignore-all-space --ignore-blank-lines -W \
            --function-context --no-function-context --exit-code --quiet --no-ext-diff --no-textconv --no-prefix \
            --default-prefix --ita-invisible-in-index --ita-visible-in-index --pickaxe-all --pickaxe-regex -D \
            --irreversible-delete --find-copies-harder --no-indent-heuristic -r -t",
    values: &[
        ("-U --unified", Kind::Number),
        ("-l", Kind::Number),
        ("-S", Kind::Text),
        ("-G", Kind::Text),
        ("-I --ignore-matching-lines", Kind::Text),
        ("--anchored", Kind::Text),
        (
            "--diff-algorithm",
            Kind::Words("default myers minimal patience histogram"),
        ),
        ("--diff-filter", Kind::Text),
        ("--word-diff-regex", Kind::Text),
        ("--ws-error-highlight", Kind::Text),
        ("--inter-hunk-context", Kind::Number),
        ("--src-prefix", Kind::Text),
        ("--dst-prefix", Kind::Text),
        ("--line-prefix", Kind::Text),
        ("--output-indicator-new", Kind::Text),
        ("--output-indicator-old", Kind::Text),
        ("--output-indicator-context", Kind::Text),
        ("--find-object", Kind::Text),
        ("--skip-to", Kind::Text),
        ("--rotate-to", Kind::Text),
        ("--stat-width", Kind::Number),
        ("--stat-name-width", Kind::Number),
        ("--stat-graph-width", Kind::Number),
        ("--stat-count", Kind::Number),
        ("--max-depth", Kind::Number),
    ],
    optional: &[
        ("--stat", Kind::Judged(numbers)),
        ("--dirstat -X", Kind::Text),
        ("--dirstat-by-file", Kind::Text),
        ("--word-diff", Kind::Words("color plain porcelain none")),
        ("--color-words", Kind::Text),
        ("--color", COLOURS),
        (
            "--color-moved",
            Kind::Words("no default plain blocks zebra dimmed-zebra dimmed_zebra"),
        ),
        ("--color-moved-ws", Kind::Text),
        ("--abbrev", Kind::Number),
        ("-B --break-rewrites", Kind::Text),
        ("-M --find-renames", Kind::Number),
        ("-C --find-copies", Kind::Number),
        ("--relative", Kind::Text),
        ("--ignore-submodules", Kind::Words("all dirty")),
        ("--submodule", Kind::Words("short")),
    ],
    refused: &[
        ("--output", WRITES),
        ("--ext-diff --textconv", RUNS),
        ("-O", "reads a file that is no operand"),
        ("--no-index", "compares files that git does not keep"),
    ],
    digits: true,
    ..Grammar::EMPTY
};

pub(super) static HISTORY: Grammar = Grammar {
    name: "git",
    flags: "--oneline --graph --no-graph --all --no-decorate --clear-decorations --source --reverse --no-merges \
            --merges --first-parent --exclude-first-parent-only --author-date-order --date-order --topo-order \
            --abbrev-commit --no-abbrev-commit --no-abbrev --parents --children --left-right --left-only --right-only \
            --cherry-pick --cherry-mark --cherry --boundary --simplify-by-decoration --simplify-merges --full-history \
            --dense --sparse --remove-empty -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P \
            --perl-regexp --basic-regexp --all-match --invert-grep -g --walk-reflogs --follow --full-diff --do-walk \
            --relative-date --no-notes --standard-notes --no-standard-notes --mailmap --use-mailmap --no-mailmap \
            --no-use-mailmap --log-size --reflog --not --count --no-show-signature --ignore-missing --show-pulls \
            --single-worktree -c --cc -m --combined-all-paths --no-diff-merges --no-min-parents --no-max-parents \
            --no-expand-tabs --root --show-linear-break --unpacked --objects --timestamp --header \
            --no-commit-header --commit-header --no-commit-id --no-filter --filter-print-omitted --use-bitmap-index",
    values: &[
        ("-n --max-count", Kind::Number),
        ("--skip", Kind::Number),
        ("--since --after --since-as-filter --max-age", Kind::Text),
        ("--until --before --min-age", Kind::Text),
        ("--author", Kind::Text),
        ("--committer", Kind::Text),
        ("--grep", Kind::Text),
        ("--grep-reflog", Kind::Text),
        ("--max-parents", Kind::Number),
        ("--min-parents", Kind::Number),
        ("--format", Kind::Judged(pretty)),
        ("--date", Kind::Judged(printing::widths)),
        ("--encoding", Kind::Text),
        ("--glob", Kind::Text),
        ("--filter", Kind::Text),
        ("--exclude", Kind::Text),
        ("--decorate-refs", Kind::Text),
        ("--decorate-refs-exclude", Kind::Text),
        ("-L", Kind::Text),
        (
            "--diff-merges",
            Kind::Words("off none on m first-parent 1 separate combined c dense-combined cc"),
        ),
    ],
    optional: &[
        ("--pretty", Kind::Judged(pretty)),
        ("--decorate", Kind::Words("short full auto no")),
        ("--branches", Kind::Text),
        ("--tags", Kind::Text),
        ("--remotes", Kind::Text),
        ("--notes --show-notes", Kind::Text),
        ("--no-walk", Kind::Words("sorted unsorted")),
        ("--ancestry-path", Kind::Text),
        ("--expand-tabs", Kind::Number),
        ("--bisect", Kind::Text),
        ("--disk-usage", Kind::Words("human")),
    ],
    refused: &[
        ("--show-signature --remerge-diff", RUNS),
        ("--stdin", "takes names from its input"),
        ("--exec --upload-pack --remote", RUNS),
    ],
    also: &[&DIFF],
    digits: true,
    ..Grammar::EMPTY
};

/// A format of commits or references: no signatures, which are checked by a program, and no field wider than a screen.
pub(super) fn pretty(format: &str) -> Result<(), Refusal> {
    if format.contains("%G") || format.contains("signature") {
        return refuse!("`{format}` checks signatures, which runs a program");
    }
    // Dates in it have formats of their own: `%(creatordate:format:%99999d)`.
    printing::widths(format)?;
    let pads = ["%<", "%>", "%w", "align"]
        .iter()
        .any(|it| format.contains(it));
    let wide = format
        .split(|c: char| !c.is_ascii_digit())
        .any(|number| number.len() > 3);
    if pads && wide {
        return refuse!("`{format}` has a field wider than a screen");
    }
    Ok(())
}

fn numbers(list: &str) -> Result<(), Refusal> {
    if list.len() < 20 && list.chars().all(|c| c.is_ascii_digit() || c == ',') {
        return Ok(());
    }
    refuse!("`{list}` is not a list of numbers")
}
