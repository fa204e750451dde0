//! The egress process: the one part of the runner that may reach the internet.
//!
//! This build has no tool that leaves the house, so the process joins the mesh, says that it lives, and
//! offers nothing. It is there so that the separation is: no workspace, no engine, its own identity.

use std::{net::TcpListener, sync::Arc};

use axum::{Router, routing::get};
use kazma_mesh::{Identity, MeshError};
use kazma_runtime::Lifecycle;

use crate::executor::health;

/// Settings of the egress process: none yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {}

/// What the egress process stands on.
#[derive(Debug)]
pub struct Deps {
    /// Who this process is in the mesh: `runner-egress`.
    pub identity: Arc<Identity>,
    /// Where it listens.
    pub listener: TcpListener,
}

/// Why the egress process ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mesh cannot be joined or served.
    #[error("the mesh cannot be served")]
    Mesh(#[from] MeshError),
}

/// Runs the egress process until it is asked to end.
///
/// # Errors
///
/// Says why it cannot begin, or ended early.
pub async fn serve(_: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    tracing::info!("no tool of this build leaves the house; the egress process offers none");
    Ok(kazma_mesh::serve(deps.listener, deps.identity, router(), lifecycle.soft()).await?)
}

/// The routes of the egress process: its health alone.
pub fn router() -> Router {
    Router::new().route("/v1/health", get(health))
}
