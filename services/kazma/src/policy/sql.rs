//! `kazma policy sql`: statements, judged as `sqlite_query` judges them before a database is opened.

use std::process::ExitCode;

use kazma_policy::sql;
use kazma_runtime::BoxError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch;

/// One statement. Fields that are not named here are passed over.
#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default)]
    id: Value,
    query: String,
    /// The values of its placeholders, in order.
    #[serde(default)]
    params: Vec<Value>,
}

/// What the judge says of it.
#[derive(Debug, Serialize)]
struct Answer {
    id: Value,
    decision: &'static str,
    reason: String,
    /// Where what is refused stands, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
}

/// Judges standard input.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    batch::run(|row: Row| {
        let judged =
            sql::parameters(&row.params).and_then(|values| sql::judge(&row.query, &values));
        match judged {
            Ok(()) => Answer {
                id: row.id,
                decision: "allow",
                reason: "it is one statement that reads".to_owned(),
                line: None,
                column: None,
            },
            Err(refusal) => Answer {
                id: row.id,
                decision: "refuse",
                reason: refusal.to_string(),
                line: refusal.at.map(|place| place.line),
                column: refusal.at.map(|place| place.column),
            },
        }
    })
}
