//! The way to a model: the gateway alone knows host, path and key, and builds every request itself.
//!
//! The agent sends a conversation and reads the answer line by line; the words also go to the live
//! page. Without a model, and in demo mode, the answer comes from here.

mod demo;
mod openai;
mod sse;

use std::{fmt, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt, stream};
use http::header;
use kazma_domain::{Entropy, Service, ThreadId, TurnId};
use kazma_edge::{ApiError, Json};
use kazma_mesh::{Caller, Callers};
use kazma_wire::model::{ChatRequest, Delta, ModelInfo};
use secrecy::SecretString;
use tokio::sync::Semaphore;

use crate::metrics::{Metrics, ModelMetrics};

pub use openai::{Limits, NotABaseUrl};

/// Bytes of one chat request on the mesh.
const REQUEST_MAX: usize = 32 * 1024 * 1024;
/// Answers that may be under way at once.
pub(crate) const ANSWERS_MAX: usize = 64;
/// What the demo model is said to hold: more than any turn brings.
const DEMO_CONTEXT: usize = 16 * 1024 * 1024;

/// Which model answers.
#[derive(Debug, Clone)]
pub enum ModelSettings {
    /// None: every request is answered by a sentence that says how to set one.
    Unset,
    /// The scripted demo model.
    Demo,
    /// An OpenAI-compatible server.
    OpenAi {
        /// Where, such as `https://api.example.com/v1`.
        base_url: String,
        /// The model's name there.
        model: String,
        /// The key, if one is needed.
        api_key: Option<SecretString>,
        /// How many bytes of conversation it may be sent.
        context_bytes: usize,
        /// Time and size limits.
        limits: Limits,
    },
}

/// Where the words of an answer go while it comes in.
pub trait DeltaSink: Send + Sync + fmt::Debug {
    /// A new answer begins; what an earlier attempt of this turn showed is void.
    fn begin(&self, thread: ThreadId, turn: TurnId);
    /// More words.
    fn text(&self, thread: ThreadId, turn: TurnId, text: &str);
}

/// The model and what it takes to ask it.
#[derive(Debug)]
pub struct Models {
    source: Source,
    sink: Arc<dyn DeltaSink>,
    under_way: Arc<Semaphore>,
    metrics: ModelMetrics,
}

#[derive(Debug)]
enum Source {
    Unset,
    Demo,
    OpenAi(openai::Client),
}

impl Models {
    /// The model of `settings`. Its words also go to `sink`; `entropy` spreads out retries.
    ///
    /// # Errors
    ///
    /// Refuses a base URL that is none.
    pub fn new(
        settings: ModelSettings,
        sink: Arc<dyn DeltaSink>,
        entropy: Arc<dyn Entropy>,
        metrics: &Metrics,
    ) -> Result<Self, NotABaseUrl> {
        let source = match settings {
            ModelSettings::Unset => Source::Unset,
            ModelSettings::Demo => Source::Demo,
            ModelSettings::OpenAi {
                base_url,
                model,
                api_key,
                context_bytes,
                limits,
            } => Source::OpenAi(openai::Client::new(openai::Target {
                url: openai::chat_url(&base_url)?,
                model,
                api_key,
                context_bytes,
                limits,
                entropy,
            })),
        };
        Ok(Self {
            source,
            sink,
            under_way: Arc::new(Semaphore::new(ANSWERS_MAX)),
            metrics: metrics.model(),
        })
    }

    /// Which model there is.
    pub fn info(&self) -> ModelInfo {
        match &self.source {
            Source::Unset => ModelInfo {
                name: String::new(),
                demo: false,
                context_bytes: 64 * 1024,
            },
            Source::Demo => ModelInfo {
                name: "demo".to_owned(),
                demo: true,
                context_bytes: DEMO_CONTEXT,
            },
            Source::OpenAi(client) => client.info(),
        }
    }

    /// How many answers are under way.
    pub(crate) fn under_way(&self) -> usize {
        ANSWERS_MAX.saturating_sub(self.under_way.available_permits())
    }

    /// Asks the model. The stream ends with [`Delta::End`] or [`Delta::Failed`].
    pub fn chat(&self, request: &ChatRequest) -> impl Stream<Item = Delta> + Send + use<> {
        let (thread, turn) = (request.thread, request.turn);
        let sink = Arc::clone(&self.sink);
        sink.begin(thread, turn);
        let answer = match &self.source {
            Source::Unset => stream::iter([no_model()]).boxed(),
            Source::Demo => stream::iter(demo::answer(&request.messages)).boxed(),
            Source::OpenAi(client) => client.chat(request).boxed(),
        };
        let mut answering = self.metrics.question();
        answer.inspect(move |delta| {
            answering.heard(delta);
            if let Delta::Text { text } = delta {
                sink.text(thread, turn, text);
            }
        })
    }
}

fn no_model() -> Delta {
    Delta::Failed {
        message:
            "No model is set up. Set KAZMA_MODEL_BASE_URL and KAZMA_MODEL, or start with --demo."
                .to_owned(),
        retryable: false,
    }
}

/// Who may ask the model.
#[derive(Debug)]
enum AgentOnly {}

impl Callers for AgentOnly {
    const ALLOWED: &'static [Service] = &[Service::Agent];
}

/// The routes of the model on the gateway's mesh listener.
pub fn router(models: Arc<Models>) -> Router {
    Router::new()
        .route("/v1/model", get(info))
        .route("/v1/model/chat", post(chat))
        .layer(DefaultBodyLimit::max(REQUEST_MAX))
        .with_state(models)
}

async fn info(_: Caller<AgentOnly>, State(models): State<Arc<Models>>) -> Json<ModelInfo> {
    Json(models.info())
}

async fn chat(
    _: Caller<AgentOnly>,
    State(models): State<Arc<Models>>,
    Json(request): Json<ChatRequest>,
) -> Result<Response, ApiError> {
    let Ok(slot) = Arc::clone(&models.under_way).try_acquire_owned() else {
        return Err(ApiError::unavailable(
            "Too many answers are under way; try again shortly.",
        ));
    };
    let lines = models.chat(&request).map(move |delta| {
        // Held until the last line is out.
        let _held = &slot;
        serde_json::to_vec(&delta).map(|mut line| {
            line.push(b'\n');
            Bytes::from(line)
        })
    });
    Ok((
        [(header::CONTENT_TYPE, "application/jsonl")],
        Body::from_stream(lines),
    )
        .into_response())
}

#[cfg(test)]
mod tests;
