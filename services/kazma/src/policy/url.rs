//! `kazma policy url`: fetches as data, judged as real ones are.

use std::process::ExitCode;

use kazma_netguard::{Judge, Row as Fetch};
use kazma_runtime::BoxError;
use serde::{Deserialize, Serialize};

use super::batch;

/// One fetch.
#[derive(Debug, Deserialize)]
struct Row {
    id: serde_json::Value,
    #[serde(flatten)]
    fetch: Fetch,
}

/// What the judge says of it.
#[derive(Debug, Serialize)]
struct Answer {
    id: serde_json::Value,
    decision: &'static str,
    reason: String,
}

/// Judges standard input.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    let judge = Judge::default();
    batch::run(|row: Row| {
        let (decision, reason) = match judge.row(&row.fetch) {
            Ok(()) => ("allow", "every hop leads to a public address".to_owned()),
            Err(refusal) => ("deny", refusal.to_string()),
        };
        Answer {
            id: row.id,
            decision,
            reason,
        }
    })
}
