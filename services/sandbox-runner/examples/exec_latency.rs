//! Measures runs over the broker's socket: `exec_latency HOW TIER WORKSPACE [ENGINE] [SECONDS]`.
//!
//! HOW is `warm` (a full pool, one run at a time), `cold` (no pool: each run waits for a sandbox that is made for
//! it), `drained` (as many runs at once as the pool has, and one more: what that one waits) or `burst` (fifty
//! at once). TIER is `native`, `runc` or `runsc`; the last two need the socket of an engine that has the
//! image. The workspace must be readable for uid 65534 when this runs as root. Prints one JSON line, times in
//! milliseconds from the request.

#![expect(clippy::print_stdout, reason = "a measurement prints")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use camino::Utf8PathBuf;
use kazma_domain::{CallId, Clock};
use kazma_runtime::{SystemClock, SystemEntropy};
use kazma_sandbox_runner::broker::{
    BrokerClient, BrokerOptions, EngineOptions, EngineRuntime, Outcome, Readiness, RunEvent,
    RunSpec, TierChoice, listen, serve,
};
use tokio_util::sync::CancellationToken;

const RUNS_MAX: usize = 50;
const RUNS_MIN: usize = 5;
const POOL: usize = 2;
const BURST: usize = 50;

/// What is measured, and for how long.
struct Plan {
    how: String,
    tier: TierChoice,
    workspace: Utf8PathBuf,
    budget: Duration,
}

impl Plan {
    fn from_arguments() -> anyhow::Result<Self> {
        let mut arguments = std::env::args().skip(1);
        let mut next = |what| arguments.next().context(what);
        let how = next("how: warm, cold, drained or burst")?;
        let tier = next("tier: native, runc or runsc")?;
        let workspace = next("the workspace")?.into();
        let engine = arguments.next().unwrap_or_default();
        let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
        let containers = |runtime| {
            let mut options = EngineOptions::new(&engine, format!("bench-{}", std::process::id()));
            options.runtime = runtime;
            TierChoice::Docker(options)
        };
        Ok(Self {
            how,
            tier: match tier.as_str() {
                "native" => TierChoice::Native,
                "runc" => containers(EngineRuntime::Runc),
                "runsc" => containers(EngineRuntime::Runsc),
                other => bail!("no tier is called {other}"),
            },
            workspace,
            budget: Duration::from_secs(seconds),
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let plan = Plan::from_arguments()?;
    let folder = tempfile::tempdir()?;
    let path = |p: std::path::PathBuf| {
        Utf8PathBuf::from_path_buf(p).map_err(|p| anyhow::anyhow!("{} is not text", p.display()))
    };
    let mut options = BrokerOptions::new(path(folder.path().join("broker.sock"))?, plan.workspace);
    let examples = std::env::current_exe()?;
    let built = examples.ancestors().nth(2).context("no build folder")?;
    options.init = Some(path(built.join("sandbox-init"))?);
    options.tier = plan.tier;
    options.queue_bound = BURST;
    options.queue_wait = Duration::from_mins(5);
    options.pool_size = if plan.how == "cold" { 0 } else { POOL };
    let client = BrokerClient::new(&options.socket);
    let listener = listen(&options.socket)?;
    let stop = CancellationToken::new();
    let entropy = Arc::new(SystemEntropy);
    let broker = tokio::spawn(serve(options, Some(listener), entropy, stop.clone()));
    full(&client).await?;
    let times = match plan.how.as_str() {
        "warm" | "cold" => one_by_one(&client, plan.budget).await?,
        "drained" => drained(&client, plan.budget).await?,
        "burst" => together(&client, BURST).await?,
        other => bail!("nothing is measured as {other}"),
    };
    println!("{}", times.json());
    stop.cancel();
    broker.await??;
    Ok(())
}

/// What runs took.
#[derive(Default)]
struct Times {
    output: Vec<Duration>,
    exit: Vec<Duration>,
    failed: usize,
}

impl Times {
    fn take(&mut self, run: anyhow::Result<(Duration, Duration)>) {
        match run {
            Ok((output, exit)) => {
                self.output.push(output);
                self.exit.push(exit);
            }
            Err(error) => {
                self.failed += 1;
                eprintln!("a run failed: {error:#}");
            }
        }
    }

    fn json(mut self) -> serde_json::Value {
        let runs = self.exit.len();
        serde_json::json!({
            "output": shares(&mut self.output),
            "exit": shares(&mut self.exit),
            "runs": runs,
            "failed": self.failed,
        })
    }
}

fn shares(times: &mut [Duration]) -> serde_json::Value {
    times.sort_unstable();
    let at = |share: usize| {
        let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times
            .get(index)
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    serde_json::json!({ "p50": at(50), "p95": at(95), "max": at(100) })
}

async fn run(client: BrokerClient) -> anyhow::Result<(Duration, Duration)> {
    let started = Instant::now();
    let spec = RunSpec::new(CallId::new(SystemClock.now(), &SystemEntropy), "print(1)");
    let mut stream = client.run(spec).await?;
    let mut output = None;
    loop {
        match stream.next().await.context("no end")? {
            RunEvent::Chunk(_) => output = output.or(Some(started.elapsed())),
            RunEvent::Finished(f) if f.outcome == (Outcome::Exited { code: 0 }) => {
                return Ok((output.context("no output")?, started.elapsed()));
            }
            RunEvent::Finished(f) => bail!("{:?}", f.outcome),
        }
    }
}

async fn one_by_one(client: &BrokerClient, budget: Duration) -> anyhow::Result<Times> {
    let (mut times, began) = (Times::default(), Instant::now());
    for done in 0..RUNS_MAX {
        if done >= RUNS_MIN && began.elapsed() > budget {
            break;
        }
        full(client).await?;
        times.take(run(client.clone()).await);
    }
    Ok(times)
}

/// The pool's own go first; the one after them finds it empty.
async fn drained(client: &BrokerClient, budget: Duration) -> anyhow::Result<Times> {
    let (mut times, began) = (Times::default(), Instant::now());
    for done in 0..RUNS_MAX {
        if done >= RUNS_MIN && began.elapsed() > budget {
            break;
        }
        full(client).await?;
        let mut all = together(client, POOL + 1).await?;
        all.exit.sort_unstable();
        all.output.sort_unstable();
        times.failed += all.failed;
        times.exit.extend(all.exit.pop());
        times.output.extend(all.output.pop());
    }
    Ok(times)
}

async fn together(client: &BrokerClient, count: usize) -> anyhow::Result<Times> {
    let runs: Vec<_> = (0..count)
        .map(|_| tokio::spawn(run(client.clone())))
        .collect();
    let mut times = Times::default();
    for run in runs {
        times.take(run.await?);
    }
    Ok(times)
}

/// Waits until the pool is full and nothing is being cleared away, so that no start disturbs the measurement.
async fn full(client: &BrokerClient) -> anyhow::Result<()> {
    loop {
        let status = client.status().await?;
        match status.readiness {
            Readiness::Ready
                if status.pool.idle == status.pool.size && status.pool.starting == 0 =>
            {
                return Ok(());
            }
            Readiness::NotReady { reason, fix } if status.settled => {
                bail!("not ready: {reason}. {fix}")
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
