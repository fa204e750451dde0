//! The client against a real server on this machine that plays answers of the recorded shapes.

use std::{
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicU8},
    time::Duration,
};

use axum::{extract::State, http::StatusCode, response::Response};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify};
use uuid::Uuid;

use super::*;

#[derive(Debug, Default)]
struct Heard {
    words: Mutex<String>,
    some: Arc<Notify>,
}

impl DeltaSink for Heard {
    fn begin(&self, _: ThreadId, _: TurnId) {
        self.words.lock().unwrap().clear();
    }
    fn text(&self, _: ThreadId, _: TurnId, text: &str) {
        self.words.lock().unwrap().push_str(text);
        self.some.notify_one();
    }
}

#[derive(Debug, Default)]
struct Counting(AtomicU8);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    }
}

/// One answer of the server.
#[derive(Debug)]
enum Play {
    /// A status with headers and a body.
    Status(u16, &'static [(&'static str, &'static str)], &'static str),
    /// A stream in these pieces, then its end.
    Pieces(Vec<Vec<u8>>),
    /// A stream in these pieces, then, once words of it were heard, a broken connection.
    Broken(Vec<Vec<u8>>),
    /// Nothing, for ever.
    Silence,
}

#[derive(Debug, Default)]
struct Script {
    plays: Mutex<VecDeque<Play>>,
    requests: Mutex<Vec<(Option<String>, Value)>>,
    heard: Arc<Notify>,
}

async fn play(
    State(script): State<Arc<Script>>,
    headers: http::HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    let key = headers
        .get("authorization")
        .map(|v| v.to_str().unwrap().to_owned());
    script.requests.lock().unwrap().push((key, body));
    let next = script
        .plays
        .lock()
        .unwrap()
        .pop_front()
        .expect("no more answers");
    match next {
        Play::Status(status, headers, body) => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            response.body(Body::from(body)).unwrap()
        }
        Play::Pieces(pieces) => {
            let pieces = pieces
                .into_iter()
                .map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
            event_stream(Body::from_stream(stream::iter(pieces)))
        }
        Play::Broken(pieces) => {
            let heard = Arc::clone(&script.heard);
            let broken = stream::once(async move {
                heard.notified().await;
                Err(std::io::Error::other("broken"))
            });
            let pieces = pieces.into_iter().map(|piece| Ok(Bytes::from(piece)));
            event_stream(Body::from_stream(stream::iter(pieces).chain(broken)))
        }
        Play::Silence => std::future::pending().await,
    }
}

fn event_stream(body: Body) -> Response {
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(body)
        .unwrap()
}

/// A model server with this script, and the client's side of it.
struct Stage {
    script: Arc<Script>,
    models: Models,
    heard: Arc<Heard>,
}

async fn stage(plays: Vec<Play>) -> Stage {
    kazma_mesh::install_crypto_provider();
    let heard = Arc::new(Heard::default());
    let script = Arc::new(Script {
        plays: Mutex::new(plays.into()),
        requests: Mutex::default(),
        heard: Arc::clone(&heard.some),
    });
    let app = Router::new()
        .route("/v1/chat/completions", post(play))
        .with_state(Arc::clone(&script));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let limits = Limits {
        first_byte: Duration::from_millis(300),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_secs(2),
        retries: 2,
        ..Limits::default()
    };
    let settings = ModelSettings::OpenAi {
        base_url: format!("http://{address}"),
        model: "small".to_owned(),
        api_key: Some(SecretString::from("sk-secret")),
        context_bytes: 1_000,
        limits,
    };
    let sink = Arc::<Heard>::clone(&heard);
    let metrics = Metrics::new(&kazma_metrics::Meters::default()).unwrap();
    let models = Models::new(settings, sink, Arc::new(Counting::default()), &metrics).unwrap();
    Stage {
        script,
        models,
        heard,
    }
}

fn request() -> ChatRequest {
    use kazma_wire::model::{ChatMessage, ToolCall, ToolSpec};
    ChatRequest {
        thread: ThreadId::from_uuid(Uuid::from_u128(1)),
        turn: TurnId::from_uuid(Uuid::from_u128(2)),
        messages: vec![
            ChatMessage::System {
                content: "be calm".to_owned(),
            },
            ChatMessage::User {
                content: "sum".to_owned(),
            },
            ChatMessage::Assistant {
                content: String::new(),
                tool_calls: vec![ToolCall {
                    id: "a".to_owned(),
                    name: "f".to_owned(),
                    arguments: "{}".to_owned(),
                }],
            },
            ChatMessage::Tool {
                tool_call_id: "a".to_owned(),
                content: "45".to_owned(),
            },
        ],
        tools: vec![ToolSpec {
            name: "f".to_owned(),
            description: "sums".to_owned(),
            parameters: json!({"type": "object"}),
        }],
    }
}

impl Stage {
    async fn ask(&self) -> Vec<Delta> {
        self.models.chat(&request()).collect().await
    }

    fn asked(&self) -> usize {
        self.script.requests.lock().unwrap().len()
    }
}

const STREAM: &str = concat!(
    ": hello\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüß \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"dich\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"python_exec\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"code\\\":\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"1\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"total_tokens\":7}}\n\n",
    "data: [DONE]\n\n",
);

fn text(text: &str) -> Delta {
    Delta::Text {
        text: text.to_owned(),
    }
}

fn end(reason: &str) -> Delta {
    Delta::End {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn a_stream_in_awkward_pieces_is_put_together() {
    use kazma_wire::model::ToolCall;
    for size in [1, 3, 7, 50, 10_000] {
        let pieces = STREAM.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
        let stage = stage(vec![Play::Pieces(pieces)]).await;
        let call = ToolCall {
            id: "x".to_owned(),
            name: "python_exec".to_owned(),
            arguments: "{\"code\":\"1\"}".to_owned(),
        };
        assert_eq!(
            stage.ask().await,
            [
                text("Grüß "),
                text("dich"),
                Delta::Call(call),
                end("tool_calls")
            ],
            "pieces of {size}"
        );
        assert_eq!(*stage.heard.words.lock().unwrap(), "Grüß dich");
    }
}

#[tokio::test]
async fn the_request_has_the_shape_that_servers_expect() {
    let stage = stage(vec![Play::Pieces(vec![STREAM.into()])]).await;
    stage.ask().await;
    let (key, body) = stage.script.requests.lock().unwrap().remove(0);
    assert_eq!(key.as_deref(), Some("Bearer sk-secret"));
    assert_eq!(
        body,
        json!({
            "model": "small",
            "stream": true,
            "messages": [
                {"role": "system", "content": "be calm"},
                {"role": "user", "content": "sum"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "45"},
            ],
            "tools": [{"type": "function", "function":
                {"name": "f", "description": "sums", "parameters": {"type": "object"}}}],
        })
    );
    assert!(!format!("{:?}", stage.models).contains("sk-secret"));
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    let limit = Play::Status(429, &[("retry-after", "0")], "{}");
    let broken = Play::Status(502, &[], "<html>");
    let answer = Play::Pieces(vec![STREAM.into()]);
    let stage = stage(vec![limit, broken, answer]).await;
    assert_eq!(stage.ask().await.last(), Some(&end("tool_calls")));
    assert_eq!(stage.asked(), 3);
}

#[tokio::test]
async fn patience_ends() {
    for (plays, asked, word) in [
        (
            vec![Play::Status(429, &[("retry-after", "3600")], "{}")],
            1,
            "asks to wait 3600 s",
        ),
        (
            vec![Play::Status(401, &[], r#"{"error":"sk-secret?"}"#)],
            1,
            "KAZMA_MODEL_API_KEY",
        ),
        (
            vec![Play::Status(
                302,
                &[("location", "http://127.0.0.1:1/")],
                "",
            )],
            1,
            "redirects",
        ),
        (
            (0..3).map(|_| Play::Status(500, &[], "")).collect(),
            3,
            "failed (500)",
        ),
        ((0..3).map(|_| Play::Silence).collect(), 3, "in time"),
    ] {
        let stage = stage(plays).await;
        let deltas = stage.ask().await;
        // Final: whoever asked for the answer has no patience of its own to add.
        let [
            Delta::Failed {
                message,
                retryable: false,
            },
        ] = deltas.as_slice()
        else {
            panic!("{deltas:?}");
        };
        assert!(message.contains(word), "{message}");
        assert!(!message.contains("sk-secret"), "{message}");
        assert_eq!(stage.asked(), asked, "{message}");
    }
}

#[tokio::test]
async fn a_cut_stream_fails_and_is_not_asked_again() {
    let cut = STREAM.find("dich").unwrap();
    for play in [
        Play::Pieces(vec![STREAM[..cut].into()]),
        Play::Broken(vec![STREAM[..cut].into()]),
        Play::Pieces(vec![
            STREAM[..cut].into(),
            b"x\"}}]}\n\ndata: {\"error\":{\"message\":\"overloaded\"}}\n\n".to_vec(),
        ]),
    ] {
        let stage = stage(vec![play]).await;
        let deltas = stage.ask().await;
        let retryable = matches!(
            deltas.last(),
            Some(Delta::Failed {
                retryable: true,
                ..
            })
        );
        assert!(retryable, "{deltas:?}");
        assert_eq!(deltas.first(), Some(&text("Grüß ")));
        assert_eq!(stage.asked(), 1);
    }
}

/// As inference-server (npm) ends its streams: no reason, and the last line without a line feed.
#[tokio::test]
async fn a_last_event_without_its_blank_line_counts_if_it_is_whole() {
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
    let reason = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}";
    for (last, expected) in [
        ("data: [DONE]", Some("stop")),
        (reason, Some("length")),
        (&reason[..reason.len() - 1], None),
        ("data: [ERROR]", None),
        ("", None),
    ] {
        let stage = stage(vec![Play::Pieces(vec![said.into(), last.into()])]).await;
        let deltas = stage.ask().await;
        match expected {
            Some(reason) => assert_eq!(deltas, [text("hi"), end(reason)], "{last}"),
            None => assert!(
                matches!(deltas.last(), Some(Delta::Failed { message, .. }) if message.contains("cut off")),
                "{last}: {deltas:?}"
            ),
        }
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_is_taken_and_nonsense_is_not() {
    let whole =
        r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let json = &[("content-type", "application/json")];
    let good = stage(vec![Play::Status(200, json, whole)]).await;
    assert_eq!(good.ask().await, [text("hi"), end("stop")]);
    for nonsense in [
        Play::Status(200, json, "{}"),
        Play::Status(200, &[], "<html>hello</html>"),
    ] {
        let bad = stage(vec![nonsense]).await;
        let deltas = bad.ask().await;
        assert!(
            matches!(
                deltas.as_slice(),
                [Delta::Failed {
                    retryable: false,
                    ..
                }]
            ),
            "{deltas:?}"
        );
    }
}

#[test]
fn a_base_url_leads_to_the_chat_completions() {
    for (base, url) in [
        (
            "http://localhost:11434",
            "http://localhost:11434/v1/chat/completions",
        ),
        (
            "http://localhost:11434/",
            "http://localhost:11434/v1/chat/completions",
        ),
        (
            "https://api.example.com/v1",
            "https://api.example.com/v1/chat/completions",
        ),
        (
            "https://api.example.com/v1/",
            "https://api.example.com/v1/chat/completions",
        ),
        (
            "https://example.com/openai/v2//",
            "https://example.com/openai/v2/chat/completions",
        ),
        (
            "https://example.com/v1/chat/completions",
            "https://example.com/v1/chat/completions",
        ),
    ] {
        assert_eq!(openai::chat_url(base).unwrap().as_str(), url);
    }
    for wrong in [
        "",
        "example.com",
        "ftp://a/",
        "https://key@a/",
        "https://a/?key=1",
        "file:///etc",
    ] {
        assert!(openai::chat_url(wrong).is_err(), "{wrong}");
    }
}
