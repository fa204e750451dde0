//! A client for OpenAI-compatible chat completions, streamed.
//!
//! Retries happen before the first event alone: once words were shown, the same request could show
//! them twice. Whatever goes wrong ends in one [`Delta::Failed`] whose words a person can act on.

mod answer;
mod failure;
mod request;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use kazma_domain::Entropy;
use kazma_wire::model::{ChatRequest, Delta, ModelInfo};
use reqwest::{Response, Url, header};
use secrecy::{ExposeSecret, SecretString};
use tokio::{sync::mpsc, time::Instant};

use self::{answer::Answer, failure::Failure};
use super::sse;

/// Deltas that wait for a slow reader.
const WAITING: usize = 64;

/// Limits of one answer.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Until the connection stands.
    pub connect: Duration,
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// For everything, retries included.
    pub whole: Duration,
    /// Bytes of the answer.
    pub answer_bytes: usize,
    /// How often a request is sent again.
    pub retries: u32,
    /// The wait before the first retry; each further one doubles it.
    pub backoff: Duration,
    /// The longest wait before a retry. A server that asks for more is not asked again.
    pub backoff_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(2),
            idle: Duration::from_mins(1),
            whole: Duration::from_mins(10),
            answer_bytes: 8 * 1024 * 1024,
            retries: 3,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// The setting is not the address of a model server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the model's base URL must be http:// or https:// with a host and nothing secret in it: {why}"
)]
pub struct NotABaseUrl {
    /// What is wrong.
    why: String,
}

/// Where the chat completions of `base` are: beneath its path, or beneath `/v1` where it has none.
pub(super) fn chat_url(base: &str) -> Result<Url, NotABaseUrl> {
    let wrong = |why: &str| NotABaseUrl {
        why: why.to_owned(),
    };
    let mut url = Url::parse(base.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("it is neither"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("a key belongs into KAZMA_MODEL_API_KEY"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    let path = match url.path().trim_end_matches('/') {
        "" => "/v1/chat/completions".to_owned(),
        whole if whole.ends_with("/chat/completions") => whole.to_owned(),
        path => format!("{path}/chat/completions"),
    };
    url.set_path(&path);
    Ok(url)
}

/// What is asked, and where.
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) model: String,
    pub(super) api_key: Option<SecretString>,
    pub(super) context_bytes: usize,
    pub(super) limits: Limits,
    pub(super) entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("host", &self.url.host_str())
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Asks one server. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    target: Target,
    // A machine without any CA certificate can still ask a server in its own house.
    http: Result<reqwest::Client, String>,
}

impl Client {
    pub(super) fn new(target: Target) -> Self {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(target.limits.connect)
            .user_agent(concat!("kazma/", env!("CARGO_PKG_VERSION")));
        if target.url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| error.to_string());
        Self(Arc::new(Inner { target, http }))
    }

    pub(super) fn info(&self) -> ModelInfo {
        ModelInfo {
            name: self.0.target.model.clone(),
            demo: false,
            context_bytes: self.0.target.context_bytes,
        }
    }

    /// Asks. When the reader goes away, so does the connection.
    pub(super) fn chat(&self, request: &ChatRequest) -> impl Stream<Item = Delta> + Send + use<> {
        let (to, deltas) = mpsc::channel(WAITING);
        let inner = Arc::clone(&self.0);
        let body = request::body(&inner.target.model, request);
        tokio::spawn(async move {
            tokio::select! {
                () = to.closed() => {}
                () = inner.run(body, &to) => {}
            }
        });
        stream::unfold(deltas, async |mut deltas| {
            deltas.recv().await.map(|delta| (delta, deltas))
        })
    }
}

type Deltas = mpsc::Sender<Delta>;

impl Inner {
    async fn run(&self, body: serde_json::Value, to: &Deltas) {
        let limit = self.target.limits.whole;
        let outcome = tokio::time::timeout(limit, self.answer(&body, to)).await;
        let last = match outcome {
            Ok(Ok(reason)) => Delta::End { reason },
            Ok(Err(failure)) => failure.into_delta(),
            Err(_) => Failure::slow("The model did not finish within the time limit.").into_delta(),
        };
        if let Delta::Failed { message, retryable } = &last {
            tracing::warn!(why = message, retryable, "the model failed");
        }
        // Nobody listens any more: then nobody needs the last word.
        let _ = to.send(last).await;
    }

    /// Sends the request until it is answered, then passes the answer on. Returns why it ended.
    async fn answer(&self, body: &serde_json::Value, to: &Deltas) -> Result<String, Failure> {
        let mut attempt = 0;
        loop {
            let failure = match self.send(body).await {
                Ok(response) => match self.stream(response, to).await {
                    Ok(reason) => return Ok(reason),
                    Err(failure) if failure.is_before_first_event() => failure,
                    Err(failure) => return Err(failure),
                },
                Err(failure) => failure,
            };
            let wait = self.wait(attempt, failure.retry_after());
            match wait {
                Some(wait) if failure.is_retryable() && attempt < self.target.limits.retries => {
                    tracing::info!(
                        attempt,
                        wait_ms = wait.as_millis(),
                        "asking the model again"
                    );
                    tokio::time::sleep(wait).await;
                }
                // The patience was here: nobody asks a server again that wants to be left alone.
                _ => return Err(failure.given_up()),
            }
            attempt += 1;
        }
    }

    /// How long to wait before the next attempt; none if the server asks for longer than is allowed.
    fn wait(&self, attempt: u32, asked: Option<Duration>) -> Option<Duration> {
        let limits = &self.target.limits;
        if let Some(asked) = asked {
            return (asked <= limits.backoff_max).then_some(asked);
        }
        let full = limits
            .backoff
            .saturating_mul(1 << attempt.min(10))
            .min(limits.backoff_max);
        let mut random = [0_u8; 1];
        self.target.entropy.fill(&mut random);
        // Between half and all of it, so that many clients do not come back at once.
        Some(full / 2 + full.mul_f64(f64::from(random[0]) / 510.0))
    }

    async fn send(&self, body: &serde_json::Value) -> Result<Response, Failure> {
        let http = self
            .http
            .as_ref()
            .map_err(|error| Failure::no_client(error))?;
        let mut request = http
            .post(self.target.url.clone())
            .header(header::ACCEPT, "text/event-stream")
            .json(body);
        if let Some(key) = &self.target.api_key {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = tokio::time::timeout(self.target.limits.first_byte, request.send())
            .await
            .map_err(|_| {
                Failure::slow("The model server did not answer in time.").before_first_event()
            })?
            .map_err(|error| Failure::not_reached(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    async fn refused(&self, response: Response) -> Failure {
        let status = response.status().as_u16();
        let retry_after = failure::retry_after(response.headers());
        let idle = self.target.limits.idle;
        let body = tokio::time::timeout(idle, failure::read_some(response))
            .await
            .unwrap_or_default();
        let secret = self
            .target
            .api_key
            .as_ref()
            .map(ExposeSecret::expose_secret);
        Failure::status(status, retry_after, &body, secret)
    }

    async fn stream(&self, mut response: Response, to: &Deltas) -> Result<String, Failure> {
        let limits = &self.target.limits;
        let streamed = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_none_or(|value| !value.starts_with("application/json"));
        let mut decoder = sse::Decoder::new(limits.answer_bytes);
        let mut answer = Answer::default();
        let mut events = Vec::new();
        let mut whole = Vec::new();
        let mut bytes = 0;
        let mut until = Instant::now() + limits.first_byte;
        loop {
            let chunk = tokio::time::timeout_at(until, response.chunk())
                .await
                .map_err(|_| Failure::slow("The model fell silent in the middle of its answer."))
                .and_then(|chunk| chunk.map_err(|_| Failure::cut()));
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) if !streamed => return answer.whole(&whole, to).await,
                Ok(None) => {
                    if let Some(event) = decoder.rest().map_err(|_| Failure::too_long())? {
                        answer.event(&event, to).await?;
                    }
                    return answer.finish(to).await;
                }
                Err(failure) if bytes == 0 => return Err(failure.before_first_event()),
                Err(failure) => return Err(failure),
            };
            until = Instant::now() + limits.idle;
            bytes += chunk.len();
            if bytes > limits.answer_bytes {
                return Err(Failure::too_long());
            }
            if !streamed {
                whole.extend_from_slice(&chunk);
                continue;
            }
            decoder
                .push(&chunk, &mut events)
                .map_err(|_| Failure::too_long())?;
            for event in events.drain(..) {
                if answer.event(&event, to).await? {
                    return answer.finish(to).await;
                }
            }
        }
    }
}
