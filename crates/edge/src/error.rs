//! One error type for handlers, answered as a problem document (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use kazma_wire::{Problem, problem};

/// What a handler answers when it cannot do what was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError(pub Problem);

impl ApiError {
    /// A failure of ours: the chain of causes goes to the log, the caller learns nothing of it.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        let mut causes = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        tracing::error!(causes = causes.join(": "), "request failed");
        Self(
            Problem::new(500, "internal", "Something went wrong here")
                .detail("Nothing you sent was at fault. The log says more; try again."),
        )
    }

    /// There is no room left to keep anything. Nothing was kept; the caller may try again.
    pub fn disk_full() -> Self {
        Self(Problem::new(503, "disk-full", "The disk is full").detail(
            "The disk is full: nothing was kept. Make room in the data folder, and try again.",
        ))
    }

    /// A part that is needed does not answer. The caller may try again.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self(Problem::new(503, "unavailable", "Not available right now").detail(detail))
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ApiError {
    fn into_response(mut self) -> Response {
        if self.0.instance.is_none() {
            self.0.instance = crate::request::current().map(|id| id.to_string());
        }
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(problem::MEDIA_TYPE),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(self.0.status, 429 | 503) {
            let seconds = self
                .0
                .more
                .get("retry_after")
                .and_then(serde_json::Value::as_u64);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.unwrap_or(1)));
        }
        response
    }
}

/// 404: there is nothing here, or nothing that the caller may know of.
pub fn not_found() -> ApiError {
    ApiError(Problem::new(404, "not-found", "There is nothing here"))
}

/// The handler for paths that no route has.
pub async fn fallback() -> ApiError {
    not_found()
}

/// The handler for methods that a route does not have.
pub async fn method_not_allowed() -> ApiError {
    ApiError(Problem::new(
        405,
        "method",
        "This method is not allowed here",
    ))
}
