//! `git`: a list of subcommands, and a repository that may not run anything.
//!
//! Most of what git can be made to run comes from the repository and not from the arguments. So the repository is found
//! here, its configuration is read here, and git is started with the repository named, with hooks, monitors, pagers,
//! signatures, external diffs, text conversions, filters, submodules and all transports switched off.

mod config;
mod history;
mod reading;
mod repository;
mod subcommands;
mod writing;

use crate::argv::{
    Permitted, Refusal, Tier, options::Parsed, paths::Workspace, printing, verdict::refuse,
};

use self::{repository::Repository, subcommands::Subcommand};

/// Configuration that is switched off or set whatever the repository says, of keys that git reads in a subcommand that
/// is taken. Commands that only run for a transport, an editor, a mail or a browser are not reached at all.
const FIXED: [&str; 23] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=false",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "diff.submodule=short",
    "diff.trustExitCode=false",
    "log.showSignature=false",
    "log.diffMerges=separate",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "tag.forceSignAnnotated=false",
    "gpg.format=openpgp",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "maintenance.auto=false",
    "gc.auto=0",
];

/// Variables that are set whatever the repository says. `GIT_ALLOW_PROTOCOL` names a transport that does not exist, so
/// that a clone with missing objects cannot fetch them either.
const VARIABLES: [(&str, &str); 14] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Configuration that a caller may set with `-c`, in lower case.
const SETTABLE: &str = "color.ui color.diff color.status color.branch color.grep core.quotepath core.abbrev column.ui \
    log.date log.decorate user.name user.email diff.noprefix diff.mnemonicprefix diff.algorithm diff.renames \
    status.relativepaths status.short blame.date";

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let asked = Asked::read(arguments, workspace)
        .map_err(|refusal| Refusal::new(format_args!("git: {refusal}")))?;
    let Some((name, rest)) = asked.rest.split_first() else {
        return refuse!("git: no subcommand");
    };
    if matches!(name.as_str(), "--version" | "-v" | "version") && rest.is_empty() {
        return Ok(super::permitted("git", arguments, workspace, Tier::Read));
    }
    let (subcommand, rest) = subcommands::find(name, rest)?;
    let workspace = &asked.workspace;
    let parsed = subcommand.grammar.read(rest, workspace)?;
    let said = |refusal| Refusal::new(format_args!("git {name}: {refusal}"));
    judge_in(&asked, subcommand, &parsed, rest).map_err(said)
}

fn judge_in(
    asked: &Asked<'_>,
    subcommand: &'static Subcommand,
    parsed: &Parsed,
    rest: &[String],
) -> Result<Permitted, Refusal> {
    let workspace = &asked.workspace;
    let tier = (subcommand.tier)(parsed);
    let repository = Repository::find(workspace)?;
    let overrides =
        repository.defuse(workspace, tier, subcommand, (subcommand.converts)(parsed))?;
    if parsed.options.contains(&("--submodule", None)) {
        return refuse!(
            "--submodule without a value looks into submodules; --submodule=short does not"
        );
    }
    // What compares the work tree asks each submodule's own git whether it is changed, unless it can be told not to.
    let touches = !matches!(subcommand.name, "branch" | "tag" | "restore" | "rm" | "mv");
    let compares = tier == Tier::Write && touches || parsed.has(&["--dirty", "--broken"]);
    if compares && repository.may_have_submodules(workspace)? {
        return refuse!("there are submodules, and what their own configuration names would run");
    }
    (subcommand.check)(parsed, workspace)?;

    let mut argv = vec!["git".to_owned(), "--no-pager".to_owned()];
    argv.extend(asked.switches.iter().cloned());
    let root = workspace.below_root(&repository.work_tree);
    let trusted = format!("safe.directory={}", repository.work_tree);
    let own = asked.settings.iter().cloned();
    for setting in own
        .chain(FIXED.map(str::to_owned))
        .chain(overrides)
        .chain([trusted])
    {
        argv.extend(["-c".to_owned(), setting]);
    }
    argv.extend(subcommand.name.split(' ').map(str::to_owned));
    argv.extend(subcommand.forced.iter().map(|it| (*it).to_owned()));
    argv.extend(rest.iter().cloned());
    argv.extend(subcommand.last.iter().map(|it| (*it).to_owned()));

    let mut permitted = super::rewritten(argv, workspace, tier);
    for (name, value) in VARIABLES {
        if tier == Tier::Write && name == "GIT_OPTIONAL_LOCKS" {
            continue;
        }
        permitted.env.insert(name.to_owned(), value.to_owned());
    }
    let git_dir = repository.git_dir.clone();
    permitted.env.insert("GIT_DIR".to_owned(), git_dir);
    let work_tree = repository.work_tree.clone();
    permitted.env.insert("GIT_WORK_TREE".to_owned(), work_tree);
    if tier == Tier::Write {
        permitted.writable = match subcommand.name {
            "add" | "commit" | "tag" | "branch" | "restore" | "rm" => vec![
                workspace.below_root(&repository.git_dir).to_owned(),
                workspace.below_root(&repository.common_dir).to_owned(),
            ],
            _ => vec![root.to_owned()],
        };
        permitted.writable.dedup();
    }
    Ok(permitted)
}

/// What stands before the subcommand, understood.
struct Asked<'a> {
    /// Seen from where `-C` leads.
    workspace: Workspace<'a>,
    switches: Vec<String>,
    settings: Vec<String>,
    rest: Vec<String>,
}

impl<'a> Asked<'a> {
    fn read(arguments: &[String], workspace: &Workspace<'a>) -> Result<Self, Refusal> {
        let mut asked = Asked {
            workspace: workspace.clone(),
            switches: Vec::new(),
            settings: Vec::new(),
            rest: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--no-pager" | "-P" | "--no-optional-locks" => {}
                "--no-replace-objects"
                | "--literal-pathspecs"
                | "--glob-pathspecs"
                | "--noglob-pathspecs"
                | "--icase-pathspecs" => {
                    asked.switches.push(argument.clone());
                }
                "-C" => {
                    let Some(folder) = rest.next() else {
                        return refuse!("-C needs a folder");
                    };
                    asked.workspace = asked.workspace.within(folder)?;
                }
                "-c" => {
                    let setting = rest.next().map(String::as_str).unwrap_or_default();
                    let key = setting.split('=').next().unwrap_or_default();
                    if !SETTABLE
                        .split_whitespace()
                        .any(|known| known == key.to_ascii_lowercase())
                    {
                        return refuse!("-c {key} is refused: settings can name programs to run");
                    }
                    // Dates are printed by formats of their own.
                    printing::widths(setting)?;
                    asked.settings.push(setting.to_owned());
                }
                "--version" | "-v" => {
                    asked.rest.push(argument.clone());
                    asked.rest.extend(rest.cloned());
                    break;
                }
                option if option.starts_with('-') => {
                    return refuse!(
                        "`{}` before the subcommand is refused: it is not one of those that neither run nor move \
                         anything",
                        option.escape_debug()
                    );
                }
                _ => {
                    asked.rest.push(argument.clone());
                    asked.rest.extend(rest.cloned());
                    break;
                }
            }
        }
        Ok(asked)
    }
}
