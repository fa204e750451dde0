//! The reference system's routes, on the same registry. Source: its HTTP API, facts 3e.

#![expect(
    clippy::struct_field_names,
    reason = "the names are the API's, and part of its contract"
)]

use axum::{
    body::Bytes,
    extract::{FromRequest as _, Request, State},
};
use kazma_domain::{Decision, Digest, GateId, ThreadId, TurnId};
use kazma_edge::{ApiError, Json, Path, not_found};
use kazma_wire::{Problem, view::GateView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    gates::{Choice, decide_as},
    show::Gate,
};
use crate::{
    access::{Approver, Chatter, Viewer},
    app::App,
};

/// The reference ignores what it does not know, `actor` above all: who decides is who is signed in.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct Approve {
    /// `approve` or `deny`; nothing is `deny`.
    action: Option<String>,
    /// Which gate; needed where several wait in the thread.
    #[schema(value_type = Option<String>)]
    gate_id: Option<GateId>,
    /// Another name of `gate_id`.
    #[schema(value_type = Option<String>)]
    interrupt_id: Option<GateId>,
    /// The card that was read. Without it the card as it is now is answered.
    #[schema(value_type = Option<String>)]
    args_digest: Option<Digest>,
    /// Why.
    reason: Option<String>,
    /// `once`. Any other scope counts as `once` in this version.
    #[expect(dead_code, reason = "read for its type; every scope is once")]
    scope: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Approved {
    ok: bool,
    approved: bool,
    #[schema(value_type = String)]
    thread_id: ThreadId,
    #[schema(value_type = String)]
    turn_id: TurnId,
    /// Whether the call goes on.
    running: bool,
    #[schema(value_type = String)]
    interrupt_id: GateId,
    #[schema(value_type = String)]
    gate_id: GateId,
    hitl_state: String,
    scope: &'static str,
    view: Gate,
}

/// Decides the card that waits in a thread.
#[utoipa::path(
    post, path = "/api/approve/{thread_id}", tag = "reference", params(("thread_id" = String, Path)), request_body = Approve,
    responses((status = 200, body = Approved), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem), (status = 429, body = Problem))
)]
pub(super) async fn approve(
    approver: Approver,
    State(app): State<App>,
    Path(thread): Path<ThreadId>,
    request: Request,
) -> Result<Json<Approved>, ApiError> {
    app.limits().approval(approver.who.credential)?;
    let body = body(request).await?;
    let decision = match body.action.as_deref() {
        None | Some("deny") => Decision::Deny,
        Some("approve") => Decision::Approve,
        Some(_) => return Err(super::threads::wrong("action", "It is approve or deny.")),
    };
    let view = app.registry().thread(thread).await?;
    let gate = chosen(&view.gates, body.gate_id.or(body.interrupt_id))?;
    let choice = Choice {
        decision,
        card: body.args_digest.unwrap_or(gate.args_digest),
        reason: body.reason,
    };
    let surface = approver.who.surface();
    let decided = decide_as(&app, &approver.who, surface, gate.gate, choice)
        .await
        .map_err(as_reference)?;
    let shown = app
        .registry()
        .gate(gate.gate)
        .await
        .unwrap_or_else(|_| gate.clone());
    Ok(Json(Approved {
        ok: true,
        approved: decision == Decision::Approve,
        thread_id: thread,
        turn_id: gate.turn,
        running: decision == Decision::Approve && decided.settled,
        interrupt_id: gate.gate,
        gate_id: gate.gate,
        hitl_state: decided.state,
        scope: "once",
        view: Gate::from(&shown),
    }))
}

/// No body at all is an empty object, which denies; one that is no JSON is 400.
async fn body(request: Request) -> Result<Approve, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = Bytes::from_request(Request::new(body), &())
        .await
        .map_err(|_| {
            ApiError(Problem::new(413, "too-large", "The body is too large").field("body"))
        })?;
    if bytes.is_empty() {
        return Ok(Approve::default());
    }
    let request = Request::from_parts(parts, bytes.into());
    Ok(Json::from_request(request, &()).await?.0)
}

fn chosen(gates: &[GateView], wanted: Option<GateId>) -> Result<&GateView, ApiError> {
    if let Some(wanted) = wanted {
        return gates
            .iter()
            .find(|gate| gate.gate == wanted)
            .ok_or_else(|| {
                conflict("foreign", "This gate is not one of this thread's.")
                    .with("gate_id", wanted.to_string())
                    .into()
            });
    }
    let waiting: Vec<&GateView> = gates
        .iter()
        .filter(|gate| gate.state == "pending")
        .collect();
    match waiting.as_slice() {
        [one] => Ok(one),
        [] => {
            let last = gates.last().map_or("not_pending", |gate| {
                if gate.state == "expired" {
                    "expired"
                } else {
                    "not_pending"
                }
            });
            Err(conflict(last, "No card waits in this thread.").into())
        }
        several => {
            let ids: Vec<Value> = several
                .iter()
                .map(|gate| Value::from(gate.gate.to_string()))
                .collect();
            Err(conflict(
                "ambiguous",
                "Several cards wait in this thread: name one as gate_id.",
            )
            .field("gate_id")
            .with("gate_ids", ids)
            .into())
        }
    }
}

fn conflict(reason: &str, detail: &str) -> Problem {
    Problem::new(409, "not-pending", "Nothing to decide")
        .detail(detail)
        .with("reason", reason)
        .with("registry_state", reason)
}

/// The reference calls an approved gate on its way `inflight`.
fn as_reference(error: ApiError) -> ApiError {
    let ApiError(problem) = error;
    if problem.status != 409 {
        return ApiError(problem);
    }
    let state = match problem.more.get("state").and_then(Value::as_str) {
        Some("approved" | "claimed") => "inflight".to_owned(),
        Some(state) => state.to_owned(),
        None if problem.is("card-changed") => "pending".to_owned(),
        None => "decided".to_owned(),
    };
    ApiError(problem.with("registry_state", state))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Pending {
    ok: bool,
    count: usize,
    /// Newest first.
    pending: Vec<Waiting>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Waiting {
    #[schema(value_type = String)]
    interrupt_id: GateId,
    hitl_state: String,
    #[serde(flatten)]
    gate: Gate,
}

/// Every card that waits.
#[utoipa::path(get, path = "/api/pending-approvals", tag = "reference", responses((status = 200, body = Pending)))]
pub(super) async fn pending(_: Viewer, State(app): State<App>) -> Result<Json<Pending>, ApiError> {
    let gates = app.registry().gates(Some("pending"), 1000, None).await?;
    let pending: Vec<Waiting> = gates
        .iter()
        .map(|view| Waiting {
            interrupt_id: view.gate,
            hitl_state: view.state.clone(),
            gate: Gate::from(view),
        })
        .collect();
    Ok(Json(Pending {
        ok: true,
        count: pending.len(),
        pending,
    }))
}

/// Approves a step of a swarm task. There is no swarm in this version, so there is no such task.
#[utoipa::path(post, path = "/api/swarm/tasks/{id}/approve", tag = "reference", params(("id" = String, Path)),
    responses((status = 404, body = Problem)))]
pub(super) async fn approve_task(_: Chatter, Path(_): Path<String>) -> ApiError {
    no_task()
}

/// Rejects a step of a swarm task. There is no swarm in this version, so there is no such task.
#[utoipa::path(post, path = "/api/swarm/tasks/{id}/reject", tag = "reference", params(("id" = String, Path)),
    responses((status = 404, body = Problem)))]
pub(super) async fn reject_task(_: Chatter, Path(_): Path<String>) -> ApiError {
    no_task()
}

fn no_task() -> ApiError {
    let ApiError(problem) = not_found();
    ApiError(problem.detail("There is no such task.").field("id"))
}
