//! The one way in: every request passes here before a handler, and every answer on its way out.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use axum::{
    body::to_bytes,
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Uri, header};
use kazma_domain::RequestId;
use kazma_edge::{ApiError, not_found, request};
use kazma_wire::{Problem, problem::MEDIA_TYPE};

use super::{headers, path};
use crate::{access::SignedIn, app::App, web};

/// How long a handler may take; streams begin within it and go on.
const HANDLER_LIMIT: Duration = Duration::from_secs(30);
/// The largest problem document.
const PROBLEM_MAX: usize = 64 * 1024;

/// The two ends of the connection that a request came in on.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// Whether it came over TLS of our own.
    pub secure: bool,
}

/// What is known of a request before any handler sees it.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// The address of the client, behind declared proxies.
    pub(crate) client: IpAddr,
    /// The host that was asked for.
    pub(crate) host: String,
    /// For the Content-Security-Policy of the answer.
    pub(crate) nonce: String,
    /// To find it in the log.
    pub(crate) id: RequestId,
    /// Who is signed in, once an extractor found out.
    pub(crate) who: Arc<OnceLock<SignedIn>>,
}

impl Facts {
    /// The facts of a request that did not pass [`pass`], which none of ours does: it comes from nowhere
    /// and asks for no host, so that every check refuses it.
    pub(crate) fn unknown() -> Self {
        Self {
            client: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            host: String::new(),
            nonce: String::new(),
            id: RequestId::from_uuid(uuid::Uuid::nil()),
            who: Arc::default(),
        }
    }
}

/// Checks the request, lets the handler work, and finishes the answer, all under one id.
pub(crate) async fn pass(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request::sent_from_outside(request.headers())
        .unwrap_or_else(|| RequestId::new(app.people().now(), app.people().entropy()));
    let mut answer = request::within(id, pass_as(app, id, request, next)).await;
    if let Some(value) = request::value(id) {
        answer.headers_mut().insert(request::HEADER, value);
    }
    answer
}

async fn pass_as(app: App, id: RequestId, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let mut nonce = [0_u8; 16];
    app.people().entropy().fill(&mut nonce);
    let connection = request
        .extensions()
        .get::<Connection>()
        .copied()
        .unwrap_or(app.nowhere());
    let facts = Facts {
        client: app
            .proxies()
            .client(connection.peer.ip(), request.headers()),
        host: host(request.headers(), request.uri()).unwrap_or_default(),
        nonce: URL_SAFE_NO_PAD.encode(nonce),
        id,
        who: Arc::default(),
    };
    request.extensions_mut().insert(facts.clone());
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "-".to_owned(), |path| path.as_str().to_owned());
    let page = web::wants_page(&request);
    let answer = match admit(&app, &request, &facts, connection) {
        Err(refused) => refused.into_response(),
        Ok(()) => match tokio::time::timeout(HANDLER_LIMIT, next.run(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                ApiError::unavailable("It took too long. Look whether it was done, then try again.")
                    .into_response()
            }
        },
    };
    let mut answer = explain(&app, answer, &facts, page).await;
    headers::harden(answer.headers_mut(), &facts.nonce);
    if connection.secure && app.site().is_known_as(&facts.host) {
        headers::only_https(answer.headers_mut());
    }
    tracing::info!(
        %method, route, status = answer.status().as_u16(), ms = began.elapsed().as_millis(), "answered"
    );
    answer
}

fn admit(
    app: &App,
    request: &Request,
    facts: &Facts,
    connection: Connection,
) -> Result<(), ApiError> {
    // In plain come the operator's commands of this machine, by the token; no page and no cookie does.
    let by_token = request.headers().contains_key(header::AUTHORIZATION);
    if app.site().is_https() && !connection.secure && !by_token {
        return Err(Problem::new(400, "https", "This port speaks https")
            .detail(format!("Open {} instead.", app.site().base()))
            .into());
    }
    if !app.site().answers_to(&facts.host, connection.local) {
        return Err(Problem::new(421, "host", "This host is not served here")
            .detail(format!(
                "Open {} instead. An operator adds another name with KAZMA_PUBLIC_URL.",
                app.site().base()
            ))
            .field("Host")
            .into());
    }
    if path::is_canonical(request.uri().path()) {
        Ok(())
    } else {
        Err(not_found())
    }
}

/// The host that a request names. Where it is named twice, both must be the same.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let mut named = headers.get_all(header::HOST).iter();
    let header = match (named.next(), named.next()) {
        (Some(host), None) => Some(host.to_str().ok()?.to_owned()),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    let target = uri
        .authority()
        .map(|authority| authority.as_str().to_owned());
    match (header, target) {
        (Some(header), Some(target)) => header.eq_ignore_ascii_case(&target).then_some(header),
        (header, target) => header.or(target),
    }
}

/// Gives a problem the id of its request; to a person who opened a page, says it as a page.
async fn explain(app: &App, answer: Response, facts: &Facts, page: bool) -> Response {
    let is_problem = answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes() == MEDIA_TYPE.as_bytes());
    if !is_problem {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(bytes) = to_bytes(body, PROBLEM_MAX).await else {
        return parts.status.into_response();
    };
    let Ok(mut problem) = serde_json::from_slice::<Problem>(&bytes) else {
        return (parts, bytes).into_response();
    };
    problem.instance = Some(facts.id.to_string());
    if problem.status >= 500 {
        tracing::error!(kind = problem.kind, "a request failed");
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    if page && let Some(html) = web::problem_page(app, &problem, facts).await {
        parts.headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        return (parts, html).into_response();
    }
    (parts, serde_json::to_vec(&problem).unwrap_or_default()).into_response()
}
