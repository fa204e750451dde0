//! The executor's core, the same in every process of the runner that carries out calls.
//!
//! ```text
//! agent ── POST /v1/plans ──▶ plan ── POST /v1/calls ──▶ registry
//! registry ◀── GET /v1/work ── executor: permit, check, plan again, redeem, act, settle
//! ```
//!
//! What differs from process to process is what it can do: its [`Hands`].
//!
//! **Invariants:** nothing acts without a [`Redeemed`], which only a redeemed permit becomes; what acts is
//! what was planned again just before; a call runs at most once.

mod begun;
mod carry;
#[cfg(test)]
pub(crate) mod doubles;
mod fields;
mod finish;
mod hands;
mod mesh_registry;
mod permit;
mod recovery;
mod refused;
mod registry;
mod retry;
mod routes;
mod work;

use std::sync::{Arc, atomic::AtomicU64};

use axum::Router;
use kazma_domain::{Clock, Entropy};
use kazma_mesh::{Identity, Listeners, MeshError};
use kazma_metrics::{Counters, Gauges, Meters, MetricError};
use kazma_runtime::Lifecycle;
use kazma_signing::VerifyingKey;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use mesh_registry::MeshRegistry;
pub use permit::Redeemed;
pub use refused::Refused;
pub use registry::{Asked, Registry, RegistryError};

pub(crate) use fields::{Fields, wrong};
pub(crate) use finish::{Finish, failed};
pub(crate) use hands::{Hands, Prepared};
pub(crate) use routes::{App, BODY_MAX, health, plan};

use begun::Begun;

/// How many calls an executor holds.
///
/// # Errors
///
/// Refuses a second registration.
pub(crate) fn held_calls(meters: &Meters) -> Result<Gauges<0>, MetricError> {
    meters.gauges(
        "kazma_runner_calls_held",
        "Calls that this process has begun and not yet reported as ended.",
        [],
    )
}

/// Plans that were no longer what would run.
///
/// # Errors
///
/// Refuses a second registration.
pub(crate) fn changed_plans(meters: &Meters) -> Result<Counters<0>, MetricError> {
    let changed = meters.counters(
        "kazma_plans_changed_total",
        "Permitted calls that would have done something else than their plan says: planned again where a rule allowed them, \
         refused where a person was asked.",
        [],
    )?;
    changed.add([], 0);
    Ok(changed)
}

/// What the core asks and stands on.
#[derive(Debug, Clone)]
pub(crate) struct Grounding {
    /// The gate registry.
    pub(crate) registry: Arc<dyn Registry>,
    /// The registry's key for permits.
    pub(crate) key: VerifyingKey,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// Carries out calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Executor<H> {
    pub(crate) on: Grounding,
    pub(crate) hands: H,
    pub(crate) begun: Begun,
    /// How many plans were no longer what would run.
    pub(crate) changed: Arc<AtomicU64>,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when what still runs shall stop at once.
    pub(crate) hard: CancellationToken,
}

impl<H: Hands> Executor<H> {
    /// An executor with these hands, until `hard`.
    pub(crate) fn new(on: Grounding, hands: H, hard: CancellationToken) -> Self {
        Self {
            on,
            hands,
            begun: Begun::default(),
            changed: Arc::default(),
            tasks: TaskTracker::new(),
            hard,
        }
    }

    /// Answers on the mesh and carries out calls until asked to end; what runs then may finish.
    ///
    /// # Errors
    ///
    /// Says why it cannot be served.
    pub(crate) async fn serve(
        self,
        app: Router,
        identity: Arc<Identity>,
        listener: Listeners,
        lifecycle: &Lifecycle,
    ) -> Result<(), MeshError> {
        let stop = lifecycle.soft().child_token();
        let http = async {
            let served = kazma_mesh::serve(listener, identity, app, stop.clone()).await;
            stop.cancel();
            served
        };
        let (served, ()) = tokio::join!(http, self.run(&stop));
        self.tasks.close();
        let hard = lifecycle.hard();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = hard.cancelled() => {}
        }
        served
    }

    /// What is done beside answering: the past first, then work, and reports throughout.
    async fn run(&self, stop: &CancellationToken) {
        let work = async {
            // Asked for before any new work is taken, so that nothing of this process is among them.
            if let Some(claims) = self.old_claims(stop.clone()).await {
                let past = self.clone();
                self.tasks.spawn(async move { past.recover(claims).await });
                self.fetch_work(stop.clone()).await;
            }
        };
        tokio::join!(work, self.report_claims(stop.clone()));
    }
}
