//! Whether it lives, whether it is ready, and what runs.

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use jiff::Timestamp;
use kazma_edge::{ApiError, Json};
use kazma_store::gateway as store;
use kazma_wire::runner::RunnerStatus;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{access::Viewer, app::App};

/// How long another service may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// The largest list of services.
const LIST_MAX: u64 = 256 * 1024;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Alive {
    status: &'static str,
    #[schema(value_type = String)]
    timestamp: Timestamp,
}

/// Whether this process lives.
#[utoipa::path(get, path = "/health/live", tag = "health", security(()), responses((status = 200, body = Alive)))]
pub(super) async fn live(State(app): State<App>) -> Json<Alive> {
    Json(Alive {
        status: "alive",
        timestamp: app.people().now(),
    })
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    /// `ready` or `not_ready`.
    status: &'static str,
    checks: Checks,
}

#[derive(Debug, Serialize, ToSchema)]
struct Checks {
    database: bool,
    gate_registry: bool,
    runner: bool,
}

/// Whether people can be served: 503 where not.
#[utoipa::path(get, path = "/health/ready", tag = "health", security(()),
    responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(super) async fn ready(State(app): State<App>) -> (StatusCode, Json<Ready>) {
    let people = app.people();
    let (database, registry, runner) = tokio::join!(
        people
            .database()
            .read::<_, kazma_store::StoreError, _>(|tx| Box::pin(store::cursor(tx))),
        tokio::time::timeout(PATIENCE, app.registry().alive()),
        runner_status(&app),
    );
    let checks = Checks {
        database: database.is_ok(),
        gate_registry: matches!(registry, Ok(Ok(()))),
        runner: runner.is_some_and(|runner| runner.ready),
    };
    let ready = checks.database && checks.gate_registry && checks.runner;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(Ready {
            status: if ready { "ready" } else { "not_ready" },
            checks,
        }),
    )
}

/// What the runner says of itself, if it does.
pub(crate) async fn runner_status(app: &App) -> Option<RunnerStatus> {
    tokio::time::timeout(PATIENCE, app.runner().status())
        .await
        .ok()?
        .ok()
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Details {
    status: &'static str,
    version: &'static str,
    /// What the supervisor runs: name, pid, state.
    #[schema(value_type = Vec<Object>)]
    services: Value,
    #[schema(value_type = Option<Object>)]
    runner: Option<RunnerStatus>,
    model: Model,
    production: bool,
    proxy: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
struct Model {
    name: String,
    demo: bool,
}

/// What runs, for people who are signed in.
#[utoipa::path(get, path = "/health/details", tag = "health", responses((status = 200, body = Details)))]
pub(super) async fn details(_: Viewer, State(app): State<App>) -> Result<Json<Details>, ApiError> {
    let (services, runner) = tokio::join!(services(&app), runner_status(&app));
    Ok(Json(Details {
        status: if runner.as_ref().is_some_and(|runner| runner.ready) {
            "ready"
        } else {
            "not_ready"
        },
        version: env!("CARGO_PKG_VERSION"),
        services,
        runner,
        model: Model {
            name: app.model().name.clone(),
            demo: app.model().demo,
        },
        production: app.is_production(),
        proxy: app.proxies().state().0,
    }))
}

/// The supervisor's list; empty where there is none, as in a cluster.
async fn services(app: &App) -> Value {
    let nothing = Value::Array(Vec::new());
    let path = app.services_file();
    let size = tokio::fs::metadata(path)
        .await
        .map_or(LIST_MAX + 1, |data| data.len());
    if size > LIST_MAX {
        return nothing;
    }
    let Ok(bytes) = tokio::fs::read(path).await else {
        return nothing;
    };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Array(services)) => Value::Array(services),
        Ok(Value::Object(mut list)) => list
            .remove("services")
            .filter(Value::is_array)
            .unwrap_or(nothing),
        _ => nothing,
    }
}
