//! The scripted demo model: a pure function of the conversation, so that all but the model is real.

mod grammar;

use kazma_fence::Fenced;
use kazma_wire::model::{ChatMessage, Delta, ToolCall, ToolNote};

use grammar::Understood;

/// Bytes of text in one delta.
const PIECE: usize = 240;

/// What the demo model says next: it calls what the person's message names, and ends by quoting word
/// for word what the tools returned.
pub(crate) fn answer(messages: &[ChatMessage]) -> Vec<Delta> {
    match messages.last() {
        Some(ChatMessage::User { content }) => match grammar::understand(content) {
            Understood::Calls(calls) => call(calls),
            Understood::Wrong(what) => say(&what),
            Understood::Nothing => say(HELP),
        },
        Some(ChatMessage::Tool { .. }) => say(&quote(messages)),
        _ => say(HELP),
    }
}

const HELP: &str = "I am the built-in demo model and follow a script. Try `run python: print(6 * 7)`, \
    `write notes.txt: hello`, `read notes.txt`, `run shell: ls`, `fetch https://example.com`, \
    `remember …`, `remind me …` or `call TOOL {…}`; join several with `then`.";

fn say(text: &str) -> Vec<Delta> {
    let mut deltas = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        deltas.push(Delta::Text {
            text: piece.to_owned(),
        });
        rest = after;
    }
    deltas.push(Delta::End {
        reason: "stop".to_owned(),
    });
    deltas
}

fn call(calls: Vec<grammar::Wanted>) -> Vec<Delta> {
    let mut deltas: Vec<_> = calls
        .into_iter()
        .enumerate()
        .map(|(n, wanted)| {
            Delta::Call(ToolCall {
                id: format!("demo_{n}"),
                name: wanted.tool,
                arguments: wanted.arguments,
            })
        })
        .collect();
    deltas.push(Delta::End {
        reason: "tool_calls".to_owned(),
    });
    deltas
}

/// Quotes the tool messages at the end of the conversation, in order.
fn quote(messages: &[ChatMessage]) -> String {
    let answers: Vec<_> = messages
        .iter()
        .rev()
        .map_while(|message| match message {
            ChatMessage::Tool { content, .. } => Some(content.as_str()),
            _ => None,
        })
        .map(quoted)
        .collect();
    let answers: Vec<_> = answers.into_iter().rev().collect();
    answers.join("\n\n")
}

/// One tool message: the platform's words about it, and what the tool returned as a block of its own.
fn quoted(content: &str) -> String {
    let line = content.lines().next().unwrap_or_default();
    let head = match serde_json::from_str::<ToolNote>(line) {
        Ok(note) => format!("`{}`: {}", note.tool.replace('`', "'"), note.words),
        Err(_) => "A tool answered.".to_owned(),
    };
    match Fenced::find(content) {
        None => head,
        Some(block) if block.inner().is_empty() => format!("{head}\n\nIt returned nothing."),
        Some(block) => {
            let ticks = fence_of_ticks(block.inner());
            let end = if block.inner().ends_with('\n') {
                ""
            } else {
                "\n"
            };
            format!("{head}\n\n{ticks}\n{}{end}{ticks}", block.inner())
        }
    }
}

/// A run of backticks that does not occur in `text`, so that Markdown shows the text as it is.
fn fence_of_ticks(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use kazma_fence::{Fence, Source};
    use kazma_wire::model::ToolOutcome;
    use proptest::prelude::*;

    use super::*;

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User {
            content: text.to_owned(),
        }
    }

    fn tool(outcome: ToolOutcome, words: &str, output: Option<&str>) -> ChatMessage {
        let note = ToolNote {
            outcome,
            tool: "python_exec".to_owned(),
            words: words.to_owned(),
            by: None,
            rule: None,
            reason: None,
        };
        let mut content = serde_json::to_string(&note).unwrap();
        if let Some(output) = output {
            let block = Fence::new([3; 16]).wrap(Source::Code, "python_exec", output);
            content = format!("{content}\n{block}");
        }
        ChatMessage::Tool {
            tool_call_id: "demo_0".to_owned(),
            content,
        }
    }

    fn text(deltas: &[Delta]) -> String {
        let words = deltas.iter().filter_map(|delta| match delta {
            Delta::Text { text } => Some(text.as_str()),
            _ => None,
        });
        words.collect()
    }

    #[test]
    fn a_command_becomes_a_call() {
        let deltas = answer(&[user("run python: print(1)")]);
        let [Delta::Call(call), Delta::End { reason }] = deltas.as_slice() else {
            panic!("{deltas:?}");
        };
        assert_eq!(
            (call.name.as_str(), reason.as_str()),
            ("python_exec", "tool_calls")
        );
        assert_eq!(call.arguments, r#"{"code":"print(1)"}"#);
    }

    #[test]
    fn what_tools_returned_is_quoted_word_for_word_and_in_order() {
        let assistant = ChatMessage::Assistant {
            content: String::new(),
            tool_calls: Vec::new(),
        };
        let deltas = answer(&[
            user("run python: 1 then run python: 2"),
            assistant,
            tool(ToolOutcome::Ok, "exit 0", Some("45\n*not* bold ```\n")),
            tool(ToolOutcome::Denied, "Ana denied this call: \"no\".", None),
        ]);
        assert_eq!(
            text(&deltas),
            "`python_exec`: exit 0\n\n````\n45\n*not* bold ```\n````\n\n\
             `python_exec`: Ana denied this call: \"no\"."
        );
        assert_eq!(
            deltas.last(),
            Some(&Delta::End {
                reason: "stop".to_owned()
            })
        );
    }

    #[test]
    fn anything_else_is_answered_in_a_sentence() {
        for messages in [vec![user("hello")], vec![user("")], Vec::new()] {
            let deltas = answer(&messages);
            assert!(text(&deltas).contains("demo model"), "{messages:?}");
        }
        let wrong = text(&answer(&[user("call file_read {\"path\": ")]));
        assert!(
            wrong.contains("file_read") && wrong.contains("JSON"),
            "{wrong}"
        );
    }

    proptest! {
        #[test]
        fn it_never_panics_and_never_falls_silent(
            start in "(run python:|run shell:|write|read|fetch|remember|remind me|call|RUN python:)?",
            rest in "\\PC{0,40}( then |\n| then read |:|\\{|\")?\\PC{0,20}",
        ) {
            let deltas = answer(&[user(&format!("{start}{rest}"))]);
            prop_assert!(deltas.len() > 1);
            let ends = matches!(deltas.last(), Some(Delta::End { .. }));
            prop_assert!(ends);
        }

        #[test]
        fn any_tool_message_is_quoted(content in "(\\PC|\n){0,200}") {
            let message = ChatMessage::Tool { tool_call_id: "x".to_owned(), content };
            prop_assert!(!text(&answer(&[message])).is_empty());
        }
    }
}
