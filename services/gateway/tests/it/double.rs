//! A registry and a runner that do as the test says.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
};

use futures_util::{FutureExt as _, StreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use kazma_domain::{
    Action, Call, CallId, Decision, GateId, Grounds, MessageId, Plan, Service, State, ThreadId,
    TurnId, TurnState, Vote,
    call::Denial,
    card::{Card, Origin, Source},
    plan::Sandbox,
};
use kazma_gateway::{Answer, Registry, Runner, Upstream};
use kazma_wire::{
    Problem,
    agent::EntryKind,
    events::{Event, What},
    executor::Output,
    gateway::{
        AbortRequest, Decided, DecisionRequest, ExtendRequest, Extended, NewMessage, NewThread,
        ThreadCreated, ThreadSummary, TurnOpened,
    },
    runner::RunnerStatus,
    view::{CallView, EntryView, GateView, ThreadView, TurnView},
};
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(crate) fn thread_id(n: u128) -> ThreadId {
    ThreadId::from_uuid(Uuid::from_u128(n))
}

pub(crate) fn gate_id(n: u128) -> GateId {
    GateId::from_uuid(Uuid::from_u128(n))
}

pub(crate) fn turn_id(n: u128) -> TurnId {
    TurnId::from_uuid(Uuid::from_u128(n))
}

/// A registry in memory.
#[derive(Debug)]
pub(crate) struct Double {
    threads: Mutex<HashMap<ThreadId, ThreadView>>,
    gates: Mutex<Vec<GateView>>,
    events: Mutex<Vec<Event>>,
    seq: watch::Sender<i64>,
    next: AtomicI64,
    /// The last electorate that a decision named.
    pub(crate) electorate: AtomicU32,
    /// The requests that decided.
    pub(crate) decisions: Mutex<Vec<DecisionRequest>>,
    /// The messages that were written.
    pub(crate) said: Mutex<Vec<NewMessage>>,
    /// Whether nothing answers.
    pub(crate) away: std::sync::atomic::AtomicBool,
    /// Connections that followed the events, with the number they began after.
    pub(crate) followed: Mutex<Vec<i64>>,
}

impl Default for Double {
    fn default() -> Self {
        Self {
            threads: Mutex::default(),
            gates: Mutex::default(),
            events: Mutex::default(),
            seq: watch::channel(0).0,
            next: AtomicI64::new(100),
            electorate: AtomicU32::new(0),
            decisions: Mutex::default(),
            said: Mutex::default(),
            away: false.into(),
            followed: Mutex::default(),
        }
    }
}

fn refused<T>(problem: Problem) -> Result<T, Upstream> {
    Err(Upstream::Refused(problem))
}

fn missing<T>() -> Result<T, Upstream> {
    refused(Problem::new(404, "not-found", "There is nothing here"))
}

/// Three lines of Python that wait.
pub(crate) fn waiting(n: u128, thread: ThreadId) -> GateView {
    let plan = Plan {
        tool: "python_exec".to_owned(),
        arguments: serde_json::json!({"code": "print(sum(range(10)))"}),
        action: Action::RunPython {
            code: "print(sum(range(10)))".to_owned(),
            timeout_ms: 30_000,
            sandbox: Sandbox {
                tier: "native".to_owned(),
                runtime: "bubblewrap".to_owned(),
                image: None,
                limit: "shares your kernel".to_owned(),
                enforcement: vec!["memory 512 MiB (cgroup v2)".to_owned()],
                network: "none".to_owned(),
                workspace: "read-only".to_owned(),
            },
        },
    };
    let card = Card {
        gate: gate_id(n),
        thread,
        turn: turn_id(n),
        plan: plan.clone(),
        reason: "Code always asks.".to_owned(),
        rule: "floor.code".to_owned(),
        provenance: vec![Origin {
            argument: "code".to_owned(),
            source: Source::Person,
            words: "in your message".to_owned(),
        }],
        count: 1,
    };
    let digest = card.digest().unwrap();
    let call = Call {
        id: CallId::from_uuid(Uuid::from_u128(n)),
        gate: Some(gate_id(n)),
        thread,
        turn: turn_id(n),
        index: 0,
        principal: Service::Agent,
        executor: Service::RunnerApi,
        plan: plan.digest().unwrap(),
        version: 1,
        state: State::Pending {
            expires_at: at(300),
            card: digest,
            votes: Vec::new(),
        },
    };
    GateView {
        gate: gate_id(n),
        thread,
        turn: turn_id(n),
        args_digest: digest,
        state: "pending".to_owned(),
        asked_at: at(0),
        expires_at: Some(at(300)),
        votes: Vec::new(),
        calls: vec![CallView {
            call,
            tool: plan.tool.clone(),
            arguments: plan.arguments.clone(),
            filed_at: at(0),
            output: None,
        }],
        card,
    }
}

impl Double {
    /// A thread with one message and its turn.
    pub(crate) fn thread(&self, n: u128, text: &str) -> ThreadId {
        let thread = thread_id(n);
        let entry = EntryView {
            id: MessageId::from_uuid(Uuid::from_u128(n)),
            seq: 1,
            turn: turn_id(n),
            at: at(0),
            kind: EntryKind::Message {
                text: text.to_owned(),
                by: "operator".to_owned(),
            },
        };
        let view = ThreadView {
            thread,
            created_at: at(0),
            entries: vec![entry],
            turns: vec![TurnView {
                turn: turn_id(n),
                state: TurnState::Running,
                opened_at: at(0),
            }],
            gates: Vec::new(),
            calls: Vec::new(),
            seq: 1,
        };
        self.threads.lock().unwrap().insert(thread, view);
        thread
    }

    /// A card that waits in `thread`.
    pub(crate) fn ask(&self, n: u128, thread: ThreadId) -> GateView {
        let view = waiting(n, thread);
        self.gates.lock().unwrap().push(view.clone());
        view
    }

    /// A gate that has ended without anybody.
    pub(crate) fn expire(&self, gate: GateId) {
        let mut gates = self.gates.lock().unwrap();
        let view = gates.iter_mut().find(|view| view.gate == gate).unwrap();
        view.state = "expired".to_owned();
        view.expires_at = None;
        view.calls[0].call.state = State::Expired {
            approved: false,
            at: at(300),
        };
    }

    /// What the agent or a tool adds to a thread.
    pub(crate) fn add(&self, thread: ThreadId, n: u128, kind: EntryKind) {
        let mut threads = self.threads.lock().unwrap();
        let view = threads.get_mut(&thread).unwrap();
        let entry = EntryView {
            id: MessageId::from_uuid(Uuid::from_u128(n)),
            seq: 2,
            turn: view.turns[0].turn,
            at: at(5),
            kind,
        };
        view.entries.push(entry);
    }

    /// Tells an event that is kept; its number.
    pub(crate) fn tell(&self, thread: ThreadId, what: What) -> i64 {
        let seq = self.next.fetch_add(1, Ordering::SeqCst);
        let event = Event {
            seq: Some(seq),
            at: at(1),
            thread,
            turn: Some(turn_id(1)),
            what,
        };
        self.events.lock().unwrap().push(event);
        self.seq.send_replace(seq);
        seq
    }

    /// Breaks every connection that follows the events.
    pub(crate) fn break_off(&self) {
        self.seq.send_replace(-1);
    }

    fn answer<'a, T: Send + 'a>(
        &self,
        work: impl FnOnce() -> Result<T, Upstream>,
    ) -> Answer<'a, T> {
        let answer = if self.away.load(Ordering::SeqCst) {
            Err(Upstream::Silent("away".into()))
        } else {
            work()
        };
        std::future::ready(answer).boxed()
    }

    fn decided(&self, gate: GateId, request: DecisionRequest) -> Result<Decided, Upstream> {
        self.electorate.store(request.electorate, Ordering::SeqCst);
        let mut gates = self.gates.lock().unwrap();
        let Some(view) = gates.iter_mut().find(|view| view.gate == gate) else {
            return missing();
        };
        if request.card != view.args_digest {
            return refused(
                Problem::new(409, "card-changed", "The card has changed")
                    .field("card")
                    .with("args_digest", view.args_digest.to_string()),
            );
        }
        self.decisions.lock().unwrap().push(request.clone());
        let vote = Vote {
            decision: request.decision,
            by: request.actor.id,
            name: request.actor.name.clone(),
            surface: request.surface,
            at: at(10),
            reason: request.reason,
        };
        match view.votes.first() {
            Some(first) if first.by == vote.by && first.decision == vote.decision => {}
            Some(first) => {
                return refused(
                    Problem::new(409, "gate-decided", "Somebody decided first")
                        .with("decision", first.decision.to_string())
                        .with("decided_by", first.name.as_str())
                        .with("surface", first.surface.name())
                        .with("decided_at", first.at.to_string()),
                );
            }
            None if view.state != "pending" => {
                return refused(
                    Problem::new(409, "gate-ended", "The question has ended")
                        .with("state", view.state.as_str()),
                );
            }
            None => {
                view.votes.push(vote.clone());
                view.expires_at = None;
                let card = view.args_digest;
                view.calls[0].call.state = match vote.decision {
                    Decision::Approve => State::Approved {
                        grounds: Grounds::Person { vote, card },
                        use_before: at(1000),
                    },
                    Decision::Deny => State::Denied {
                        by: Denial::People { votes: vec![vote] },
                        at: at(10),
                    },
                };
                view.state = view.calls[0].call.state.name().to_owned();
            }
        }
        Ok(Decided {
            settled: true,
            state: view.state.clone(),
            votes: view.votes.clone(),
        })
    }
}

/// For the test of a settled card: what its call returned.
pub(crate) fn output(text: &str) -> Output {
    Output {
        text: text.to_owned(),
        truncated: false,
        total_bytes: text.len() as u64,
        note: String::new(),
        origin: String::new(),
    }
}

impl Registry for Double {
    fn new_thread(&self, _: NewThread) -> Answer<'_, ThreadCreated> {
        self.answer(|| {
            let n = self.next.fetch_add(1, Ordering::SeqCst);
            Ok(ThreadCreated {
                thread: self.thread(n.unsigned_abs().into(), ""),
            })
        })
    }

    fn new_message(&self, thread: ThreadId, request: NewMessage) -> Answer<'_, TurnOpened> {
        self.answer(|| {
            if !self.threads.lock().unwrap().contains_key(&thread) {
                return missing();
            }
            self.said.lock().unwrap().push(request);
            Ok(TurnOpened { turn: turn_id(1) })
        })
    }

    fn threads(&self) -> Answer<'_, Vec<ThreadSummary>> {
        self.answer(|| {
            let threads = self.threads.lock().unwrap();
            Ok(threads
                .values()
                .map(|view| ThreadSummary {
                    thread: view.thread,
                    title: match &view.entries[0].kind {
                        EntryKind::Message { text, .. } => text.clone(),
                        _ => String::new(),
                    },
                    created_at: view.created_at,
                    changed_at: view.created_at,
                    pending: 0,
                })
                .collect())
        })
    }

    fn thread(&self, thread: ThreadId) -> Answer<'_, ThreadView> {
        self.answer(|| {
            let Some(mut view) = self.threads.lock().unwrap().get(&thread).cloned() else {
                return missing();
            };
            view.gates = self
                .gates
                .lock()
                .unwrap()
                .iter()
                .filter(|gate| gate.thread == thread)
                .cloned()
                .collect();
            Ok(view)
        })
    }

    fn gates(
        &self,
        state: Option<&'static str>,
        limit: u32,
        before: Option<GateId>,
    ) -> Answer<'_, Vec<GateView>> {
        self.answer(|| {
            let gates = self.gates.lock().unwrap();
            let wanted = |gate: &&GateView| {
                state.is_none_or(|state| (gate.state == "pending") == (state == "pending"))
            };
            let after = before.map_or(0, |before| {
                1 + gates.iter().position(|gate| gate.gate == before).unwrap()
            });
            Ok(gates
                .iter()
                .skip(after)
                .filter(wanted)
                .take(limit as usize)
                .cloned()
                .collect())
        })
    }

    fn gate(&self, gate: GateId) -> Answer<'_, GateView> {
        self.answer(|| {
            let gates = self.gates.lock().unwrap();
            gates
                .iter()
                .find(|view| view.gate == gate)
                .cloned()
                .map_or_else(missing, Ok)
        })
    }

    fn extend(&self, gate: GateId, _: ExtendRequest) -> Answer<'_, Extended> {
        self.answer(|| {
            let mut gates = self.gates.lock().unwrap();
            let Some(view) = gates.iter_mut().find(|view| view.gate == gate) else {
                return missing();
            };
            if view.state != "pending" {
                return refused(
                    Problem::new(409, "gate-ended", "The question has ended")
                        .with("state", view.state.as_str()),
                );
            }
            let expires_at = at(700);
            view.expires_at = Some(expires_at);
            Ok(Extended { expires_at })
        })
    }

    fn decide(&self, gate: GateId, request: DecisionRequest) -> Answer<'_, Decided> {
        self.answer(|| self.decided(gate, request))
    }

    fn abort(&self, turn: TurnId, _: AbortRequest) -> Answer<'_, ()> {
        self.answer(|| {
            if turn == turn_id(1) {
                Ok(())
            } else {
                missing()
            }
        })
    }

    fn events(&self, after: i64) -> Answer<'_, BoxStream<'static, Result<Event, Upstream>>> {
        self.answer(|| {
            self.followed.lock().unwrap().push(after);
            let kept: Vec<Event> = self
                .events
                .lock()
                .unwrap()
                .iter()
                .filter(|event| event.seq > Some(after))
                .cloned()
                .collect();
            let sent = kept.last().and_then(|event| event.seq).unwrap_or(after);
            // Whatever comes later ends this connection, and the next one begins after what was sent.
            let seq = self.seq.subscribe();
            let rest = stream::once(async move {
                let mut seq = seq;
                drop(seq.wait_for(|now| *now > sent || *now == -1).await);
            });
            let rest = rest.filter_map(|()| async { None });
            Ok(stream::iter(kept.into_iter().map(Ok)).chain(rest).boxed())
        })
    }

    fn alive(&self) -> Answer<'_, ()> {
        self.answer(|| Ok(()))
    }
}

impl Runner for Double {
    fn status(&self) -> Answer<'_, RunnerStatus> {
        self.answer(|| {
            Ok(serde_json::from_value(serde_json::json!({
                "tier": "native", "runtime": "bubblewrap", "ready": true, "starting": false, "reason": "",
                "fix": "", "enforcement": [], "limit": "shares your kernel", "pool": 1, "workspace": "/workspace",
            }))
            .unwrap())
        })
    }
}
