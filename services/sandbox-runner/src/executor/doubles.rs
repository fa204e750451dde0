//! A registry that does what a test says, for the tests of every executor.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kazma_domain::{
    AttemptId, Call, CallId, Clock, Decision, Digest, Entropy, Grounds, PermitId, PersonId, Plan,
    Service, State, Surface, ThreadId, Tool, TurnId, Vote,
    clock::after,
    permit::{PermitClaims, SignedPermit},
};
use kazma_signing::SigningKey;
use kazma_wire::{
    Problem,
    executor::{
        Claim, FileRequest, Filed, LoseRequest, OutputRequest, Proposal, RedeemRequest, Redeemed,
        ReplanRequest, ReportRequest, SettleRequest, WithdrawRequest, Work,
    },
    poll::{Poll, Polled},
};
use tokio::sync::Notify;

use super::{Asked, Registry, RegistryError};

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Still(pub(crate) Timestamp);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Counts, so that ids differ.
#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        for (slot, byte) in bytes.iter_mut().rev().zip(next.iter().rev()) {
            *slot = *byte;
        }
    }
}

pub(crate) fn noon() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn lost<T>() -> Result<T, RegistryError> {
    Err(RegistryError::Lost("scripted".into()))
}

fn refuse<T>(status: u16, kind: &str) -> Result<T, RegistryError> {
    Err(RegistryError::Refused(Box::new(Problem::new(
        status, kind, "scripted",
    ))))
}

/// What goes wrong with a permit that the registry hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    OtherCall,
    OtherPlan,
    OtherAudience,
    OtherThread,
    Expired,
    Forged,
    Tampered,
}

/// What an answer to a redeem is about, if not about the attempt that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Astray {
    Attempt,
    Permit,
    Call,
    Plan,
    /// The call has not been claimed at all.
    State,
}

/// A registry that knows calls, hands out permits, and claims each call once.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) key: SigningKey,
    pub(crate) entropy: Counting,
    pub(crate) inner: Mutex<Inner>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) calls: HashMap<CallId, (Call, Plan)>,
    pub(crate) work: Vec<Work>,
    pub(crate) faults: VecDeque<Fault>,
    /// Answers to the next redeems that are lost after the registry did its part.
    pub(crate) lose_redeems: usize,
    /// The next redeems are refused with this kind.
    pub(crate) refuse_redeems: VecDeque<&'static str>,
    /// What the answers to the next redeems are about.
    pub(crate) astray: VecDeque<Astray>,
    pub(crate) lose_settles: usize,
    /// A filed plan is approved at once and its permit comes with the answer.
    pub(crate) approve_at_once: bool,
    pub(crate) hold_output: bool,
    /// Everything that was asked, in order.
    pub(crate) log: Vec<&'static str>,
    pub(crate) filed: Vec<FileRequest>,
    pub(crate) attempts: Vec<AttemptId>,
    pub(crate) output: String,
    pub(crate) settled: Vec<(CallId, SettleRequest)>,
    pub(crate) refuse_replan: bool,
    pub(crate) withdrawn: Vec<(CallId, String)>,
    pub(crate) lost: Vec<(CallId, String)>,
    pub(crate) reported: Vec<Vec<CallId>>,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            key: SigningKey::generate().unwrap(),
            entropy: Counting::default(),
            inner: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        let result = look(&mut self.inner.lock().unwrap());
        self.changed.notify_waiters();
        result
    }

    /// Waits until `look` sees something.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&mut Inner) -> Option<T>) -> T {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if let Some(seen) = look(&mut self.inner.lock().unwrap()) {
                    return seen;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_mins(10), wait)
            .await
            .expect("it never happened")
    }

    /// An approved call of this plan, ready to be collected.
    pub(crate) fn approve(&self, plan: &Plan) -> Call {
        let call = self.call(plan);
        self.with(|inner| {
            inner.calls.insert(call.id, (call.clone(), plan.clone()));
            inner.work.push(Work {
                call: call.clone(),
                plan: plan.clone(),
            });
        });
        call
    }

    /// A call that a rule allowed, filed with another plan than this runner would make for it.
    pub(crate) fn allowed_with_another_plan(&self, plan: &Plan) -> Call {
        let mut call = self.call(plan);
        call.plan = Digest::of_bytes(b"another");
        call.state = State::Approved {
            grounds: Grounds::Rule {
                rule: "tier-read".to_owned(),
            },
            use_before: after(noon(), SignedDuration::from_hours(24)),
        };
        self.with(|inner| {
            inner.calls.insert(call.id, (call.clone(), plan.clone()));
            inner.work.push(Work {
                call: call.clone(),
                plan: plan.clone(),
            });
        });
        call
    }

    /// A call that an earlier process had begun.
    pub(crate) fn claimed(&self, plan: &Plan) -> Call {
        let mut call = self.call(plan);
        Self::claim(
            &mut call,
            PermitId::new(noon(), &self.entropy),
            AttemptId::new(noon(), &self.entropy),
        );
        self.with(|inner| inner.calls.insert(call.id, (call.clone(), plan.clone())));
        call
    }

    fn call(&self, plan: &Plan) -> Call {
        Call {
            id: CallId::new(noon(), &self.entropy),
            gate: None,
            thread: ThreadId::new(noon(), &self.entropy),
            turn: TurnId::new(noon(), &self.entropy),
            index: 0,
            principal: Service::Agent,
            executor: Tool::find(&plan.tool).unwrap().executor,
            plan: plan.digest().unwrap(),
            version: 1,
            state: State::Approved {
                grounds: grounds(),
                use_before: after(noon(), SignedDuration::from_hours(24)),
            },
        }
    }

    fn claim(call: &mut Call, permit: PermitId, attempt: AttemptId) {
        call.state = State::Claimed {
            grounds: grounds(),
            permit,
            attempt,
            at: noon(),
            reported_at: noon(),
        };
    }

    fn permit(&self, call: &Call, fault: Fault) -> SignedPermit {
        let other = Digest::of_bytes(b"other");
        let claims = PermitClaims {
            permit: PermitId::new(noon(), &self.entropy),
            call: if fault == Fault::OtherCall {
                CallId::new(noon(), &self.entropy)
            } else {
                call.id
            },
            plan: if fault == Fault::OtherPlan {
                other
            } else {
                call.plan
            },
            thread: if fault == Fault::OtherThread {
                ThreadId::new(noon(), &self.entropy)
            } else {
                call.thread
            },
            principal: call.principal,
            audience: if fault == Fault::OtherAudience {
                Service::Gateway
            } else {
                call.executor
            },
            grounds: match &call.state {
                State::Approved { grounds, .. } => grounds.clone(),
                _ => grounds(),
            },
            policy: 1,
            epoch: 1,
            expires_at: after(
                noon(),
                SignedDuration::from_secs(if fault == Fault::Expired { 0 } else { 60 }),
            ),
        };
        if fault == Fault::Forged {
            return SigningKey::generate().unwrap().permit(claims).unwrap();
        }
        let mut permit = self.key.permit(claims).unwrap();
        if fault == Fault::Tampered {
            permit.claims.expires_at = after(noon(), SignedDuration::from_hours(1));
        }
        permit
    }
}

/// A person approved.
fn grounds() -> Grounds {
    Grounds::Person {
        vote: Vote {
            decision: Decision::Approve,
            by: PersonId::from_uuid(uuid::Uuid::from_u128(1)),
            name: "Ada".to_owned(),
            surface: Surface::Web,
            at: noon(),
            reason: None,
        },
        card: Digest::of_bytes(b"card"),
    }
}

impl Registry for Scripted {
    fn file<'a>(&'a self, request: &'a FileRequest) -> Asked<'a, Filed> {
        Box::pin(async move {
            let plan = match &request.proposal {
                Proposal::Plan(plan) => (**plan).clone(),
                Proposal::Refuse { .. } => Plan {
                    tool: request.tool.clone(),
                    arguments: request.arguments.clone(),
                    action: kazma_domain::Action::ListFolder {
                        path: String::new(),
                        pattern: None,
                    },
                },
            };
            let call = self.call(&plan);
            let permit = self.with(|inner| {
                inner.filed.push(request.clone());
                inner.calls.insert(call.id, (call.clone(), plan));
                inner.approve_at_once
            });
            let permit = permit.then(|| self.permit(&call, Fault::None));
            Ok(Filed {
                call,
                tool: request.tool.clone(),
                permit,
            })
        })
    }

    fn work(&self, poll: Poll) -> Asked<'_, Polled<Work>> {
        Box::pin(async move {
            let after = usize::try_from(poll.after).unwrap();
            self.until(|inner| {
                let items = inner.work.get(after..)?.to_vec();
                let seq = i64::try_from(inner.work.len()).unwrap();
                (!items.is_empty()).then_some(Ok(Polled { items, seq }))
            })
            .await
        })
    }

    fn collect(&self, call: CallId) -> Asked<'_, SignedPermit> {
        Box::pin(async move {
            let (known, fault) = self.with(|inner| {
                inner.log.push("collect");
                let fault = inner.faults.pop_front().unwrap_or(Fault::None);
                (inner.calls.get(&call).cloned(), fault)
            });
            match known {
                Some((call, _)) if matches!(call.state, State::Approved { .. }) => {
                    Ok(self.permit(&call, fault))
                }
                _ => refuse(409, "call-not-approved"),
            }
        })
    }

    fn redeem<'a>(&'a self, request: &'a RedeemRequest) -> Asked<'a, Redeemed> {
        Box::pin(async move {
            self.with(|inner| {
                inner.log.push("redeem");
                inner.attempts.push(request.attempt);
                if let Some(kind) = inner.refuse_redeems.pop_front() {
                    return refuse(409, kind);
                }
                let claims = &request.permit.claims;
                // By the registry's clock alone.
                if noon() >= claims.expires_at {
                    return refuse(403, "permit-expired");
                }
                let Some((call, _)) = inner.calls.get_mut(&claims.call) else {
                    return refuse(404, "not-found");
                };
                match &call.state {
                    State::Approved { .. } => Self::claim(call, claims.permit, request.attempt),
                    State::Claimed { attempt, .. } if *attempt == request.attempt => {}
                    _ => return refuse(409, "permit-redeemed"),
                }
                let mut call = call.clone();
                if inner.lose_redeems > 0 {
                    inner.lose_redeems -= 1;
                    return lost();
                }
                match inner.astray.pop_front() {
                    Some(Astray::Attempt) => {
                        Self::claim(
                            &mut call,
                            claims.permit,
                            AttemptId::new(noon(), &self.entropy),
                        );
                    }
                    Some(Astray::Permit) => {
                        let other = PermitId::new(noon(), &self.entropy);
                        Self::claim(&mut call, other, request.attempt);
                    }
                    Some(Astray::Call) => call.id = CallId::new(noon(), &self.entropy),
                    Some(Astray::Plan) => call.plan = Digest::of_bytes(b"another"),
                    Some(Astray::State) => {
                        call.state = State::Approved {
                            grounds: claims.grounds.clone(),
                            use_before: after(noon(), SignedDuration::from_hours(24)),
                        };
                    }
                    None => {}
                }
                Ok(Redeemed {
                    call,
                    permit: claims.permit,
                })
            })
        })
    }

    fn output<'a>(&'a self, _: CallId, request: &'a OutputRequest) -> Asked<'a, ()> {
        Box::pin(async move {
            if self.with(|inner| inner.hold_output) {
                std::future::pending::<()>().await;
            }
            self.with(|inner| {
                request
                    .chunks
                    .iter()
                    .for_each(|c| inner.output.push_str(&c.text));
            });
            Ok(())
        })
    }

    fn settle<'a>(&'a self, call: CallId, request: &'a SettleRequest) -> Asked<'a, ()> {
        Box::pin(async move {
            self.with(|inner| {
                inner.log.push("settle");
                inner.settled.push((call, request.clone()));
                if inner.lose_settles > 0 {
                    inner.lose_settles -= 1;
                    return lost();
                }
                Ok(())
            })
        })
    }

    fn replan<'a>(&'a self, call: CallId, request: &'a ReplanRequest) -> Asked<'a, SignedPermit> {
        Box::pin(async move {
            let known = self.with(|inner| {
                inner.log.push("replan");
                if std::mem::take(&mut inner.refuse_replan) {
                    return None;
                }
                let (call, plan) = inner.calls.get_mut(&call)?;
                call.plan = request.plan.digest().unwrap();
                *plan = (*request.plan).clone();
                Some(call.clone())
            });
            match known {
                Some(call) => Ok(self.permit(&call, Fault::None)),
                None => refuse(409, "not-again"),
            }
        })
    }

    fn withdraw<'a>(&'a self, call: CallId, request: &'a WithdrawRequest) -> Asked<'a, ()> {
        Box::pin(async move {
            self.with(|inner| inner.withdrawn.push((call, request.reason.clone())));
            Ok(())
        })
    }

    fn lose<'a>(&'a self, call: CallId, request: &'a LoseRequest) -> Asked<'a, ()> {
        Box::pin(async move {
            self.with(|inner| inner.lost.push((call, request.what.clone())));
            Ok(())
        })
    }

    fn claims(&self) -> Asked<'_, Vec<Claim>> {
        Box::pin(async move {
            Ok(self.with(|inner| {
                let begun = inner
                    .calls
                    .values()
                    .filter(|(c, _)| matches!(c.state, State::Claimed { .. }));
                begun
                    .map(|(call, plan)| Claim {
                        call: call.clone(),
                        plan: plan.clone(),
                    })
                    .collect()
            }))
        })
    }

    fn report<'a>(&'a self, request: &'a ReportRequest) -> Asked<'a, ()> {
        Box::pin(async move {
            self.with(|inner| inner.reported.push(request.calls.clone()));
            Ok(())
        })
    }
}
