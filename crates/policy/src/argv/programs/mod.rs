//! Each program's grammar, from its manual page (Debian 12's versions; what differs elsewhere is unknown, and refused).

mod date;
mod files;
mod find;
mod git;
mod gzip;
mod jq;
mod listing;
mod mypy;
mod process;
mod pytest;
mod ruff;
mod settings;
mod sources;
mod system;
mod tar;
mod text;
mod uv;
mod zip;

use std::collections::BTreeMap;

use super::{Permitted, Refusal, Tier, grammar::tier, paths::Workspace, verdict::refuse};

/// Judges a program that is on the list.
pub(super) fn judge(
    name: &str,
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    let plain = [text::GRAMMARS, listing::GRAMMARS, system::GRAMMARS];
    if let Some(grammar) = plain.into_iter().flatten().find(|it| it.name == name) {
        grammar.read(arguments, workspace)?;
        return Ok(permitted(
            name,
            arguments,
            workspace,
            tier(grammar.operands),
        ));
    }
    match name {
        "echo" => {
            system::printed(arguments)?;
            Ok(permitted(name, arguments, workspace, Tier::Read))
        }
        "printf" => {
            system::printf(arguments)?;
            Ok(permitted(name, arguments, workspace, Tier::Read))
        }
        "date" => date::judge(arguments, workspace),
        "find" => find::judge(arguments, workspace),
        "mkdir" | "cp" | "mv" | "touch" => files::judge(name, arguments, workspace),
        "jq" => jq::judge(arguments, workspace),
        "git" => git::judge(arguments, workspace),
        "tar" => tar::judge(arguments, workspace),
        "gzip" | "gunzip" => gzip::judge(name, arguments, workspace),
        "zip" => zip::judge_zip(arguments, workspace),
        "unzip" => zip::judge_unzip(arguments, workspace),
        "ps" => process::judge_ps(arguments, workspace),
        "uv" => uv::judge(arguments, workspace),
        "pytest" => pytest::judge(arguments, workspace),
        "ruff" => ruff::judge(arguments, workspace),
        "mypy" => mypy::judge(arguments, workspace),
        _ => refuse!("`{name}` has no grammar"),
    }
}

/// A command that runs as it was asked for.
fn permitted(name: &str, arguments: &[String], workspace: &Workspace<'_>, tier: Tier) -> Permitted {
    let argv = std::iter::once(name.to_owned()).chain(arguments.iter().cloned());
    rewritten(argv.collect(), workspace, tier)
}

/// A command that runs with other arguments than it was asked for.
fn rewritten(argv: Vec<String>, workspace: &Workspace<'_>, tier: Tier) -> Permitted {
    Permitted {
        tier,
        argv,
        env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
        cwd: workspace.below_root(&workspace.cwd).to_owned(),
        writable: match tier {
            Tier::Write => vec![String::new()],
            Tier::Read | Tier::SandboxExec => Vec::new(),
        },
        reason: match tier {
            Tier::Read => "it only reads, and only in the workspace",
            Tier::Write => "it writes, and only in the workspace",
            Tier::SandboxExec => "it runs code of the workspace, so only in the jail",
        }
        .to_owned(),
    }
}
