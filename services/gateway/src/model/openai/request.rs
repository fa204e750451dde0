//! The request, in the shape of the OpenAI chat completion API.

use kazma_wire::model::{ChatMessage, ChatRequest, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// The body of a streamed chat completion.
pub(super) fn body(model: &str, request: &ChatRequest) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("stream".to_owned(), true.into());
    body.insert(
        "messages".to_owned(),
        request.messages.iter().map(message).collect(),
    );
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    Value::Object(body)
}

fn message(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::System { content } => json!({"role": "system", "content": content}),
        ChatMessage::User { content } => json!({"role": "user", "content": content}),
        ChatMessage::Assistant {
            content,
            tool_calls,
        } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": content})
        }
        ChatMessage::Assistant {
            content,
            tool_calls,
        } => json!({
            "role": "assistant",
            // Some servers refuse an empty string beside calls.
            "content": if content.is_empty() { Value::Null } else { content.as_str().into() },
            "tool_calls": tool_calls.iter().map(call).collect::<Vec<_>>(),
        }),
        ChatMessage::Tool {
            tool_call_id,
            content,
        } => {
            json!({"role": "tool", "tool_call_id": tool_call_id, "content": content})
        }
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    })
}
