//! Who may do what, as extractors: a handler's signature says it, and its body cannot forget it.

use std::marker::PhantomData;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderName, Method, header, request::Parts};
use jiff::Timestamp;
use kazma_domain::{Actor, Role, Surface};
use kazma_edge::ApiError;
use kazma_store::gateway::Person;
use kazma_wire::Problem;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::{app::App, guard::layers::Facts, people::secret, web};

/// Where a client says that it is a terminal.
const SURFACE: HeaderName = HeaderName::from_static("x-kazma-surface");
/// Where scripts put the session's form token.
const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub(crate) struct SignedIn {
    pub(crate) person: Person,
    /// The session or token.
    pub(crate) credential: Uuid,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) via: Via,
}

/// How somebody showed who they are.
#[derive(Debug, Clone)]
pub(crate) enum Via {
    /// A session cookie.
    Session(SecretString),
    /// A bearer token.
    Bearer(Surface),
}

impl SignedIn {
    /// As the registry is told.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            id: self.person.id,
            name: self.person.name.clone(),
            role: self.person.role,
        }
    }

    pub(crate) fn surface(&self) -> Surface {
        match self.via {
            Via::Session(_) => Surface::Web,
            Via::Bearer(surface) => surface,
        }
    }

    /// The token for forms; none for a bearer, who needs none.
    pub(crate) fn csrf(&self) -> String {
        match &self.via {
            Via::Session(session) => secret::csrf(session),
            Via::Bearer(_) => String::new(),
        }
    }

    fn may<R: Right>(self) -> Result<Signed<R>, ApiError> {
        if R::held_by(self.person.role) {
            return Ok(Signed {
                who: self,
                right: PhantomData,
            });
        }
        Err(Problem::new(403, "role", "Your role may not do this")
            .detail(format!(
                "You are {}. This needs {}.",
                self.person.role,
                R::NEEDS
            ))
            .with("role", self.person.role.name())
            .into())
    }
}

/// Something that some roles may do. Source: architecture, section 6.
pub(crate) trait Right: Send + Sync + 'static {
    /// The least role that may, in words.
    const NEEDS: &'static str;
    /// Whether `role` may.
    fn held_by(role: Role) -> bool;
}

macro_rules! rights {
    ($($(#[$doc:meta])* $right:ident as $alias:ident: $needs:literal, $may:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $right {}
        impl Right for $right {
            const NEEDS: &'static str = $needs;
            fn held_by(role: Role) -> bool {
                let may: fn(Role) -> bool = $may;
                may(role)
            }
        }
        $(#[$doc])*
        pub(crate) type $alias = Signed<$right>;
    )*};
}

rights! {
    /// Reads.
    Reads as Viewer: "any role", |_| true;
    /// Decides.
    Decides as Approver: "an approver, operator or admin", Role::may_decide;
    /// Speaks to the agent.
    Chats as Chatter: "an operator or admin", Role::may_chat;
    /// Changes people.
    Administers as Admin: "an admin", Role::may_administer;
}

/// A signed-in person who has the right `R`.
#[derive(Debug)]
pub(crate) struct Signed<R> {
    pub(crate) who: SignedIn,
    right: PhantomData<fn() -> R>,
}

impl<R: Right> FromRequestParts<App> for Signed<R> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let who = sign_in(parts, app).await?;
        if let Via::Session(session) = &who.via
            && !parts.method.is_safe()
        {
            // Forms of pages come through `CheckedForm`, which reads the token in them.
            if !is_api(parts) {
                return Err(foreign().into_response());
            }
            check_scripted(parts, app, session).map_err(ApiError::into_response)?;
        }
        who.may().map_err(ApiError::into_response)
    }
}

/// The form of a page, sent by a person who has the right `R`, from a page of ours.
#[derive(Debug)]
pub(crate) struct CheckedForm<R, T> {
    pub(crate) who: SignedIn,
    pub(crate) form: T,
    right: PhantomData<fn() -> R>,
}

#[derive(Debug, serde::Deserialize)]
struct Token {
    #[serde(default)]
    csrf: String,
}

impl<R: Right, T: DeserializeOwned> FromRequest<App> for CheckedForm<R, T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let who = sign_in(&mut parts, app).await?;
        let headers = parts.headers.clone();
        let facts = facts(&parts);
        let bytes = Bytes::from_request(Request::from_parts(parts, body), app)
            .await
            .map_err(IntoResponse::into_response)?;
        if origin(app, &headers, &facts.host) == Origin::Foreign {
            return Err(foreign().into_response());
        }
        if let Via::Session(session) = &who.via {
            let token: Token = parse_form(&headers, &bytes)
                .await
                .map_err(ApiError::into_response)?;
            if !secret::csrf_is(session, &token.csrf) {
                return Err(foreign().into_response());
            }
        }
        let form = parse_form(&headers, &bytes)
            .await
            .map_err(ApiError::into_response)?;
        let Signed { who, right } = who.may::<R>().map_err(ApiError::into_response)?;
        Ok(Self { who, form, right })
    }
}

/// A form that anybody may send, signed in or not, though not from another site's page.
#[derive(Debug)]
pub(crate) struct OpenForm<T> {
    pub(crate) form: T,
}

impl<T: DeserializeOwned> FromRequest<App> for OpenForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let headers = request.headers().clone();
        let facts = request.extensions().get::<Facts>().cloned();
        let host = facts.map(|facts| facts.host).unwrap_or_default();
        if origin(app, &headers, &host) == Origin::Foreign {
            return Err(foreign().into_response());
        }
        let bytes = Bytes::from_request(request, app)
            .await
            .map_err(IntoResponse::into_response)?;
        let form = parse_form(&headers, &bytes)
            .await
            .map_err(ApiError::into_response)?;
        Ok(Self { form })
    }
}

async fn parse_form<T: DeserializeOwned>(
    headers: &HeaderMap,
    bytes: &Bytes,
) -> Result<T, ApiError> {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !media
        .to_ascii_lowercase()
        .starts_with("application/x-www-form-urlencoded")
    {
        return Err(Problem::new(415, "media-type", "The body must be a form")
            .field("Content-Type")
            .into());
    }
    kazma_edge::parse_form(bytes.clone()).await
}

fn facts(parts: &Parts) -> Facts {
    parts
        .extensions
        .get::<Facts>()
        .cloned()
        .unwrap_or_else(Facts::unknown)
}

fn is_api(parts: &Parts) -> bool {
    parts.uri.path().starts_with("/api/")
}

/// Who is signed in, or how to sign in.
async fn sign_in(parts: &mut Parts, app: &App) -> Result<SignedIn, Response> {
    let facts = facts(parts);
    match identify(parts, app).await {
        Ok(Some(who)) => {
            app.limits()
                .request(who.credential)
                .map_err(ApiError::into_response)?;
            // For the pages of problems; the first one found is the only one there is.
            drop(facts.who.set(who.clone()));
            Ok(who)
        }
        Ok(None) => {
            app.limits()
                .visit(facts.client)
                .map_err(ApiError::into_response)?;
            Err(not_signed_in(parts))
        }
        Err(error) => Err(error.into_response()),
    }
}

/// Who is signed in, if anybody is.
pub(crate) async fn identify(parts: &Parts, app: &App) -> Result<Option<SignedIn>, ApiError> {
    let (shown, bearer) = match (
        bearer(&parts.headers),
        cookie(&parts.headers, app.site().cookie()),
    ) {
        (Some(token), _) => (token, true),
        (None, Some(session)) => (session, false),
        (None, None) => return Ok(None),
    };
    let holder = app
        .people()
        .holder(&shown, bearer)
        .await
        .map_err(|error| ApiError::internal(&error))?;
    Ok(holder.map(|holder| SignedIn {
        person: holder.person,
        credential: holder.credential,
        expires_at: holder.expires_at,
        via: if bearer {
            Via::Bearer(surface(&parts.headers))
        } else {
            Via::Session(shown)
        },
    }))
}

fn surface(headers: &HeaderMap) -> Surface {
    let terminal = headers
        .get(SURFACE)
        .is_some_and(|value| value.as_bytes() == b"terminal");
    if terminal {
        Surface::Terminal
    } else {
        Surface::Api
    }
}

fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok();
    // A header that is there and is no bearer token is no reason to look at cookies.
    let token = value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map_or("", |(_, token)| token.trim());
    Some(SecretString::from(token))
}

/// The value of a cookie; none where it is sent twice.
pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<SecretString> {
    let mut values = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(value), None) => Some(SecretString::from(value)),
        _ => None,
    }
}

fn not_signed_in(parts: &Parts) -> Response {
    if web::is_page(parts) {
        let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let back = if parts.method == Method::GET && target != "/" {
            web::login_path(target)
        } else {
            "/login".to_owned()
        };
        return Redirect::to(&back).into_response();
    }
    let mut answer = ApiError(
        Problem::new(401, "not-signed-in", "Sign in first")
            .detail("Send a bearer token, or the cookie of a signed-in session."),
    )
    .into_response();
    answer.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        http::HeaderValue::from_static("Bearer realm=\"kazma\""),
    );
    answer
}

/// Where a request says it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A page of ours.
    Own,
    /// Another site's page, or one that hides where it is from.
    Foreign,
    /// It does not say; no browser of today, at least for what changes something.
    Unsaid,
}

/// Where a request says it comes from.
pub(crate) fn origin(app: &App, headers: &HeaderMap, host: &str) -> Origin {
    let text = |name: &HeaderName| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("null").to_ascii_lowercase())
    };
    let site = text(&HeaderName::from_static("sec-fetch-site"));
    if site
        .as_deref()
        .is_some_and(|site| !matches!(site, "same-origin" | "none"))
    {
        return Origin::Foreign;
    }
    match text(&header::ORIGIN) {
        Some(origin) if app.site().origin(host).as_deref() == Some(&*origin) => Origin::Own,
        Some(_) => Origin::Foreign,
        None if site.as_deref() == Some("same-origin") => Origin::Own,
        None => Origin::Unsaid,
    }
}

/// A change through the API with a cookie: from our own origin, or with the session's form token.
fn check_scripted(parts: &Parts, app: &App, session: &SecretString) -> Result<(), ApiError> {
    let token = parts
        .headers
        .get(CSRF)
        .map(|value| value.to_str().unwrap_or_default());
    let origin = origin(app, &parts.headers, &facts(parts).host);
    match (origin, token) {
        (Origin::Foreign, _) => Err(foreign()),
        (_, Some(token)) if secret::csrf_is(session, token) => Ok(()),
        (Origin::Own, None) => Ok(()),
        (Origin::Own | Origin::Unsaid, _) => Err(foreign()),
    }
}

/// 403: the request does not come from a page of ours.
pub(crate) fn foreign() -> ApiError {
    Problem::new(403, "csrf", "This did not come from a page of this Kazma")
        .detail("Nothing was done. Reload the page and try again.")
        .into()
}
