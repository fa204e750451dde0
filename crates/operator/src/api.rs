//! A small client of the gateway's public API.

use std::time::Duration;

use kazma_wire::Problem;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// The gateway's public API with the operator's token.
#[derive(Debug)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: SecretString,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody answers.
    #[error("kazma does not answer at {base}; is `kazma up` running?")]
    Unreachable {
        /// Where.
        base: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The gateway said no.
    #[error("{}. {}", .0.title, .0.detail.as_deref().unwrap_or_default())]
    Refused(Box<Problem>),
}

impl Api {
    /// A client of the gateway at `base`.
    ///
    /// # Errors
    ///
    /// Says why TLS could not be set up.
    pub fn new(base: &str, token: &str) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self {
            http,
            base: base.to_owned(),
            token: SecretString::from(token.to_owned()),
        })
    }

    /// `GET path`.
    ///
    /// # Errors
    ///
    /// See [`ApiError`].
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    ///
    /// See [`ApiError`].
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send(self.http.post(format!("{}{path}", self.base)).json(body))
            .await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Value, ApiError> {
        let unreachable = |source| ApiError::Unreachable {
            base: self.base.clone(),
            source,
        };
        let answer = request
            .bearer_auth(self.token.expose_secret())
            .header("X-Kazma-Surface", "terminal")
            .send()
            .await
            .map_err(unreachable)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            return Ok(serde_json::from_slice(&body).unwrap_or(Value::Null));
        }
        Err(ApiError::Refused(Box::new(
            serde_json::from_slice(&body).unwrap_or_else(|_| {
                Problem::new(status.as_u16(), "unknown", "The gateway gave no reason")
            }),
        )))
    }
}
