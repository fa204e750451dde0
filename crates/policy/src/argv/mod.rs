//! The judge of argument lists: what `shell_exec` may start, and how.
//!
//! There is no shell, and no list of sins: each program has a grammar of the options and operands that are known to be
//! harmless or to stay in the workspace, written from its manual page, and whatever is not in it is refused.
//!
//! **Invariant:** pure. The workspace's files are looked at through [`Tree`] alone, and every doubt refuses.

mod catastrophe;
mod grammar;
mod options;
mod paths;
mod printing;
mod profile;
mod programs;
mod text;
mod verdict;

use std::collections::BTreeMap;

pub use paths::{Entry, Tree};
pub use profile::{Group, Profile, programs};
pub use text::split;
pub use verdict::{Permitted, Refusal, Tier, Verdict};

use self::paths::Workspace;

/// What somebody wants to start.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The program's name and its arguments.
    pub argv: &'a [String],
    /// Variables it asks for beyond those the runner sets.
    pub env: &'a BTreeMap<String, String>,
    /// The folder to start in, absolute or from the workspace's root; none for the root.
    pub cwd: Option<&'a str>,
}

/// Judges one command.
///
/// The paths in the verdict are as `tree` says them: the runner must show the workspace at the same place.
pub fn judge(command: &Command<'_>, tree: &dyn Tree, profile: Profile) -> Verdict {
    match permit(command, tree, profile) {
        Ok(permitted) => Verdict::Allow(permitted),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

/// Judges a command that is written as one line, as `shell_exec` takes it. Nothing in it is ever given to a shell.
pub fn judge_line(line: &str, cwd: Option<&str>, tree: &dyn Tree, profile: Profile) -> Verdict {
    let argv = catastrophe::check_line(line).and_then(|()| split(line));
    match argv {
        Ok(argv) => {
            let command = Command {
                argv: &argv,
                env: &BTreeMap::new(),
                cwd,
            };
            judge(&command, tree, profile)
        }
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

fn permit(command: &Command<'_>, tree: &dyn Tree, profile: Profile) -> Result<Permitted, Refusal> {
    catastrophe::check(command.argv)?;
    text::check(command.argv)?;
    let (name, arguments) = command
        .argv
        .split_first()
        .ok_or_else(|| Refusal::new("there is no program"))?;
    profile.check(name)?;
    let environment = text::environment(command.env)?;
    let workspace = Workspace::enter(tree, command.cwd)?;
    let mut permitted = programs::judge(name, arguments, &workspace)?;
    permitted.env.extend(environment);
    Ok(permitted)
}
