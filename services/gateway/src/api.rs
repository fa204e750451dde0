//! The HTTP API. The OpenAPI document is made from the same handlers that answer.

mod approve;
pub(crate) mod auth;
pub(crate) mod events;
pub(crate) mod gates;
pub(crate) mod health;
pub(crate) mod show;
pub(crate) mod threads;
mod tokens;
mod users;

use axum::{Router, routing::get};
use kazma_edge::Json;
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::app::App;

fn operations() -> OpenApiRouter<App> {
    let info = InfoBuilder::new()
        .title("Kazma")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Threads, approvals and people. Sign in with a bearer token, or with the cookie of a session; a change \
             made with a cookie comes from this origin or carries the header X-CSRF-Token. Every error is a problem \
             document (RFC 9457) and names the field that is wrong.",
        ))
        .build();
    let api = OpenApiBuilder::new().info(info).build();
    OpenApiRouter::with_openapi(api)
        .routes(routes!(threads::list, threads::begin))
        .routes(routes!(threads::show))
        .routes(routes!(threads::say))
        .routes(routes!(threads::abort))
        .routes(routes!(events::of_thread))
        .routes(routes!(events::all))
        .routes(routes!(gates::list))
        .routes(routes!(gates::show))
        .routes(routes!(gates::decide))
        .routes(routes!(gates::extend))
        .routes(routes!(approve::approve))
        .routes(routes!(approve::pending))
        .routes(routes!(approve::approve_task))
        .routes(routes!(approve::reject_task))
        .routes(routes!(users::list, users::add))
        .routes(routes!(users::remove))
        .routes(routes!(auth::status))
        .routes(routes!(auth::login))
        .routes(routes!(auth::logout))
        .routes(routes!(auth::me))
        .routes(routes!(auth::link))
        .routes(routes!(auth::sessions))
        .routes(routes!(auth::end_session))
        .routes(routes!(tokens::list, tokens::add))
        .routes(routes!(tokens::remove))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::details))
}

/// The OpenAPI document of the HTTP API.
pub fn openapi() -> OpenApi {
    operations().into_openapi()
}

pub(crate) fn router() -> Router<App> {
    let (router, document) = operations().split_for_parts();
    router.route("/api/openapi.json", get(async move || Json(document)))
}
