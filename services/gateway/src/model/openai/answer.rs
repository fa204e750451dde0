//! Putting an answer together from its pieces.

use kazma_wire::model::{Delta, ToolCall};
use serde::Deserialize;
use serde_json::Value;

use super::{Deltas, failure::Failure};
use crate::model::sse::Event;

/// Calls of one answer.
const CALLS_MAX: usize = 128;

/// What has come in so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    calls: Vec<Partial>,
    finished: Option<String>,
    done: bool,
    seen: bool,
}

/// A call that is still being written.
#[derive(Debug, Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    /// `message` where a server answers in one piece.
    #[serde(default, alias = "message")]
    delta: Option<Piece>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Piece {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionPiece>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionPiece {
    #[serde(default)]
    name: Option<String>,
    /// Text, or with some servers an object.
    #[serde(default)]
    arguments: Option<Value>,
}

impl Answer {
    /// Takes an event. Returns whether it was the last.
    pub(super) async fn event(&mut self, event: &Event, to: &Deltas) -> Result<bool, Failure> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(true);
        }
        if data.is_empty() {
            return Ok(false);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| self.broken())?;
        if event.kind == "error" && chunk.error.is_none() {
            return Err(Failure::reported(&Value::Null));
        }
        self.take(chunk, to).await?;
        Ok(false)
    }

    /// Takes an answer that came in one piece.
    pub(super) async fn whole(mut self, body: &[u8], to: &Deltas) -> Result<String, Failure> {
        let chunk: Chunk = serde_json::from_slice(body).map_err(|_| Failure::not_an_answer())?;
        self.take(chunk, to).await?;
        self.done = self.seen;
        self.finish(to).await
    }

    /// The stream has ended: passes the calls on and returns why the model stopped.
    pub(super) async fn finish(self, to: &Deltas) -> Result<String, Failure> {
        if !self.seen && !self.done {
            return Err(Failure::not_an_answer());
        }
        if !self.done && self.finished.is_none() {
            return Err(Failure::cut());
        }
        let has_calls = !self.calls.is_empty();
        for (n, call) in self.calls.into_iter().enumerate() {
            let id = if call.id.is_empty() {
                format!("call_{n}")
            } else {
                call.id
            };
            send(
                to,
                Delta::Call(ToolCall {
                    id,
                    name: call.name,
                    arguments: call.arguments,
                }),
            )
            .await?;
        }
        let usual = if has_calls { "tool_calls" } else { "stop" };
        Ok(self.finished.unwrap_or_else(|| usual.to_owned()))
    }

    /// What an event that does not parse means: a cut answer if there was one.
    fn broken(&self) -> Failure {
        if self.seen {
            Failure::cut()
        } else {
            Failure::not_an_answer()
        }
    }

    async fn take(&mut self, chunk: Chunk, to: &Deltas) -> Result<(), Failure> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Failure::reported(&error));
        }
        // Only one choice is asked for; a chunk without any carries usage.
        let Some(choice) = chunk.choices.into_iter().next() else {
            return Ok(());
        };
        self.seen = true;
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finished = Some(
                reason
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(40)
                    .collect(),
            );
        }
        let piece = choice.delta.unwrap_or_default();
        if let Some(text) = piece.content.filter(|text| !text.is_empty()) {
            send(to, Delta::Text { text }).await?;
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: CallPiece) -> Result<(), Failure> {
        let id = piece.id.unwrap_or_default();
        let function = piece.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = match function.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        if let Some(open) = self
            .calls
            .iter_mut()
            .rev()
            .find(|c| c.continues(piece.index, &id, &name))
        {
            if open.id.is_empty() {
                open.id = id;
            }
            if open.name.is_empty() {
                open.name = name;
            }
            open.arguments.push_str(&arguments);
            return Ok(());
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(Failure::too_long());
        }
        self.calls.push(Partial {
            index: piece.index,
            id,
            name,
            arguments,
        });
        Ok(())
    }
}

impl Partial {
    /// Whether a piece with these marks goes on with this call. Servers differ: some number the
    /// pieces, some give every call the number 0 and an id, some give whole calls with neither.
    fn continues(&self, index: Option<u64>, id: &str, name: &str) -> bool {
        if index.is_some() && self.index.is_some() && index != self.index {
            return false;
        }
        if !id.is_empty() && !self.id.is_empty() {
            return id == self.id;
        }
        if !id.is_empty() && index.is_none() {
            return false;
        }
        let is_whole = serde_json::from_str::<Value>(&self.arguments).is_ok();
        name.is_empty()
            || self.name.is_empty()
            || (name == self.name && !is_whole && index.is_some())
    }
}

async fn send(to: &Deltas, delta: Delta) -> Result<(), Failure> {
    to.send(delta).await.map_err(|_| Failure::cut())
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    async fn calls(chunks: &[&str]) -> Vec<(String, String, String)> {
        let (to, mut deltas) = mpsc::channel(100);
        let mut answer = Answer::default();
        for chunk in chunks {
            let data = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{chunk}]}}}}]}}"#);
            answer
                .event(
                    &Event {
                        kind: String::new(),
                        data,
                    },
                    &to,
                )
                .await
                .unwrap();
        }
        answer.done = true;
        answer.finish(&to).await.unwrap();
        drop(to);
        let mut calls = Vec::new();
        while let Some(delta) = deltas.recv().await {
            let Delta::Call(call) = delta else {
                panic!("{delta:?}")
            };
            calls.push((call.id, call.name, call.arguments));
        }
        calls
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[tokio::test]
    async fn fragments_find_their_call() {
        let got = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"x\""}}"#,
            r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
            r#"{"index":0,"function":{"arguments":":1}"}}"#,
            r#"{"index":1,"function":{"arguments":"}"}}"#,
        ])
        .await;
        assert_eq!(got, [call("a", "f", r#"{"x":1}"#), call("b", "g", "{}")]);
    }

    #[tokio::test]
    async fn whole_calls_stay_apart_however_they_are_marked() {
        let both_numbered_zero = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
        ])
        .await;
        assert_eq!(
            both_numbered_zero,
            [call("a", "f", "{}"), call("b", "f", "{}")]
        );
        let no_marks = calls(&[
            r#"{"function":{"name":"f","arguments":{"x":1}}}"#,
            r#"{"function":{"name":"f","arguments":{"x":2}}}"#,
        ])
        .await;
        assert_eq!(
            no_marks,
            [
                call("call_0", "f", r#"{"x":1}"#),
                call("call_1", "f", r#"{"x":2}"#)
            ]
        );
        let ids_alone = calls(&[
            r#"{"id":"a","function":{"name":"f","arguments":"{}"}}"#,
            r#"{"id":"b","function":{"name":"g","arguments":null}}"#,
        ])
        .await;
        assert_eq!(ids_alone, [call("a", "f", "{}"), call("b", "g", "")]);
        let zero_without_ids = calls(&[
            r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
            r#"{"index":0,"function":{"name":"f","arguments":"{\"y\":2}"}}"#,
        ])
        .await;
        assert_eq!(
            zero_without_ids,
            [call("call_0", "f", "{}"), call("call_1", "f", r#"{"y":2}"#)]
        );
        let id_and_name_every_time = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
            r#"{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}"#,
        ])
        .await;
        assert_eq!(id_and_name_every_time, [call("a", "f", r#"{"x":1}"#)]);
    }

    #[tokio::test]
    async fn more_calls_than_anybody_reads_are_refused() {
        let (to, _deltas) = mpsc::channel(1);
        let mut answer = Answer::default();
        let many = vec![r#"{"function":{"name":"f","arguments":"{}"}}"#; CALLS_MAX + 1].join(",");
        let data = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{many}]}}}}]}}"#);
        assert!(
            answer
                .event(
                    &Event {
                        kind: String::new(),
                        data
                    },
                    &to
                )
                .await
                .is_err()
        );
    }
}
