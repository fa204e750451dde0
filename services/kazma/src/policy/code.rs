//! `kazma policy code`: Python code, judged as `python_exec` judges it.

use std::process::ExitCode;

use kazma_runtime::BoxError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch;

/// One program. Fields that are not named here are passed over.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default)]
    id: Value,
    code: String,
}

/// What the judge says of it.
#[derive(Debug, Serialize)]
struct Answer {
    id: Value,
    decision: &'static str,
    reason: String,
    /// Where what is refused stands, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// Judges standard input.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    batch::run(|row: Row| match kazma_python::judge(&row.code) {
        Ok(()) => Answer {
            id: row.id,
            decision: "allow",
            reason: "it imports and runs nothing that is refused".to_owned(),
            line: None,
        },
        Err(refusal) => Answer {
            id: row.id,
            decision: "refuse",
            reason: refusal.to_string(),
            line: Some(refusal.line),
        },
    })
}
