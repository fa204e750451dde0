//! The gate machine under a model checker: every order of two persons, two executors, the clock, restarts
//! and repeated requests, over the real `Call::apply`.
//!
//! The registry is modelled as it works: a request reads the row, applies, and writes the row back only if
//! its version is still the one it read. What it read may be one or two writes old. A model without that
//! check must find the double run, or the model proves nothing.

#![cfg(test)]

use std::hash::{Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use kazma_domain::{
    Call, Decision, Digest, Event, Grounds, Id, Moment, Outcome, Role, Service, State as CallState,
    Surface, Vote, call::Applied, id::Kind,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Seconds since the question was asked: while it waits; after a permit of the first moment; when the card
/// has expired; when an approval or a silent claim has.
const HOURS: [i64; 4] = [0, 70, 3_700, 100_000];
/// How many votes, permits and restarts there may be: enough for each to race with each other one.
const VOTES: u8 = 3;
const PERMITS: usize = 3;
const RESTARTS: u8 = 2;
/// Until when the card waits.
const CARD: i64 = 3_600;
const EXECUTORS: usize = 2;
/// The property that the version check is there for.
const DOUBLE: &str = "it runs at most once";
const PERSONS: usize = 2;

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000 + seconds)
}

fn id<K: Kind>(n: usize) -> Id<K> {
    Id::from_uuid(uuid::Uuid::from_u128(n as u128 + 1))
}

fn digest(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

/// The row on the disk.
#[derive(Debug, Clone, PartialEq)]
struct Row(Call);

/// All that differs between two rows of this model. The checker tells states apart by it.
impl Hash for Row {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let call = &self.0;
        (call.version, call.state.name()).hash(to);
        match &call.state {
            CallState::Pending { votes, .. } => hash_votes(votes, to),
            CallState::Approved {
                grounds,
                use_before,
            } => {
                hash_votes(grounds.vote(), to);
                use_before.as_second().hash(to);
            }
            CallState::Claimed {
                grounds,
                permit,
                at,
                ..
            } => {
                hash_votes(grounds.vote(), to);
                (permit.uuid(), at.as_second()).hash(to);
            }
            CallState::Settled { at, .. }
            | CallState::Denied { at, .. }
            | CallState::Expired { at, .. }
            | CallState::Cancelled { at }
            | CallState::Superseded { at, .. }
            | CallState::Orphaned { at, .. } => at.as_second().hash(to),
        }
    }
}

fn hash_votes<'v, H: Hasher>(votes: impl IntoIterator<Item = &'v Vote>, to: &mut H) {
    for vote in votes {
        (vote.by.uuid(), vote.decision == Decision::Approve).hash(to);
    }
}

/// A process that runs calls, as far as it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Executor {
    /// Nothing of this call.
    Idle,
    /// It holds a permit; whether the registry took it, it may not have heard.
    Holds { permit: usize, until: i64 },
    /// The registry's answer is here: it may act.
    May,
    /// It has acted and not been heard.
    Acted,
}

/// Who asks the registry for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Vote(usize, Decision),
    Redeem(usize),
    Settle(usize),
    Withdraw(usize),
    Cancel,
    Tick,
}

#[derive(Debug, Clone, PartialEq, Hash)]
struct World {
    row: Row,
    hour: usize,
    started: i64,
    executors: [Executor; EXECUTORS],
    /// The row before the last write, and the one before that: what a slow request may have read.
    before: [Option<Row>; 2],
    votes: u8,
    permits: usize,
    restarts: u8,
    /// How often the effect happened.
    effects: u8,
    /// Whether a vote to approve was written, ever.
    approved: bool,
    /// What the row said when it first said that it has ended.
    ended: Option<Row>,
    /// An ended row was written over.
    revived: bool,
    /// A card expired within a minute of the registry's start.
    hasty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Hour,
    RestartRegistry,
    RestartExecutor(usize),
    Collect(usize),
    /// A request that read the row so many writes ago. Its answer arrives, or is lost.
    Ask {
        request: Request,
        age: usize,
        heard: bool,
    },
    Act(usize),
}

/// The model, with or without the version check.
struct Gate {
    compares_versions: bool,
}

impl Gate {
    fn event(world: &World, request: Request) -> Option<Event> {
        Some(match request {
            Request::Vote(person, decision) => Event::Vote {
                vote: Vote {
                    decision,
                    by: id(person),
                    name: "somebody".to_owned(),
                    surface: Surface::Web,
                    at: at(0),
                    reason: None,
                },
                role: Role::Admin,
                card: digest("card"),
                electorate: 2,
            },
            Request::Redeem(n) => {
                let Executor::Holds { permit, until } = world.executors[n] else {
                    return None;
                };
                Event::Redeem {
                    permit: id(permit),
                    permit_expires_at: at(until),
                    plan: digest("plan"),
                    executor: Service::RunnerApi,
                    // An executor repeats its attempt, and never another's.
                    attempt: id(permit),
                }
            }
            Request::Settle(_) => Event::Settle {
                executor: Service::RunnerApi,
                outcome: Outcome {
                    ok: true,
                    summary: "exit 0".to_owned(),
                },
            },
            Request::Withdraw(_) => Event::Withdraw {
                executor: Service::RunnerApi,
                reason: "changed".to_owned(),
            },
            Request::Cancel => Event::Cancel,
            Request::Tick => Event::Tick,
        })
    }

    fn write(&self, world: &mut World, request: Request, age: usize, heard: bool) -> Option<()> {
        let read = match age {
            0 => world.row.clone(),
            age => world.before[age - 1].clone()?,
        };
        let event = Self::event(world, request)?;
        let moment = Moment {
            now: at(HOURS[world.hour]),
            started: at(world.started),
        };
        let applied = read.0.apply(&event, moment);
        if let Ok(Applied::Changed(next)) = &applied {
            // Somebody wrote meanwhile: this one is undone and may be asked for again.
            if self.compares_versions && world.row.0.version != read.0.version {
                return Some(());
            }
            world.revived |= world.row.0.state.is_final();
            if let CallState::Expired {
                approved: false, ..
            } = &next.state
            {
                world.hasty |= HOURS[world.hour] - world.started < 60;
            }
            world.approved |= matches!(
                &next.state,
                CallState::Approved {
                    grounds: Grounds::Person { .. },
                    ..
                }
            );
            let written = std::mem::replace(&mut world.row, Row(Call::clone(next)));
            world.before.rotate_right(1);
            world.before[0] = Some(written);
            if next.state.is_final() && world.ended.is_none() {
                world.ended = Some(world.row.clone());
            }
        }
        if heard && applied.is_ok() {
            match request {
                Request::Redeem(n) => world.executors[n] = Executor::May,
                Request::Settle(n) | Request::Withdraw(n) => world.executors[n] = Executor::Idle,
                _ => {}
            }
        }
        Some(())
    }
}

impl Model for Gate {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            row: Row(Call {
                id: id(1),
                gate: Some(id(2)),
                thread: id(3),
                turn: id(4),
                index: 0,
                principal: Service::Agent,
                executor: Service::RunnerApi,
                plan: digest("plan"),
                version: 1,
                state: CallState::Pending {
                    expires_at: at(CARD),
                    card: digest("card"),
                    votes: Vec::new(),
                },
            }),
            hour: 0,
            started: -100,
            executors: [Executor::Idle; EXECUTORS],
            before: [None, None],
            votes: 0,
            permits: 0,
            restarts: 0,
            effects: 0,
            approved: false,
            ended: None,
            revived: false,
            hasty: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.hour + 1 < HOURS.len() {
            steps.push(Step::Hour);
        }
        if world.restarts < RESTARTS {
            steps.push(Step::RestartRegistry);
            steps.extend((0..EXECUTORS).map(Step::RestartExecutor));
        }
        for n in 0..EXECUTORS {
            match world.executors[n] {
                Executor::Idle if world.permits < PERMITS => steps.push(Step::Collect(n)),
                Executor::May => steps.push(Step::Act(n)),
                _ => {}
            }
        }
        for request in requests(world) {
            for age in 0..=world.before.iter().flatten().count() {
                let mut ask = |heard| {
                    steps.push(Step::Ask {
                        request,
                        age,
                        heard,
                    });
                };
                ask(true);
                // Of the others nobody keeps in mind whether the answer came.
                if matches!(request, Request::Redeem(_) | Request::Settle(_)) {
                    ask(false);
                }
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Hour => next.hour += 1,
            Step::RestartRegistry => {
                next.restarts += 1;
                // What was read and not written is gone with it.
                next.before = [None, None];
                next.started = HOURS[next.hour];
            }
            Step::RestartExecutor(n) => {
                next.restarts += 1;
                next.executors[n] = Executor::Idle;
            }
            Step::Collect(n) => {
                if !matches!(next.row.0.state, CallState::Approved { .. }) {
                    return None;
                }
                next.permits += 1;
                next.executors[n] = Executor::Holds {
                    permit: next.permits,
                    until: HOURS[next.hour] + 60,
                };
            }
            Step::Ask {
                request,
                age,
                heard,
            } => {
                next.votes += u8::from(matches!(request, Request::Vote(..)));
                self.write(&mut next, request, age, heard)?;
            }
            Step::Act(n) => {
                next.effects += 1;
                next.executors[n] = Executor::Acted;
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DOUBLE, |_, world: &World| world.effects <= 1),
            Property::always("nothing runs that nobody approved", |_, world: &World| {
                world.effects == 0 || world.approved
            }),
            Property::always("what has ended stays as it ended", |_, world: &World| {
                !world.revived && world.ended.as_ref().is_none_or(|row| *row == world.row)
            }),
            Property::always("no card expires in the first minute", |_, world: &World| {
                !world.hasty
            }),
            Property::sometimes("it runs and is settled", |_, world: &World| {
                world.effects == 1 && world.row.0.state.name() == "settled"
            }),
            Property::sometimes("two people deny", |_, world: &World| {
                world.row.0.state.name() == "denied"
            }),
            Property::sometimes("it expires", |_, world: &World| {
                world.row.0.state.name() == "expired"
            }),
            Property::sometimes("nobody knows whether it ran", |_, world: &World| {
                world.row.0.state.name() == "orphaned"
            }),
            Property::sometimes("it waits through a restart", |_, world: &World| {
                world.restarts > 0 && world.row.0.state.name() == "pending"
            }),
        ]
    }
}

/// What anybody may ask for now.
fn requests(world: &World) -> Vec<Request> {
    let mut requests = vec![Request::Tick, Request::Cancel];
    for person in (0..PERSONS).filter(|_| world.votes < VOTES) {
        requests.push(Request::Vote(person, Decision::Approve));
        requests.push(Request::Vote(person, Decision::Deny));
    }
    for n in 0..EXECUTORS {
        match world.executors[n] {
            Executor::Holds { .. } => {
                requests.extend([Request::Redeem(n), Request::Withdraw(n)]);
            }
            Executor::Acted => requests.push(Request::Settle(n)),
            Executor::Idle | Executor::May => {}
        }
    }
    requests
}

#[test]
fn no_order_of_events_breaks_the_gate() {
    let checker = Gate {
        compares_versions: true,
    }
    .checker()
    .threads(2)
    .spawn_bfs()
    .join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn without_the_version_check_the_model_finds_the_double_run() {
    let checker = Gate {
        compares_versions: false,
    }
    .checker()
    .threads(2)
    .finish_when(HasDiscoveries::AllOf([DOUBLE].into()))
    .spawn_bfs()
    .join();
    assert!(checker.discovery(DOUBLE).is_some());
}
