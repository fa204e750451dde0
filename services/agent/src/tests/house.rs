//! The doubles: one house that is registry, runner and model at once, and remembers what was asked.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use camino::Utf8PathBuf;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use kazma_domain::{
    Call, CallId, Clock, Digest, Entropy, GateId, Grounds, MessageId, Outcome, Service, State,
    ThreadId, TurnId, TurnState,
};
use kazma_metrics::Meters;
use kazma_store::{Database, agent::MIGRATIONS};
use kazma_wire::{
    Problem,
    agent::{
        Entry as WireEntry, EntryKind as WireKind, FinishRequest, LiveTurn, TurnCall,
        UnroutableRequest,
    },
    executor::Output,
    model::{ChatMessage, ChatRequest, Delta, ModelInfo, ToolCall},
    poll::{Poll, Polled},
    runner::PlanRequest,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use uuid::Uuid;

use crate::{
    Backoff, Metrics,
    clients::{Answer, ClientError, Deltas, Entry, Model, Registry, Runner, Seen},
    journal::Journal,
    slots::Slot,
    turn::{Agent, Stopped, Turn},
};

pub(crate) fn thread() -> ThreadId {
    ThreadId::from_uuid(Uuid::from_u128(7))
}

pub(crate) fn turn(n: u128) -> TurnId {
    TurnId::from_uuid(Uuid::from_u128(n))
}

pub(crate) fn at() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

/// What the runner does when a call is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hands {
    /// It files the call and answers.
    Work,
    /// It hears the call and dies before it files it.
    DieBefore,
    /// It files the call and dies before it answers.
    DieAfter,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) live: Vec<LiveTurn>,
    pub(crate) ledger: Vec<WireEntry>,
    pub(crate) calls: Vec<TurnCall>,
    pub(crate) seq: i64,
    /// How a new call of a tool begins; asked about if it is not here.
    pub(crate) begins: Vec<(&'static str, State)>,
    /// What is refused when a tool is named.
    pub(crate) problems: Vec<(&'static str, Problem)>,
    pub(crate) hands: Hands,
    pub(crate) named: u32,
    /// Tools that were named to the process for what leaves the house.
    pub(crate) named_outside: Vec<String>,
    pub(crate) unroutable: Vec<UnroutableRequest>,
    /// The model's next answers; none is one that never comes.
    pub(crate) answers: VecDeque<Vec<Delta>>,
    pub(crate) asked: Vec<ChatRequest>,
    pub(crate) context_bytes: usize,
    /// So many requests get no answer.
    pub(crate) silent: u32,
    pub(crate) progress: Vec<(TurnId, TurnState)>,
    pub(crate) finished: Vec<(TurnId, FinishRequest)>,
    pub(crate) streams_open: i32,
}

/// The double.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) world: Mutex<World>,
    changed: watch::Sender<u64>,
}

/// The house with an agent in it.
pub(crate) struct Stage {
    pub(crate) house: Arc<House>,
    pub(crate) agent: Arc<Agent>,
    _folder: TempDir,
}

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        at()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (slot, byte) in bytes.iter_mut().zip(next.iter().cycle()) {
            *slot = *byte;
        }
    }
}

/// A house in which a person said `message` in turn 1.
pub(crate) async fn stage(message: &str) -> Stage {
    let (changed, _) = watch::channel(0);
    let house = Arc::new(House {
        world: Mutex::new(World {
            live: Vec::new(),
            ledger: Vec::new(),
            calls: Vec::new(),
            seq: 0,
            begins: Vec::new(),
            problems: Vec::new(),
            hands: Hands::Work,
            named: 0,
            named_outside: Vec::new(),
            unroutable: Vec::new(),
            answers: VecDeque::new(),
            asked: Vec::new(),
            context_bytes: 1_000_000,
            silent: 0,
            progress: Vec::new(),
            finished: Vec::new(),
            streams_open: 0,
        }),
        changed,
    });
    house.message(turn(1), message);
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().join("agent.db")).unwrap();
    let agent = Arc::new(Agent {
        registry: Arc::<House>::clone(&house),
        runner: Arc::<House>::clone(&house),
        egress: Arc::new(Outside(Arc::clone(&house))),
        model: Arc::new(Arc::clone(&house)),
        journal: Journal(Database::open(&path, &MIGRATIONS).await.unwrap()),
        clock: Arc::new(Fixed),
        entropy: Arc::new(Counting::default()),
        backoff: Backoff {
            first: Duration::from_millis(1),
            most: Duration::from_millis(2),
        },
        metrics: Metrics::new(&Meters::default()).unwrap(),
    });
    Stage {
        house,
        agent,
        _folder: folder,
    }
}

impl Stage {
    /// Starts the agent's work on a live turn.
    pub(crate) fn start(&self, n: u128) -> JoinHandle<Result<(), Stopped>> {
        let agent = Arc::clone(&self.agent);
        let live = self.house.look(|world| {
            world
                .live
                .iter()
                .find(|live| live.turn == turn(n))
                .cloned()
                .unwrap()
        });
        tokio::spawn(async move {
            let mut slot = Slot::new(Arc::new(tokio::sync::Semaphore::new(1)));
            Turn::new(&agent, &live, &mut slot).run().await
        })
    }

    /// Works on turn 1 to its end and returns how it ended.
    pub(crate) async fn run(&self) -> FinishRequest {
        self.start(1).await.unwrap().unwrap();
        self.house
            .look(|world| world.finished.last().unwrap().1.clone())
    }
}

impl House {
    pub(crate) fn look<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.world.lock().unwrap())
    }

    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let result = self.look(f);
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Waits until `f` finds what it looks for.
    pub(crate) async fn until<T>(&self, f: impl Fn(&mut World) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(found) = self.look(&f) {
                return found;
            }
            changes.changed().await.unwrap();
        }
    }

    /// Adds an entry to the ledger.
    pub(crate) fn entry(&self, turn: TurnId, kind: WireKind) -> i64 {
        self.change(|world| {
            world.seq += 1;
            let seq = world.seq;
            let id = MessageId::from_uuid(Uuid::from_u128(u128::try_from(seq).unwrap()));
            world.ledger.push(WireEntry {
                id,
                seq,
                turn,
                at: at(),
                kind,
            });
            seq
        })
    }

    /// A person says `text` and opens a turn.
    pub(crate) fn message(&self, turn: TurnId, text: &str) {
        let kind = WireKind::Message {
            text: text.to_owned(),
            by: "Ana".to_owned(),
        };
        let seq = self.entry(turn, kind);
        self.change(|world| {
            world.live.push(LiveTurn {
                turn,
                thread: thread(),
                state: TurnState::Open,
                seq,
            });
        });
    }

    /// The model's next answer.
    pub(crate) fn says(&self, deltas: Vec<Delta>) {
        self.look(|world| world.answers.push_back(deltas));
    }

    /// Moves the call with this index of turn 1 on.
    pub(crate) fn settle(&self, index: u32, state: State, output: Option<&str>) {
        self.change(|world| {
            world.seq += 1;
            let seq = world.seq;
            let call = world
                .calls
                .iter_mut()
                .find(|c| c.call.index == index && c.call.turn == turn(1))
                .unwrap();
            call.call.state = state;
            call.changed = seq;
            call.output = output.map(text);
        });
    }

    /// Waits until so many calls wait for a person.
    pub(crate) async fn pending(&self, count: usize) {
        self.until(|world| {
            let pending = |c: &&TurnCall| matches!(c.call.state, State::Pending { .. });
            (world.calls.iter().filter(pending).count() == count).then_some(())
        })
        .await;
    }

    /// The tool messages of the model's last request: id and content.
    pub(crate) fn answers_told(&self) -> Vec<(String, String)> {
        self.look(|world| {
            let messages = world.asked.last().unwrap().messages.clone();
            messages
                .into_iter()
                .filter_map(|message| match message {
                    ChatMessage::Tool {
                        tool_call_id,
                        content,
                    } => Some((tool_call_id, content)),
                    _ => None,
                })
                .collect()
        })
    }

    fn file(&self, turn: TurnId, index: u32, tool: &str, executor: Service) -> Call {
        self.change(|world| {
            if let Some(known) = world
                .calls
                .iter()
                .find(|c| c.call.turn == turn && c.call.index == index)
            {
                assert_eq!(known.tool, tool, "the same key with another call");
                return known.call.clone();
            }
            world.seq += 1;
            let begins = world.begins.iter().find(|(name, _)| *name == tool);
            let call = Call {
                id: CallId::from_uuid(Uuid::from_u128(1_000 + u128::try_from(world.seq).unwrap())),
                gate: None,
                thread: thread(),
                turn,
                index,
                principal: Service::Agent,
                executor,
                plan: Digest::of_bytes(b"plan"),
                version: 0,
                state: begins.map_or_else(pending, |(_, state)| state.clone()),
            };
            let changed = world.seq;
            let output = matches!(call.state, State::Settled { .. }).then(|| text("read"));
            world.calls.push(TurnCall {
                call: call.clone(),
                tool: tool.to_owned(),
                output,
                changed,
            });
            call
        })
    }

    fn silent<T>(&self) -> Result<T, ClientError> {
        self.look(|world| world.silent -= 1);
        Err(ClientError::Silent("connection refused".into()))
    }

    fn is_silent(&self) -> bool {
        self.look(|world| world.silent > 0)
    }
}

pub(crate) fn text(text: &str) -> Output {
    Output {
        text: text.to_owned(),
        truncated: false,
        total_bytes: u64::try_from(text.len()).unwrap(),
        note: String::new(),
        origin: String::new(),
    }
}

pub(crate) fn pending() -> State {
    State::Pending {
        expires_at: at(),
        card: Digest::of_bytes(b"card"),
        votes: Vec::new(),
    }
}

pub(crate) fn settled(ok: bool, summary: &str) -> State {
    State::Settled {
        grounds: Grounds::Rule {
            rule: "test".to_owned(),
        },
        outcome: Outcome {
            ok,
            summary: summary.to_owned(),
        },
        at: at(),
    }
}

pub(crate) fn superseded() -> State {
    State::Superseded {
        by: GateId::from_uuid(Uuid::from_u128(3)),
        at: at(),
    }
}

pub(crate) fn words(words: &str) -> Delta {
    Delta::Text {
        text: words.to_owned(),
    }
}

pub(crate) fn end(reason: &str) -> Delta {
    Delta::End {
        reason: reason.to_owned(),
    }
}

pub(crate) fn call(tool: &str, arguments: &str) -> Delta {
    Delta::Call(ToolCall {
        id: "the model repeats itself".to_owned(),
        name: tool.to_owned(),
        arguments: arguments.to_owned(),
    })
}

/// An answer that calls `tools`.
pub(crate) fn calls(tools: &[&str]) -> Vec<Delta> {
    let calls = tools.iter().map(|tool| call(tool, "{}"));
    calls.chain([end("tool_calls")]).collect()
}

/// An answer in words.
pub(crate) fn says(text: &str) -> Vec<Delta> {
    vec![words(text), end("stop")]
}

fn closed() -> ClientError {
    ClientError::Refused(Box::new(Problem::new(
        409,
        "turn-closed",
        "The turn has ended",
    )))
}

impl Registry for House {
    fn turns(&self, poll: Poll) -> Answer<'_, Polled<LiveTurn>> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            let found = |world: &mut World| {
                let ready = world.seq > poll.after || poll.wait_ms == 0;
                ready.then(|| Polled {
                    items: world.live.clone(),
                    seq: world.seq,
                })
            };
            Ok(self.until(found).await)
        })
    }

    fn ledger(&self, _: ThreadId, after: i64) -> Answer<'_, Polled<Entry>> {
        Box::pin(async move {
            let page: Vec<_> = self.look(|world| {
                world
                    .ledger
                    .iter()
                    .filter(|entry| entry.seq > after)
                    .take(3)
                    .cloned()
                    .collect()
            });
            let seq = page.last().map_or(after, |entry| entry.seq);
            Ok(Polled {
                items: page.into_iter().map(Entry::from).collect(),
                seq,
            })
        })
    }

    fn calls(&self, turn: TurnId, poll: Poll) -> Answer<'_, Polled<Seen>> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            let found = |world: &mut World| {
                let items: Vec<_> = world
                    .calls
                    .iter()
                    .filter(|c| c.call.turn == turn && c.changed > poll.after)
                    .cloned()
                    .map(Seen::from)
                    .collect();
                let seq = items
                    .iter()
                    .map(|seen| seen.changed)
                    .fold(poll.after, i64::max);
                (!items.is_empty() || poll.wait_ms == 0).then_some(Polled { items, seq })
            };
            Ok(self.until(found).await)
        })
    }

    fn progress(&self, turn: TurnId, state: TurnState) -> Answer<'_, ()> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            self.change(|world| {
                let live = world
                    .live
                    .iter_mut()
                    .find(|live| live.turn == turn)
                    .ok_or_else(closed)?;
                live.state = state;
                world.progress.push((turn, state));
                Ok(())
            })
        })
    }

    fn finish(&self, turn: TurnId, request: FinishRequest) -> Answer<'_, ()> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            assert!(!request.text.trim().is_empty(), "a turn ended in silence");
            self.change(|world| {
                let before = world.live.len();
                world.live.retain(|live| live.turn != turn);
                if world.live.len() == before {
                    return Err(closed());
                }
                world.finished.push((turn, request));
                Ok(())
            })
        })
    }

    fn unroutable(&self, request: UnroutableRequest) -> Answer<'_, Call> {
        Box::pin(async move {
            let call = self.file(
                request.turn,
                request.index,
                &request.tool,
                Service::GateRegistry,
            );
            self.look(|world| world.unroutable.push(request));
            Ok(call)
        })
    }
}

/// The double as the process for what leaves the house: it notes what is named to it.
#[derive(Debug)]
struct Outside(Arc<House>);

impl Runner for Outside {
    fn plan(&self, request: PlanRequest) -> Answer<'_, Call> {
        self.0
            .change(|world| world.named_outside.push(request.tool.clone()));
        self.0.plan(request)
    }
}

impl Runner for House {
    fn plan(&self, request: PlanRequest) -> Answer<'_, Call> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            assert!(request.arguments.is_object());
            let problem = self.look(|world| {
                world
                    .problems
                    .iter()
                    .find(|(tool, _)| *tool == request.tool)
                    .map(|(_, p)| p.clone())
            });
            if let Some(problem) = problem {
                return Err(ClientError::Refused(Box::new(problem)));
            }
            let hands = self.change(|world| {
                world.named += 1;
                world.hands
            });
            if hands == Hands::DieBefore {
                return std::future::pending().await;
            }
            let call = self.file(
                request.turn,
                request.index,
                &request.tool,
                Service::RunnerApi,
            );
            if hands == Hands::DieAfter {
                return std::future::pending().await;
            }
            Ok(call)
        })
    }
}

/// Counts the streams that nobody has dropped.
struct Open(Arc<House>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|world| world.streams_open -= 1);
    }
}

impl Model for Arc<House> {
    fn info(&self) -> Answer<'_, ModelInfo> {
        Box::pin(async move {
            let context_bytes = self.look(|world| world.context_bytes);
            Ok(ModelInfo {
                name: "scripted".to_owned(),
                demo: true,
                context_bytes,
            })
        })
    }

    fn chat(&self, request: ChatRequest) -> Answer<'_, Deltas> {
        Box::pin(async move {
            if self.is_silent() {
                return self.silent();
            }
            let next = self.change(|world| {
                world.asked.push(request);
                world.answers.pop_front()
            });
            if let Some(deltas) = next {
                return Ok(stream::iter(deltas).map(Ok).boxed());
            }
            self.change(|world| world.streams_open += 1);
            let open = Open(Arc::clone(self));
            Ok(stream::pending().inspect(move |_| _ = &open).boxed())
        })
    }
}

/// The arguments `{"code": code}` as a model writes them.
pub(crate) fn code(code: &str) -> String {
    Value::from_iter([("code".to_owned(), Value::from(code))]).to_string()
}
