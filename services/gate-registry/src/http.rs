//! The registry's routes. Each names who may call it; no route is anybody's.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use kazma_domain::permit::SignedPermit;
use kazma_domain::{CallId, GateId, Service, ThreadId, TurnId};
use kazma_edge::{ApiError, Json, Path, Query};
use kazma_mesh::{Caller, Callers};
use kazma_wire::{
    agent::{Entry, FinishRequest, LiveTurn, ProgressRequest, TurnCall, UnroutableRequest},
    executor::{
        Claim, FileRequest, Filed, LoseRequest, OutputRequest, RedeemRequest, Redeemed,
        ReplanRequest, ReportRequest, SettleRequest, WithdrawRequest, Work,
    },
    gateway::{
        AbortRequest, Decided, DecisionRequest, ExtendRequest, Extended, GateQuery, NewMessage,
        NewThread, ThreadCreated, ThreadSummary, TurnOpened,
    },
    mesh::{JoinRequest, Leaf, RenewRequest},
    poll::{Poll, Polled},
    view::{GateView, ThreadView},
};
use serde::{Deserialize, Serialize};

use crate::{Error, Registry};

/// Bytes of a body, unless a route says otherwise.
const BODY: usize = 64 * 1024;
/// Bytes of a body with arguments, a plan, an output or a long text: escaped, they grow.
const LARGE_BODY: usize = 4 * 1024 * 1024;

type App = State<Arc<Registry>>;
type Answer<T> = Result<Json<T>, ApiError>;
type Done = Result<StatusCode, ApiError>;

/// The agent alone.
enum Agent {}
impl Callers for Agent {
    const ALLOWED: &'static [Service] = &[Service::Agent];
}

/// The gateway alone.
enum Gateway {}
impl Callers for Gateway {
    const ALLOWED: &'static [Service] = &[Service::Gateway];
}

/// Those who run calls.
enum Executors {}
impl Callers for Executors {
    const ALLOWED: &'static [Service] =
        &[Service::RunnerApi, Service::RunnerEgress, Service::Gateway];
}

/// Every route of the registry.
pub fn router(registry: Arc<Registry>) -> Router {
    let large = Router::new()
        .route("/v1/calls", post(file))
        .route("/v1/calls/unroutable", post(unroutable))
        .route("/v1/calls/{id}/output", post(output))
        .route("/v1/calls/{id}/settle", post(settle))
        .route("/v1/turns/{id}/finish", post(finish))
        .route("/v1/threads/{id}/messages", post(message))
        .layer(DefaultBodyLimit::max(LARGE_BODY));
    Router::new()
        // Whether it serves; a caller without a certificate may ask, and learns nothing else.
        .route("/v1/health", get(health))
        .route("/v1/mesh/join", post(join))
        .route("/v1/mesh/renew", post(renew))
        // The agent.
        .route("/v1/turns", get(turns))
        .route("/v1/turns/{id}/calls", get(turn_calls))
        .route("/v1/turns/{id}/progress", post(progress))
        .route("/v1/threads/{id}/ledger", get(ledger))
        // Executors.
        .route("/v1/work", get(work))
        .route("/v1/claims", get(claims))
        .route("/v1/claims/report", post(report))
        .route("/v1/calls/{id}/permit", post(collect))
        .route("/v1/calls/{id}/replan", post(replan))
        .route("/v1/calls/{id}/withdraw", post(withdraw))
        .route("/v1/calls/{id}/lose", post(lose))
        .route("/v1/permits/redeem", post(redeem))
        // The gateway.
        .route("/v1/threads", get(threads).post(new_thread))
        .route("/v1/threads/{id}", get(thread))
        .route("/v1/gates", get(gates))
        .route("/v1/gates/{id}", get(gate))
        .route("/v1/gates/{id}/extend", post(extend))
        .route("/v1/gates/{id}/decision", post(decision))
        .route("/v1/turns/{id}/abort", post(abort))
        .route("/v1/events", get(events))
        .layer(DefaultBodyLimit::max(BODY))
        .merge(large)
        .fallback(kazma_edge::fallback)
        .method_not_allowed_fallback(kazma_edge::method_not_allowed)
        .with_state(registry)
}

fn answer<T>(result: Result<T, Error>) -> Answer<T> {
    Ok(Json(result?))
}

fn done<T>(result: Result<T, Error>) -> Done {
    result?;
    Ok(StatusCode::NO_CONTENT)
}

/// An empty JSON object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

async fn join(State(app): App, Json(body): Json<JoinRequest>) -> Answer<Leaf> {
    answer(app.join(body).await)
}

async fn renew(State(app): App, Json(body): Json<RenewRequest>) -> Answer<Leaf> {
    answer(app.renew(body).await)
}

async fn turns(
    _: Caller<Agent>,
    State(app): App,
    Query(poll): Query<Poll>,
) -> Answer<Polled<LiveTurn>> {
    answer(app.live_turns(poll).await)
}

async fn turn_calls(
    _: Caller<Agent>,
    State(app): App,
    Path(turn): Path<TurnId>,
    Query(poll): Query<Poll>,
) -> Answer<Polled<TurnCall>> {
    answer(app.turn_calls(turn, poll).await)
}

async fn progress(
    _: Caller<Agent>,
    State(app): App,
    Path(turn): Path<TurnId>,
    Json(body): Json<ProgressRequest>,
) -> Done {
    done(app.progress(turn, body).await)
}

async fn finish(
    _: Caller<Agent>,
    State(app): App,
    Path(turn): Path<TurnId>,
    Json(body): Json<FinishRequest>,
) -> Done {
    done(app.finish(turn, body).await)
}

async fn ledger(
    _: Caller<Agent>,
    State(app): App,
    Path(thread): Path<ThreadId>,
    Query(poll): Query<Poll>,
) -> Answer<Polled<Entry>> {
    answer(app.ledger(thread, poll.after).await)
}

async fn unroutable(
    caller: Caller<Agent>,
    State(app): App,
    Json(body): Json<UnroutableRequest>,
) -> Answer<Filed> {
    answer(app.file_unroutable(caller.service, body).await)
}

async fn file(
    caller: Caller<Executors>,
    State(app): App,
    Json(body): Json<FileRequest>,
) -> Answer<Filed> {
    answer(app.file(caller.service, body).await)
}

async fn work(
    caller: Caller<Executors>,
    State(app): App,
    Query(poll): Query<Poll>,
) -> Answer<Polled<Work>> {
    answer(app.work(caller.service, poll).await)
}

async fn claims(caller: Caller<Executors>, State(app): App) -> Answer<Polled<Claim>> {
    answer(app.claims(caller.service).await)
}

async fn report(
    caller: Caller<Executors>,
    State(app): App,
    Json(body): Json<ReportRequest>,
) -> Done {
    done(app.report(caller.service, body).await)
}

async fn collect(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(Nothing {}): Json<Nothing>,
) -> Answer<SignedPermit> {
    answer(app.collect(caller.service, call).await)
}

async fn redeem(
    caller: Caller<Executors>,
    State(app): App,
    Json(body): Json<RedeemRequest>,
) -> Answer<Redeemed> {
    answer(app.redeem(caller.service, body).await)
}

async fn output(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(body): Json<OutputRequest>,
) -> Done {
    done(app.output(caller.service, call, body).await)
}

async fn settle(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(body): Json<SettleRequest>,
) -> Done {
    done(app.settle(caller.service, call, body).await)
}

async fn replan(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(body): Json<ReplanRequest>,
) -> Answer<SignedPermit> {
    answer(app.replan(caller.service, call, body).await)
}

async fn withdraw(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(body): Json<WithdrawRequest>,
) -> Done {
    done(app.withdraw(caller.service, call, body).await)
}

async fn lose(
    caller: Caller<Executors>,
    State(app): App,
    Path(call): Path<CallId>,
    Json(body): Json<LoseRequest>,
) -> Done {
    done(app.lose(caller.service, call, body).await)
}

async fn new_thread(
    _: Caller<Gateway>,
    State(app): App,
    Json(body): Json<NewThread>,
) -> Answer<ThreadCreated> {
    answer(app.new_thread(body).await)
}

async fn message(
    _: Caller<Gateway>,
    State(app): App,
    Path(thread): Path<ThreadId>,
    Json(body): Json<NewMessage>,
) -> Answer<TurnOpened> {
    answer(app.new_message(thread, body).await)
}

async fn threads(_: Caller<Gateway>, State(app): App) -> Answer<Vec<ThreadSummary>> {
    answer(app.threads().await)
}

async fn thread(
    _: Caller<Gateway>,
    State(app): App,
    Path(thread): Path<ThreadId>,
) -> Answer<ThreadView> {
    answer(app.thread(thread).await)
}

async fn gates(
    _: Caller<Gateway>,
    State(app): App,
    Query(query): Query<GateQuery>,
) -> Answer<Vec<GateView>> {
    answer(app.gates(query).await)
}

async fn gate(_: Caller<Gateway>, State(app): App, Path(gate): Path<GateId>) -> Answer<GateView> {
    answer(app.gate(gate).await)
}

async fn decision(
    _: Caller<Gateway>,
    State(app): App,
    Path(gate): Path<GateId>,
    Json(body): Json<DecisionRequest>,
) -> Answer<Decided> {
    answer(app.decide(gate, body).await)
}

async fn extend(
    _: Caller<Gateway>,
    State(app): App,
    Path(gate): Path<GateId>,
    Json(body): Json<ExtendRequest>,
) -> Answer<Extended> {
    answer(app.extend(gate, body).await)
}

async fn abort(
    _: Caller<Gateway>,
    State(app): App,
    Path(turn): Path<TurnId>,
    Json(body): Json<AbortRequest>,
) -> Done {
    done(app.abort(turn, body).await)
}

async fn events(
    _: Caller<Gateway>,
    State(app): App,
    Query(poll): Query<Poll>,
) -> Result<Response, ApiError> {
    let lines = Body::from_stream(app.follow(poll.after));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}
