//! API tokens: how programs sign in as a person.

use axum::extract::State;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use kazma_edge::{ApiError, Json, Path, not_found};
use kazma_wire::Problem;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{threads::wrong, users::not_added};
use crate::{access::Viewer, app::App};

/// The longest life of a token that has an end.
const DAYS_MAX: u32 = 3650;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tokens {
    /// Newest first.
    tokens: Vec<Token>,
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
struct Token {
    #[schema(value_type = String)]
    id: Uuid,
    name: String,
    #[schema(value_type = String)]
    made_at: Timestamp,
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
}

impl From<kazma_store::gateway::Token> for Token {
    fn from(token: kazma_store::gateway::Token) -> Self {
        Self {
            id: token.id,
            name: token.name,
            made_at: token.made_at,
            expires_at: token.expires_at,
        }
    }
}

/// One's own API tokens.
#[utoipa::path(get, path = "/api/auth/tokens", tag = "auth", responses((status = 200, body = Tokens)))]
pub(super) async fn list(viewer: Viewer, State(app): State<App>) -> Result<Json<Tokens>, ApiError> {
    let tokens = app
        .people()
        .tokens(viewer.who.person.id)
        .await
        .map_err(|error| ApiError::internal(&error))?;
    Ok(Json(Tokens {
        tokens: tokens.into_iter().map(Token::from).collect(),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// What it is for.
    name: String,
    /// For how many days it is good; 90 unless set, at most 3,650.
    expires_days: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Made {
    #[serde(flatten)]
    token: Token,
    /// The secret, shown this once.
    secret: String,
}

/// A new API token, which may do what its holder may.
#[utoipa::path(post, path = "/api/auth/tokens", tag = "auth", request_body = NewToken,
    responses((status = 201, body = Made), (status = 422, body = Problem)))]
pub(super) async fn add(
    viewer: Viewer,
    State(app): State<App>,
    Json(new): Json<NewToken>,
) -> Result<(StatusCode, Json<Made>), ApiError> {
    let days = new.expires_days.unwrap_or(90);
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(wrong(
            "expires_days",
            format!("It lies between 1 and {DAYS_MAX}."),
        ));
    }
    let life = SignedDuration::from_hours(i64::from(days) * 24);
    let (token, secret) = app
        .people()
        .add_token(viewer.who.person.id, &new.name, Some(life))
        .await
        .map_err(not_added)?;
    let made = Made {
        token: Token::from(token),
        secret: secret.expose_secret().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Ends one of one's own API tokens.
#[utoipa::path(delete, path = "/api/auth/tokens/{id}", tag = "auth", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
pub(super) async fn remove(
    viewer: Viewer,
    State(app): State<App>,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, ApiError> {
    let person = viewer.who.person.id;
    if !app
        .people()
        .end_token(id, person)
        .await
        .map_err(|error| ApiError::internal(&error))?
    {
        return Err(not_found());
    }
    app.hub().signed_out(person.uuid(), Some(id));
    Ok(StatusCode::NO_CONTENT)
}
