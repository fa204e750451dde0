//! The agent as a process: it follows the live turns and works on each beside the others.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

use axum::{Router, middleware::from_fn_with_state, routing::get};
use camino::Utf8PathBuf;
use jiff::SignedDuration;
use kazma_domain::{Clock, Entropy, TurnId};
use kazma_edge::Json;
use kazma_mesh::{Anyone, Caller, Identity, Listeners, MeshError};
use kazma_metrics::{Http, Meters, MetricError, count};
use kazma_runtime::Lifecycle;
use kazma_store::{Database, StoreError, agent::MIGRATIONS};
use kazma_wire::{agent::LiveTurn, poll::Poll};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Backoff, Metrics,
    clients::{Model, Registry, Runner},
    journal::Journal,
    slots::Slot,
    turn::{Agent, Stopped, Turn},
};

/// How long one look at the live turns may wait: a turn that a person ended stops within this time.
const LOOK_MS: u64 = 5_000;
/// Turns that are followed at once, those included that wait for a person.
pub(crate) const FOLLOWED_MAX: usize = 1_024;
/// Checkpoints are kept this long: an open card lives a day.
const KEEP: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Settings of the agent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agent's own folder.
    pub data_dir: Utf8PathBuf,
    /// How many turns think at once; the rest wait.
    pub thinking: usize,
    /// How long to wait before asking a silent service again.
    pub backoff: Backoff,
}

impl Options {
    /// The usual settings, with the agent's state in `data_dir`.
    pub fn new(data_dir: Utf8PathBuf) -> Self {
        Self {
            data_dir,
            thinking: 32,
            backoff: Backoff::default(),
        }
    }
}

/// What the agent needs from outside.
pub struct Deps {
    /// The agent's identity in the mesh.
    pub identity: Arc<Identity>,
    /// Where its own routes are served.
    pub listener: Listeners,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The registry.
    pub registry: Arc<dyn Registry>,
    /// The runner's process for what is done on this machine.
    pub runner: Arc<dyn Runner>,
    /// The runner's process for what leaves the house.
    pub egress: Arc<dyn Runner>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// What is counted.
    pub meters: Meters,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}

/// Why the agent cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its checkpoints.
    #[error("the agent's checkpoints cannot be used")]
    Store(#[from] StoreError),
    /// Its listener.
    #[error("the agent's routes cannot be served")]
    Mesh(#[from] MeshError),
    /// What it counts.
    #[error("the agent's metrics cannot be set up")]
    Metrics(#[from] MetricError),
}

/// Works until it is asked to stop.
///
/// # Errors
///
/// Says why it cannot begin or go on.
pub async fn serve(options: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    let database = Database::open(&options.data_dir.join("agent.db"), &MIGRATIONS).await?;
    let agent = Arc::new(Agent {
        registry: deps.registry,
        runner: deps.runner,
        egress: deps.egress,
        model: deps.model,
        journal: Journal(database.clone()),
        clock: deps.clock,
        entropy: deps.entropy,
        backoff: options.backoff,
        metrics: Metrics::new(&deps.meters)?,
    });
    agent.metrics.checkpoints(database.clone());
    let before = agent
        .clock
        .now()
        .checked_sub(KEEP)
        .unwrap_or(jiff::Timestamp::MIN);
    agent.journal.forget_before(before).await?;
    let listening = Http::new(&deps.meters)?.on("mesh");
    let app = Router::new()
        .route("/v1/health", get(health))
        .layer(from_fn_with_state(listening, count));
    let stop = lifecycle.soft();
    let routes = kazma_mesh::serve(deps.listener, deps.identity, app, stop.clone());
    let work = follow(agent, options.thinking, stop.clone());
    let (served, ()) = tokio::join!(
        async {
            let served = routes.await;
            // Without its routes the agent is not seen to live.
            stop.cancel();
            served
        },
        work
    );
    database.close().await?;
    Ok(served?)
}

async fn health(_: Caller<Anyone>) -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Follows the live turns until `stop`. What is under way then goes on from its checkpoints next time.
pub(crate) async fn follow(agent: Arc<Agent>, thinking: usize, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(thinking.max(1)));
    agent.metrics.thinking(&places, thinking.max(1));
    let mut tasks = JoinSet::new();
    let mut followed = HashMap::new();
    let mut after = 0;
    loop {
        agent.metrics.followed(followed.len());
        let live = tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(error = error.to_string(), "a turn's task broke");
                        error.id()
                    }
                };
                followed.retain(|_, task: &mut tokio::task::AbortHandle| task.id() != id);
                // Others may have waited for its place.
                if followed.len() + 1 == FOLLOWED_MAX {
                    after = 0;
                }
                continue;
            }
            live = look(&agent, after) => live,
        };
        let Some((live, seq)) = live else {
            continue;
        };
        after = seq;
        drop_ended(&mut followed, &live);
        for turn in live {
            if followed.len() >= FOLLOWED_MAX {
                tracing::warn!("more live turns than can be followed; the rest wait");
                break;
            }
            if let Entry::Vacant(place) = followed.entry(turn.turn) {
                let slot = Slot::new(Arc::clone(&places));
                let span =
                    tracing::error_span!("turn", turn_id = %turn.turn, thread_id = %turn.thread);
                place.insert(tasks.spawn(work(Arc::clone(&agent), turn, slot).instrument(span)));
            }
        }
    }
}

/// All live turns, once something changed after `after` or a while has passed.
async fn look(agent: &Agent, after: i64) -> Option<(Vec<LiveTurn>, i64)> {
    let ask = |poll: Poll| async move {
        agent
            .backoff
            .insist(&*agent.entropy, "turns", || agent.registry.turns(poll))
            .await
            .map_err(|problem| {
                tracing::error!(title = problem.title, "the registry shows no turns");
            })
            .ok()
    };
    let Some(news) = ask(Poll {
        after,
        wait_ms: LOOK_MS,
    })
    .await
    else {
        agent.backoff.wait(10, &*agent.entropy).await;
        return None;
    };
    if after == 0 {
        return Some((news.items, news.seq));
    }
    // The news names turns that changed; one that ended is not among them.
    let all = ask(Poll {
        after: 0,
        wait_ms: 0,
    })
    .await?;
    Some((all.items, news.seq))
}

/// Stops the work on turns that are live no more.
fn drop_ended(followed: &mut HashMap<TurnId, tokio::task::AbortHandle>, live: &[LiveTurn]) {
    followed.retain(|id, task| {
        let lives = live.iter().any(|turn| turn.turn == *id);
        if !lives {
            task.abort();
        }
        lives
    });
}

/// Works on one turn until it ended, here or elsewhere.
async fn work(agent: Arc<Agent>, live: LiveTurn, mut slot: Slot) {
    for attempt in 0_u32.. {
        match Box::pin(Turn::new(&agent, &live, &mut slot).run()).await {
            Ok(()) | Err(Stopped::Over) => return,
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(turn = %live.turn, error = error.to_string(), source, attempt,
                    "a turn cannot go on; trying again");
            }
        }
        slot.give_back();
        agent.metrics.trouble();
        agent
            .backoff
            .wait(attempt.saturating_add(4), &*agent.entropy)
            .await;
    }
}
