//! The `native` tier: bubblewrap jails from a pool.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use kazma_domain::Entropy;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc::UnboundedSender, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BrokerError, BrokerOptions, BrokerStatus, Chunk, Finished, Outcome, PoolDepth, Readiness,
    RunSpec, StartFailure, Tier,
    canary::{self, NotReady},
    pool::{Pool, Workshop},
};
use crate::jail::{Cgroups, Enforcement, Jail, JailError, Limits, RunLimits, Spawner, orphans};

/// How often what killed jails left is looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);
const SOON: &str = "Wait a few seconds.";

/// What the canary found.
#[derive(Debug, Clone)]
enum Stage {
    Trying,
    NotReady(NotReady),
    Proven { runtime: String, pool: Pool },
}

/// Bubblewrap jails from a pool, once a canary has proven that they hold.
#[derive(Debug)]
pub struct NativeTier {
    stage: watch::Receiver<Stage>,
    enforcement: Enforcement,
    limits: Limits,
    pool_size: usize,
    queue_bound: usize,
    queue_wait: Duration,
    queued: AtomicUsize,
    running: AtomicUsize,
    slots: Semaphore,
    clearing: TaskTracker,
}

impl NativeTier {
    /// Sends the canary and starts the pool, both in the background, until `stop`.
    pub fn start(
        options: &BrokerOptions,
        entropy: Arc<dyn Entropy>,
        stop: CancellationToken,
    ) -> Result<Self, BrokerError> {
        let template = options.template()?;
        let cgroups = Cgroups::detect(options.cgroups);
        cgroups.sweep();
        let enforcement = cgroups.enforcement();
        let spawner = Spawner::start(Handle::current())?;
        let workshop = Arc::new(Workshop::new(template, spawner, cgroups));
        let clearing = workshop.tracker();
        clearing.spawn(sweep_until(stop.clone()));
        let (stage, watched) = watch::channel(Stage::Trying);
        let (size, age, retry) = (
            options.pool_size,
            options.max_idle_age,
            options.canary_retry,
        );
        clearing.spawn(async move {
            let prove = prove(&workshop, &*entropy, retry, &stage, size, age);
            // The stage holds the pool: when this task ends, so does the pool with its idle jails.
            stop.run_until_cancelled(prove).await;
            stage.send_replace(Stage::NotReady(NotReady {
                reason: "the sandbox is shutting down".to_owned(),
                fix: "Start Kazma again.".to_owned(),
            }));
        });
        Ok(Self {
            stage: watched,
            enforcement,
            limits: options.limits,
            pool_size: options.pool_size,
            queue_bound: options.queue_bound,
            queue_wait: options.queue_wait,
            queued: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            slots: Semaphore::new(options.max_running),
            clearing,
        })
    }

    /// Waits until no jail is left. Call it after `stop`, when no run is going on.
    pub async fn cleared(&self) {
        self.clearing.close();
        self.clearing.wait().await;
        sweep().await;
    }

    /// Whether runs can start, and whether that is more than a matter of seconds.
    fn readiness(&self, stage: &Stage) -> (Readiness, bool) {
        let no = |reason: String, fix: &str| Readiness::NotReady {
            reason,
            fix: fix.to_owned(),
        };
        let pool = match stage {
            Stage::Trying => return (no("the sandbox is being tried out".to_owned(), SOON), false),
            Stage::NotReady(NotReady { reason, fix }) => return (no(reason.clone(), fix), true),
            Stage::Proven { pool, .. } => pool.state(),
        };
        let in_use = pool.idle > 0 || self.running.load(Ordering::Relaxed) > 0;
        match pool.failing {
            Some(error) if !in_use => (no(error.to_string(), "The broker keeps trying."), true),
            None if !pool.filled => (
                no("the first sandbox is being started".to_owned(), SOON),
                false,
            ),
            // Between two jails there is a queue, and that is no reason to turn anybody away.
            _ => (Readiness::Ready, true),
        }
    }

    async fn take_jail(&self, cancel: &CancellationToken) -> Result<Jail, Finished> {
        let stage = self.stage.borrow().clone();
        let pool = match (&stage, self.readiness(&stage).0) {
            (Stage::Proven { pool, .. }, _) => pool.clone(),
            (_, Readiness::NotReady { reason, fix }) => {
                return Err(Finished::not_started(StartFailure::NotReady {
                    reason,
                    fix,
                }));
            }
            (_, Readiness::Ready) => return Err(not_made(&JailError::Died)),
        };
        match cancel
            .run_until_cancelled(timeout(self.queue_wait, pool.take()))
            .await
        {
            None => Err(Finished::without_output(Outcome::Cancelled)),
            Some(Err(_)) => Err(Finished::not_started(StartFailure::QueueTimeout {
                waited: self.queue_wait,
            })),
            Some(Ok(Err(error))) => Err(not_made(&error)),
            Some(Ok(Ok(jail))) => Ok(jail),
        }
    }

    async fn run_in_turn(
        &self,
        spec: &RunSpec,
        chunks: &UnboundedSender<Chunk>,
        cancel: &CancellationToken,
    ) -> Finished {
        let Some(place) = Count::up_to(&self.queued, self.queue_bound) else {
            return Finished::not_started(StartFailure::QueueFull {
                bound: self.queue_bound,
            });
        };
        let turn = timeout(self.queue_wait, self.slots.acquire());
        let _slot = match cancel.run_until_cancelled(turn).await {
            None => return Finished::without_output(Outcome::Cancelled),
            Some(Ok(Ok(slot))) => slot,
            Some(_) => {
                return Finished::not_started(StartFailure::QueueTimeout {
                    waited: self.queue_wait,
                });
            }
        };
        let jail = match self.take_jail(cancel).await {
            Ok(jail) => jail,
            Err(finished) => return finished,
        };
        drop(place);
        let _running = Count::up_to(&self.running, usize::MAX);
        let limits = RunLimits {
            timeout: spec.timeout,
            output_cap: spec.output_cap,
        };
        jail.run(spec.code.as_bytes(), limits, chunks, cancel).await
    }
}

/// Ends what a killed broker or bubblewrap left: at once, and now and then.
async fn sweep_until(stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP_PERIOD);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        sweep().await;
    }
}

async fn sweep() {
    if let Err(error) = tokio::task::spawn_blocking(orphans::sweep).await {
        tracing::error!(%error, "looking for what killed sandboxes left broke");
    }
}

fn not_made(error: &JailError) -> Finished {
    Finished::not_started(StartFailure::Jail {
        reason: error.to_string(),
    })
}

/// Tries canaries until one comes back, then keeps the pool for ever.
async fn prove(
    workshop: &Arc<Workshop>,
    entropy: &dyn Entropy,
    retry: Duration,
    stage: &watch::Sender<Stage>,
    size: usize,
    max_age: Duration,
) {
    loop {
        match canary::send(workshop, entropy).await {
            Ok(runtime) => {
                tracing::info!(%runtime, "the sandbox holds");
                let pool = Pool::start(Arc::clone(workshop), size, max_age);
                stage.send_replace(Stage::Proven { runtime, pool });
                return std::future::pending().await;
            }
            Err(not_ready) => {
                tracing::warn!(reason = %not_ready.reason, fix = %not_ready.fix, "the sandbox is not ready");
                stage.send_replace(Stage::NotReady(not_ready));
                tokio::time::sleep(retry).await;
            }
        }
    }
}

/// One more, until dropped.
#[derive(Debug)]
struct Count<'a>(&'a AtomicUsize);

impl<'a> Count<'a> {
    fn up_to(counter: &'a AtomicUsize, bound: usize) -> Option<Self> {
        counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < bound).then(|| n + 1)
            })
            .ok()
            .map(|_| Self(counter))
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tier for NativeTier {
    fn status(&self) -> BrokerStatus {
        let stage = self.stage.borrow().clone();
        let (runtime, pool) = match &stage {
            Stage::Trying | Stage::NotReady(_) => (None, None),
            Stage::Proven { runtime, pool } => (Some(runtime.clone()), Some(pool.state())),
        };
        let pool = pool.unwrap_or_default();
        let (readiness, settled) = self.readiness(&stage);
        BrokerStatus {
            readiness,
            settled,
            tier: "native".to_owned(),
            runtime,
            enforcement: self.enforcement.clone(),
            limits: self.limits,
            pool: PoolDepth {
                size: self.pool_size,
                idle: pool.idle,
                starting: pool.starting,
                running: self.running.load(Ordering::Relaxed),
                queued: self.queued.load(Ordering::Relaxed),
                replaced: pool.replaced,
            },
        }
    }

    fn run<'a>(
        &'a self,
        spec: &'a RunSpec,
        chunks: &'a UnboundedSender<Chunk>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Finished> {
        Box::pin(self.run_in_turn(spec, chunks, cancel))
    }
}
