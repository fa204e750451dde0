//! A tier whose sandboxes come from a pool, once a canary has proven that they hold.

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
    sync::{Semaphore, mpsc::UnboundedSender, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BrokerOptions, BrokerStatus, Chunk, Finished, Outcome, PoolDepth, Readiness, RunSpec,
    StartFailure, Tier,
    canary::{self, NotReady},
    pool::{Keep, Pool},
    workshop::{Face, Made, Workshop},
};
use crate::jail::RunLimits;

const SOON: &str = "Wait a few seconds.";

/// What the canary found.
#[derive(Debug)]
enum Stage<W: Workshop> {
    Trying,
    NotReady(NotReady),
    Proven { runtime: String, pool: Pool<W> },
}

impl<W: Workshop> Clone for Stage<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Trying => Self::Trying,
            Self::NotReady(not_ready) => Self::NotReady(not_ready.clone()),
            Self::Proven { runtime, pool } => Self::Proven {
                runtime: runtime.clone(),
                pool: pool.clone(),
            },
        }
    }
}

/// Sandboxes of one workshop from a pool.
#[derive(Debug)]
pub(super) struct PooledTier<W: Workshop> {
    workshop: Arc<W>,
    stage: watch::Receiver<Stage<W>>,
    pool_size: usize,
    queue_bound: usize,
    queue_wait: Duration,
    queued: AtomicUsize,
    running: AtomicUsize,
    slots: Semaphore,
    clearing: TaskTracker,
    note: String,
}

impl<W: Workshop> PooledTier<W> {
    /// Sends the canary and starts the pool, both in the background, until `stop`. `note` says why this
    /// tier was chosen.
    pub(super) fn start(
        workshop: W,
        options: &BrokerOptions,
        note: String,
        entropy: Arc<dyn Entropy>,
        stop: CancellationToken,
    ) -> Self {
        let workshop = Arc::new(workshop);
        let clearing = workshop.tracker();
        let (stage, watched) = watch::channel(Stage::Trying);
        let retry = options.canary_retry;
        let keep = Keep {
            size: options.pool_size,
            max_age: options.max_idle_age,
            spare_memory: options.spare_memory,
        };
        let maker = Arc::clone(&workshop);
        clearing.spawn(async move {
            let prove = prove(&maker, &*entropy, retry, &stage, keep);
            // The stage holds the pool: when this task ends, so does the pool with its idle sandboxes.
            stop.run_until_cancelled(prove).await;
            stage.send_replace(Stage::NotReady(NotReady::new(
                "the sandbox is shutting down",
                "Start Kazma again.",
            )));
        });
        Self {
            workshop,
            stage: watched,
            pool_size: options.pool_size,
            queue_bound: options.queue_bound,
            queue_wait: options.queue_wait,
            queued: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            slots: Semaphore::new(options.max_running),
            clearing,
            note,
        }
    }

    /// Waits until no sandbox is left. Call it after the stop, when no run is going on.
    pub(super) async fn cleared(&self) {
        self.clearing.close();
        self.clearing.wait().await;
    }

    /// Whether runs can start, and whether that is more than a matter of seconds.
    fn readiness(&self, stage: &Stage<W>) -> (Readiness, bool) {
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
            // Between two sandboxes there is a queue, and that is no reason to turn anybody away.
            _ => (Readiness::Ready, true),
        }
    }

    async fn take(&self, cancel: &CancellationToken) -> Result<W::Made, Finished> {
        let stage = self.stage.borrow().clone();
        let pool = match (&stage, self.readiness(&stage).0) {
            (Stage::Proven { pool, .. }, _) => pool.clone(),
            (_, Readiness::NotReady { reason, fix }) => {
                return Err(Finished::not_started(StartFailure::NotReady {
                    reason,
                    fix,
                }));
            }
            (_, Readiness::Ready) => return Err(not_made(&W::DIED)),
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
            Some(Ok(Ok(made))) => Ok(made),
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
        let made = match self.take(cancel).await {
            Ok(made) => made,
            Err(finished) => return finished,
        };
        if spec.image.is_some() && made.image() != spec.image.as_deref() {
            return Finished::not_started(StartFailure::Jail {
                reason: "the sandbox's image is another than the one that was asked for".to_owned(),
            });
        }
        drop(place);
        let _running = Count::up_to(&self.running, usize::MAX);
        let limits = RunLimits {
            timeout: spec.timeout,
            output_cap: spec.output_cap,
        };
        made.run(spec.code.as_bytes(), limits, chunks, cancel).await
    }
}

fn not_made(error: &impl ToString) -> Finished {
    Finished::not_started(StartFailure::Jail {
        reason: error.to_string(),
    })
}

/// Tries canaries until one comes back, then keeps the pool for as long as what it stands on holds.
async fn prove<W: Workshop>(
    workshop: &Arc<W>,
    entropy: &dyn Entropy,
    retry: Duration,
    stage: &watch::Sender<Stage<W>>,
    keep: Keep,
) {
    loop {
        let proof = async {
            workshop.prepare().await?;
            canary::send(&**workshop, entropy).await
        };
        match proof.await {
            Ok(runtime) => {
                tracing::info!(%runtime, "the sandbox holds");
                let pool = Pool::start(Arc::clone(workshop), keep);
                stage.send_replace(Stage::Proven { runtime, pool });
                workshop.stale().await;
                tracing::warn!("the sandbox is tried out anew");
                stage.send_replace(Stage::Trying);
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

impl<W: Workshop> Tier for PooledTier<W> {
    fn status(&self) -> BrokerStatus {
        let stage = self.stage.borrow().clone();
        let (runtime, pool) = match &stage {
            Stage::Trying | Stage::NotReady(_) => (None, None),
            Stage::Proven { runtime, pool } => (Some(runtime.clone()), Some(pool.state())),
        };
        let pool = pool.unwrap_or_default();
        let (readiness, settled) = self.readiness(&stage);
        let Face {
            tier,
            enforcer,
            image,
            weakness,
            enforcement,
            limits,
        } = self.workshop.face();
        BrokerStatus {
            readiness,
            settled,
            tier: tier.to_owned(),
            enforcer,
            runtime,
            image,
            weakness,
            note: self.note.clone(),
            enforcement,
            limits,
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
