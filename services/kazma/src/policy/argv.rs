//! `kazma policy argv`: argument lists, judged as `shell_exec` judges them.

use std::{collections::BTreeMap, process::ExitCode};

use kazma_runtime::BoxError;
use serde::{Deserialize, Serialize};

use super::batch;
use crate::cli::PolicyArgv;

/// One argument list. Fields that are not named here are passed over.
#[derive(Debug, Deserialize)]
struct Row {
    id: serde_json::Value,
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: Option<String>,
}

/// What the judge says of it.
#[derive(Debug, Serialize)]
struct Answer {
    id: serde_json::Value,
    decision: &'static str,
    tier: &'static str,
    reason: String,
}

/// Judges standard input.
pub(crate) fn run(_options: &PolicyArgv) -> Result<ExitCode, BoxError> {
    batch::run(|row: Row| {
        let _ = (row.argv, row.env, row.cwd);
        Answer {
            id: row.id,
            decision: "refuse",
            tier: "refuse",
            reason: "no program is known yet".to_owned(),
        }
    })
}
