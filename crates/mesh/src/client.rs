//! The calling side: JSON in, JSON or lines out, problems as values.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use kazma_domain::Service;
use kazma_edge::request;
use kazma_wire::Problem;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Address, Identity, MeshError, address::Lookup};

/// How long a call may take that is not a stream: a long poll's longest wait, and some.
const CALL_LIMIT: Duration = Duration::from_secs(45);
/// The largest answer that is not a stream.
const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// The longest line of a stream.
const LINE_MAX: usize = 8 * 1024 * 1024;

/// Calls one other service.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    to: Service,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The other side said no.
    #[error("{to} refused: {}", .problem.title)]
    Problem {
        /// Who said so.
        to: Service,
        /// What it said.
        problem: Box<Problem>,
    },
    /// The other side was not reached, or fell silent.
    #[error("{to} does not answer")]
    Unreachable {
        /// Who.
        to: Service,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is not what it should be.
    #[error("{to} answered with something else: {what}")]
    Malformed {
        /// Who.
        to: Service,
        /// What is wrong.
        what: String,
    },
}

impl CallError {
    /// Whether the same call may succeed later: nothing is known of the first one's fate.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem { problem, .. } => matches!(problem.status, 429 | 502..=504),
            Self::Malformed { .. } => false,
        }
    }

    /// The problem document, if the other side sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem { problem, .. } => Some(problem),
            Self::Unreachable { .. } | Self::Malformed { .. } => None,
        }
    }
}

impl Client {
    /// A client that calls `to` at `at`, and accepts nobody else there.
    ///
    /// # Errors
    ///
    /// Says why TLS could not be set up.
    pub fn new(
        identity: &Arc<Identity>,
        to: Service,
        at: impl Into<Address>,
    ) -> Result<Self, MeshError> {
        Self::with_tls(identity.client()?, to, at.into())
    }

    pub(crate) fn with_tls(
        tls: rustls::ClientConfig,
        to: Service,
        at: Address,
    ) -> Result<Self, MeshError> {
        let port = at.port();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .https_only(true)
            .dns_resolver(Arc::new(Lookup(Arc::new(at))))
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .http2_keep_alive_timeout(Duration::from_secs(5))
            .http2_adaptive_window(true)
            .build()
            .map_err(|error| MeshError::Certificate(error.to_string()))?;
        Ok(Self {
            http,
            base: format!("https://{}:{port}", to.host()),
            to,
        })
    }

    /// `GET path`.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let request = self
            .http
            .get(format!("{}{path}", self.base))
            .timeout(CALL_LIMIT);
        self.parse(self.send(request).await?).await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn post<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, CallError> {
        let request = self
            .http
            .post(format!("{}{path}", self.base))
            .json(body)
            .timeout(CALL_LIMIT);
        self.parse(self.send(request).await?).await
    }

    /// `GET path`, answered by lines for as long as the other side has some.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn get_lines(
        &self,
        path: &str,
    ) -> Result<impl Stream<Item = Result<String, CallError>> + Send + Unpin + use<>, CallError>
    {
        let answer = self
            .send(self.http.get(format!("{}{path}", self.base)))
            .await?;
        Ok(lines(answer, self.to))
    }

    /// `POST path` with a JSON body, answered by lines.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn post_lines<B: Serialize + Sync>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<impl Stream<Item = Result<String, CallError>> + Send + Unpin + use<B>, CallError>
    {
        let answer = self
            .send(self.http.post(format!("{}{path}", self.base)).json(body))
            .await?;
        Ok(lines(answer, self.to))
    }

    async fn send(
        &self,
        mut request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, CallError> {
        if let Some(id) = request::current().and_then(request::value) {
            request = request.header(request::HEADER, id);
        }
        let answer = request
            .send()
            .await
            .map_err(|source| self.unreachable(source))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = self.body(answer).await?;
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
            Problem::new(status.as_u16(), "unknown", "The other side gave no reason")
        });
        Err(CallError::Problem {
            to: self.to,
            problem: Box::new(problem),
        })
    }

    async fn parse<T: DeserializeOwned>(&self, answer: reqwest::Response) -> Result<T, CallError> {
        let body = self.body(answer).await?;
        // Routes with nothing to say answer with an empty body, which is `null` to whoever asks.
        let bytes: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(bytes).map_err(|error| CallError::Malformed {
            to: self.to,
            what: error.to_string(),
        })
    }

    async fn body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, CallError> {
        let mut body = Vec::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|source| self.unreachable(source))?
        {
            if body.len() + chunk.len() > ANSWER_MAX {
                return Err(CallError::Malformed {
                    to: self.to,
                    what: "too large".to_owned(),
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, source: reqwest::Error) -> CallError {
        CallError::Unreachable {
            to: self.to,
            source: source.without_url(),
        }
    }
}

fn lines(
    answer: reqwest::Response,
    to: Service,
) -> impl Stream<Item = Result<String, CallError>> + Send + Unpin {
    let state = (answer.bytes_stream().boxed(), Vec::<u8>::new(), false);
    stream::unfold(state, move |(mut chunks, mut rest, ended)| async move {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                return Some((Ok(line), (chunks, rest, ended)));
            }
            if ended {
                return None;
            }
            if rest.len() > LINE_MAX {
                let what = "a line is too long".to_owned();
                return Some((
                    Err(CallError::Malformed { to, what }),
                    (chunks, Vec::new(), true),
                ));
            }
            let next: Option<Result<Bytes, reqwest::Error>> = chunks.next().await;
            match next {
                Some(Ok(chunk)) => rest.extend_from_slice(&chunk),
                Some(Err(source)) => {
                    let error = CallError::Unreachable {
                        to,
                        source: source.without_url(),
                    };
                    return Some((Err(error), (chunks, Vec::new(), true)));
                }
                None if rest.is_empty() => return None,
                None => {
                    let line = String::from_utf8_lossy(&rest).trim_end().to_owned();
                    return Some((Ok(line), (chunks, Vec::new(), true)));
                }
            }
        }
    })
    .boxed()
}
