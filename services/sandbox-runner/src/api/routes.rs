//! The HTTP surface of the runner's api process, on the mesh alone.

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    routing::{get, post},
};
use kazma_domain::Service;
use kazma_edge::Json;
use kazma_mesh::{Caller, Callers};
use kazma_wire::runner::RunnerStatus;

use super::execute::Workbench;
use crate::executor::{App, BODY_MAX, Executor, health, plan};

/// Who may see what runs code here.
#[derive(Debug)]
enum StatusReaders {}

impl Callers for StatusReaders {
    const ALLOWED: &'static [Service] = &[Service::Gateway, Service::Agent];
}

/// The routes of the api process.
pub(crate) fn routes(executor: Executor<Workbench>) -> Router {
    Router::new()
        .route("/v1/plans", post(plan::<Workbench>))
        .route("/v1/status", get(status))
        .route("/v1/health", get(health))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(App::new(executor))
}

/// `GET /v1/status`: what runs code here, and whether it does.
async fn status(_: Caller<StatusReaders>, State(app): State<App<Workbench>>) -> Json<RunnerStatus> {
    let planner = &app.executor.hands.planner;
    let workspace = planner.workspace.at().to_string();
    Json(match planner.code.status().await {
        Ok(status) => {
            let trouble = status.trouble;
            RunnerStatus {
                tier: status.sandbox.tier,
                runtime: status.sandbox.runtime,
                ready: trouble.is_none(),
                starting: trouble.as_ref().is_some_and(|trouble| trouble.starting),
                reason: trouble
                    .as_ref()
                    .map(|trouble| trouble.reason.clone())
                    .unwrap_or_default(),
                fix: trouble.map(|trouble| trouble.fix).unwrap_or_default(),
                enforcement: status.sandbox.enforcement,
                limit: status.sandbox.limit,
                pool: status.pool,
                note: status.note,
                workspace,
            }
        }
        Err(error) => RunnerStatus {
            tier: "none".to_owned(),
            runtime: String::new(),
            ready: false,
            starting: false,
            reason: format!("No code can run: {error}."),
            fix: "Wait until the broker is back.".to_owned(),
            enforcement: Vec::new(),
            limit: String::new(),
            pool: 0,
            note: String::new(),
            workspace,
        },
    })
}
