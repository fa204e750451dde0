//! A person's program: JSON over the public API with a bearer token.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;

use crate::BoxError;

/// A client of the public API.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
}

/// What the API answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null where there is none.
    pub body: Value,
}

impl Api {
    /// A client of the gateway at `at`.
    ///
    /// # Errors
    ///
    /// Says why no HTTP client can be built.
    pub fn new(at: SocketAddr, token: &str) -> Result<Self, BoxError> {
        kazma_mesh::install_crypto_provider();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_mins(1))
            .build()?;
        Ok(Self {
            http,
            base: format!("http://{at}"),
            token: token.to_owned(),
        })
    }

    /// `GET path`.
    ///
    /// # Errors
    ///
    /// Says why there is no answer.
    pub async fn get(&self, path: &str) -> Result<Answer, BoxError> {
        self.send(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    ///
    /// Says why there is no answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, BoxError> {
        self.send(self.http.post(format!("{}{path}", self.base)).json(body))
            .await
    }

    /// Says `text` in a new thread and returns the thread's id.
    ///
    /// # Errors
    ///
    /// Says what was refused.
    pub async fn say(&self, text: &str) -> Result<String, BoxError> {
        let created = self.post("/api/threads", &serde_json::json!({})).await?;
        let thread = created.text("thread_id").ok_or("no thread")?;
        self.say_in(&thread, text).await?;
        Ok(thread)
    }

    /// Says `text` in a thread and returns the turn's id.
    ///
    /// # Errors
    ///
    /// Says what was refused.
    pub async fn say_in(&self, thread: &str, text: &str) -> Result<String, BoxError> {
        let path = format!("/api/threads/{thread}/messages");
        let said = self
            .post(&path, &serde_json::json!({ "text": text }))
            .await?;
        said.text("turn_id")
            .ok_or_else(|| format!("refused: {said:?}").into())
    }

    /// Answers a card as it stands.
    ///
    /// # Errors
    ///
    /// Says why there is no answer.
    pub async fn decide(&self, gate: &Value, decision: &str) -> Result<Answer, BoxError> {
        let text = |name: &str| gate.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = format!("/api/gates/{}/decision", text("gate_id"));
        let body = serde_json::json!({ "decision": decision, "args_digest": text("args_digest") });
        self.post(&path, &body).await
    }

    /// The thread as the API shows it.
    ///
    /// # Errors
    ///
    /// Says why there is no answer.
    pub async fn thread(&self, thread: &str) -> Result<Value, BoxError> {
        Ok(self.get(&format!("/api/threads/{thread}")).await?.body)
    }

    /// Waits until `found` finds something in the thread, for 30 s at most.
    ///
    /// # Errors
    ///
    /// Says what the thread looked like when the time was over.
    pub async fn until<T>(
        &self,
        thread: &str,
        found: impl Fn(&Value) -> Option<T> + Send,
    ) -> Result<T, BoxError> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let view = self.thread(thread).await?;
            if let Some(value) = found(&view) {
                return Ok(value);
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("in vain, the thread is {view:#}").into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a card that waits in the thread.
    ///
    /// # Errors
    ///
    /// As [`Api::until`].
    pub async fn card(&self, thread: &str) -> Result<Value, BoxError> {
        self.until(thread, |view| gate_in(view, "pending")).await
    }

    /// Waits until the last turn of the thread has ended; returns its state and the last reply.
    ///
    /// # Errors
    ///
    /// As [`Api::until`].
    pub async fn ended(&self, thread: &str) -> Result<(String, String), BoxError> {
        self.until(thread, |view| {
            let state = view
                .get("turns")?
                .as_array()?
                .last()?
                .get("state")?
                .as_str()?;
            let live = matches!(state, "open" | "running" | "parked");
            (!live).then(|| (state.to_owned(), last_reply(view)))
        })
        .await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, BoxError> {
        let answer = request.bearer_auth(&self.token).send().await?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await?;
        Ok(Answer {
            status,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        })
    }
}

impl Answer {
    /// A text member of the body.
    pub fn text(&self, name: &str) -> Option<String> {
        self.body.get(name)?.as_str().map(str::to_owned)
    }
}

/// The first gate of a thread's view in `state`.
fn gate_in(view: &Value, state: &str) -> Option<Value> {
    let gates = view.get("gates")?.as_array()?;
    gates
        .iter()
        .find(|gate| gate.get("state").and_then(Value::as_str) == Some(state))
        .cloned()
}

fn last_reply(view: &Value) -> String {
    let messages = view
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let replies = messages.filter(|one| one.get("role").and_then(Value::as_str) == Some("agent"));
    replies
        .filter_map(|one| one.get("text").and_then(Value::as_str))
        .next_back()
        .unwrap_or_default()
        .to_owned()
}
