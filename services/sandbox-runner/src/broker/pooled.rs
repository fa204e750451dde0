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
    BrokerOptions, BrokerStatus, Chunk, Finished, Outcome, PoolDepth, Program, Readiness, RunSpec,
    StartFailure, Tier,
    canary::{self, NotReady, Proof},
    pool::{Keep, Pool},
    workshop::{Face, Made, Workshop},
};
use crate::jail::{Access, RunLimits, Start, Task, Writer};

const SOON: &str = "Wait a few seconds.";
/// How soon a canary is tried again first: what it needs, such as the api's word, may be on its way.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// What the canary found.
#[derive(Debug)]
enum Stage<W: Workshop> {
    Trying,
    NotReady(NotReady),
    Proven { proof: Arc<Proof>, pool: Pool<W> },
}

impl<W: Workshop> Clone for Stage<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Trying => Self::Trying,
            Self::NotReady(not_ready) => Self::NotReady(not_ready.clone()),
            Self::Proven { proof, pool } => Self::Proven {
                proof: Arc::clone(proof),
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

    /// What the canary proved, and the pool; else why not.
    fn proven(&self) -> Result<(Arc<Proof>, Pool<W>), Finished> {
        let stage = self.stage.borrow().clone();
        match (&stage, self.readiness(&stage).0) {
            (Stage::Proven { proof, pool }, _) => Ok((Arc::clone(proof), pool.clone())),
            (_, Readiness::NotReady { reason, fix }) => {
                Err(Finished::not_started(StartFailure::NotReady {
                    reason,
                    fix,
                }))
            }
            (_, Readiness::Ready) => Err(not_made(&W::DIED)),
        }
    }

    /// A sandbox: one that waits, or a fresh one where it shall be able to write.
    async fn take(
        &self,
        pool: &Pool<W>,
        access: Option<&Access>,
        cancel: &CancellationToken,
    ) -> Result<W::Made, Finished> {
        let made = async {
            match access {
                None => pool.take().await,
                Some(_) => self.workshop.make(access).await,
            }
        };
        match cancel
            .run_until_cancelled(timeout(self.queue_wait, made))
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
        let (made, task) = match self.made_for(spec, cancel).await {
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
        made.run(&task, limits, chunks, cancel).await
    }

    /// A sandbox for this run, and what it is told.
    async fn made_for(
        &self,
        spec: &RunSpec,
        cancel: &CancellationToken,
    ) -> Result<(W::Made, Task), Finished> {
        let (proof, pool) = self.proven()?;
        let command = match &spec.program {
            Program::Python { code } => {
                let made = self.take(&pool, None, cancel).await?;
                return Ok((made, Task::Python(code.clone().into_bytes())));
            }
            Program::Sqlite(query) => {
                let task = query.task(spec.timeout).map_err(|no| not_made(&no))?;
                return Ok((self.take(&pool, None, cancel).await?, task));
            }
            Program::Command(command) => command,
        };
        command
            .check(&proof.programs, self.workshop.workspace())
            .map_err(|wrong| not_made(&wrong))?;
        let access = match command.writable.as_slice() {
            [] => None,
            folders => Some(self.workshop.look(folders).map_err(|no| not_made(&no))?),
        };
        let made = self.take(&pool, access.as_ref(), cancel).await?;
        let start = Start {
            argv: command.argv.clone(),
            env: command.env.clone(),
            cwd: command.cwd.clone(),
            places: access.map(|access| access.places).unwrap_or_default(),
        };
        Ok((made, Task::Command(start)))
    }
}

fn not_made(error: &impl ToString) -> Finished {
    Finished::not_started(StartFailure::Jail {
        reason: error.to_string(),
    })
}

/// Tries canaries until one comes back, at last every `retry`, then keeps the pool for as long as what it stands on holds.
async fn prove<W: Workshop>(
    workshop: &Arc<W>,
    entropy: &dyn Entropy,
    retry: Duration,
    stage: &watch::Sender<Stage<W>>,
    keep: Keep,
) {
    let mut pause = RETRY_FIRST.min(retry);
    loop {
        let proof = async {
            workshop.prepare().await?;
            canary::send(&**workshop, entropy).await
        };
        match proof.await {
            Ok(proof) => {
                tracing::info!(runtime = %proof.runtime, "the sandbox holds");
                let proof = Arc::new(proof);
                let pool = Pool::start(Arc::clone(workshop), keep);
                stage.send_replace(Stage::Proven { proof, pool });
                workshop.stale().await;
                tracing::warn!("the sandbox is tried out anew");
                stage.send_replace(Stage::Trying);
                pause = RETRY_FIRST.min(retry);
            }
            Err(not_ready) => {
                tracing::warn!(reason = %not_ready.reason, fix = %not_ready.fix, "the sandbox is not ready");
                stage.send_replace(Stage::NotReady(not_ready));
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(retry);
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
        let (proof, pool) = match &stage {
            Stage::Trying | Stage::NotReady(_) => (None, None),
            Stage::Proven { proof, pool } => (Some(Proof::clone(proof)), Some(pool.state())),
        };
        let (runtime, programs) = proof.map(|proof| (proof.runtime, proof.programs)).unzip();
        let writer = Writer::of(self.workshop.workspace());
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
            programs: programs.unwrap_or_default(),
            unwritable: writer.err().map(|error| error.to_string()),
            pool: PoolDepth {
                size: self.pool_size,
                idle: pool.idle,
                starting: pool.starting,
                running: self.running.load(Ordering::Relaxed),
                queued: self.queued.load(Ordering::Relaxed),
                queue_bound: self.queue_bound,
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
