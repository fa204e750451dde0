//! What went wrong, in words for a person: never the server's raw answer.

use std::time::Duration;

use kazma_wire::model::Delta;
use reqwest::{
    Response,
    header::{self, HeaderMap},
};
use serde_json::Value;

/// Bytes of an error answer that are read.
const ERROR_BODY_MAX: usize = 16 * 1024;
/// Characters of a server's own reason that are shown.
const REASON_MAX: usize = 200;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    retryable: bool,
    before_first_event: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    fn new(message: impl Into<String>, retryable: bool) -> Self {
        Self {
            message: message.into(),
            retryable,
            before_first_event: false,
            retry_after: None,
        }
    }

    pub(super) fn slow(message: &str) -> Self {
        Self::new(message, true)
    }

    pub(super) fn cut() -> Self {
        Self::new("The model's answer was cut off before its end.", true)
    }

    pub(super) fn too_long() -> Self {
        Self::new("The model's answer is longer than allowed.", false)
    }

    pub(super) fn not_an_answer() -> Self {
        Self::new(
            "The model server answered with something that is no chat completion. \
             Check KAZMA_MODEL_BASE_URL.",
            false,
        )
    }

    pub(super) fn no_client(error: &str) -> Self {
        tracing::error!(error, "no client for the model server");
        Self::new(
            "This machine cannot make TLS connections to the model server; \
             check that its CA certificates are installed.",
            false,
        )
    }

    pub(super) fn not_reached(error: &reqwest::Error) -> Self {
        let message = if error.is_connect() || error.is_timeout() {
            "The model server cannot be reached. Check that it runs and that KAZMA_MODEL_BASE_URL is right."
        } else {
            "The connection to the model server broke."
        };
        Self::new(message, true).before_first_event()
    }

    /// An error inside a stream that had begun.
    pub(super) fn reported(error: &Value) -> Self {
        Self::new(
            with_reason(
                "The model server reported an error",
                reason(error).as_deref(),
            ),
            true,
        )
    }

    /// An answer with an error status.
    pub(super) fn status(
        status: u16,
        retry_after: Option<Duration>,
        body: &[u8],
        secret: Option<&str>,
    ) -> Self {
        let said = serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|value| reason(value.get("error").unwrap_or(&value)))
            .filter(|said| secret.is_none_or(|secret| secret.is_empty() || !said.contains(secret)));
        let said = said.as_deref();
        let (message, retryable) = match status {
            401 | 403 => (
                "The model server refuses the key. Check KAZMA_MODEL_API_KEY.".to_owned(),
                false,
            ),
            404 => (
                with_reason(
                    "The model server knows no such model or path. Check KAZMA_MODEL and KAZMA_MODEL_BASE_URL",
                    said,
                ),
                false,
            ),
            413 => ("The conversation is too long for the model server.".to_owned(), false),
            429 => {
                let wait = retry_after.map_or_else(String::new, |wait| format!(" {} s", wait.as_secs()));
                (with_reason(&format!("The model server asks to wait{wait}: its limit is reached"), said), true)
            }
            300..=399 => (
                "The model server redirects elsewhere, which is not followed. Check KAZMA_MODEL_BASE_URL."
                    .to_owned(),
                false,
            ),
            500.. => (with_reason(&format!("The model server failed ({status})"), said), true),
            _ => (with_reason(&format!("The model server refuses the request ({status})"), said), false),
        };
        let mut failure = Self::new(message, retryable).before_first_event();
        failure.retry_after = retry_after;
        failure
    }

    /// The same, before anything of the answer was seen.
    pub(super) fn before_first_event(mut self) -> Self {
        self.before_first_event = true;
        self
    }

    /// The same, after which it is not asked again.
    pub(super) fn given_up(mut self) -> Self {
        self.retryable = false;
        self
    }

    pub(super) const fn is_before_first_event(&self) -> bool {
        self.before_first_event
    }

    pub(super) const fn is_retryable(&self) -> bool {
        self.retryable
    }

    pub(super) const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub(super) fn into_delta(self) -> Delta {
        Delta::Failed {
            message: self.message,
            retryable: self.retryable,
        }
    }
}

fn with_reason(sentence: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{sentence}: \"{reason}\"."),
        None => format!("{sentence}."),
    }
}

/// The reason in an error object, shortened to one plain line.
fn reason(error: &Value) -> Option<String> {
    let text = error.as_str().or_else(|| error.get("message")?.as_str())?;
    let plain: String = text
        .chars()
        .map(|c| {
            if c.is_control() || c.is_whitespace() {
                ' '
            } else {
                c
            }
        })
        .filter(|c| c.is_ascii() || c.is_alphanumeric())
        .map(|c| {
            if matches!(c, '"' | '<' | '>' | '`') {
                '\''
            } else {
                c
            }
        })
        .take(REASON_MAX)
        .collect();
    let plain = plain
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let plain = plain.trim_end_matches('.').to_owned();
    (!plain.is_empty()).then_some(plain)
}

/// How long the server asks to wait: seconds, or a date (RFC 9110, section 10.2.3). The date is
/// measured by the server's own clock, which its `Date` tells.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text| jiff::fmt::rfc2822::parse(text).ok();
    let wait = date(asked)?.duration_since(&date(text(header::DATE)?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

/// The beginning of an error answer.
pub(super) async fn read_some(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BODY_MAX {
            body.truncate(ERROR_BODY_MAX);
            break;
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(status: u16, body: &str, secret: Option<&str>) -> (String, bool) {
        match Failure::status(status, None, body.as_bytes(), secret).into_delta() {
            Delta::Failed { message, retryable } => (message, retryable),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_servers_reason_is_short_plain_and_without_the_key() {
        let (message, retryable) = words(
            400,
            r#"{"error":{"message":"too <b>long</b>\n\u001b[31m \"x\""}}"#,
            None,
        );
        assert_eq!(
            message,
            "The model server refuses the request (400): \"too 'b'long'/b' [31m 'x'\"."
        );
        assert!(!retryable);
        let (message, _) = words(400, r#"{"error":"key sk-123 is bad"}"#, Some("sk-123"));
        assert_eq!(message, "The model server refuses the request (400).");
        let (message, _) = words(500, "<html>secret stack</html>", None);
        assert_eq!(message, "The model server failed (500).");
        let long = format!(r#"{{"error":"{}"}}"#, "a".repeat(5_000));
        assert!(words(400, &long, None).0.len() < 300);
    }

    #[test]
    fn the_wait_is_read_in_seconds_and_as_a_date() {
        let wait = |asked: &str, date: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, asked.parse().unwrap());
            if let Some(date) = date {
                headers.insert(header::DATE, date.parse().unwrap());
            }
            retry_after(&headers).map(|wait| wait.as_secs())
        };
        let now = Some("Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(wait("7", None), Some(7));
        assert_eq!(wait("Wed, 21 Oct 2015 07:30:00 GMT", now), Some(120));
        assert_eq!(wait("Wed, 21 Oct 2015 07:00:00 GMT", now), Some(0));
        assert_eq!(wait("Wed, 21 Oct 2015 07:30:00 GMT", None), None);
        assert_eq!(wait("soon", now), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn only_what_may_pass_is_retryable() {
        for (status, retryable) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (429, true),
            (500, true),
            (503, true),
            (302, false),
        ] {
            assert_eq!(words(status, "", None).1, retryable, "{status}");
        }
    }
}
