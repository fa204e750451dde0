//! The HTTP surface of the runner's egress process, on the mesh alone.

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{get, post},
};

use super::reach::Reach;
use crate::executor::{App, BODY_MAX, Executor, health, plan};

/// The routes of the egress process.
pub(super) fn routes(executor: Executor<Reach>) -> Router {
    Router::new()
        .route("/v1/plans", post(plan::<Reach>))
        .route("/v1/health", get(health))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(App::new(executor))
}
