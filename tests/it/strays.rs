//! Whoever is killed while containers run, nothing of them is left: whole stacks on an engine of the tests'
//! own, with runs of every kind of end, the runner's api and its broker killed at random moments.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use kazma_testkit::Api;

use crate::{
    containers::engine,
    crash::{Dice, ended, set},
    stack::{PATIENCE, Stack, command, until},
};

const RUNS: u32 = 30;
const RUNS_LONG: u32 = 300;
const PEOPLE: u32 = 4;

/// Snippets that end in every way that the judge of code lets a snippet try.
const MIXED: [&str; 7] = [
    "print(1)",
    "raise SystemExit(3)",
    "1 / 0",
    "import time; time.sleep(3)",
    "h = [bytearray(32 << 20) for _ in range(99)]",
    "for _ in range(400): print('x' * 65536)",
    "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.02)",
];

struct Ground {
    api: Api,
    runs: u32,
    approved: AtomicU32,
    over: AtomicBool,
    ends: Mutex<BTreeMap<String, u32>>,
}

impl Ground {
    /// Asks for runs, approves each, and waits for its end, until there were enough.
    async fn person(self: Arc<Self>, seed: u64) {
        let mut dice = Dice::new(seed);
        while self.approved.load(Ordering::SeqCst) < self.runs {
            let code = MIXED[dice.roll(7) as usize];
            let end = self.run(code).await;
            if end == "denied" {
                // The broker is on its way back.
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            *self.ends.lock().unwrap().entry(end).or_default() += 1;
        }
    }

    /// The state of the call. A runner without a broker refuses to plan, and then nothing was approved.
    async fn run(&self, code: &str) -> String {
        let thread = self.api.say(&format!("run python: {code}")).await.unwrap();
        loop {
            let view = self.api.thread(&thread).await.unwrap();
            for gate in view["gates"].as_array().into_iter().flatten() {
                if gate["state"] == "pending" {
                    self.api.decide(gate, "approve").await.unwrap();
                    self.approved.fetch_add(1, Ordering::SeqCst);
                }
            }
            if ended(&view) {
                let call = view["calls"].as_array().and_then(|calls| calls.first());
                return call
                    .map_or("none", |call| call["state"].as_str().unwrap())
                    .to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the api or the broker again and again.
    async fn killer(self: Arc<Self>, stack: Arc<Stack>, mut dice: Dice) -> u32 {
        let mut kills = 0;
        while !self.over.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis((200 + dice.roll(2800)).into())).await;
            let victim = ["runner-api", "runner-broker"][dice.roll(2) as usize];
            let services = stack.services();
            let found = services.into_iter().find(|(name, _)| name == victim);
            if let Some((_, Some(process))) = found {
                process.kill();
                kills += 1;
            }
        }
        kills
    }
}

/// The names of all containers of sandboxes, in any state; and of all volumes.
fn left(socket: &str) -> (Vec<String>, Vec<String>) {
    let docker = |arguments: &[&str]| {
        let output = command("docker")
            .args(["--host", &format!("unix://{socket}")])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    (
        docker(&[
            "ps",
            "--all",
            "--quiet",
            "--filter",
            "label=kazma.sandbox=1",
        ]),
        docker(&["volume", "ls", "--quiet"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_of_the_runner_is_killed_nothing_is_left_on_the_engine() {
    let (socket, _) = engine();
    let seed = set("KAZMA_TEST_SEED").map_or(0x6b61_7a6d_6100_0003, |seed| seed.parse().unwrap());
    println!("KAZMA_TEST_SEED={seed}");
    let runs = set("KAZMA_TEST_LONG").map_or(RUNS, |_| RUNS_LONG);
    let (before, volumes) = left(&socket);
    let host = format!("unix://{socket}");
    let flags = ["--sandbox", "docker", "--docker-host", &host];
    let stack = Arc::new(Stack::start_with(&flags));
    let ground = Arc::new(Ground {
        api: stack.fresh_api(),
        runs,
        approved: AtomicU32::new(0),
        over: AtomicBool::new(false),
        ends: Mutex::default(),
    });
    let people: Vec<_> = (0..PEOPLE)
        .map(|n| tokio::spawn(Arc::clone(&ground).person(seed ^ u64::from(n + 1) << 32)))
        .collect();
    let killer = Arc::clone(&ground).killer(Arc::clone(&stack), Dice::new(seed));
    let killer = tokio::spawn(killer);
    for person in people {
        person.await.unwrap();
    }
    ground.over.store(true, Ordering::SeqCst);
    let kills = killer.await.unwrap();
    println!("{kills} kills; {:?}", ground.ends.lock().unwrap());
    assert!(kills >= runs / 10, "only {kills} kills");
    let settled = ground.ends.lock().unwrap().get("settled").copied();
    assert!(settled > Some(runs / 4), "hardly anything ran: {settled:?}");

    // One more start makes one pass at once; then an end in order takes its own pool away.
    let mut stack = Arc::into_inner(stack).unwrap();
    stack.end().await;
    stack.start_again();
    until(PATIENCE, || left(&socket).0.len() > before.len())
        .await
        .unwrap();
    stack.end().await;
    assert_eq!(left(&socket), (before, volumes));
    let files: Vec<_> = std::fs::read_dir(stack.folder().join("workspace"))
        .unwrap()
        .collect();
    assert!(files.is_empty(), "{files:?}");
}
