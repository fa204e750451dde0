//! One question of one database: the broker's own look at it, and the program that asks it in the sandbox.
//!
//! The statement, its values and the path reach that program as data on its standard input, never as a part of it.

use std::time::Duration;

use kazma_policy::sql;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::jail::{Task, is_plain};

/// The most rows that one query returns.
pub const QUERY_LIMIT_MAX: u64 = 1_000;
/// The most bytes that its answer may have.
const ANSWER_BYTES: u64 = 256 * 1024;
/// How long before the sandbox is ended the program gives up by itself and says so.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The program.
const READER: &str = include_str!("query.py");

/// One question of one database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The database's path from the workspace.
    pub path: String,
    /// One statement.
    pub query: String,
    /// The values of its placeholders, in order.
    pub parameters: Vec<Value>,
    /// At most this many rows, up to [`QUERY_LIMIT_MAX`].
    pub limit: u64,
    /// At most this many bytes of answer.
    pub bytes: u64,
}

impl Query {
    /// Checks all of it, the statement by the same judge as in the api.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.path.is_empty() || !is_plain(&self.path) {
            return Err("path: no plain path beneath the workspace".to_owned());
        }
        if kazma_python::is_store(&self.path) {
            return Err("path: a store of Kazma".to_owned());
        }
        if self.limit == 0 || self.limit > QUERY_LIMIT_MAX {
            return Err(format!("limit: must be 1 to {QUERY_LIMIT_MAX}"));
        }
        if self.bytes == 0 || self.bytes > ANSWER_BYTES {
            return Err(format!("bytes: must be 1 to {ANSWER_BYTES}"));
        }
        let judged = sql::parameters(&self.parameters)
            .and_then(|parameters| sql::judge(&self.query, &parameters));
        judged.map_err(|refusal| format!("query: {refusal}"))
    }

    /// What the sandbox is told.
    pub(super) fn task(&self, timeout: Duration) -> Result<Task, serde_json::Error> {
        let functions: Vec<&str> = sql::AUTHORIZED.concat();
        let seconds = timeout
            .checked_sub(LAST_WORDS)
            .unwrap_or(timeout / 2)
            .as_secs_f64();
        let job = json!({
            "path": self.path,
            "query": self.query,
            "parameters": self.parameters,
            "limit": self.limit,
            "bytes": self.bytes,
            "seconds": seconds,
            "functions": functions,
        });
        Ok(Task::Fixed {
            code: READER.as_bytes().to_vec(),
            input: serde_json::to_vec(&job)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut Query)) -> Result<(), String> {
        let mut query = Query {
            path: "data/shop.db".to_owned(),
            query: "SELECT name FROM customers WHERE id = ?".to_owned(),
            parameters: vec![json!(1)],
            limit: 100,
            bytes: 30_000,
        };
        change(&mut query);
        query.check()
    }

    #[test]
    fn what_the_api_permits_passes_and_nothing_else() {
        assert_eq!(checked(|_| {}), Ok(()));
        for path in [
            "",
            "/etc/passwd",
            "../x.db",
            "a/../x.db",
            "a\0b",
            "data/registry.db",
            "Gateway.DB-wal",
        ] {
            assert!(
                checked(|it| path.clone_into(&mut it.path)).is_err(),
                "{path:?}"
            );
        }
        for query in [
            "DELETE FROM customers WHERE id = ?",
            "SELECT 1",
            "PRAGMA x",
            "",
        ] {
            assert!(
                checked(|it| query.clone_into(&mut it.query)).is_err(),
                "{query}"
            );
        }
        assert!(checked(|it| it.parameters = vec![json!([1])]).is_err());
        assert!(checked(|it| it.limit = 0).is_err());
        assert!(checked(|it| it.limit = QUERY_LIMIT_MAX + 1).is_err());
        assert!(checked(|it| it.bytes = ANSWER_BYTES + 1).is_err());
    }

    #[test]
    fn what_a_caller_says_is_data_and_no_part_of_the_program() {
        let query = Query {
            path: "'\"\n.db".to_owned(),
            query: "SELECT '\"\"\"'".to_owned(),
            parameters: Vec::new(),
            limit: 1,
            bytes: 1,
        };
        let Task::Fixed { code, input } = query.task(Duration::from_secs(20)).unwrap() else {
            panic!("another task");
        };
        assert_eq!(code, READER.as_bytes());
        let job: Value = serde_json::from_slice(&input).unwrap();
        assert_eq!(
            (&job["path"], &job["query"]),
            (&json!(query.path), &json!(query.query))
        );
        assert_eq!(job["seconds"], 15.0);
    }
}
