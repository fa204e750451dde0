//! The id of the request that is being answered, from the first service that it reached through all
//! others that it makes work.
//!
//! It stands in the span of every log line of that request, in the `instance` of a problem document, and
//! in the header `x-request-id` of every call on the mesh that is made meanwhile.

use std::future::Future;

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue};
use kazma_domain::{CallId, RequestId, ThreadId};
use tracing::{Instrument as _, Span, field};

/// The header that carries it.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The id of the request that this task works for, if it works for one.
pub fn current() -> Option<RequestId> {
    CURRENT.try_with(|id| *id).ok()
}

/// Does `work` for the request `id`.
pub async fn within<F: Future>(id: RequestId, work: F) -> F::Output {
    // At the level of errors, so that no filter takes the ids from the lines that it lets through.
    let span = tracing::error_span!(
        "request",
        request_id = %id,
        call_id = field::Empty,
        thread_id = field::Empty
    );
    CURRENT.scope(id, work.instrument(span)).await
}

/// Notes in the current request's span which call it is about.
pub fn about(call: CallId, thread: ThreadId) {
    Span::current()
        .record("call_id", field::display(call))
        .record("thread_id", field::display(thread));
}

/// The id that a service of the mesh sent along.
pub fn sent(headers: &HeaderMap) -> Option<RequestId> {
    only(headers)?.parse().ok()
}

/// The id that somebody outside sent along, if it is well-formed: ours, or the 32 hexadecimal digits of a
/// UUID, with its hyphens or without, as proxies make them. Anything else is nobody's id.
pub fn sent_from_outside(headers: &HeaderMap) -> Option<RequestId> {
    let text = only(headers)?;
    if let Ok(own) = text.parse() {
        return Some(own);
    }
    let hex: String = match text.split('-').map(str::len).collect::<Vec<_>>()[..] {
        [32] => text.to_owned(),
        [8, 4, 4, 4, 12] => text.replace('-', ""),
        _ => return None,
    };
    // One parser for all of them: it takes small digits alone.
    format!("request_{hex}").parse().ok()
}

fn only(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HEADER).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    }
}

/// The value of the header for `id`.
pub fn value(id: RequestId) -> Option<HeaderValue> {
    HeaderValue::from_str(&id.to_string()).ok()
}

/// Answers a request of the mesh under the id that came with it: a layer for `axum::middleware::from_fn`.
/// One that came without, such as a long poll that nobody's request made, has none.
pub async fn carry(request: Request, next: Next) -> Response {
    match sent(request.headers()) {
        Some(id) => within(id, next.run(request)).await,
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware::from_fn, routing::get};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::not_found;

    const OWN: &str = "request_0192f0c4a7b17c3d8e4f5a6b7c8d9e0f";

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_what_is_well_formed_is_taken_from_outside() {
        for good in [
            OWN,
            "0192f0c4a7b17c3d8e4f5a6b7c8d9e0f",
            "0192f0c4-a7b1-7c3d-8e4f-5a6b7c8d9e0f",
        ] {
            let taken = sent_from_outside(&headers(&[good])).map(|id| id.to_string());
            assert_eq!(taken.as_deref(), Some(OWN), "{good}");
        }
        for bad in [
            "",
            "1",
            "0192F0C4A7B17C3D8E4F5A6B7C8D9E0F",
            "{0192f0c4-a7b1-7c3d-8e4f-5a6b7c8d9e0f}",
            "0192f0c4a7b17c3d8e4f5a6b7c8d9e0f ",
            "0192f0c4-a7b17c3d-8e4f-5a6b-7c8d9e0f",
            "call_0192f0c4a7b17c3d8e4f5a6b7c8d9e0f",
            "a, b",
            "\" injected",
        ] {
            assert_eq!(sent_from_outside(&headers(&[bad])), None, "{bad}");
        }
        assert_eq!(sent_from_outside(&headers(&[OWN, OWN])), None);
        assert_eq!(sent(&headers(&["0192f0c4a7b17c3d8e4f5a6b7c8d9e0f"])), None);
    }

    #[tokio::test]
    async fn a_problem_names_the_request_that_it_answers() {
        let app = Router::new()
            .route("/", get(async || not_found()))
            .layer(from_fn(carry));
        for (id, instance) in [(Some(OWN), Some(OWN)), (Some("forged"), None), (None, None)] {
            let mut request = Request::get("/");
            if let Some(id) = id {
                request = request.header(HEADER, id);
            }
            let request = request.body(Body::empty()).unwrap();
            let answer = app.clone().oneshot(request).await.unwrap();
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            let problem: kazma_wire::Problem = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(problem.instance.as_deref(), instance);
        }
        assert_eq!(current(), None);
    }
}
