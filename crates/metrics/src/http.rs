//! Requests by route and class of answer.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use http::Method;

use crate::{Counters, Histograms, Meters, MetricError};

/// Bounds of the latency: from what a local answer takes to what a long poll may wait.
const BOUNDS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0,
];

/// Counts the requests of all listeners of a process.
#[derive(Debug, Clone)]
pub struct Http {
    answered: Counters<4>,
    took: Histograms<2>,
}

impl Http {
    /// Registers the families.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        Ok(Self {
            answered: meters.counters(
                "kazma_http_requests_total",
                "Requests answered, by listener, route template and class of status (2xx, 4xx, …).",
                ["listener", "method", "route", "class"],
            )?,
            took: meters.histograms(
                "kazma_http_request_seconds",
                "From a request to the head of its answer; long polls wait as long as they are asked to.",
                ["listener", "route"],
                &BOUNDS,
            )?,
        })
    }

    /// The same for one listener, for [`count`].
    pub const fn on(self, listener: &'static str) -> Listening {
        Listening {
            http: self,
            listener,
        }
    }
}

/// One listener whose requests are counted.
#[derive(Debug, Clone)]
pub struct Listening {
    http: Http,
    listener: &'static str,
}

/// Counts one request: a layer for `axum::middleware::from_fn_with_state`.
pub async fn count(State(at): State<Listening>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = method(request.method());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let answer = next.run(request).await;
    // Paths that no route has are as many as somebody likes to ask for.
    let route = matched.as_ref().map_or("-", MatchedPath::as_str);
    let class = match answer.status().as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    at.http.answered.inc([at.listener, method, route, class]);
    at.http.took.observe([at.listener, route], began.elapsed());
    answer
}

/// A method has any name its sender likes.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_template_and_never_by_path() {
        let meters = Meters::default();
        let listening = Http::new(&meters).unwrap().on("mesh");
        let app = Router::new()
            .route("/v1/gates/{id}", get(async || StatusCode::NO_CONTENT))
            .fallback(async || StatusCode::NOT_FOUND)
            .layer(from_fn_with_state(listening, count));
        for path in ["/v1/gates/secret1", "/v1/gates/secret2", "/secret3"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            app.clone().oneshot(request).await.unwrap();
        }
        let text = meters.text().await;
        assert!(!text.contains("secret"), "{text}");
        let counted = |line: &str| assert!(text.contains(line), "{line}\n{text}");
        counted(
            r#"kazma_http_requests_total{class="2xx",listener="mesh",method="GET",route="/v1/gates/{id}"} 2"#,
        );
        counted(
            r#"kazma_http_requests_total{class="4xx",listener="mesh",method="GET",route="-"} 1"#,
        );
        counted(r#"kazma_http_request_seconds_count{listener="mesh",route="/v1/gates/{id}"} 2"#);
    }
}
