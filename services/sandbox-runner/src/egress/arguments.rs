//! Arguments of the tools that leave the house.

use kazma_domain::{Service, Tool, plan::Part};
use kazma_wire::Problem;
use serde_json::Value;

use crate::executor::{Fields, wrong};

/// Characters of a page that are returned unless the call says so.
const CHARS: u64 = 20_000;
/// The most that a call may ask for. With four bytes each they fit what the registry keeps of a result.
const CHARS_MAX: u64 = 30_000;
/// The last character that can be asked for: pages are cut long before.
const OFFSET_MAX: u64 = 1 << 32;
/// Results of a search unless the call says so, and the most.
const RESULTS: u64 = 8;
const RESULTS_MAX: u64 = 20;

/// A call of one of the tools that run here, with arguments of the right types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Fetch { url: String, part: Part },
    Search { query: String, results: u64 },
}

impl Request {
    /// Reads a call as the agent names it.
    ///
    /// # Errors
    ///
    /// A 422 problem with the field that is wrong and what to do.
    pub(crate) fn parse(tool: &str, arguments: &Value) -> Result<Self, Problem> {
        let none = || {
            wrong(
                "tool",
                format!("The runner has no tool {tool:?}. Name one that it has."),
            )
        };
        let known = Tool::find(tool)
            .filter(|tool| tool.is_built() && tool.executor == Service::RunnerEgress)
            .ok_or_else(none)?;
        let mut fields = Fields::of(arguments)?;
        let request = match known.name {
            "read_url" => Self::Fetch {
                url: fields.text("url")?,
                part: Part {
                    offset: fields.number("offset", 0, OFFSET_MAX)?.unwrap_or(0),
                    limit: fields.number("max_chars", 1, CHARS_MAX)?.unwrap_or(CHARS),
                },
            },
            "web_search" => Self::Search {
                query: fields.text("query")?,
                results: fields
                    .number("max_results", 1, RESULTS_MAX)?
                    .unwrap_or(RESULTS),
            },
            _ => return Err(none()),
        };
        fields.finish()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_by_their_types() {
        assert_eq!(
            Request::parse("read_url", &json!({"url": "https://a.example"})).unwrap(),
            Request::Fetch {
                url: "https://a.example".into(),
                part: Part {
                    offset: 0,
                    limit: 20_000
                }
            }
        );
        assert_eq!(
            Request::parse("web_search", &json!({"query": "tea", "max_results": 3})).unwrap(),
            Request::Search {
                query: "tea".into(),
                results: 3
            }
        );
    }

    #[test]
    fn every_tool_of_this_executor_that_is_built_is_read() {
        for tool in Tool::all() {
            let here = tool.is_built() && tool.executor == Service::RunnerEgress;
            let problem = Request::parse(tool.name, &json!({"no_such_field": 1})).unwrap_err();
            assert_eq!(
                problem.field.as_deref() == Some("tool"),
                !here,
                "{}",
                tool.name
            );
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        for (tool, arguments, field) in [
            ("read_url", json!({}), "arguments.url"),
            ("read_url", json!({"url": ["x"]}), "arguments.url"),
            (
                "read_url",
                json!({"url": "x", "offset": -1}),
                "arguments.offset",
            ),
            (
                "read_url",
                json!({"url": "x", "max_chars": 0}),
                "arguments.max_chars",
            ),
            (
                "read_url",
                json!({"url": "x", "max_chars": 30_001}),
                "arguments.max_chars",
            ),
            (
                "read_url",
                json!({"url": "x", "headers": {}}),
                "arguments.headers",
            ),
            ("web_search", json!({"q": "x"}), "arguments.query"),
            (
                "web_search",
                json!({"query": "x", "max_results": 21}),
                "arguments.max_results",
            ),
            ("crawl_page", json!({"url": "x"}), "tool"),
            ("file_read", json!({"path": "x"}), "tool"),
        ] {
            let problem = Request::parse(tool, &arguments).unwrap_err();
            assert_eq!(
                (problem.status, problem.field.as_deref()),
                (422, Some(field)),
                "{tool} {field}"
            );
        }
    }
}
