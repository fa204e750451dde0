//! How long a durable gate cycle takes (file, decide, collect and redeem, settle), by one caller and
//! by many at once. Every step is answered only once it is synced to the disk.
//!
//! `cargo run -p kazma-gate-registry --example gate_cycle -- FOLDER [CALLERS] [ROUNDS]`

use std::{
    io::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kazma_domain::{
    Action, Actor, AttemptId, Clock as _, Decision, Outcome, PersonId, Plan, Role, Service,
    Surface, ThreadId, TurnId, plan::Sandbox,
};
use kazma_gate_registry::{LeafIssuer, Options, Registry, Server, WAIT, open};
use kazma_mesh::{IssuedLeaf, MeshError};
use kazma_runtime::{BoxError, SystemClock, SystemEntropy};
use kazma_wire::{
    executor::{FileRequest, Output, Proposal, RedeemRequest, SettleRequest},
    gateway::{DecisionRequest, NewMessage, NewThread},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Calls of one turn: fewer than it may make.
const PER_TURN: usize = 50;

/// This registry issues nothing.
#[derive(Debug)]
struct NoCa;

impl LeafIssuer for NoCa {
    fn issue(&self, _: &[u8], _: Service, _: Timestamp) -> Result<IssuedLeaf, MeshError> {
        Err(MeshError::NoToken)
    }

    fn ca(&self) -> &'static str {
        ""
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let callers: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let options = Options {
        folder: Utf8PathBuf::from(folder),
        server: server()?,
        tokens: Vec::new(),
        wait: WAIT,
    };
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
    let registry = open(
        options,
        Arc::new(NoCa),
        clock,
        entropy,
        CancellationToken::new(),
        &kazma_metrics::Meters::default(),
    )
    .await?;
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(caller(Arc::clone(&registry), rounds.div_ceil(callers))))
        .collect();
    let mut times = Vec::with_capacity(rounds);
    for task in tasks {
        times.extend(task.await??);
    }
    let whole = begun.elapsed();
    times.sort_unstable();
    let p50 = times
        .get(times.len() / 2)
        .copied()
        .unwrap_or(Duration::ZERO);
    let line = json!({
        "name": if callers == 1 { "gate-cycle".to_owned() } else { format!("gate-cycle-{callers}") },
        "value": rounded(p50.as_secs_f64() * 1e3),
        "unit": "ms",
        "runs": times.len(),
        // What one cycle costs when they share their commits.
        "ms_per_cycle": rounded(whole.as_secs_f64() * 1e3 / float(times.len())),
    });
    writeln!(std::io::stdout(), "{line}")?;
    registry.close().await?;
    Ok(())
}

/// The server to measure on, if one is named; a schema of its own there.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark is told by the environment"
)]
fn server() -> Result<Option<Server>, BoxError> {
    let url = std::env::var("KAZMA_BENCH_POSTGRES").ok();
    let schema = format!("bench_{}", std::process::id());
    Ok(url
        .map(|url| Server::new(&url.into(), &schema))
        .transpose()?)
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Cycles of one caller, in turns of its own.
async fn caller(registry: Arc<Registry>, rounds: usize) -> Result<Vec<Duration>, BoxError> {
    let actor = Actor {
        id: PersonId::new(SystemClock.now(), &SystemEntropy),
        name: "bench".to_owned(),
        role: Role::Admin,
    };
    let request = NewThread {
        actor: actor.clone(),
    };
    let thread = registry.new_thread(request).await?.thread;
    let mut times = Vec::with_capacity(rounds);
    let mut turn = None;
    for round in 0..rounds {
        let index = round % PER_TURN;
        if index == 0 {
            let request = NewMessage {
                actor: actor.clone(),
                surface: Surface::Api,
                text: "go on".to_owned(),
                idempotency_key: None,
                wait: kazma_domain::Wait::default(),
            };
            turn = Some(registry.new_message(thread, request).await?.turn);
        }
        let turn = turn.ok_or("a turn is open")?;
        let begun = Instant::now();
        cycle(&registry, &actor, (thread, turn), index).await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

async fn cycle(
    registry: &Registry,
    actor: &Actor,
    at: (ThreadId, TurnId),
    index: usize,
) -> Result<(), BoxError> {
    let filed = registry
        .file(Service::RunnerApi, filing(at, index)?)
        .await?;
    let gate = filed.call.gate.ok_or("it was not asked")?;
    let kazma_domain::State::Pending { card, .. } = filed.call.state else {
        return Err("it does not wait".into());
    };
    let decision = DecisionRequest {
        actor: actor.clone(),
        surface: Surface::Api,
        decision: Decision::Approve,
        card,
        electorate: 1,
        reason: None,
    };
    registry.decide(gate, decision).await?;
    let permit = registry.collect(Service::RunnerApi, filed.call.id).await?;
    let redemption = RedeemRequest {
        permit,
        attempt: AttemptId::new(SystemClock.now(), &SystemEntropy),
    };
    registry.redeem(Service::RunnerApi, redemption).await?;
    let ending = SettleRequest {
        outcome: Outcome {
            ok: true,
            summary: "exit 0".to_owned(),
        },
        output: Output {
            text: "45\n".to_owned(),
            truncated: false,
            total_bytes: 3,
            note: String::new(),
            origin: String::new(),
        },
    };
    registry
        .settle(Service::RunnerApi, filed.call.id, ending)
        .await?;
    Ok(())
}

fn filing(at: (ThreadId, TurnId), index: usize) -> Result<FileRequest, BoxError> {
    let code = format!("print({index})");
    let arguments = json!({ "code": code });
    let plan = Plan {
        tool: "python_exec".to_owned(),
        arguments: arguments.clone(),
        action: Action::RunPython {
            code,
            timeout_ms: 30_000,
            sandbox: Sandbox {
                tier: "native".to_owned(),
                runtime: "bubblewrap".to_owned(),
                image: None,
                limit: "shares the kernel".to_owned(),
                enforcement: Vec::new(),
                network: "none".to_owned(),
                workspace: "read-only".to_owned(),
            },
        },
    };
    Ok(FileRequest {
        thread: at.0,
        turn: at.1,
        index: u32::try_from(index)?,
        tool: plan.tool.clone(),
        arguments,
        principal: Service::Agent,
        proposal: Proposal::Plan(Box::new(plan)),
    })
}
