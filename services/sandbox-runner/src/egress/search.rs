//! `web_search`: the search service that the operator configured, a SearXNG.
//!
//! Source of the interface: the search API of SearXNG's documentation (`GET /search` with `q`, `format=json`
//! and `safesearch`; 403 where the format is off). Of an answer only what is named there is read.

use std::fmt::Write as _;

use kazma_domain::{Action, Outcome};
use kazma_netguard::{Client, Cut, Origin, Page};
use kazma_wire::executor::{Output, SettleRequest};
use serde::Deserialize;
use serde_json::Value;

use super::fetch::not_fetched;
use crate::executor::{Finish, Refused, failed};

/// Characters of a query.
const QUERY: usize = 1_000;
/// Bytes of each text of a result that are shown.
const SNIPPET: usize = 1_000;
/// Answers, suggestions and silent engines that are shown.
const EXTRAS: usize = 5;
const PATH: &str = "search";

/// A search that was planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    service: Origin,
    query: String,
    results: u64,
}

/// What would be searched for, and where.
pub(super) fn plan(
    service: Option<&Origin>,
    query: &str,
    results: u64,
) -> Result<(Action, Search), Refused> {
    let Some(service) = service else {
        return Err(Refused::new(
            "search-not-configured",
            "No search service is configured. The operator can run a SearXNG with its JSON format switched \
             on, and name it by KAZMA_SEARXNG_URL.",
        ));
    };
    let query = query.trim();
    if query.is_empty() {
        return Err(Refused::new(
            "query-empty",
            "The query is empty. Say what to search for.",
        ));
    }
    if query.chars().count() > QUERY {
        return Err(Refused::new(
            "query-long",
            format!("The query is longer than {QUERY} characters. Search for less at once."),
        ));
    }
    if query.chars().any(char::is_control) {
        return Err(Refused::new(
            "query-control",
            "The query holds a line break or another control character. Write it on one line.",
        ));
    }
    let search = Search {
        service: service.clone(),
        query: query.to_owned(),
        results,
    };
    let url = service.at(PATH, &search.fields());
    let action = Action::SearchWeb {
        service: url.origin().ascii_serialization(),
        query: search.query.clone(),
        sends: Client::request(&url),
        results,
    };
    Ok((action, search))
}

impl Search {
    fn fields(&self) -> [(&str, &str); 2] {
        [("q", &self.query), ("format", "json")]
    }
}

/// Searches.
pub(super) async fn act(client: &Client, search: &Search) -> Finish {
    match client
        .configured(&search.service, PATH, &search.fields())
        .await
    {
        Ok(page) => told(&page, search),
        Err(error) => failed(format!("the search service: {}", not_fetched(&error))),
    }
}

fn told(page: &Page, search: &Search) -> Finish {
    match page.status {
        200..300 => {}
        403 => {
            return failed(
                "the search service answered with status 403: its JSON format is off. The operator adds json \
                 to search.formats in its settings.yml",
            );
        }
        429 => {
            return failed(
                "the search service answered with status 429: too many searches. Wait a while",
            );
        }
        status => return failed(format!("the search service answered with status {status}")),
    }
    match page.cut {
        Some(Cut::Size) => return failed("the search service's answer is larger than is read"),
        Some(Cut::Time | Cut::Broken) => {
            return failed("the search service broke off in its answer");
        }
        None => {}
    }
    let Ok(found) = serde_json::from_slice::<Found>(&page.body) else {
        return failed(
            "the search service did not answer with the JSON of a SearXNG. Look whether KAZMA_SEARXNG_URL \
             names one",
        );
    };
    let (text, count) = found.text(search.results);
    let total_bytes = text.len() as u64;
    Finish::Settled(SettleRequest {
        outcome: Outcome {
            ok: true,
            summary: match count {
                1 => "1 result".to_owned(),
                count => format!("{count} results"),
            },
        },
        output: Output {
            text,
            truncated: false,
            total_bytes,
            note: String::new(),
            origin: String::new(),
        },
    })
}

/// What a SearXNG answers, as far as it is read. Whatever is missing or of another type is left out.
#[derive(Debug, Deserialize)]
struct Found {
    results: Vec<Value>,
    #[serde(default)]
    answers: Vec<Value>,
    #[serde(default)]
    suggestions: Vec<Value>,
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

impl Found {
    fn text(&self, most: u64) -> (String, usize) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut text = String::new();
        for answer in self.answers.iter().filter_map(answer).take(EXTRAS) {
            let _ = writeln!(text, "Answer: {answer}\n");
        }
        let results = self.results.iter().filter_map(Hit::of).take(most);
        let mut count = 0;
        for hit in results {
            count += 1;
            let _ = writeln!(text, "{count}. {}\n   {}", hit.title, hit.url);
            if !hit.content.is_empty() {
                let _ = writeln!(text, "   {}", hit.content);
            }
            text.push('\n');
        }
        if count == 0 {
            text.push_str("[nothing was found]\n");
        }
        let suggestions: Vec<String> = self
            .suggestions
            .iter()
            .filter_map(line)
            .take(EXTRAS)
            .collect();
        if !suggestions.is_empty() {
            let _ = writeln!(text, "Suggestions: {}", suggestions.join("; "));
        }
        let silent: Vec<String> = self
            .unresponsive_engines
            .iter()
            .filter_map(engine)
            .take(EXTRAS)
            .collect();
        if !silent.is_empty() {
            let _ = writeln!(text, "Did not answer: {}", silent.join("; "));
        }
        (text, count)
    }
}

/// One result.
struct Hit {
    title: String,
    url: String,
    content: String,
}

impl Hit {
    fn of(result: &Value) -> Option<Self> {
        let text = |name| result.get(name).and_then(line).unwrap_or_default();
        let url = text("url");
        (!url.is_empty()).then(|| Self {
            title: text("title"),
            content: text("content"),
            url,
        })
    }
}

/// An answer is a text, or an object with one.
fn answer(answer: &Value) -> Option<String> {
    line(answer).or_else(|| answer.get("answer").and_then(line))
}

/// A silent engine is a pair of its name and what is wrong.
fn engine(engine: &Value) -> Option<String> {
    let pair = engine.as_array()?;
    let words: Vec<String> = pair.iter().filter_map(line).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A text on one line, cut.
fn line(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let head = text
        .get(..text.floor_char_boundary(SNIPPET))
        .unwrap_or_default();
    let line = head.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
