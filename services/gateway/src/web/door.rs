//! Signing in and out.

use axum::{
    Extension,
    extract::{Request, State},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, StatusCode, header};
use kazma_edge::{ApiError, Query};
use secrecy::SecretString;
use serde::Deserialize;

use super::{bare_shell, home, html};
use crate::{
    access::{CheckedForm, OpenForm, Reads, identify},
    api::auth::{self, NOT_IN},
    app::App,
    guard::layers::Facts,
    pages::SignInPage,
    people::secret::Shown,
};

#[derive(Debug, Deserialize)]
pub(super) struct Next {
    next: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    Query(next): Query<Next>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, _) = request.into_parts();
    let return_to = home(&next.next.unwrap_or_default(), "/");
    if identify(&parts, &app).await?.is_some() {
        return Ok(Redirect::to(&return_to).into_response());
    }
    page(&app, &facts, &parts.headers, StatusCode::OK, "", return_to)
}

fn page(
    app: &App,
    facts: &Facts,
    headers: &HeaderMap,
    status: StatusCode,
    error: &str,
    return_to: String,
) -> Result<Response, ApiError> {
    let shell = bare_shell(app, facts, headers, "Sign in");
    html(
        status,
        &SignInPage {
            shell,
            error: error.to_owned(),
            return_to,
        },
    )
}

#[derive(Debug, Deserialize)]
pub(super) struct BySecret {
    secret: Shown,
    #[serde(default)]
    return_to: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ByLink {
    token: Shown,
    #[serde(default)]
    return_to: String,
}

pub(super) async fn enter(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    OpenForm { form }: OpenForm<BySecret>,
) -> Result<Response, ApiError> {
    let return_to = home(&form.return_to, "/");
    let_in(&app, &facts, &headers, &form.secret.0, return_to).await
}

pub(super) async fn enter_by_link(
    State(app): State<App>,
    Extension(facts): Extension<Facts>,
    headers: HeaderMap,
    OpenForm { form }: OpenForm<ByLink>,
) -> Result<Response, ApiError> {
    let return_to = home(&form.return_to, "/");
    let_in(&app, &facts, &headers, &form.token.0, return_to).await
}

async fn let_in(
    app: &App,
    facts: &Facts,
    headers: &HeaderMap,
    shown: &SecretString,
    return_to: String,
) -> Result<Response, ApiError> {
    let entered = match auth::enter(app, facts, headers, shown).await {
        Ok(entered) => entered,
        Err(ApiError(problem)) if problem.status == 401 => {
            return page(
                app,
                facts,
                headers,
                StatusCode::UNAUTHORIZED,
                NOT_IN,
                return_to,
            );
        }
        Err(ApiError(problem)) if problem.status == 429 => {
            // The header says when; the page says what, and the same to everybody.
            let mut answer = page(
                app,
                facts,
                headers,
                StatusCode::TOO_MANY_REQUESTS,
                "Too many sign-ins have failed. Wait a few minutes, then try again.",
                return_to,
            )?;
            let refused = ApiError(problem).into_response();
            if let Some(after) = refused.headers().get(header::RETRY_AFTER) {
                answer
                    .headers_mut()
                    .insert(header::RETRY_AFTER, after.clone());
            }
            return Ok(answer);
        }
        Err(error) => return Err(error),
    };
    let mut answer = Redirect::to(&return_to).into_response();
    answer.headers_mut().append(
        header::SET_COOKIE,
        auth::session_cookie(app.site(), &entered),
    );
    Ok(answer)
}

#[derive(Debug, Deserialize)]
pub(super) struct Nothing {}

pub(super) async fn leave(
    State(app): State<App>,
    CheckedForm { who, .. }: CheckedForm<Reads, Nothing>,
) -> Result<Response, ApiError> {
    auth::leave_as(&app, &who).await?;
    let mut answer = Redirect::to("/login").into_response();
    answer
        .headers_mut()
        .append(header::SET_COOKIE, auth::no_cookie(app.site()));
    Ok(answer)
}
