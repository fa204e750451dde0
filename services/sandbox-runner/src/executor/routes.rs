//! The routes that every executor of the runner has, on the mesh alone.

use std::sync::Arc;

use axum::extract::State;
use kazma_domain::{Service, State as CallState};
use kazma_edge::{ApiError, Json, request as current};
use kazma_faults::{Point, reach};
use kazma_mesh::{Anyone, Caller, Callers};
use kazma_wire::{
    executor::{FileRequest, Proposal},
    runner::{PlanRequest, Planned},
};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::{Executor, Hands, RegistryError, finish::clipped};

/// Bytes of one request: the largest arguments, written with every character escaped, fit.
pub(crate) const BODY_MAX: usize = 2 * 1024 * 1024;
/// Plans made at the same time; each may hold two files of the largest size.
const PLANS: usize = 8;

/// The agent alone names calls.
#[derive(Debug)]
pub(crate) enum AgentOnly {}

impl Callers for AgentOnly {
    const ALLOWED: &'static [Service] = &[Service::Agent];
}

/// What the routes share.
#[derive(Debug, Clone)]
pub(crate) struct App<H> {
    pub(crate) executor: Executor<H>,
    plans: Arc<Semaphore>,
}

impl<H: Hands> App<H> {
    /// The routes' share of `executor`.
    pub(crate) fn new(executor: Executor<H>) -> Self {
        Self {
            executor,
            plans: Arc::new(Semaphore::new(PLANS)),
        }
    }
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
pub(crate) async fn plan<H: Hands>(
    caller: Caller<AgentOnly>,
    State(app): State<App<H>>,
    Json(named): Json<PlanRequest>,
) -> Result<Json<Planned>, ApiError> {
    let executor = &app.executor;
    let request = H::parse(&named.tool, &named.arguments)?;
    let proposal = {
        let _slot = app
            .plans
            .acquire()
            .await
            .map_err(|e| ApiError::internal(&e))?;
        match executor
            .hands
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
    reach(Point::Planned);
    let filed = executor.on.registry.file(&request).await.map_err(answer)?;
    current::about(filed.call.id, filed.call.thread);
    tracing::info!(
        state = filed.call.state.name(),
        "a call was planned and filed"
    );
    if let (CallState::Approved { .. }, Some(permit), Proposal::Plan(plan)) =
        (&filed.call.state, filed.permit, request.proposal)
    {
        executor.start(filed.call.clone(), *plan, Some(permit));
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
