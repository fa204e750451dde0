//! From what the registry says to what a person reads.

use jiff::Timestamp;
use kazma_domain::{
    Action, Decision, Surface, TurnState, Vote,
    call::{Denial, State},
    card::Source as From,
    plan::{Plan, Window},
};
use kazma_wire::{
    agent::EntryKind,
    view::{EntryView, GateView, ThreadView},
};

use crate::{
    access::SignedIn,
    api::show::ending,
    app::App,
    pages::{Card, CardState, Detail, Exact, Message, Moment, Provenance, Source, Span, visible},
};

/// The longest title, in letters.
const TITLE_MAX: usize = 80;
/// The longest argument that is quoted beside where it comes from, in letters.
const QUOTE_MAX: usize = 80;

/// Who reads, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) who: &'a SignedIn,
    pub(super) now: Timestamp,
    /// Where forms lead back to.
    pub(super) return_to: &'a str,
    /// How many people can answer a card.
    pub(super) voters: u32,
}

impl<'a> Reader<'a> {
    pub(super) async fn new(app: &App, who: &'a SignedIn, return_to: &'a str) -> Self {
        let voters = app.people().electorate().await.unwrap_or_else(|error| {
            // It only words a remark; the decision asks again.
            tracing::warn!(
                error = error.to_string(),
                "who may decide could not be counted"
            );
            1
        });
        Self {
            who,
            now: app.people().now(),
            return_to,
            voters,
        }
    }
}

fn moment(at: Timestamp) -> Moment {
    Moment::from_unix_ms(at.as_millisecond())
}

/// A title of one line.
pub(super) fn title(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("New thread");
    let mut letters = line.chars();
    let short: String = letters.by_ref().take(TITLE_MAX).collect();
    if letters.next().is_some() {
        format!("{short}…")
    } else {
        short
    }
}

pub(super) fn thread_title(view: &ThreadView) -> String {
    let first = view.entries.iter().find_map(|entry| match &entry.kind {
        EntryKind::Message { text, .. } => Some(text.as_str()),
        EntryKind::Result { .. } | EntryKind::Reply { .. } => None,
    });
    title(first.unwrap_or_default())
}

/// What goes on in a thread, in a sentence.
pub(super) fn status(view: &ThreadView) -> &'static str {
    match view.turns.last().map(|turn| turn.state) {
        Some(TurnState::Open | TurnState::Running) => "The agent is working.",
        Some(TurnState::Parked) => "Waiting for your decision.",
        Some(TurnState::Failed) => "This turn ended with an error.",
        Some(TurnState::Aborted) => "This turn was ended by a person.",
        Some(TurnState::Done) | None => "",
    }
}

impl Reader<'_> {
    /// Everything of a thread in the order it happened.
    pub(super) fn messages(&self, view: &ThreadView) -> Vec<Message> {
        let mut all: Vec<(Timestamp, Message)> = view
            .entries
            .iter()
            .map(|entry| (entry.at, Self::message(entry)))
            .collect();
        all.extend(
            view.gates
                .iter()
                .map(|gate| (gate.asked_at, Message::gate(self.card(gate)))),
        );
        all.extend(
            view.calls
                .iter()
                .filter(|call| call.call.gate.is_none())
                .filter_map(|call| {
                    let State::Denied { by, at } = &call.call.state else {
                        return None;
                    };
                    let reason = match by {
                        Denial::Rule { reason, .. } | Denial::Changed { reason } => reason.as_str(),
                        Denial::People { .. } => "a person denied it",
                    };
                    let text = format!("{} was refused: {reason}", call.tool);
                    Some((
                        *at,
                        Message::notice(&call.call.id.to_string(), moment(*at), &text),
                    ))
                }),
        );
        // Stable: what happened in one microsecond stays in the ledger's order.
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, message)| message).collect()
    }

    fn message(entry: &EntryView) -> Message {
        let (id, at) = (entry.id.to_string(), moment(entry.at));
        match &entry.kind {
            EntryKind::Message { text, by } => Message::person(&id, by, at, text),
            EntryKind::Reply { text } => Message::agent(&id, at, text),
            EntryKind::Result {
                tool,
                summary,
                output,
                ..
            } => {
                let text = match (output.text.is_empty(), output.truncated) {
                    (true, _) => summary.clone(),
                    (false, true) => format!(
                        "{}\n[cut: {} bytes in all]",
                        output.text, output.total_bytes
                    ),
                    (false, false) => output.text.clone(),
                };
                Message::tool(&id, tool, at, &text)
            }
        }
    }

    /// The waiting cards of a thread for the panel beside it.
    pub(super) fn side(&self, view: &ThreadView) -> Vec<Card> {
        view.gates
            .iter()
            .map(|gate| self.card(gate))
            .filter(Card::waiting)
            .map(|card| Card {
                place: "side".to_owned(),
                ..card
            })
            .collect()
    }

    /// One card.
    pub(super) fn card(&self, view: &GateView) -> Card {
        let plan = &view.card.plan;
        let fate = self.fate(view);
        let exact = exact(plan);
        let (tier, tier_limit) = plan.sandbox().map_or_else(
            || {
                (
                    "workspace".to_owned(),
                    "one file; what it held before is not kept".to_owned(),
                )
            },
            |sandbox| {
                (
                    format!("{} · {}", sandbox.tier, enforcer(&sandbox.runtime)),
                    sandbox.limit.clone(),
                )
            },
        );
        let seconds = |from: Timestamp, to: Timestamp| {
            u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
        };
        Card {
            gate_id: view.gate.to_string(),
            thread_id: view.thread.to_string(),
            call_id: view
                .calls
                .first()
                .map(|call| call.call.id.to_string())
                .unwrap_or_default(),
            thread_title: String::new(),
            place: String::new(),
            state: fate.state,
            headline: plan.headline(),
            tool: plan.tool.clone(),
            tier,
            tier_limit,
            args_digest: view.args_digest.to_string(),
            seconds_left: view.expires_at.map_or(0, |end| seconds(self.now, end)),
            seconds_total: view.expires_at.map_or(0, |end| seconds(view.asked_at, end)),
            times: u64::from(view.card.count),
            voters: self.voters,
            warnings: self.warnings(view, &exact),
            exact,
            provenance: provenance(view),
            why: view.card.reason.clone(),
            details: details(view),
            can_decide: self.who.person.role.may_decide(),
            return_to: self.return_to.to_owned(),
            decided_by: fate.by,
            surface: fate.surface,
            decided_at: fate.at.map(moment).unwrap_or_default(),
            reason: fate.reason,
            outcome: fate.outcome,
            output: output(view),
            late: String::new(),
        }
    }

    fn fate(&self, view: &GateView) -> Fate {
        let settling = view
            .calls
            .iter()
            .find_map(|call| call.call.state.settling_vote());
        let first = view.calls.first().map(|call| &call.call.state);
        let all_ok = view.calls.iter().all(|call| match &call.call.state {
            State::Settled { outcome, .. } => outcome.ok,
            _ => true,
        });
        let (state, ended) = match first {
            // Where several calls share a card, the registry's word is the least advanced one.
            None | Some(State::Pending { .. }) => (CardState::Waiting, None),
            Some(_) if view.state == "approved" => (CardState::Approved, None),
            Some(_) if view.state == "claimed" => (CardState::Running, None),
            Some(State::Approved { .. }) => (CardState::Approved, None),
            Some(State::Claimed { .. }) => (CardState::Running, None),
            Some(State::Settled { at, .. }) if all_ok => (CardState::Ran, Some(*at)),
            Some(State::Settled { at, .. }) => (CardState::Failed, Some(*at)),
            Some(State::Denied {
                by: Denial::People { .. },
                at,
            }) => (CardState::Denied, Some(*at)),
            Some(State::Denied { at, .. } | State::Expired { approved: true, at }) => {
                (CardState::Refused, Some(*at))
            }
            Some(State::Expired {
                approved: false,
                at,
            }) => (CardState::Expired, Some(*at)),
            Some(State::Cancelled { at } | State::Superseded { at, .. }) => {
                (CardState::Withdrawn, Some(*at))
            }
            Some(State::Orphaned { at, .. }) => (CardState::Unknown, Some(*at)),
        };
        let vote = settling.or_else(|| view.votes.last().filter(|_| state == CardState::Refused));
        let denied = state == CardState::Denied;
        let outcome = first
            .filter(|_| !denied)
            .and_then(ending)
            .map(|(words, _)| words)
            .unwrap_or_default();
        let silent = matches!(state, CardState::Expired | CardState::Withdrawn);
        Fate {
            state,
            by: vote.map(|vote| self.voter(vote)).unwrap_or_default(),
            surface: vote
                .map(|vote| surface(vote.surface).to_owned())
                .unwrap_or_default(),
            at: vote.map(|vote| vote.at).or(ended),
            reason: vote
                .filter(|_| denied)
                .and_then(|vote| vote.reason.clone())
                .unwrap_or_default(),
            outcome: if silent { String::new() } else { outcome },
        }
    }

    fn voter(&self, vote: &Vote) -> String {
        if vote.by == self.who.person.id {
            "you".to_owned()
        } else {
            vote.name.clone()
        }
    }

    fn warnings(&self, view: &GateView, exact: &[Exact]) -> Vec<String> {
        let mut warnings = Vec::new();
        let hidden = exact.iter().flat_map(|block| &block.lines).any(|line| {
            visible(&line.text)
                .iter()
                .any(|span| matches!(span, Span::Hidden(_)))
        });
        if hidden {
            warnings.push(
                "It holds a character that does not show itself; each is drawn as its code."
                    .to_owned(),
            );
        }
        if view
            .card
            .plan
            .sandbox()
            .is_some_and(|sandbox| sandbox.tier == "local")
        {
            warnings.push(
                "This would run without isolation, as an ordinary program of this machine."
                    .to_owned(),
            );
        }
        if let Action::FetchUrl { url, .. } = &view.card.plan.action
            && url.starts_with("http:")
        {
            warnings.push(
                "The connection is not encrypted: whoever is on the way can read and change what is fetched."
                    .to_owned(),
            );
        }
        if view.state == "pending" {
            warnings.extend(view.votes.iter().map(|vote| match vote.decision {
                Decision::Deny => {
                    format!("{} said no. One approval still runs it.", self.voter(vote))
                }
                Decision::Approve => format!("{} approved.", self.voter(vote)),
            }));
        }
        warnings
    }
}

/// What became of a card.
struct Fate {
    state: CardState,
    by: String,
    surface: String,
    at: Option<Timestamp>,
    reason: String,
    outcome: String,
}

fn surface(surface: Surface) -> &'static str {
    match surface {
        Surface::Web => "the web",
        Surface::Api => "the API",
        Surface::Terminal => "the terminal",
    }
}

/// The exact thing, whole.
fn exact(plan: &Plan) -> Vec<Exact> {
    match &plan.action {
        Action::RunPython { code, .. } => vec![Exact::code("code", code)],
        Action::RunCommand {
            argv,
            cwd,
            writable,
            ..
        } => command(plan, argv, cwd, writable),
        Action::WriteFile { path, diff, .. } => {
            vec![Exact::field("file", path), Exact::diff(path, diff)]
        }
        Action::ReadFile { path, window } => {
            let part = match window {
                Window::Bytes { offset, limit } => format!("{limit} bytes from byte {offset}"),
                Window::Lines { first, last } => format!("lines {first} to {last}"),
            };
            vec![Exact::field("file", path), Exact::field("part", &part)]
        }
        Action::ListFolder { path, pattern } => {
            let folder = if path.is_empty() {
                "the workspace"
            } else {
                path
            };
            let names = pattern.iter().map(|pattern| Exact::field("names", pattern));
            std::iter::once(Exact::field("folder", folder))
                .chain(names)
                .collect()
        }
        Action::QuerySqlite {
            path,
            query,
            parameters,
            ..
        } => {
            let values = parameters
                .iter()
                .enumerate()
                .map(|(n, value)| Exact::field(&format!("value {}", n + 1), &value.to_string()));
            [Exact::field("database", path), Exact::code("query", query)]
                .into_iter()
                .chain(values)
                .collect()
        }
        Action::FetchUrl {
            host, url, sends, ..
        } => vec![
            Exact::field("host", host),
            Exact::field("address", url),
            Exact::code("all that is sent", &sends.join("\n")),
        ],
        Action::SearchWeb {
            service,
            query,
            sends,
            ..
        } => vec![
            Exact::field("search service", service),
            Exact::field("words", query),
            Exact::code("all that is sent", &sends.join("\n")),
        ],
    }
}

/// What was asked for, and what that comes to, argument by argument.
fn command(plan: &Plan, argv: &[String], cwd: &str, writable: &[String]) -> Vec<Exact> {
    let place = |path: &str| match path {
        "" => "the workspace".to_owned(),
        path => path.to_owned(),
    };
    let asked = plan.arguments.get("command").and_then(|it| it.as_str());
    let mut blocks: Vec<Exact> = asked
        .iter()
        .map(|line| Exact::field("asked for", line))
        .collect();
    blocks.push(Exact::command(
        "what starts",
        argv.iter().map(String::as_str),
    ));
    blocks.push(Exact::field("folder", &place(cwd)));
    blocks.extend(
        writable
            .iter()
            .map(|path| Exact::field("can write", &place(path))),
    );
    blocks
}

fn provenance(view: &GateView) -> Vec<Provenance> {
    let arguments = &view.card.plan.arguments;
    view.card
        .provenance
        .iter()
        .map(|origin| {
            let value = arguments
                .get(&origin.argument)
                .and_then(serde_json::Value::as_str);
            let quoted =
                value.filter(|text| text.chars().count() <= QUOTE_MAX && !text.contains('\n'));
            Provenance {
                source: match origin.source {
                    From::Person => Source::You,
                    From::Tool => Source::Tool,
                    From::Nobody => Source::Nobody,
                },
                part: quoted.map_or_else(
                    || format!("the {}", origin.argument),
                    |text| format!("“{text}”"),
                ),
                // Of a tool it says which; of the person and of nobody the source has said it all.
                remark: match origin.source {
                    From::Tool => origin.words.clone(),
                    From::Person | From::Nobody => String::new(),
                },
            }
        })
        .collect()
}

/// What enforces a sandbox, without what runs inside.
fn enforcer(runtime: &str) -> &str {
    runtime.split(',').next().unwrap_or(runtime)
}

fn details(view: &GateView) -> Vec<Detail> {
    let plan = &view.card.plan;
    let words = |name: &str, value: String| Detail {
        name: name.to_owned(),
        value,
        code: false,
    };
    let code = |name: &str, value: String| Detail {
        name: name.to_owned(),
        value,
        code: true,
    };
    let mut rows = vec![code("Tool", plan.tool.clone())];
    if let Some(arguments) = plan.arguments.as_object() {
        // the code, the content, the command and the question stand above, whole.
        let question = matches!(plan.action, Action::QuerySqlite { .. });
        let small = arguments.iter().filter(|(name, _)| match name.as_str() {
            "code" | "content" | "command" => false,
            "query" | "params" => !question,
            _ => true,
        });
        rows.extend(
            small.map(|(name, value)| code(&format!("Argument {name}"), value.to_string())),
        );
    }
    if let Some(sandbox) = plan.sandbox() {
        rows.push(words(
            "Where",
            format!("{}, {}", sandbox.tier, sandbox.runtime),
        ));
        if let Some(image) = &sandbox.image {
            rows.push(code("Image", image.clone()));
        }
        rows.push(words("Limits", sandbox.enforcement.join(", ")));
        rows.push(words("Network", sandbox.network.clone()));
        rows.push(words("Workspace", sandbox.workspace.clone()));
    }
    match &plan.action {
        Action::RunPython { timeout_ms, .. } => rows.push(words("Time limit", limit(*timeout_ms))),
        Action::RunCommand {
            env, timeout_ms, ..
        } => {
            rows.push(words("Time limit", limit(*timeout_ms)));
            let variables = env.iter().map(|(name, value)| format!("{name}={value}"));
            rows.extend(variables.map(|variable| code("Variable", variable)));
        }
        Action::WriteFile {
            before,
            after,
            bytes,
            ..
        } => {
            rows.push(words("Size", format!("{bytes} bytes")));
            rows.extend(
                before
                    .iter()
                    .map(|digest| code("File now", digest.to_string())),
            );
            rows.push(code("File afterwards", after.to_string()));
        }
        Action::QuerySqlite {
            limit: most,
            timeout_ms,
            ..
        } => {
            rows.push(words("Returned", format!("at most {most} rows")));
            rows.push(words("Time limit", limit(*timeout_ms)));
        }
        Action::FetchUrl { part, .. } => rows.push(words(
            "Returned",
            format!("{} characters from character {}", part.limit, part.offset),
        )),
        Action::SearchWeb { results, .. } => {
            rows.push(words("Returned", format!("at most {results} results")));
        }
        Action::ReadFile { .. } | Action::ListFolder { .. } => {}
    }
    rows.push(words("Rule", view.card.rule.clone()));
    rows.extend(
        plan.digest()
            .ok()
            .map(|digest| code("Plan", digest.to_string())),
    );
    rows.push(code("Card", view.args_digest.to_string()));
    rows.push(code("Gate", view.gate.to_string()));
    rows.push(code("Turn", view.turn.to_string()));
    rows
}

fn limit(milliseconds: u64) -> String {
    format!("{} s", milliseconds.div_ceil(1000))
}

fn output(view: &GateView) -> String {
    let outputs: Vec<&str> = view
        .calls
        .iter()
        .filter_map(|call| call.output.as_ref())
        .map(|output| output.text.as_str())
        .collect();
    outputs.join("\n")
}

#[cfg(test)]
mod tests {
    use kazma_domain::plan::Sandbox;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_shown_word_by_word_with_what_it_can_write() {
        let plan = Plan {
            tool: "shell_exec".to_owned(),
            arguments: json!({"command": "cp 'a b' c"}),
            action: Action::RunCommand {
                argv: ["/usr/bin/cp", "a b", "c"].map(str::to_owned).to_vec(),
                env: [("LANG".to_owned(), "C.UTF-8".to_owned())].into(),
                cwd: String::new(),
                writable: vec![".git".to_owned(), "out".to_owned()],
                runs_code: false,
                timeout_ms: 30_000,
                sandbox: Sandbox {
                    tier: "native".to_owned(),
                    runtime: "bubblewrap".to_owned(),
                    image: None,
                    limit: String::new(),
                    enforcement: Vec::new(),
                    network: "none".to_owned(),
                    workspace: "read-only but for .git, out".to_owned(),
                },
            },
        };
        assert_eq!(
            plan.headline(),
            "Run cp in a fresh jail on this machine without network, workspace read-only but for .git, out."
        );
        let drawn: Vec<(String, Vec<String>)> = exact(&plan)
            .into_iter()
            .map(|block| {
                (
                    block.label,
                    block.lines.into_iter().map(|l| l.text).collect(),
                )
            })
            .collect();
        let block = |label: &str, lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            (label.to_owned(), lines)
        };
        assert_eq!(
            drawn,
            [
                block("asked for", &["cp 'a b' c"]),
                block("what starts", &["/usr/bin/cp", "a b", "c"]),
                block("folder", &["the workspace"]),
                block("can write", &[".git"]),
                block("can write", &["out"]),
            ]
        );
    }
}
