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
        /// Whether the same request may succeed later.
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
