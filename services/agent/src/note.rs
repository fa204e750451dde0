//! How a call's end is told to the model: the platform's words in one line, then the fenced output.

use kazma_domain::{Call, Denial, Entropy, Outcome, State, limits};
use kazma_fence::{Fence, Source, defuse};
use kazma_wire::{
    Problem,
    model::{ChatMessage, ToolNote, ToolOutcome},
};

use crate::clients::Returned;

/// What one call came to.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) note: ToolNote,
    pub(crate) output: Option<Returned>,
}

impl Told {
    fn new(outcome: ToolOutcome, tool: &str, words: String) -> Self {
        let tool = defuse(
            tool.get(..tool.floor_char_boundary(200))
                .unwrap_or_default(),
        );
        let note = ToolNote {
            outcome,
            tool,
            words,
            by: None,
            rule: None,
            reason: None,
        };
        Self { note, output: None }
    }

    /// What a call that has ended came to; none for one that has not.
    pub(crate) fn of(call: &Call, tool: &str, output: Option<Returned>) -> Option<Self> {
        let told = |outcome, words: String| Self::new(outcome, tool, words);
        Some(match &call.state {
            State::Pending { .. } | State::Approved { .. } | State::Claimed { .. } => return None,
            State::Settled { outcome, .. } => Self::ran(tool, outcome, output.unwrap_or_default()),
            State::Denied { by, .. } => denied(tool, by),
            State::Expired { approved: false, .. } => told(
                ToolOutcome::Expired,
                "Nobody answered the card in time, so this call has expired. It did not run.".to_owned(),
            ),
            State::Expired { approved: true, .. } => told(
                ToolOutcome::Expired,
                "This call was allowed, but could not begin in time and has expired. It did not run."
                    .to_owned(),
            ),
            State::Cancelled { .. } => told(
                ToolOutcome::Cancelled,
                "This call was cancelled before it began. It did not run.".to_owned(),
            ),
            State::Superseded { .. } => told(
                ToolOutcome::Superseded,
                "Another question took the place of this call. It did not run.".to_owned(),
            ),
            State::Orphaned { what, .. } => Self {
                note: ToolNote {
                    reason: Some(quote(what)),
                    ..told(
                        ToolOutcome::Orphaned,
                        format!(
                            "This call began, and nobody knows how it ended: {}. It may have had its effect. \
                             It will never be run again; a person has to look.",
                            quote(what)
                        ),
                    )
                    .note
                },
                output: None,
            },
        })
    }

    /// A call that ran.
    pub(crate) fn ran(tool: &str, outcome: &Outcome, output: Returned) -> Self {
        let kind = if outcome.ok {
            ToolOutcome::Ok
        } else {
            ToolOutcome::Failed
        };
        let mut words = line(&outcome.summary);
        if words.is_empty() {
            words.push_str(if outcome.ok { "It ran." } else { "It failed." });
        }
        if output.truncated {
            words = format!(
                "{words} (The output was cut: the first {} of {} bytes are kept.)",
                output.text.len(),
                output.total_bytes
            );
        }
        Self {
            output: Some(output),
            ..Self::new(kind, tool, words)
        }
    }

    /// A call whose arguments are not what the tool takes.
    pub(crate) fn invalid(tool: &str, field: Option<&str>, what: &str) -> Self {
        let what = line(what);
        let words = match field {
            // A problem's sentence often names its field already.
            Some(field) if !what.starts_with(field) => {
                format!("invalid arguments: field {}: {what}", line(field))
            }
            Some(_) => format!("invalid arguments: field {what}"),
            None => format!("invalid arguments: {what}"),
        };
        Self::new(ToolOutcome::InvalidArguments, tool, words)
    }

    /// A call that its executor did not take.
    pub(crate) fn not_taken(tool: &str, problem: &Problem) -> Self {
        let what = problem.detail.as_deref().unwrap_or(&problem.title);
        if matches!(problem.status, 400 | 413 | 422) {
            return Self::invalid(tool, problem.field.as_deref(), what);
        }
        Self::refused(tool, problem.kind.trim_start_matches("/problems/"), what)
    }

    fn refused(tool: &str, rule: &str, reason: &str) -> Self {
        let mut told = Self::new(
            ToolOutcome::Refused,
            tool,
            format!(
                "The rule {} refused this call: {}. It did not run.",
                quote(rule),
                quote(reason)
            ),
        );
        told.note.rule = Some(line(rule));
        told.note.reason = Some(line(reason));
        told
    }

    /// The tool-role message for the call with the model's id `id`. At most `room` bytes of output.
    pub(crate) fn message(&self, id: &str, room: usize, entropy: &dyn Entropy) -> ChatMessage {
        let mut note = self.note.clone();
        let block = self.output.as_ref().map(|output| {
            let head = output.text.head(room);
            if head.len() < output.text.len() {
                note.words = format!(
                    "{} (Only the first {} of {} bytes fit into this conversation.)",
                    note.words,
                    head.len(),
                    output.text.len()
                );
            }
            let source = source(&note.tool);
            if output.origin.is_empty() {
                head.fence(fresh(entropy), source, &note.tool)
            } else {
                head.fence_from(fresh(entropy), source, &output.origin)
            }
        });
        let first = serde_json::to_string(&note).unwrap_or_default();
        let content = match block {
            Some(block) => format!("{first}\n{block}"),
            None => first,
        };
        ChatMessage::Tool {
            tool_call_id: id.to_owned(),
            content,
        }
    }

    /// One line for a person.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "- `{}`: {}",
            self.note.tool.replace('`', "'"),
            self.note.words
        )
    }
}

fn denied(tool: &str, by: &Denial) -> Told {
    match by {
        Denial::Rule { rule, reason } => Told::refused(tool, rule, reason),
        Denial::Changed { reason } => {
            let words = format!(
                "What would have run was no longer what was approved: {}. It did not run.",
                quote(reason)
            );
            let mut told = Told::new(ToolOutcome::Changed, tool, words);
            told.note.reason = Some(line(reason));
            told
        }
        Denial::People { votes } => {
            let name = votes
                .last()
                .map_or_else(|| "A person".to_owned(), |vote| line(&vote.name));
            let reason = votes.last().and_then(|vote| vote.reason.as_deref());
            let words = match reason {
                Some(reason) => format!(
                    "{name} denied this call: {}. It did not run.",
                    quote(reason)
                ),
                None => format!("{name} denied this call. It did not run."),
            };
            let mut told = Told::new(ToolOutcome::Denied, tool, words);
            told.note.by = Some(name);
            told.note.reason = reason.map(line);
            told
        }
    }
}

/// Somebody's words on one line, with nothing in them that a model takes for a marker.
fn line(text: &str) -> String {
    let head = text
        .get(..text.floor_char_boundary(limits::REASON_MAX))
        .unwrap_or_default();
    defuse(head)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The same as quoted text.
fn quote(text: &str) -> String {
    format!("\"{}\"", line(text).replace('"', "'").trim_end_matches('.'))
}

/// A fence that nobody can have foreseen.
fn fresh(entropy: &dyn Entropy) -> Fence {
    let mut nonce = [0_u8; 16];
    entropy.fill(&mut nonce);
    Fence::new(nonce)
}

/// Where the output of a tool comes from.
fn source(tool: &str) -> Source {
    let family = tool.split('_').next().unwrap_or_default();
    match (family, tool) {
        (
            _,
            "activate_skill" | "list_agent_skills" | "search_agent_skills" | "install_agent_skill",
        ) => Source::Skill,
        (
            _,
            "python_exec" | "code_exec" | "shell_exec" | "run_tests" | "run_unit_tests"
            | "lint_code",
        ) => Source::Code,
        ("browser" | "crawl", _)
        | (_, "read_url" | "read_url_to_file" | "knowledge_ingest_url") => Source::Web,
        ("web", _) | (_, "codebase_search" | "knowledge_search" | "document_search") => {
            Source::Search
        }
        ("email", _) => Source::Mail,
        ("memory", _) => Source::Memory,
        ("file" | "document" | "pdf" | "parse" | "read" | "ocr" | "sqlite" | "git", _) => {
            Source::File
        }
        ("send" | "x", _) => Source::Chat,
        _ => Source::Mcp,
    }
}
