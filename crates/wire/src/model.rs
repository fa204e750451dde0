//! The agent's way to a model: through the gateway, which alone knows host, path and key.
//!
//! `POST /v1/model/chat` answers with one JSON object a line ([`Delta`]). The shapes follow the `OpenAI`
//! chat completion API, which is what the gateway speaks to the outside.

use kazma_domain::{ThreadId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `POST /v1/model/chat`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatRequest {
    /// For which thread: deltas show there.
    pub thread: ThreadId,
    /// For which turn.
    pub turn: TurnId,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// What the appliance tells the model.
    System {
        /// The text.
        content: String,
    },
    /// The person's own words.
    User {
        /// The text.
        content: String,
    },
    /// What the model said earlier.
    Assistant {
        /// The text; may be empty when it only called tools.
        content: String,
        /// The tools it called.
        #[serde(default)]
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool returned, fenced.
    Tool {
        /// Which call it answers.
        tool_call_id: String,
        /// The fenced text.
        content: String,
    },
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A call that the model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own id for it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the text the model wrote (it may be no JSON).
    pub arguments: String,
}

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "delta", rename_all = "snake_case")]
pub enum Delta {
    /// More words.
    Text {
        /// The words.
        text: String,
    },
    /// A whole call.
    Call(ToolCall),
    /// The end, always the last line; a stream without it was cut.
    End {
        /// Why it ended: `stop`, `tool_calls`, `length`, or the provider's word.
        reason: String,
    },
    /// It failed; the last line.
    Failed {
        /// What happened and what to do, for the person.
        message: String,
        /// Whether asking again at once makes sense; not where the gateway has asked often enough.
        retryable: bool,
    },
}

/// `GET /v1/model`: which model there is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Its name; `demo` for the scripted one.
    pub name: String,
    /// Whether it is the scripted demo model.
    pub demo: bool,
    /// How many bytes of conversation it may be sent.
    pub context_bytes: usize,
}

/// The first line of a tool-role message, as JSON: how a call ended, in the platform's own words. What
/// the call returned follows, fenced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNote {
    /// How it ended.
    pub outcome: ToolOutcome,
    /// The tool as the model named it.
    pub tool: String,
    /// How it ended in a sentence. Never what the tool returned.
    pub words: String,
    /// The person who denied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The rule that refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why, as the person or the rule put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a call ended, as the model is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It ran and did what it was meant to.
    Ok,
    /// It ran and failed.
    Failed,
    /// A person denied it.
    Denied,
    /// Nobody answered, or nobody collected it, in time.
    Expired,
    /// It began, and nobody knows how it ended. It never runs again.
    Orphaned,
    /// A rule refused it.
    Refused,
    /// The turn was ended before it ran.
    Cancelled,
    /// Another question took its place.
    Superseded,
    /// What would have run was no longer what was approved.
    Changed,
    /// Its arguments are not what the tool takes; nothing was filed.
    InvalidArguments,
}
