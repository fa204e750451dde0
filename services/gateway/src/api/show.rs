//! Threads and gates as the API shows them.

#![expect(
    clippy::struct_field_names,
    reason = "the names are the API's, and part of its contract"
)]

use axum::response::sse::Event as Frame;
use jiff::Timestamp;
use kazma_domain::{
    CallId, Decision, Digest, GateId, MessageId, PersonId, Surface, ThreadId, TurnId, TurnState,
    Vote,
    call::{Denial, State},
    card::Source,
    catalogue::Tool,
    plan::Plan,
};
use kazma_wire::{
    agent::EntryKind,
    events::{Event, What},
    executor::Output,
    view::{CallView, EntryView, GateView, ThreadView},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::events::with_id;
use crate::{app::App, hub::Happening};

/// A gate: the whole card, and where it stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Gate {
    #[schema(value_type = String)]
    gate_id: GateId,
    #[schema(value_type = String)]
    thread_id: ThreadId,
    #[schema(value_type = String)]
    turn_id: TurnId,
    /// The tool, as the agent named it.
    tool: String,
    /// The arguments, as the agent gave them.
    args: Value,
    /// The digest of the whole card: what a decision must name.
    #[schema(value_type = String)]
    args_digest: Digest,
    /// Why a person is asked.
    reason: String,
    /// Where each argument came from.
    provenance: Vec<Origin>,
    /// Where it would run: `native`, `docker`, `kubernetes`, `e2b`, `local`, or `workspace`.
    tier: String,
    /// How dangerous the tool is.
    risk: String,
    /// When silence becomes a denial; none once it no longer waits.
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = String)]
    asked_at: Timestamp,
    /// `pending`, `approved`, `claimed`, `settled`, `denied`, `expired`, `cancelled`, `superseded` or `orphaned`.
    state: String,
    /// What exactly would be done.
    #[schema(value_type = Object)]
    plan: Plan,
    #[schema(value_type = String)]
    plan_digest: Option<Digest>,
    /// The card in one sentence.
    headline: String,
    /// The rule that asked.
    rule: String,
    /// How many equal calls it answers.
    count: u32,
    votes: Vec<Cast>,
    #[serde(flatten)]
    decided: Option<Decided>,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
struct Origin {
    argument: String,
    /// `person`, `tool` or `nobody`.
    #[schema(value_type = String)]
    source: Source,
    /// The same in plain words.
    words: String,
}

/// One person's answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Cast {
    #[schema(value_type = String)]
    decision: Decision,
    #[schema(value_type = String)]
    by: PersonId,
    name: String,
    #[schema(value_type = String)]
    surface: Surface,
    #[schema(value_type = String)]
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&Vote> for Cast {
    fn from(vote: &Vote) -> Self {
        Self {
            decision: vote.decision,
            by: vote.by,
            name: vote.name.clone(),
            surface: vote.surface,
            at: vote.at,
            reason: vote.reason.clone(),
        }
    }
}

/// Who settled it.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Decided {
    #[schema(value_type = String)]
    decision: Decision,
    decided_by: String,
    #[schema(value_type = String)]
    surface: Surface,
    #[schema(value_type = String)]
    decided_at: Timestamp,
}

/// One call.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Call {
    #[schema(value_type = String)]
    call_id: CallId,
    #[schema(value_type = Option<String>)]
    gate_id: Option<GateId>,
    #[schema(value_type = String)]
    turn_id: TurnId,
    tool: String,
    args: Value,
    state: String,
    /// How it ended, in a few words, once it has.
    summary: Option<String>,
    /// Whether it did what it was meant to, once that is known.
    ok: Option<bool>,
    /// What it returned, once it has.
    output: Option<Returned>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
struct Returned {
    text: String,
    truncated: bool,
    total_bytes: u64,
    note: String,
}

impl From<&Output> for Returned {
    fn from(output: &Output) -> Self {
        Self {
            text: output.text.clone(),
            truncated: output.truncated,
            total_bytes: output.total_bytes,
            note: output.note.clone(),
        }
    }
}

/// How a call ended, in a few words, and whether well.
pub(crate) fn ending(state: &State) -> Option<(String, Option<bool>)> {
    match state {
        State::Settled { outcome, .. } => Some((outcome.summary.clone(), Some(outcome.ok))),
        State::Denied {
            by: Denial::Rule { reason, .. } | Denial::Changed { reason },
            ..
        } => Some((reason.clone(), None)),
        State::Denied {
            by: Denial::People { votes },
            ..
        } => Some((
            votes
                .last()
                .and_then(|vote| vote.reason.clone())
                .unwrap_or_else(|| "denied".to_owned()),
            None,
        )),
        State::Expired {
            approved: false, ..
        } => Some(("nobody answered in time".to_owned(), None)),
        State::Expired { approved: true, .. } => {
            Some(("approved, and not collected in time".to_owned(), None))
        }
        State::Cancelled { .. } => Some(("the turn was ended before it ran".to_owned(), None)),
        State::Superseded { .. } => Some(("another card took its place".to_owned(), None)),
        State::Orphaned { what, .. } => Some((what.clone(), None)),
        State::Pending { .. } | State::Approved { .. } | State::Claimed { .. } => None,
    }
}

impl From<&CallView> for Call {
    fn from(view: &CallView) -> Self {
        let (summary, ok) =
            ending(&view.call.state).map_or((None, None), |(words, ok)| (Some(words), ok));
        Self {
            call_id: view.call.id,
            gate_id: view.call.gate,
            turn_id: view.call.turn,
            tool: view.tool.clone(),
            args: view.arguments.clone(),
            state: view.call.state.name().to_owned(),
            summary,
            ok,
            output: view.output.as_ref().map(Returned::from),
        }
    }
}

impl From<&GateView> for Gate {
    fn from(view: &GateView) -> Self {
        let plan = &view.card.plan;
        let risk = Tool::find(&plan.tool).and_then(|tool| serde_json::to_value(tool.tier).ok());
        let decided = view
            .calls
            .iter()
            .find_map(|call| call.call.state.settling_vote())
            .map(|vote| Decided {
                decision: vote.decision,
                decided_by: vote.name.clone(),
                surface: vote.surface,
                decided_at: vote.at,
            });
        Self {
            gate_id: view.gate,
            thread_id: view.thread,
            turn_id: view.turn,
            tool: plan.tool.clone(),
            args: plan.arguments.clone(),
            args_digest: view.args_digest,
            reason: view.card.reason.clone(),
            provenance: view
                .card
                .provenance
                .iter()
                .map(|origin| Origin {
                    argument: origin.argument.clone(),
                    source: origin.source,
                    words: origin.words.clone(),
                })
                .collect(),
            tier: plan
                .sandbox()
                .map_or_else(|| "workspace".to_owned(), |sandbox| sandbox.tier.clone()),
            risk: risk
                .as_ref()
                .and_then(Value::as_str)
                .unwrap_or("unknown")
                .to_owned(),
            expires_at: view.expires_at,
            asked_at: view.asked_at,
            state: view.state.clone(),
            plan: plan.clone(),
            plan_digest: plan.digest().ok(),
            headline: plan.headline(),
            rule: view.card.rule.clone(),
            count: view.card.count,
            votes: view.votes.iter().map(Cast::from).collect(),
            decided,
            calls: view.calls.iter().map(Call::from).collect(),
        }
    }
}

/// A thread, whole.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Thread {
    #[schema(value_type = String)]
    thread_id: ThreadId,
    #[schema(value_type = String)]
    created_at: Timestamp,
    /// Oldest first.
    messages: Vec<Message>,
    /// Oldest first.
    turns: Vec<Turn>,
    /// Oldest first, whatever their state.
    gates: Vec<Gate>,
    /// Oldest first, asked or not.
    calls: Vec<Call>,
    /// The last event of the thread: give it as `Last-Event-ID` to follow from here.
    seq: i64,
}

/// One entry of a thread.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Message {
    #[schema(value_type = String)]
    id: MessageId,
    /// `user`, `agent` or `tool`.
    role: &'static str,
    text: String,
    #[schema(value_type = String)]
    at: Timestamp,
    #[schema(value_type = String)]
    turn_id: TurnId,
    /// Who spoke, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// The tool, for a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    /// Whether the tool did what it was meant to.
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    /// How the tool ended, in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

impl From<&EntryView> for Message {
    fn from(entry: &EntryView) -> Self {
        let plain = Self {
            id: entry.id,
            role: "agent",
            text: String::new(),
            at: entry.at,
            turn_id: entry.turn,
            by: None,
            tool: None,
            call_id: None,
            ok: None,
            summary: None,
        };
        match &entry.kind {
            EntryKind::Message { text, by } => Self {
                role: "user",
                text: text.clone(),
                by: Some(by.clone()),
                ..plain
            },
            EntryKind::Reply { text } => Self {
                text: text.clone(),
                ..plain
            },
            EntryKind::Result {
                call,
                tool,
                summary,
                ok,
                output,
            } => Self {
                role: "tool",
                text: output.text.clone(),
                tool: Some(tool.clone()),
                call_id: Some(*call),
                ok: Some(*ok),
                summary: Some(summary.clone()),
                ..plain
            },
        }
    }
}

/// One turn.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Turn {
    #[schema(value_type = String)]
    turn_id: TurnId,
    /// `open`, `running`, `parked`, `done`, `failed` or `aborted`.
    #[schema(value_type = String)]
    state: TurnState,
    #[schema(value_type = String)]
    opened_at: Timestamp,
}

impl From<&ThreadView> for Thread {
    fn from(view: &ThreadView) -> Self {
        Self {
            thread_id: view.thread,
            created_at: view.created_at,
            messages: view.entries.iter().map(Message::from).collect(),
            turns: view
                .turns
                .iter()
                .map(|turn| Turn {
                    turn_id: turn.turn,
                    state: turn.state,
                    opened_at: turn.opened_at,
                })
                .collect(),
            gates: view.gates.iter().map(Gate::from).collect(),
            calls: view.calls.iter().map(Call::from).collect(),
            seq: view.seq,
        }
    }
}

/// An event as the API tells it.
pub(crate) struct Told;

impl Told {
    /// `happening` for clients: what it is about is fetched once, for all who look.
    pub(crate) async fn of(app: &App, happening: &Happening) -> Option<Frame> {
        happening
            .told
            .get_or_init(async || {
                let frame = Self::make(app, &happening.event).await?;
                Some(with_id(frame, happening))
            })
            .await
            .clone()
    }

    async fn make(app: &App, event: &Event) -> Option<Frame> {
        let ids = json!({"thread_id": event.thread, "turn_id": event.turn, "at": event.at});
        let told = |name: &str, more: Value| {
            let frame = Frame::default().event(name);
            frame.json_data(joined(&ids, more)).ok()
        };
        match &event.what {
            What::Beat => None,
            What::Thread => told("thread.new", json!({})),
            What::Message { message } => told(
                "message.new",
                entry(app, event.thread, *message, "user").await,
            ),
            What::Reply { message } => told(
                "message.done",
                entry(app, event.thread, *message, "agent").await,
            ),
            What::Turn { state } => told(
                if state.is_live() {
                    "turn.changed"
                } else {
                    "turn.done"
                },
                json!({"state": state}),
            ),
            What::Call {
                call,
                tool,
                state,
                gate,
            } => told(
                "call.changed",
                json!({"call_id": call, "tool": tool, "state": state, "gate_id": gate}),
            ),
            What::GatePending { gate } => {
                told("gate.pending", gate_data(app, *gate, "pending").await)
            }
            What::GateSettled { gate, state } => {
                told("gate.settled", gate_data(app, *gate, state).await)
            }
            What::Output { call, stream, text } => told(
                "call.output",
                json!({"call_id": call, "stream": stream, "text": text}),
            ),
        }
    }
}

fn joined(ids: &Value, more: Value) -> Value {
    let mut all = ids.clone();
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

async fn entry(app: &App, thread: ThreadId, message: MessageId, role: &str) -> Value {
    // Where the registry does not answer, the ids are told, and the client asks for the rest.
    let view = app.registry().thread(thread).await.ok();
    let entry = view
        .as_ref()
        .and_then(|view| view.entries.iter().find(|entry| entry.id == message));
    let mut data = entry
        .and_then(|entry| serde_json::to_value(Message::from(entry)).ok())
        .unwrap_or(json!({"role": role}));
    if let Some(data) = data.as_object_mut() {
        data.remove("id");
        data.insert("message_id".to_owned(), json!(message));
    }
    data
}

async fn gate_data(app: &App, gate: GateId, state: &str) -> Value {
    let view = app.registry().gate(gate).await.ok();
    view.and_then(|view| serde_json::to_value(Gate::from(&view)).ok())
        .unwrap_or_else(|| json!({"gate_id": gate, "state": state}))
}
