//! git's subcommands: which are taken, and what their operands may be.

use crate::argv::{
    Refusal, Tier, grammar::Grammar, options::Parsed, paths::Workspace, text, verdict::refuse,
};

use super::{reading, writing};

/// A subcommand that is taken.
#[derive(Debug)]
pub(super) struct Subcommand {
    /// As it is started; of two words, such as `stash list`.
    pub(super) name: &'static str,
    pub(super) grammar: &'static Grammar,
    /// How much these arguments can do.
    pub(super) tier: fn(&Parsed) -> Tier,
    pub(super) check: fn(&Parsed, &Workspace<'_>) -> Result<(), Refusal>,
    /// Options it is given before its own.
    pub(super) forced: &'static [&'static str],
    /// Arguments it is given after its own.
    pub(super) last: &'static [&'static str],
    /// Whether text conversions would run with these arguments, and nothing switches them off.
    pub(super) converts: fn(&Parsed) -> bool,
    /// Whether merge drivers would run.
    pub(super) merges: bool,
}

impl Subcommand {
    pub(super) const READS: Self = Self {
        name: "",
        grammar: &Grammar::EMPTY,
        tier: |_| Tier::Read,
        check: names_and_paths,
        forced: &[],
        last: &[],
        converts: |_| false,
        merges: false,
    };
}

/// Subcommands that are known, and why they are refused.
const REFUSED: &[(&str, &str)] = &[
    (
        "push fetch pull clone ls-remote remote-update archive daemon http-backend submodule send-email request-pull \
         imap-send svn p4 cvsimport cvsserver send-pack fetch-pack upload-pack receive-pack upload-archive bundle",
        "it reaches other machines or starts programs for them",
    ),
    (
        "difftool mergetool bisect filter-branch filter-repo rebase am shell instaweb gui gitk citool help web--browse \
         hook maintenance for-each-repo verify-commit verify-tag interpret-trailers",
        "it runs other programs",
    ),
    (
        "reset clean gc prune repack rm checkout-index read-tree update-index update-ref replace worktree apply \
         merge-file fast-import fast-export unpack-objects sparse-checkout hash-object notes init merge \
         cherry-pick revert commit-tree write-tree mktree mktag",
        "it changes or takes away more than can be judged here",
    ),
];

/// Finds a subcommand by its exact name, and what follows it. An alias is never looked up: git prefers its own names.
pub(super) fn find<'a>(
    name: &str,
    rest: &'a [String],
) -> Result<(&'static Subcommand, &'a [String]), Refusal> {
    let all = || reading::SUBCOMMANDS.iter().chain(writing::SUBCOMMANDS);
    if let Some((second, after)) = rest.split_first() {
        let both = format!("{name} {second}");
        if let Some(found) = all().find(|it| it.name == both) {
            return Ok((found, after));
        }
    }
    // Started as `reflog show`, whatever the operand is called.
    if name == "reflog"
        && !rest.first().is_some_and(|next| {
            ["expire", "delete", "drop", "write", "exists", "list"].contains(&next.as_str())
        })
        && let Some(found) = all().find(|it| it.name == "reflog show")
    {
        return Ok((found, rest));
    }
    if let Some(found) = all().find(|it| it.name == name) {
        return Ok((found, rest));
    }
    if name == "stash"
        && rest.first().is_none_or(|next| next.starts_with('-'))
        && let Some(found) = all().find(|it| it.name == "stash push")
    {
        return Ok((found, rest));
    }
    if let Some((_, why)) = REFUSED
        .iter()
        .find(|(names, _)| names.split_whitespace().any(|known| known == name))
    {
        return refuse!("git {name} is refused: {why}");
    }
    refuse!(
        "git {} is not on the list of subcommands",
        name.escape_debug()
    )
}

/// Operands that are revisions or paths, which git tells apart by trying. Whatever could be a path must stay inside.
pub(super) fn names_and_paths(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    parsed
        .operands
        .iter()
        .try_for_each(|operand| name_or_path(operand, workspace))
}

pub(super) fn name_or_path(operand: &str, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if operand.is_empty() {
        return Ok(());
    }
    if text::is_operator(operand) || operand.contains([';', '`']) || operand.contains("$(") {
        return refuse!("`{operand}`: there is no shell here");
    }
    workspace.follow_parents(operand).map(|_| ())
}

pub(super) fn grep(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    let pattern = usize::from(!parsed.has(&["-e", "-f"]));
    parsed
        .operands
        .iter()
        .skip(pattern)
        .filter(|operand| !matches!(operand.as_str(), "(" | ")"))
        .try_for_each(|operand| name_or_path(operand, workspace))
}

pub(super) fn none(parsed: &Parsed) -> Result<(), Refusal> {
    match parsed.operands.first() {
        Some(first) => refuse!("`{first}` is refused: remotes are only listed"),
        None => Ok(()),
    }
}

/// A variable is only shown: one name, or a list.
pub(super) fn config(parsed: &Parsed, _: &Workspace<'_>) -> Result<(), Refusal> {
    let asks = parsed.has(&["--get", "--get-all", "--get-regexp", "-l", "--list"]);
    match parsed.operands.as_slice() {
        [name] if asks || name.contains('.') && !name.contains(['=', ' ']) => Ok(()),
        [] | [_, _] if asks => Ok(()),
        _ => refuse!("only shows variables: what is set there can be a program to run"),
    }
}

/// Objects are named by operands, or all of them are meant: there is no input to name them.
pub(super) fn objects(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if parsed.has(&["--batch", "--batch-check"]) && !parsed.has(&["--batch-all-objects"]) {
        return refuse!("it takes names from its input, unless --batch-all-objects is given");
    }
    names_and_paths(parsed, workspace)
}

pub(super) fn to_stdout(parsed: &Parsed, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if !parsed.has(&["--stdout"]) {
        return refuse!("it writes files unless --stdout is given");
    }
    names_and_paths(parsed, workspace)
}
