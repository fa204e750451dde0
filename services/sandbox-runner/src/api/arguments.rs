//! Arguments of the built tools, read strictly: a wrong one is named with what to write instead.

use std::time::Duration;

use kazma_domain::{Service, Tool, plan::Window};
use kazma_wire::Problem;
use serde_json::Value;

use crate::{
    broker::QUERY_LIMIT_MAX,
    executor::{Fields, wrong},
};

/// How long code or a command may run unless the call says so, in seconds. Source: the reference's `python_exec` and
/// `shell_exec`.
const TIMEOUT_SECONDS: u64 = 30;
/// The longest that a call may ask for, in seconds.
const TIMEOUT_MAX_SECONDS: u64 = 300;
/// Rows that a query returns unless the call says so. Source: the reference's `sqlite_query`.
const ROWS: u64 = 100;
/// Lines that a read returns where only the first is given.
const LINES: u64 = 2_000;
/// The largest whole number that JSON carries exactly (RFC 7493).
const EXACT_MAX: u64 = (1 << 53) - 1;

/// A call of one of the tools that run here, with arguments of the right types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Python {
        code: String,
        timeout: Duration,
    },
    Command {
        line: String,
        timeout: Duration,
    },
    Read {
        path: String,
        window: Option<Window>,
    },
    List {
        path: String,
        pattern: Option<String>,
    },
    Write {
        path: String,
        content: String,
    },
    Query {
        path: String,
        query: String,
        parameters: Vec<Value>,
        limit: u64,
    },
}

impl Request {
    /// Reads a call as the agent names it.
    ///
    /// # Errors
    ///
    /// A 422 problem with the field that is wrong and what to do.
    pub(crate) fn parse(tool: &str, arguments: &Value) -> Result<Self, Problem> {
        let known = Tool::find(tool).filter(|t| t.is_built() && t.executor == Service::RunnerApi);
        let Some(known) = known else {
            return Err(wrong(
                "tool",
                format!("The runner has no tool {tool:?}. Name one that it has."),
            ));
        };
        let mut fields = Fields::of(arguments)?;
        let request = match known.name {
            "python_exec" => Self::Python {
                code: fields.text("code")?,
                timeout: timeout(&mut fields)?,
            },
            "shell_exec" => Self::Command {
                line: fields.text("command")?,
                timeout: timeout(&mut fields)?,
            },
            "file_read" => {
                encoding(&mut fields)?;
                Self::Read {
                    path: fields.text("path")?,
                    window: window(&mut fields)?,
                }
            }
            "file_list" => Self::List {
                path: fields
                    .optional_text("path")?
                    .unwrap_or_else(|| ".".to_owned()),
                pattern: fields.optional_text("pattern")?,
            },
            "file_write" => {
                encoding(&mut fields)?;
                Self::Write {
                    path: fields.text("path")?,
                    content: fields.text("content")?,
                }
            }
            "sqlite_query" => Self::Query {
                query: fields.text("query")?,
                path: database(&mut fields)?,
                parameters: fields.list("params")?,
                limit: fields.number("limit", 1, QUERY_LIMIT_MAX)?.unwrap_or(ROWS),
            },
            _ => return Err(wrong("tool", format!("The runner has no tool {tool:?}."))),
        };
        fields.finish()?;
        Ok(request)
    }
}

fn timeout(fields: &mut Fields) -> Result<Duration, Problem> {
    let seconds = fields.number("timeout", 1, TIMEOUT_MAX_SECONDS)?;
    Ok(Duration::from_secs(seconds.unwrap_or(TIMEOUT_SECONDS)))
}

/// The reference falls back on a database of its own when none is named; here every database is a file of the workspace.
fn database(fields: &mut Fields) -> Result<String, Problem> {
    fields.optional_text("db_path")?.ok_or_else(|| {
        wrong(
            "arguments.db_path",
            "db_path is missing. Name the database file of the workspace, such as data/shop.db; file_list finds it."
                .to_owned(),
        )
    })
}

fn encoding(fields: &mut Fields) -> Result<(), Problem> {
    match fields.optional_text("encoding")?.as_deref() {
        None | Some("utf-8") => Ok(()),
        Some(_) => Err(wrong(
            "arguments.encoding",
            "encoding can only be utf-8. Leave it out.".to_owned(),
        )),
    }
}

fn window(fields: &mut Fields) -> Result<Option<Window>, Problem> {
    let offset = fields.number("offset", 0, EXACT_MAX)?;
    let limit = fields.number("limit", 1, EXACT_MAX)?;
    let first = fields.number("start_line", 1, EXACT_MAX - LINES)?;
    let last = fields.number("end_line", 1, EXACT_MAX)?;
    let by_bytes = offset.is_some() || limit.is_some();
    if first.is_none() && last.is_none() {
        return Ok(by_bytes.then(|| Window::Bytes {
            offset: offset.unwrap_or(0),
            limit: limit.unwrap_or(EXACT_MAX),
        }));
    }
    if by_bytes {
        return Err(wrong(
            if offset.is_some() {
                "arguments.offset"
            } else {
                "arguments.limit"
            },
            "Read either by offset and limit, or by start_line and end_line, not both.".to_owned(),
        ));
    }
    let first = first.unwrap_or(1);
    let last = last.unwrap_or(first + LINES - 1);
    if last < first {
        return Err(wrong(
            "arguments.end_line",
            format!("end_line must not be less than start_line ({first})."),
        ));
    }
    Ok(Some(Window::Lines { first, last }))
}

#[cfg(test)]
mod tests {
    use kazma_domain::limits;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_by_their_types() {
        let parse = |tool, arguments| Request::parse(tool, &arguments).unwrap();
        assert_eq!(
            parse("python_exec", json!({"code": "print(1)"})),
            Request::Python {
                code: "print(1)".into(),
                timeout: Duration::from_secs(30)
            }
        );
        assert_eq!(
            parse("shell_exec", json!({"command": "ls -l", "timeout": 5})),
            Request::Command {
                line: "ls -l".into(),
                timeout: Duration::from_secs(5)
            }
        );
        assert_eq!(
            parse("file_list", json!({})),
            Request::List {
                path: ".".into(),
                pattern: None
            }
        );
        for (arguments, window) in [
            (json!({"path": "a"}), None),
            (
                json!({"path": "a", "offset": 5, "limit": 2}),
                Some(Window::Bytes {
                    offset: 5,
                    limit: 2,
                }),
            ),
            (
                json!({"path": "a", "start_line": 3}),
                Some(Window::Lines {
                    first: 3,
                    last: 2_002,
                }),
            ),
            (
                json!({"path": "a", "end_line": 3, "encoding": "utf-8"}),
                Some(Window::Lines { first: 1, last: 3 }),
            ),
        ] {
            assert_eq!(
                parse("file_read", arguments),
                Request::Read {
                    path: "a".into(),
                    window
                }
            );
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let long = "x".repeat(limits::ARGUMENTS_MAX);
        for (tool, arguments, field) in [
            ("python_exec", json!({}), "arguments.code"),
            ("python_exec", json!({"code": 1}), "arguments.code"),
            ("python_exec", json!({"code": null}), "arguments.code"),
            (
                "python_exec",
                json!({"code": "x", "timeout": 0}),
                "arguments.timeout",
            ),
            (
                "python_exec",
                json!({"code": "x", "timeout": 301}),
                "arguments.timeout",
            ),
            (
                "python_exec",
                json!({"code": "x", "timeout": 1.5}),
                "arguments.timeout",
            ),
            (
                "python_exec",
                json!({"code": "x", "timeout": "9"}),
                "arguments.timeout",
            ),
            (
                "python_exec",
                json!({"code": "x", "image": "y"}),
                "arguments.image",
            ),
            ("python_exec", json!({"code": long}), "arguments"),
            ("python_exec", json!([]), "arguments"),
            (
                "file_read",
                json!({"path": "a", "encoding": "latin-1"}),
                "arguments.encoding",
            ),
            (
                "file_read",
                json!({"path": "a", "offset": -1}),
                "arguments.offset",
            ),
            (
                "file_read",
                json!({"path": "a", "offset": 1, "start_line": 1}),
                "arguments.offset",
            ),
            (
                "file_read",
                json!({"path": "a", "limit": 1, "end_line": 1}),
                "arguments.limit",
            ),
            (
                "file_read",
                json!({"path": "a", "start_line": 5, "end_line": 4}),
                "arguments.end_line",
            ),
            (
                "file_read",
                json!({"path": "a", "limit": 1_u64 << 53}),
                "arguments.limit",
            ),
            ("file_write", json!({"path": "a"}), "arguments.content"),
            (
                "file_write",
                json!({"path": "a", "content": ["x"]}),
                "arguments.content",
            ),
            ("file_list", json!({"path": null}), "arguments.path"),
            (
                "shell_exec",
                json!({"command": ["ls"]}),
                "arguments.command",
            ),
            (
                "shell_exec",
                json!({"command": "ls", "cwd": "/"}),
                "arguments.cwd",
            ),
            ("code_exec", json!({"code": "x"}), "tool"),
            ("Python_exec", json!({"code": "x"}), "tool"),
            ("", json!({}), "tool"),
        ] {
            let problem = Request::parse(tool, &arguments).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref()),
                (422, Some(field)),
                "{tool} {field}"
            );
            assert!(problem.detail.is_some_and(|d| d.ends_with('.')));
        }
    }
}
