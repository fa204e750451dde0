//! The runner's api process: it plans calls on this machine, and runs the ones that were permitted.
//!
//! **Invariant:** what acts is what was planned again just before, on descriptors that stay open.

mod arguments;
mod broker_code;
mod code;
mod command;
mod execute;
mod live;
mod metrics;
mod outcome;
mod planner;
mod query;
mod recovery;
mod routes;
#[cfg(test)]
mod tests;
mod workspace;

use std::sync::Arc;

use axum::{Router, middleware::from_fn_with_state};
use camino::Utf8PathBuf;
use kazma_domain::{Clock, Entropy};
use kazma_mesh::{Identity, Listeners, MeshError};
use kazma_metrics::{Http, Meters, MetricError, count};
use kazma_policy::argv::Profile;
use kazma_runtime::Lifecycle;
use kazma_signing::VerifyingKey;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::executor::{Executor, Grounding, Registry};

pub use code::{
    CodeError, CodeEvent, CodeRunner, CodeSpec, CodeStatus, Ended, How, Pool, Stream, Trouble,
};
pub use metrics::Metrics;
pub use workspace::{Bounds, OpenError, Pattern, RelPath, Workspace};

use execute::Workbench;
use planner::Planner;

/// Settings of the api process.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder whose files tools may touch. Setting `KAZMA_WORKSPACE`.
    pub workspace: Utf8PathBuf,
    /// How large things of the workspace may be.
    pub bounds: Bounds,
    /// The longest program, in bytes.
    pub code_bytes: usize,
    /// Bytes of each stream of a run that its result may hold.
    pub output_cap: usize,
    /// Runs of code at the same time.
    pub code_slots: usize,
    /// Calls of file tools at the same time.
    pub file_slots: usize,
    /// Which programs `shell_exec` has.
    pub shell: Profile,
    /// Whether to leave `.kazma-canary` in the workspace at the start: a random word by which a broker that cannot
    /// write there proves that its sandboxes see this workspace and no other. So where broker and api are containers.
    /// The word is evidence and no secret; who can read or write the workspace may read or write it.
    pub leave_canary: bool,
}

impl Options {
    /// The defaults, for a workspace.
    pub fn new(workspace: Utf8PathBuf) -> Self {
        Self {
            workspace,
            bounds: Bounds::default(),
            code_bytes: 128 * 1024,
            output_cap: 32_000,
            code_slots: 8,
            file_slots: 16,
            shell: Profile::DEFAULT,
            leave_canary: false,
        }
    }
}

/// What the api process stands on.
#[derive(Debug)]
pub struct Deps {
    /// Who this process is in the mesh: `runner-api`.
    pub identity: Arc<Identity>,
    /// Where it listens.
    pub listener: Listeners,
    /// The gate registry.
    pub registry: Arc<dyn Registry>,
    /// The registry's key for permits.
    pub permit_key: VerifyingKey,
    /// What runs code.
    pub code: Arc<dyn CodeRunner>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
    /// What is counted.
    pub meters: Meters,
}

/// Why the api process ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The workspace cannot be used.
    #[error("the workspace cannot be used")]
    Workspace(#[from] OpenError),
    /// The mesh cannot be joined or served.
    #[error("the mesh cannot be served")]
    Mesh(#[from] MeshError),
    /// What it counts cannot be set up.
    #[error("the metrics cannot be set up")]
    Metrics(#[from] MetricError),
}

/// Runs the api process until it is asked to end.
///
/// # Errors
///
/// Says why it cannot begin, or ended early.
pub async fn serve(options: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    let Deps {
        identity,
        listener,
        registry,
        permit_key,
        code,
        clock,
        entropy,
        meters,
    } = deps;
    let seams = Seams {
        registry,
        permit_key,
        code,
        clock,
        entropy,
    };
    let executor = executor(&options, seams, lifecycle.hard())?;
    Metrics::new(&meters)?.show(&meters, executor.clone(), &options);
    let listening = Http::new(&meters)?.on("mesh");
    let app = routes::routes(executor.clone()).layer(from_fn_with_state(listening, count));
    Ok(executor.serve(app, identity, listener, &lifecycle).await?)
}

/// What the executor asks and stands on, without the mesh.
#[derive(Debug)]
pub struct Seams {
    /// The gate registry.
    pub registry: Arc<dyn Registry>,
    /// The registry's key for permits.
    pub permit_key: VerifyingKey,
    /// What runs code.
    pub code: Arc<dyn CodeRunner>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
}

/// The routes alone, without listener and work loop. The caller's identity must be in the request as
/// `ConnectInfo<Peer>`.
///
/// # Errors
///
/// Says why the workspace cannot be used.
pub fn router(options: &Options, seams: Seams, hard: CancellationToken) -> Result<Router, Error> {
    Ok(routes::routes(executor(options, seams, hard)?))
}

fn executor(
    options: &Options,
    seams: Seams,
    hard: CancellationToken,
) -> Result<Executor<Workbench>, Error> {
    let workspace = Workspace::open(&options.workspace, options.bounds)?;
    if options.leave_canary
        && let Err(error) = workspace.leave_canary(&*seams.entropy)
    {
        // Files can still be read and written; the broker says why no code runs.
        tracing::warn!(%error, "the broker's word cannot be left in the workspace");
    }
    let hands = Workbench {
        registry: Arc::clone(&seams.registry),
        planner: Planner {
            workspace,
            code: seams.code,
            code_bytes: options.code_bytes,
            shell: options.shell,
        },
        output_cap: options.output_cap,
        code_slots: Arc::new(Semaphore::new(options.code_slots)),
        file_slots: Arc::new(Semaphore::new(options.file_slots)),
    };
    let on = Grounding {
        registry: seams.registry,
        key: seams.permit_key,
        clock: seams.clock,
        entropy: seams.entropy,
    };
    Ok(Executor::new(on, hands, hard))
}
