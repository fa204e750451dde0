//! The HTTP surface of the runner's api process, on the mesh alone.

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    routing::{get, post},
};
use kazma_domain::{Service, State as CallState};
use kazma_edge::{ApiError, Json};
use kazma_mesh::{Anyone, Caller, Callers};
use kazma_wire::{
    executor::{FileRequest, Proposal},
    runner::{PlanRequest, Planned, RunnerStatus},
};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::{
    arguments::Request,
    execute::{Executor, clipped},
    registry::RegistryError,
};

/// Bytes of one request: the largest arguments, written with every character escaped, fit.
const BODY_MAX: usize = 2 * 1024 * 1024;
/// Plans made at the same time; each may hold two files of the largest size.
const PLANS: usize = 8;

/// The agent alone names calls.
#[derive(Debug)]
enum AgentOnly {}

impl Callers for AgentOnly {
    const ALLOWED: &'static [Service] = &[Service::Agent];
}

/// Who may see what runs code here.
#[derive(Debug)]
enum StatusReaders {}

impl Callers for StatusReaders {
    const ALLOWED: &'static [Service] = &[Service::Gateway, Service::Agent];
}

#[derive(Debug, Clone)]
struct App {
    executor: Executor,
    plans: Arc<Semaphore>,
}

/// The routes of the api process.
pub(crate) fn routes(executor: Executor) -> Router {
    Router::new()
        .route("/v1/plans", post(plan))
        .route("/v1/status", get(status))
        .route("/v1/health", get(health))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(App {
            executor,
            plans: Arc::new(Semaphore::new(PLANS)),
        })
}

/// What a process that serves says of itself.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    /// Always `ok`: a process that is not does not answer.
    pub(crate) status: &'static str,
}

/// `GET /v1/health`, the same for every process of the runner.
pub(crate) async fn health(_: Caller<Anyone>) -> Json<Health> {
    Json(Health { status: "ok" })
}

/// `POST /v1/plans`: what a call would do is planned and filed. Nothing is done here.
async fn plan(
    caller: Caller<AgentOnly>,
    State(app): State<App>,
    Json(named): Json<PlanRequest>,
) -> Result<Json<Planned>, ApiError> {
    let request = Request::parse(&named.tool, &named.arguments)?;
    let proposal = {
        let _slot = app
            .plans
            .acquire()
            .await
            .map_err(|e| ApiError::internal(&e))?;
        match app
            .executor
            .planner
            .prepare(&named.tool, &named.arguments, request)
            .await
        {
            Ok(prepared) => Proposal::Plan(Box::new(prepared.plan)),
            Err(refused) => Proposal::Refuse {
                rule: refused.rule.to_owned(),
                reason: clipped(&refused.reason),
            },
        }
    };
    let request = FileRequest {
        thread: named.thread,
        turn: named.turn,
        index: named.index,
        tool: named.tool,
        arguments: named.arguments,
        principal: caller.service,
        proposal,
    };
    let filed = app.executor.registry.file(&request).await.map_err(answer)?;
    if let (CallState::Approved { .. }, Some(permit), Proposal::Plan(plan)) =
        (&filed.call.state, filed.permit, request.proposal)
    {
        app.executor.start(filed.call.clone(), *plan, Some(permit));
    }
    Ok(Json(Planned { call: filed.call }))
}

fn answer(error: RegistryError) -> ApiError {
    match error {
        RegistryError::Refused(problem) => ApiError(*problem),
        RegistryError::Lost(cause) => {
            tracing::warn!(error = cause.to_string(), "a call could not be filed");
            ApiError::unavailable(
                "The gate registry does not answer. Name the call again, with the same index.",
            )
        }
    }
}

/// `GET /v1/status`: what runs code here, and whether it does.
async fn status(_: Caller<StatusReaders>, State(app): State<App>) -> Json<RunnerStatus> {
    let planner = &app.executor.planner;
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
