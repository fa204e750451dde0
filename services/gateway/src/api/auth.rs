//! Signing in and out, and what one is signed in as.

use axum::{
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use kazma_domain::{Role, SessionId};
use kazma_edge::{ApiError, Json, Path, not_found};
use kazma_wire::Problem;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::users::{Person, login_url};
use crate::{
    access::{Origin, Via, Viewer, cookie, foreign, identify, origin},
    app::App,
    guard::{layers::Facts, limits::too_many, site::Site},
    people::{Entered, NotIn, SESSION_LIFE, Visitor, secret::Shown},
};

/// The one sentence for every sign-in that fails.
pub(crate) const NOT_IN: &str =
    "That is not the secret, and not the code of a link that is still good.";

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    authenticated: bool,
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    proxy: Proxy,
}

#[derive(Debug, Serialize, ToSchema)]
struct Proxy {
    /// `direct`, `declared` or `undeclared_proxy`.
    state: &'static str,
    /// What to do about it; empty where nothing is to be done.
    hint: &'static str,
}

/// Whether the caller is signed in, and what the gateway knows of proxies before it.
#[utoipa::path(get, path = "/api/auth/status", tag = "auth", security(()), responses((status = 200, body = Status)))]
pub(super) async fn status(
    State(app): State<App>,
    request: Request,
) -> Result<Json<Status>, ApiError> {
    let (parts, _) = request.into_parts();
    let who = identify(&parts, &app).await?;
    let (state, hint) = app.proxies().state();
    Ok(Json(Status {
        authenticated: who.is_some(),
        role: who.map(|who| who.person.role),
        proxy: Proxy { state, hint },
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    /// The operator's secret, or the code of a one-time link.
    #[schema(value_type = String)]
    secret: Shown,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    person: Person,
    /// `session` or `token`.
    via: &'static str,
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    /// For the header X-CSRF-Token; none for a bearer, who needs none.
    #[serde(skip_serializing_if = "String::is_empty")]
    csrf_token: String,
}

/// Signs in with the operator's secret or the code of a one-time link. The session comes as a cookie.
#[utoipa::path(post, path = "/api/auth/login", tag = "auth", request_body = Login, security(()),
    responses((status = 200, body = Me), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(super) async fn login(
    State(app): State<App>,
    axum::Extension(facts): axum::Extension<Facts>,
    headers: HeaderMap,
    Json(login): Json<Login>,
) -> Result<Response, ApiError> {
    if origin(&app, &headers, &facts.host) == Origin::Foreign {
        return Err(foreign());
    }
    let entered = enter(&app, &facts, &headers, &login.secret.0).await?;
    let me = Me {
        person: Person::from(&entered.person),
        via: "session",
        expires_at: Some(entered.session.expires_at),
        csrf_token: crate::people::secret::csrf(&entered.secret),
    };
    let mut answer = Json(me).into_response();
    answer
        .headers_mut()
        .append(header::SET_COOKIE, session_cookie(app.site(), &entered));
    Ok(answer)
}

/// Lets a visitor in, or says why not in words that tell nothing.
pub(crate) async fn enter(
    app: &App,
    facts: &Facts,
    headers: &HeaderMap,
    shown: &SecretString,
) -> Result<Entered, ApiError> {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let visitor = Visitor {
        peer: facts.client,
        client: agent.to_owned(),
        earlier: cookie(headers, app.site().cookie()),
    };
    let entered = app
        .people()
        .enter(shown, visitor)
        .await
        .map_err(|error| match error {
            NotIn::Wrong => {
                tracing::info!(request = %facts.id, "a sign-in failed");
                ApiError(
                    Problem::new(401, "sign-in", "Not signed in")
                        .detail(NOT_IN)
                        .field("secret"),
                )
            }
            NotIn::Throttled { seconds } => {
                tracing::warn!(request = %facts.id, "sign-ins are held back");
                too_many(seconds)
            }
            NotIn::Store(error) => ApiError::internal(&error),
        })?;
    tracing::info!(request = %facts.id, person = %entered.person.id, way = entered.session.way, "signed in");
    Ok(entered)
}

pub(crate) fn session_cookie(site: &Site, entered: &Entered) -> HeaderValue {
    cookie_value(site, entered.secret.expose_secret(), SESSION_LIFE.as_secs())
}

pub(crate) fn no_cookie(site: &Site) -> HeaderValue {
    cookie_value(site, "", 0)
}

fn cookie_value(site: &Site, value: &str, seconds: i64) -> HeaderValue {
    let secure = if site.is_secure() { "; Secure" } else { "" };
    let text = format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
        site.cookie()
    );
    let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Signs out: the session ends, or the token does not (end it under `/api/auth/tokens`).
#[utoipa::path(post, path = "/api/auth/logout", tag = "auth", responses((status = 204), (status = 409, body = Problem)))]
pub(super) async fn logout(viewer: Viewer, State(app): State<App>) -> Result<Response, ApiError> {
    if !leave(&app, &viewer).await? {
        return Err(Problem::new(409, "bearer", "A token does not sign out")
            .detail("End it with DELETE /api/auth/tokens/{id}.")
            .into());
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    answer
        .headers_mut()
        .append(header::SET_COOKIE, no_cookie(app.site()));
    Ok(answer)
}

async fn leave(app: &App, viewer: &Viewer) -> Result<bool, ApiError> {
    leave_as(app, &viewer.who).await
}

/// Ends the session somebody is signed in by. False for a bearer.
pub(crate) async fn leave_as(app: &App, who: &crate::access::SignedIn) -> Result<bool, ApiError> {
    if matches!(who.via, Via::Bearer(_)) {
        return Ok(false);
    }
    let id = SessionId::from_uuid(who.credential);
    app.people()
        .end_session(id, who.person.id)
        .await
        .map_err(|error| ApiError::internal(&error))?;
    app.hub()
        .signed_out(who.person.id.uuid(), Some(who.credential));
    Ok(true)
}

/// Who is signed in.
#[utoipa::path(get, path = "/api/auth/me", tag = "auth", responses((status = 200, body = Me)))]
pub(super) async fn me(viewer: Viewer) -> Json<Me> {
    let who = viewer.who;
    Json(Me {
        person: Person::from(&who.person),
        via: if matches!(who.via, Via::Bearer(_)) {
            "token"
        } else {
            "session"
        },
        expires_at: who.expires_at,
        csrf_token: who.csrf(),
    })
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Link {
    /// Good once, for five minutes.
    login_url: String,
}

/// A new one-time link for the bearer of a token. A session makes none: it would outlive itself.
#[utoipa::path(post, path = "/api/auth/links", tag = "auth", responses((status = 201, body = Link), (status = 403, body = Problem)))]
pub(super) async fn link(
    viewer: Viewer,
    State(app): State<App>,
) -> Result<(StatusCode, Json<Link>), ApiError> {
    if matches!(viewer.who.via, Via::Session(_)) {
        return Err(
            Problem::new(403, "bearer-only", "Only the bearer of a token may do this").into(),
        );
    }
    let link = app
        .people()
        .link(viewer.who.person.id)
        .await
        .map_err(|error| ApiError::internal(&error))?;
    Ok((
        StatusCode::CREATED,
        Json(Link {
            login_url: login_url(&app, &link),
        }),
    ))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sessions {
    /// Newest first.
    sessions: Vec<Session>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Session {
    #[schema(value_type = String)]
    id: SessionId,
    /// `link` or `secret`.
    way: String,
    /// What the browser called itself.
    client: String,
    #[schema(value_type = String)]
    opened_at: Timestamp,
    #[schema(value_type = String)]
    expires_at: Timestamp,
    /// Whether it is the one that asks.
    current: bool,
}

/// One's own sessions.
#[utoipa::path(get, path = "/api/auth/sessions", tag = "auth", responses((status = 200, body = Sessions)))]
pub(super) async fn sessions(
    viewer: Viewer,
    State(app): State<App>,
) -> Result<Json<Sessions>, ApiError> {
    let sessions = app
        .people()
        .sessions(viewer.who.person.id)
        .await
        .map_err(|error| ApiError::internal(&error))?;
    let sessions = sessions
        .into_iter()
        .map(|session| Session {
            current: session.id.uuid() == viewer.who.credential,
            id: session.id,
            way: session.way,
            client: session.client,
            opened_at: session.opened_at,
            expires_at: session.expires_at,
        })
        .collect();
    Ok(Json(Sessions { sessions }))
}

/// Ends one of one's own sessions.
#[utoipa::path(delete, path = "/api/auth/sessions/{id}", tag = "auth", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
pub(super) async fn end_session(
    viewer: Viewer,
    State(app): State<App>,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, ApiError> {
    let person = viewer.who.person.id;
    if !app
        .people()
        .end_session(id, person)
        .await
        .map_err(|error| ApiError::internal(&error))?
    {
        return Err(not_found());
    }
    app.hub().signed_out(person.uuid(), Some(id.uuid()));
    Ok(StatusCode::NO_CONTENT)
}
