//! Gates and decisions.

use axum::extract::State;
use jiff::Timestamp;
use kazma_domain::{Decision, Digest, GateId, Surface, limits::REASON_MAX};
use kazma_edge::{ApiError, Json, Path, Query};
use kazma_faults::{Point, reach};
use kazma_wire::{
    Problem,
    gateway::{DecisionRequest, ExtendRequest},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    show::{Cast, Gate},
    threads::wrong,
};
use crate::{
    access::{Approver, SignedIn, Viewer},
    app::App,
};

/// The most gates in one answer.
const GATES_MAX: u32 = 1000;
/// Gates in one answer unless asked otherwise.
const GATES: u32 = 200;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// `pending`, or `settled` for all that no longer wait; both unless set.
    #[param(value_type = Option<String>)]
    state: Option<Wanted>,
    /// At most this many, newest first; 200 unless set, at most 1,000.
    limit: Option<u32>,
    /// Only gates that come after this one in that order: the id of the last one of an earlier answer.
    #[param(value_type = Option<String>)]
    before: Option<GateId>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Pending,
    Settled,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Gates {
    /// Newest first.
    gates: Vec<Gate>,
}

/// Gates: the whole cards.
#[utoipa::path(get, path = "/api/gates", tag = "gates", params(Which),
    responses((status = 200, body = Gates), (status = 422, body = Problem)))]
pub(super) async fn list(
    _: Viewer,
    State(app): State<App>,
    Query(which): Query<Which>,
) -> Result<Json<Gates>, ApiError> {
    let limit = which.limit.unwrap_or(GATES);
    if !(1..=GATES_MAX).contains(&limit) {
        return Err(wrong(
            "limit",
            format!("It lies between 1 and {GATES_MAX}."),
        ));
    }
    let state = which.state.map(|state| match state {
        Wanted::Pending => "pending",
        Wanted::Settled => "settled",
    });
    let gates = app.registry().gates(state, limit, which.before).await?;
    Ok(Json(Gates {
        gates: gates.iter().map(Gate::from).collect(),
    }))
}

/// One gate.
#[utoipa::path(get, path = "/api/gates/{id}", tag = "gates", params(("id" = String, Path)),
    responses((status = 200, body = Gate), (status = 404, body = Problem)))]
pub(super) async fn show(
    _: Viewer,
    State(app): State<App>,
    Path(id): Path<GateId>,
) -> Result<Json<Gate>, ApiError> {
    let view = app.registry().gate(id).await?;
    Ok(Json(Gate::from(&view)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// `approve` or `deny`.
    #[schema(value_type = String)]
    decision: Decision,
    /// The `args_digest` of the card that was read.
    #[schema(value_type = String)]
    args_digest: Digest,
    /// For how much it holds: `once`. Grants (`tool`, `task`) are not in this version.
    scope: Option<String>,
    /// Why; the agent reads it. At most 2,000 bytes.
    reason: Option<String>,
    /// The chosen option of a question that has some. No card of this version has.
    option: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Taken {
    /// Whether the question is settled.
    pub(super) settled: bool,
    /// Where its calls stand now.
    pub(super) state: String,
    /// All votes so far.
    pub(super) votes: Vec<Cast>,
}

/// Decides a gate. 200 to the first, and again to the same decision by the same person; another one is a conflict that
/// says who was first.
#[utoipa::path(
    post, path = "/api/gates/{id}/decision", tag = "gates", params(("id" = String, Path)), request_body = Answer,
    responses((status = 200, body = Taken), (status = 404, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem))
)]
pub(super) async fn decide(
    approver: Approver,
    State(app): State<App>,
    Path(id): Path<GateId>,
    Json(answer): Json<Answer>,
) -> Result<Json<Taken>, ApiError> {
    match answer.scope.as_deref() {
        None | Some("once") => {}
        Some("tool" | "task") => {
            return Err(wrong(
                "scope",
                "Grants are not in this version: decide once, for this card.",
            ));
        }
        Some(_) => return Err(wrong("scope", "It is once, tool or task.")),
    }
    if answer.option.is_some() {
        return Err(wrong("option", "This card has no options."));
    }
    let surface = approver.who.surface();
    let decision = Choice {
        decision: answer.decision,
        card: answer.args_digest,
        reason: answer.reason,
    };
    let decided = decide_as(&app, &approver.who, surface, id, decision).await?;
    Ok(Json(Taken {
        settled: decided.settled,
        state: decided.state,
        votes: decided.votes.iter().map(Cast::from).collect(),
    }))
}

/// What a person says to a card.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) decision: Decision,
    pub(crate) card: Digest,
    pub(crate) reason: Option<String>,
}

pub(crate) async fn decide_as(
    app: &App,
    who: &SignedIn,
    surface: Surface,
    gate: GateId,
    choice: Choice,
) -> Result<kazma_wire::gateway::Decided, ApiError> {
    let reason = choice
        .reason
        .map(|reason| reason.trim().to_owned())
        .filter(|reason| !reason.is_empty());
    if reason
        .as_ref()
        .is_some_and(|reason| reason.len() > REASON_MAX)
    {
        return Err(wrong(
            "reason",
            format!("It has at most {REASON_MAX} bytes."),
        ));
    }
    let electorate = app
        .people()
        .electorate()
        .await
        .map_err(|error| ApiError::internal(&error))?;
    let request = DecisionRequest {
        actor: who.actor(),
        surface,
        decision: choice.decision,
        card: choice.card,
        electorate: electorate.max(1),
        reason,
    };
    let decided = app.registry().decide(gate, request).await;
    reach(Point::Answering);
    decided.map_err(|error| {
        let ApiError(mut problem) = error.into();
        // The registry calls it the card; people send it under another name.
        if problem.field.as_deref() == Some("card") {
            problem.field = Some("args_digest".to_owned());
        }
        ApiError(problem)
    })
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MoreTime {
    /// Until when the card can be answered now.
    #[schema(value_type = String)]
    expires_at: Timestamp,
}

/// Gives a card more time: ten minutes from now, where less than that is left. The card stays the card.
#[utoipa::path(
    post, path = "/api/gates/{id}/extend", tag = "gates", params(("id" = String, Path)),
    responses((status = 200, body = MoreTime), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn extend(
    approver: Approver,
    State(app): State<App>,
    Path(id): Path<GateId>,
) -> Result<Json<MoreTime>, ApiError> {
    let expires_at = extend_as(&app, &approver.who, id).await?;
    Ok(Json(MoreTime { expires_at }))
}

pub(crate) async fn extend_as(
    app: &App,
    who: &SignedIn,
    gate: GateId,
) -> Result<Timestamp, ApiError> {
    let actor = who.actor();
    let extended = app.registry().extend(gate, ExtendRequest { actor }).await?;
    Ok(extended.expires_at)
}
