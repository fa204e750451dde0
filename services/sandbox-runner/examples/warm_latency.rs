//! Prints how long a warm run takes over the broker's socket, beside a plain Python process.
//!
//! `cargo run --release --example warm_latency -- [--json] [WORKSPACE]`, after
//! `cargo build --release --bins`. The workspace must be readable for uid 65534 when this runs as root.
//! `--json` prints one line with medians and 95th percentiles in milliseconds.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement prints, and starts the process that it compares with"
)]

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use camino::Utf8PathBuf;
use kazma_domain::{CallId, Clock};
use kazma_runtime::{SystemClock, SystemEntropy};
use kazma_sandbox_runner::broker::{
    BrokerClient, BrokerOptions, Outcome, Readiness, RunEvent, RunSpec, listen, serve,
};
use tokio_util::sync::CancellationToken;

const RUNS: usize = 50;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |p: std::path::PathBuf| {
        Utf8PathBuf::from_path_buf(p).map_err(|p| anyhow::anyhow!("{} is not text", p.display()))
    };
    let (flags, places): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|a| a == "--json");
    let workspace = match places.into_iter().next() {
        Some(given) => given.into(),
        None => path(folder.path().to_owned())?,
    };
    let mut options = BrokerOptions::new(path(folder.path().join("broker.sock"))?, workspace);
    let examples = std::env::current_exe()?;
    let built = examples.ancestors().nth(2).context("no build folder")?;
    options.init = Some(path(built.join("sandbox-init"))?);
    let client = BrokerClient::new(&options.socket);
    let listener = listen(&options.socket)?;
    let stop = CancellationToken::new();
    let served = serve(
        options,
        Some(listener),
        Arc::new(SystemEntropy),
        stop.clone(),
    );
    let broker = tokio::spawn(served);
    let (mut first, mut end) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        full(&client).await?;
        let started = Instant::now();
        let spec = RunSpec::new(CallId::new(SystemClock.now(), &SystemEntropy), "print(1)");
        let mut run = client.run_python(spec).await?;
        while let Some(event) = run.next().await {
            match event {
                RunEvent::Chunk(_) => first.push(started.elapsed()),
                RunEvent::Finished(f) if f.outcome == (Outcome::Exited { code: 0 }) => {
                    end.push(started.elapsed());
                }
                RunEvent::Finished(f) => bail!("{:?}", f.outcome),
            }
        }
    }
    let mut plain = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        let status = Command::new("/usr/bin/python3")
            .args(["-I", "-c", "print(1)"])
            .stdout(Stdio::null())
            .status()?;
        anyhow::ensure!(status.success(), "python3 failed");
        plain.push(started.elapsed());
    }
    if flags.is_empty() {
        say("jail from the pool: output", first);
        say("jail from the pool: exit code", end);
        say("python3 -I -c, no jail: exit code", plain);
    } else {
        println!(
            "{{\"output\":{},\"exit\":{},\"plain\":{},\"runs\":{RUNS}}}",
            json(first),
            json(end),
            json(plain)
        );
    }
    stop.cancel();
    broker.await??;
    Ok(())
}

/// Waits until the pool is full, so that no start disturbs the measurement.
async fn full(client: &BrokerClient) -> anyhow::Result<()> {
    loop {
        let status = client.status().await?;
        match status.readiness {
            Readiness::Ready if status.pool.idle == status.pool.size => return Ok(()),
            Readiness::NotReady { reason, fix } if status.settled => {
                bail!("not ready: {reason}. {fix}")
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn say(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (p50, p95) = (at(&times, 50), at(&times, 95));
    println!("{what}: p50 {p50:?}, p95 {p95:?}, n {}", times.len());
}

fn json(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |share| at(&times, share).as_secs_f64() * 1e3;
    format!("{{\"p50\":{:.3},\"p95\":{:.3}}}", ms(50), ms(95))
}

/// The time that `share` percent of the sorted ones do not exceed.
fn at(sorted: &[Duration], share: usize) -> Duration {
    sorted
        .get(sorted.len() * share / 100)
        .copied()
        .unwrap_or_default()
}
