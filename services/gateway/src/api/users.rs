//! People who may sign in.

use axum::extract::State;
use http::StatusCode;
use jiff::Timestamp;
use kazma_domain::{PersonId, Role};
use kazma_edge::{ApiError, Json, Path, not_found};
use kazma_store::gateway as store;
use kazma_wire::Problem;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::threads::wrong;
use crate::{access::Admin, app::App, people::NotAdded};

/// A person.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Person {
    #[schema(value_type = String)]
    id: PersonId,
    name: String,
    /// `viewer`, `approver`, `operator` or `admin`.
    #[schema(value_type = String)]
    role: Role,
    #[schema(value_type = String)]
    created_at: Timestamp,
}

impl From<&store::Person> for Person {
    fn from(person: &store::Person) -> Self {
        Self {
            id: person.id,
            name: person.name.clone(),
            role: person.role,
            created_at: person.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct People {
    /// Oldest first.
    users: Vec<Person>,
}

/// Everybody who may sign in.
#[utoipa::path(get, path = "/api/users", tag = "people", responses((status = 200, body = People)))]
pub(super) async fn list(_: Admin, State(app): State<App>) -> Result<Json<People>, ApiError> {
    let people = app
        .people()
        .all()
        .await
        .map_err(|error| ApiError::internal(&error))?;
    Ok(Json(People {
        users: people.iter().map(Person::from).collect(),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPerson {
    /// The name others see, 1 to 64 letters; nobody else has it.
    name: String,
    /// `viewer`, `approver`, `operator` or `admin`.
    #[schema(value_type = String)]
    role: Role,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Added {
    person: Person,
    /// Good once, for five minutes.
    login_url: String,
}

/// Adds a person, with a one-time link to sign in.
#[utoipa::path(post, path = "/api/users", tag = "people", request_body = NewPerson,
    responses((status = 201, body = Added), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn add(
    _: Admin,
    State(app): State<App>,
    Json(new): Json<NewPerson>,
) -> Result<(StatusCode, Json<Added>), ApiError> {
    let (person, link) = app
        .people()
        .add(&new.name, new.role)
        .await
        .map_err(not_added)?;
    let login_url = login_url(&app, &link);
    Ok((
        StatusCode::CREATED,
        Json(Added {
            person: Person::from(&person),
            login_url,
        }),
    ))
}

pub(super) fn not_added(error: NotAdded) -> ApiError {
    match error {
        NotAdded::Name(error) => wrong("name", format!("{error}.")),
        NotAdded::Taken => Problem::new(409, "name-taken", "The name is taken")
            .detail("Choose another name.")
            .field("name")
            .into(),
        NotAdded::Store(error) => ApiError::internal(&error),
    }
}

/// The secret is in the fragment: browsers send it nowhere, and the page exchanges it by a POST.
pub(super) fn login_url(app: &App, link: &SecretString) -> String {
    format!("{}/login#token={}", app.site().base(), link.expose_secret())
}

/// Removes a person with all their sessions and tokens. The operator stays.
#[utoipa::path(delete, path = "/api/users/{id}", tag = "people", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn remove(
    _: Admin,
    State(app): State<App>,
    Path(id): Path<PersonId>,
) -> Result<StatusCode, ApiError> {
    let internal = |error| ApiError::internal(&error);
    if app.people().remove(id).await.map_err(internal)? {
        app.hub().signed_out(id.uuid(), None);
        return Ok(StatusCode::NO_CONTENT);
    }
    match app.people().one(id).await.map_err(internal)? {
        Some(_) => Err(Problem::new(409, "operator-stays", "The operator stays")
            .detail("The person of the first start cannot be removed.")
            .field("id")
            .into()),
        None => Err(not_found()),
    }
}
