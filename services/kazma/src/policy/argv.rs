//! `kazma policy argv`: argument lists, judged as `shell_exec` judges them.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use kazma_policy::argv::{Command, Refusal, Verdict, judge};
use kazma_runtime::BoxError;
use kazma_workspace::Disk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch;
use crate::cli::{PolicyArgv, Profile};

/// One argument list. Fields that are not named here are passed over.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default)]
    id: Value,
    argv: Vec<String>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    cwd: Option<String>,
}

/// What the judge says of it, and what would be run.
#[derive(Debug, Serialize)]
struct Answer {
    id: Value,
    decision: &'static str,
    tier: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
}

/// The command as the runner would start it. `PATH`, `HOME` and `TMPDIR` are the runner's own.
#[derive(Debug, Serialize)]
struct Run {
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: String,
    writable: Vec<String>,
}

/// Judges standard input.
pub(crate) fn run(options: &PolicyArgv) -> Result<ExitCode, BoxError> {
    let folder = options
        .workspace
        .as_deref()
        .map_or(Path::new("."), |it| it.as_std_path());
    let disk = Disk::open(folder)?;
    let profile = options
        .shell
        .profile(options.profile == Profile::Production);
    batch::run(|row: Row| {
        let env = row.env.unwrap_or_default();
        let command = Command {
            argv: &row.argv,
            env: &env,
            cwd: row.cwd.as_deref(),
        };
        answer(row.id, judge(&command, &disk, profile))
    })
}

fn answer(id: Value, verdict: Verdict) -> Answer {
    match verdict {
        Verdict::Allow(permitted) => Answer {
            id,
            decision: "allow",
            tier: permitted.tier.name(),
            reason: permitted.reason,
            run: Some(Run {
                argv: permitted.argv,
                env: permitted.env,
                cwd: permitted.cwd,
                writable: permitted.writable,
            }),
        },
        Verdict::Refuse(refusal) => Answer {
            id,
            decision: "refuse",
            tier: "refuse",
            reason: Refusal::reason(&refusal).to_owned(),
            run: None,
        },
    }
}
