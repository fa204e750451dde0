//! Extractors whose refusals name the field.

use axum::{
    body::{Body, Bytes},
    extract::{
        FromRequest, FromRequestParts, Request, path::ErrorKind, rejection::BytesRejection,
        rejection::PathRejection,
    },
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, header, request::Parts};
use kazma_wire::Problem;
use serde::{Serialize, de::DeserializeOwned};

use crate::ApiError;

/// A JSON body, both ways.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(Problem::new(415, "media-type", "The body must be JSON")
                .detail("Send the header Content-Type: application/json.")
                .field("Content-Type")
                .into());
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|r| body_problem(&r))?;
        parse(&bytes).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
    else {
        return false;
    };
    let essence = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn body_problem(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == http::StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(413, "too-large", "The body is too large")
            .detail("Send less at once.")
            .field("body")
            .into();
    }
    Problem::new(400, "body", "The body could not be read")
        .field("body")
        .into()
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if cause.is_data() {
            field_problem("body", &path, &cause.to_string())
        } else {
            Problem::new(400, "json", "The body is not JSON")
                .detail(format!(
                    "At line {}, column {}.",
                    cause.line(),
                    cause.column()
                ))
                .field("body")
                .into()
        }
    })?;
    reader.end().map_err(|cause| {
        ApiError(
            Problem::new(400, "json", "The body is not JSON")
                .detail(format!(
                    "There is more after the value, at line {}, column {}.",
                    cause.line(),
                    cause.column()
                ))
                .field("body"),
        )
    })?;
    Ok(value)
}

/// serde reports a missing or unknown member at its parent; its message has the name in backquotes.
fn field_problem(whole: &str, path: &str, message: &str) -> ApiError {
    let parent = if path == "." { "" } else { path };
    let named = ["missing field `", "unknown field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split('`').next());
    let field = match (parent, named) {
        ("", None) => whole.to_owned(),
        (parent, None) => parent.to_owned(),
        ("", Some(name)) => name.to_owned(),
        (parent, Some(name)) if parent.ends_with(name) => parent.to_owned(),
        (parent, Some(name)) => format!("{parent}.{name}"),
    };
    // The position in the body is no help to a person who reads the field's name.
    let sentence = message.split(" at line ").next().unwrap_or(message);
    Problem::new(422, "field", "A field is wrong")
        .detail(format!("{field}: {sentence}."))
        .field(field)
        .into()
}

/// The query of a URL.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri)
            .map(|q| Self(q.0))
            .map_err(|rejection| pair_problem("query", "query string: ", &rejection.body_text()))
    }
}

/// What a refused list of pairs (a query, a form) says; `start` is what axum writes before the cause.
fn pair_problem(whole: &str, start: &str, text: &str) -> ApiError {
    let message = text.rsplit_once(start).map_or(text, |(_, m)| m);
    match message.split_once(": ") {
        Some((path, cause)) if !path.contains(' ') => field_problem(whole, path, cause),
        _ => field_problem(whole, ".", message),
    }
}

/// Reads the fields of a form (`application/x-www-form-urlencoded`) that was received whole.
///
/// # Errors
///
/// Names the field that is wrong.
pub async fn parse_form<T: DeserializeOwned>(bytes: Bytes) -> Result<T, ApiError> {
    let mut request = Request::new(Body::from(bytes));
    *request.method_mut() = http::Method::POST;
    request.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    axum::extract::Form::<T>::from_request(request, &())
        .await
        .map(|form| form.0)
        .map_err(|rejection| pair_problem("body", "form body: ", &rejection.body_text()))
}

/// The parameters of a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(path) => Ok(Self(path.0)),
            Err(PathRejection::FailedToDeserializePathParams(failed)) => {
                let (field, message) = match failed.into_kind() {
                    ErrorKind::ParseErrorAtKey {
                        key, expected_type, ..
                    } => (key, format!("expected {expected_type}")),
                    ErrorKind::DeserializeError { key, message, .. } => (key, message),
                    ErrorKind::Message(message) => (last_parameter(parts).await, message),
                    _ => (
                        last_parameter(parts).await,
                        "not what belongs here".to_owned(),
                    ),
                };
                // A malformed id names nothing, so it is not found; the field says why.
                Err(Problem::new(404, "not-found", "There is nothing here")
                    .detail(format!("{field}: {message}."))
                    .field(field)
                    .into())
            }
            Err(_) => Err(crate::not_found()),
        }
    }
}

/// The name of a path's last parameter: of a single one axum does not say which it was.
async fn last_parameter(parts: &mut Parts) -> String {
    let params = axum::extract::RawPathParams::from_request_parts(parts, &()).await;
    let last = params
        .ok()
        .and_then(|all| all.iter().last().map(|(name, _)| name.to_owned()));
    last.unwrap_or_else(|| "path".to_owned())
}

#[cfg(test)]
mod tests {
    use axum::{Router, routing::post};
    use http_body_util::BodyExt;
    use serde::Deserialize;
    use tower::ServiceExt;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[expect(dead_code, reason = "only its parsing is tested")]
        count: u32,
        #[expect(dead_code, reason = "only its parsing is tested")]
        to: Address,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Address {
        #[expect(dead_code, reason = "only its parsing is tested")]
        city: String,
    }

    async fn answer(content_type: &str, body: &str) -> (u16, Problem) {
        let app = Router::new()
            .route(
                "/",
                post(|Query(_): Query<Limit>, Json(_): Json<Order>| async {}),
            )
            .layer(axum::extract::DefaultBodyLimit::max(200));
        let request = Request::post("/?limit=3")
            .header("content-type", content_type)
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = app.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limit {
        #[expect(dead_code, reason = "only its parsing is tested")]
        limit: u32,
    }

    #[tokio::test]
    async fn a_refused_body_names_the_field() {
        let json = "application/json";
        for (body, status, field) in [
            (r#"{"count":1}"#, 422, "to"),
            (r#"{"count":"x","to":{"city":"a"}}"#, 422, "count"),
            (r#"{"count":1,"to":{"town":"a"}}"#, 422, "to.town"),
            (r#"{"count":1,"to":{}}"#, 422, "to.city"),
            (r#"{"count":1,"to":{"city":"a"},"x":1}"#, 422, "x"),
            (r#"{"count":1"#, 400, "body"),
            (r#"{"count":1,"to":{"city":"a"}} 7"#, 400, "body"),
            ("[]", 422, "body"),
        ] {
            let (got, problem) = answer(json, body).await;
            assert_eq!(
                (got, problem.field.as_deref()),
                (status, Some(field)),
                "{body}"
            );
        }
        assert_eq!(answer("text/plain", "{}").await.0, 415);
        assert_eq!(answer(json, &" ".repeat(300)).await.0, 413);
    }

    #[tokio::test]
    async fn a_refused_form_names_the_field() {
        for (form, field) in [
            ("limit=x", "limit"),
            ("", "limit"),
            ("limit=1&far=2", "far"),
        ] {
            let refused = parse_form::<Limit>(Bytes::from(form)).await.unwrap_err();
            assert_eq!(
                (refused.0.status, refused.0.field.as_deref()),
                (422, Some(field)),
                "{form}"
            );
        }
        assert!(parse_form::<Limit>(Bytes::from("limit=1")).await.is_ok());
    }

    #[tokio::test]
    async fn a_refused_query_names_the_field() {
        let app = Router::new().route("/", post(|Query(_): Query<Limit>| async {}));
        for (query, field) in [
            ("limit=x", "limit"),
            ("", "limit"),
            ("limit=1&far=2", "far"),
        ] {
            let request = Request::post(format!("/?{query}"))
                .body(Body::empty())
                .unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 422);
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let problem: Problem = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(
                problem.field.as_deref(),
                Some(field),
                "{query}: {problem:?}"
            );
        }
    }
}
