//! The crash campaign: real processes, killed at random moments, against an oracle that counts effects.
//!
//! Every effect is a file that takes its place in the workspace by one rename, and the kernel counts those
//! renames. What the registry says must be what the kernel saw: nothing lost, nothing doubled, nothing
//! without a decision.

use std::{
    collections::BTreeMap,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use kazma_testkit::Api;
use rustix::{
    fs::inotify::{self, CreateFlags, WatchFlags},
    process::Signal,
};
use serde_json::{Value, json};

use crate::stack::{PATIENCE, Process, Stack, signal, until};

/// Kills in an ordinary run, and in a long one.
const KILLS: u32 = 200;
const KILLS_LONG: u32 = 1_000;
/// People who ask and answer at the same time.
const PEOPLE: u32 = 4;
/// How long everything may take to come to rest after the last kill.
const REST: Duration = Duration::from_secs(90);

#[expect(
    clippy::disallowed_methods,
    reason = "the caller says by the environment how long to go on and which run to repeat"
)]
pub(crate) fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Small numbers in an order that a seed repeats.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of `0..sides` (xorshift64*).
    pub(crate) fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from(high).unwrap() % sides
    }
}

/// The broker's own word, by which it sees that a sandbox has the right workspace: no call wrote it.
const WORD: &str = ".kazma-canary";

/// Counts how often each name took its place in a folder.
pub(crate) struct Witness(OwnedFd);

impl Witness {
    pub(crate) fn on(folder: &Path) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, folder, WatchFlags::MOVED_TO).unwrap();
        Self(watch)
    }

    pub(crate) fn seen(&self) -> BTreeMap<String, u32> {
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut seen = BTreeMap::new();
        while let Ok(event) = reader.next() {
            let overflow = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            assert!(!overflow, "the kernel lost count");
            let name = event.file_name().unwrap().to_str().unwrap().to_owned();
            if name != WORD {
                *seen.entry(name).or_default() += 1;
            }
        }
        seen
    }
}

/// What somebody wanted, and what they were told.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) thread: String,
    pub(crate) file: String,
    /// The decision that was answered with 200.
    pub(crate) answered: Option<&'static str>,
}

/// What people and the killer share.
struct Ground {
    api: Mutex<Api>,
    wishes: Mutex<Vec<Wish>>,
    next: AtomicU32,
    over: AtomicBool,
}

impl Ground {
    fn api(&self) -> Api {
        self.api.lock().unwrap().clone()
    }

    /// Asks until there is an answer that is no sign of somebody dead.
    async fn post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        while !self.over.load(Ordering::SeqCst) {
            match self.api().post(path, body).await {
                Ok(answer) if answer.status < 500 && answer.status != 429 => {
                    return Some((answer.status, answer.body));
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        None
    }

    /// Somebody who asks for files and answers the cards, until it is over.
    async fn person(self: Arc<Self>, seed: u64) {
        let mut dice = Dice(seed);
        while !self.over.load(Ordering::SeqCst) {
            if self.ask(&mut dice).await.is_none() {
                return;
            }
        }
    }

    async fn ask(&self, dice: &mut Dice) -> Option<()> {
        let n = self.next.fetch_add(1, Ordering::SeqCst);
        let file = format!("effect-{n}.txt");
        let (_, begun) = self.post("/api/threads", &json!({})).await?;
        let thread = begun["thread_id"].as_str()?.to_owned();
        let words = json!({"text": format!("write {file}: {n}"), "idempotency_key": file});
        self.post(&format!("/api/threads/{thread}/messages"), &words)
            .await?;
        let Some(gate) = self.card(&thread).await else {
            return Some(());
        };
        let decision = if dice.roll(4) == 0 { "deny" } else { "approve" };
        self.wishes.lock().unwrap().push(Wish {
            thread: thread.clone(),
            file: file.clone(),
            answered: None,
        });
        let path = format!("/api/gates/{}/decision", gate["gate_id"].as_str()?);
        let body = json!({"decision": decision, "args_digest": gate["args_digest"]});
        let (status, _) = self.post(&path, &body).await?;
        if status == 200 {
            let mut wishes = self.wishes.lock().unwrap();
            let wish = wishes.iter_mut().find(|wish| wish.file == file).unwrap();
            wish.answered = Some(decision);
        }
        Some(())
    }

    /// The card of a thread; none where its turn has ended without one, or it is over.
    async fn card(&self, thread: &str) -> Option<Value> {
        while !self.over.load(Ordering::SeqCst) {
            if let Ok(view) = self.api().thread(thread).await {
                let gates = view["gates"].as_array().cloned().unwrap_or_default();
                if let Some(gate) = gates.into_iter().find(|gate| gate["state"] == "pending") {
                    return Some(gate);
                }
                if ended(&view) {
                    return None;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }
}

/// Whether the last turn of a thread has ended.
pub(crate) fn ended(view: &Value) -> bool {
    let turns = view["turns"].as_array().map_or(&[][..], Vec::as_slice);
    turns
        .last()
        .is_some_and(|turn| matches!(turn["state"].as_str(), Some("done" | "failed" | "aborted")))
}

/// Kills something, and sees to it that everything comes back.
async fn kill(stack: &mut Stack, ground: &Ground, dice: &mut Dice) -> String {
    match dice.roll(8) {
        0 => {
            let before = stack.processes();
            signal(stack.supervisor(), Signal::KILL);
            stack.ended(PATIENCE).await;
            stack.until_dead(&before).await;
            stack.start_again();
            *ground.api.lock().unwrap() = stack.fresh_api();
            "the supervisor".to_owned()
        }
        1 => {
            let before = stack.processes();
            before.iter().for_each(Process::kill);
            stack.ended(PATIENCE).await;
            stack.until_dead(&before).await;
            stack.start_again();
            *ground.api.lock().unwrap() = stack.fresh_api();
            "everything".to_owned()
        }
        _ => {
            let mut running: Vec<_> = Vec::new();
            until(PATIENCE, || {
                running = stack
                    .services()
                    .into_iter()
                    .filter_map(|(name, process)| Some((name, process?)))
                    .collect();
                !running.is_empty()
            })
            .await
            .unwrap();
            let one = dice.roll(u32::try_from(running.len()).unwrap());
            let (name, process) = running.swap_remove(one as usize);
            process.kill();
            name
        }
    }
}

/// Waits until no turn is live, and denies whatever card is left.
async fn rest(api: &Api, wishes: &[Wish]) -> BTreeMap<String, Value> {
    let deadline = Instant::now() + REST;
    let mut views = BTreeMap::new();
    for wish in wishes {
        loop {
            let view = api.thread(&wish.thread).await.ok();
            let gates = view.as_ref().and_then(|view| view["gates"].as_array());
            for gate in gates.into_iter().flatten() {
                if gate["state"] == "pending" {
                    let _ = api.decide(gate, "deny").await;
                }
            }
            if let Some(view) = view.filter(ended) {
                views.insert(wish.file.clone(), view);
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{} never ended: {:#}",
                wish.file,
                api.thread(&wish.thread).await.unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    views
}

/// What the registry says against what the kernel saw.
pub(crate) fn judge(wish: &Wish, view: &Value, effects: u32) -> Result<&'static str, String> {
    let calls = view["calls"].as_array().cloned().unwrap_or_default();
    let [call] = calls.as_slice() else {
        return match (calls.len(), effects) {
            (0, 0) if wish.answered.is_none() => Ok("never asked"),
            other => Err(format!("{other:?} calls and effects")),
        };
    };
    let state = call["state"].as_str().unwrap_or_default();
    let told = view["messages"].to_string();
    let ok = call["ok"].as_bool().unwrap_or(false);
    match (wish.answered, state, effects) {
        (Some("approve") | None, "settled", 1) if ok => Ok("ran"),
        // Killed between its word and its deed: the file was looked at, and the truth is told.
        (Some("approve") | None, "settled", 0) if !ok && told.contains("not written") => {
            Ok("not done, and told")
        }
        (Some("approve") | None, "orphaned", 0 | 1) => {
            if told.contains("not known") || told.contains("unknown") {
                Ok("unknown, and told")
            } else {
                Err("nobody was told that its end is unknown".to_owned())
            }
        }
        (Some("deny") | None, "denied", 0) => Ok("denied"),
        (None, "expired" | "cancelled", 0) => Ok("ended unanswered"),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_nothing_is_lost_doubled_or_done_without_a_decision() {
    let seed = set("KAZMA_TEST_SEED").map_or(0x6b61_7a6d_6100_0001, |seed| seed.parse().unwrap());
    let kills = match set("KAZMA_TEST_LONG") {
        Some(_) => KILLS_LONG,
        None => KILLS,
    };
    println!("KAZMA_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let mut stack = Stack::start();
    let witness = Witness::on(&stack.folder().join("workspace"));
    let ground = Arc::new(Ground {
        api: Mutex::new(stack.fresh_api()),
        wishes: Mutex::default(),
        next: AtomicU32::new(0),
        over: AtomicBool::new(false),
    });
    let people: Vec<_> = (0..PEOPLE)
        .map(|n| tokio::spawn(Arc::clone(&ground).person(seed ^ u64::from(n + 1) << 32)))
        .collect();
    let mut killed = BTreeMap::<String, u32>::new();
    for _ in 0..kills {
        // The moment is part of the dice: work goes on meanwhile.
        tokio::time::sleep(Duration::from_millis(dice.roll(250).into())).await;
        let name = kill(&mut stack, &ground, &mut dice).await;
        *killed.entry(name).or_default() += 1;
    }
    ground.over.store(true, Ordering::SeqCst);
    for person in people {
        person.await.unwrap();
    }

    // In order once, so that what is judged is what is on the disk.
    stack.end().await;
    stack.start_again();
    let wishes = ground.wishes.lock().unwrap().clone();
    let views = rest(&stack.fresh_api(), &wishes).await;
    let happened = witness.seen();
    let mut ends = BTreeMap::<&str, u32>::new();
    let mut wrong = Vec::new();
    for wish in &wishes {
        let effects = happened.get(&wish.file).copied().unwrap_or(0);
        match judge(wish, &views[&wish.file], effects) {
            Ok(end) => *ends.entry(end).or_default() += 1,
            Err(why) => wrong.push((wish, why)),
        }
    }
    let strange: Vec<_> = happened
        .keys()
        .filter(|name| !wishes.iter().any(|wish| wish.file == **name))
        .collect();
    println!("{kills} kills {killed:?}; {} wishes {ends:?}", wishes.len());
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    assert!(strange.is_empty(), "seed {seed}: {strange:?}");
    assert!(ends.get("ran").copied() > Some(kills / 20), "{ends:?}");
    let audit = stack.command(&["audit", "verify"]);
    assert!(audit.status.success(), "{audit:?}");
}
