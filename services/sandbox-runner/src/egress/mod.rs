//! The runner's egress process: the one part of the runner that may reach the internet.
//!
//! It has an identity of its own, no workspace, no engine and no socket of the broker. What is asked for by
//! text that nobody vouches for goes through the guard of `kazma-netguard`; what the operator configured goes
//! to that origin alone.
//!
//! **Invariant:** nothing is sent, and no name is looked up, before a permit for it was redeemed.

mod arguments;
mod fetch;
mod metrics;
mod reach;
mod routes;
mod search;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use kazma_domain::{Clock, Entropy};
use kazma_mesh::{Identity, Listeners, MeshError};
use kazma_metrics::{Http, Meters, MetricError, count};
use kazma_netguard::{Client, Origin};
use kazma_runtime::Lifecycle;
use kazma_signing::VerifyingKey;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::executor::{Executor, Grounding, Registry};
use reach::Reach;

pub use metrics::Metrics;

/// Settings of the egress process.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where searches go. Setting `KAZMA_SEARXNG_URL`.
    pub search: Option<Origin>,
    /// Fetches at the same time. Each holds a body and its text, at most some 8 MiB together.
    pub slots: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            search: None,
            slots: 4,
        }
    }
}

/// What the egress process stands on.
#[derive(Debug)]
pub struct Deps {
    /// Who this process is in the mesh: `runner-egress`.
    pub identity: Arc<Identity>,
    /// Where it listens.
    pub listener: Listeners,
    /// The gate registry.
    pub registry: Arc<dyn Registry>,
    /// The registry's key for permits.
    pub permit_key: VerifyingKey,
    /// The guarded client.
    pub client: Client,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted.
    pub meters: Meters,
}

/// Why the egress process ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mesh cannot be joined or served.
    #[error("the mesh cannot be served")]
    Mesh(#[from] MeshError),
    /// What it counts cannot be set up.
    #[error("the metrics cannot be set up")]
    Metrics(#[from] MetricError),
}

/// Runs the egress process until it is asked to end.
///
/// # Errors
///
/// Says why it cannot begin, or ended early.
pub async fn serve(options: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    let on = Grounding {
        registry: deps.registry,
        key: deps.permit_key,
        clock: deps.clock,
        entropy: deps.entropy,
    };
    let slots = options.slots;
    let executor = executor(options, deps.client, on, lifecycle.hard());
    Metrics::new(&deps.meters)?.show(&deps.meters, executor.clone(), slots);
    let listening = Http::new(&deps.meters)?.on("mesh");
    let app = routes::routes(executor.clone()).layer(from_fn_with_state(listening, count));
    Ok(executor
        .serve(app, deps.identity, deps.listener, &lifecycle)
        .await?)
}

fn executor(
    options: Options,
    client: Client,
    on: Grounding,
    hard: CancellationToken,
) -> Executor<Reach> {
    let hands = Reach {
        client,
        search: options.search,
        slots: Arc::new(Semaphore::new(options.slots)),
    };
    Executor::new(on, hands, hard)
}
