//! One call from its approval to its settlement.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kazma_domain::{
    Action, AttemptId, Call, CallId, Clock, Digest, Entropy, Grounds, Outcome, Plan, Service,
    limits,
    permit::{PermitFault, SignedPermit},
};
use kazma_signing::VerifyingKey;
use kazma_wire::executor::{LoseRequest, Output, ReplanRequest, SettleRequest, WithdrawRequest};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    arguments::Request,
    begun::{Begun, Working},
    code::{CodeError, CodeEvent, CodeSpec, Ended, How},
    live::Live,
    outcome::{self, Printed},
    permit::{Checked, NotRedeemed, Redeemed},
    planner::{self, Act, Planner, Prepared},
    registry::{Registry, RegistryError},
    retry::Retry,
    workspace::{Returned, WriteFailed},
};

/// A permit may be found too old this often, and is collected anew.
const PERMITS: usize = 3;
/// How much longer than its own limit a run may take, its wait for a sandbox included, before the
/// broker is taken for gone.
const BROKER_GRACE: Duration = Duration::from_mins(3);

/// Carries out calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) planner: Planner,
    pub(crate) key: VerifyingKey,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Bytes of each stream that a result may hold.
    pub(crate) output_cap: usize,
    /// Runs of code at the same time.
    pub(crate) code_slots: Arc<Semaphore>,
    /// Calls of file tools at the same time.
    pub(crate) file_slots: Arc<Semaphore>,
    pub(crate) begun: Begun,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when what still runs shall stop at once.
    pub(crate) hard: CancellationToken,
}

/// How a call ended, as far as is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finish {
    /// It is known.
    Settled(SettleRequest),
    /// It is not: what is known, in words.
    Lost(String),
}

impl Executor {
    /// Who this is to the registry.
    pub(crate) const ME: Service = Service::RunnerApi;

    /// Begins to carry out a call in a task of its own, unless this process already has.
    pub(crate) fn start(&self, call: Call, filed: Plan, permit: Option<SignedPermit>) {
        let Some(working) = self.begun.begin(call.id) else {
            return;
        };
        let executor = self.clone();
        self.tasks.spawn(async move {
            let id = call.id;
            tokio::select! {
                () = executor.carry_out(&working, &call, &filed, permit) => {}
                () = executor.hard.cancelled() => {
                    tracing::warn!(call = %id, "stopped before the call was settled");
                }
            }
        });
    }

    async fn carry_out(
        &self,
        working: &Working,
        call: &Call,
        filed: &Plan,
        permit: Option<SignedPermit>,
    ) {
        let slots = if filed.sandbox().is_some() {
            &self.code_slots
        } else {
            &self.file_slots
        };
        let Ok(_slot) = slots.acquire().await else {
            return;
        };
        let writer = match &filed.action {
            Action::WriteFile { .. } => Some(self.planner.workspace.writer().await),
            _ => None,
        };
        let Some((redeemed, act)) = self.obtain(working, call, filed, permit).await else {
            return;
        };
        let finish = self.act(redeemed, act).await;
        drop(writer);
        self.conclude(call.id, finish).await;
    }

    /// Collects a permit, makes the plan again, and spends the permit for it. None when it must not run.
    async fn obtain(
        &self,
        working: &Working,
        call: &Call,
        filed: &Plan,
        mut permit: Option<SignedPermit>,
    ) -> Option<(Redeemed, Act)> {
        let mut call = call.clone();
        for _ in 0..PERMITS {
            let permit = match permit.take() {
                Some(permit) => permit,
                None => self.collect(call.id).await?,
            };
            let (permit, prepared) = match self.plan_again(&mut call, filed, permit).await {
                Ok(ready) => ready,
                Err(reason) => {
                    self.withdraw(call.id, &reason).await;
                    return None;
                }
            };
            let now = self.clock.now();
            let checked = match Checked::check(
                permit,
                &self.key,
                Self::ME,
                &call,
                prepared.digest,
                now,
            ) {
                Ok(checked) => checked,
                Err(PermitFault::Expired) => continue,
                Err(fault) => {
                    tracing::error!(call = %call.id, %fault, "a permit does not fit; nothing runs");
                    self.withdraw(call.id, &format!("The permit does not fit: {fault}."))
                        .await;
                    return None;
                }
            };
            working.hold();
            let attempt = AttemptId::new(self.clock.now(), self.entropy.as_ref());
            match checked
                .redeem(self.registry.as_ref(), attempt, &self.retry())
                .await
            {
                Ok(redeemed) => return Some((redeemed, prepared.act)),
                Err(NotRedeemed::Refused(problem)) => {
                    working.release();
                    tracing::warn!(call = %call.id, kind = problem.kind, "the permit was not redeemed; nothing runs");
                    if !problem.is("permit-expired") {
                        return None;
                    }
                }
                Err(NotRedeemed::OtherAnswer) => {
                    tracing::error!(call = %call.id, "the registry answered for something else; nothing runs");
                    return None;
                }
                Err(NotRedeemed::Ending) => return None,
            }
        }
        self.withdraw(
            call.id,
            "Its permits were too old each time; compare the clocks of this machine.",
        )
        .await;
        None
    }

    async fn collect(&self, call: CallId) -> Option<SignedPermit> {
        match self
            .retry()
            .until_answered("collect", || self.registry.collect(call))
            .await?
        {
            Ok(permit) => Some(permit),
            Err(error) => {
                tracing::info!(%call, error = error.to_string(), "no permit; nothing runs");
                None
            }
        }
    }

    /// The plan of what would run now, with the permit for it. Another plan than the one that was filed
    /// is filed in its place where a rule allowed the call. Otherwise what changed, in words.
    async fn plan_again(
        &self,
        call: &mut Call,
        filed: &Plan,
        permit: SignedPermit,
    ) -> Result<(SignedPermit, Prepared), String> {
        let request = Request::parse(&filed.tool, &filed.arguments)
            .map_err(|problem| problem.detail.unwrap_or(problem.title))?;
        let prepared = self
            .planner
            .prepare(&filed.tool, &filed.arguments, request)
            .await
            .map_err(|refused| refused.reason)?;
        if prepared.digest == call.plan {
            return Ok((permit, prepared));
        }
        let changed = planner::what_changed(filed, &prepared.plan);
        if !matches!(permit.claims.grounds, Grounds::Rule { .. }) {
            return Err(changed);
        }
        let request = ReplanRequest {
            plan: Box::new(prepared.plan.clone()),
        };
        let answer = self
            .retry()
            .until_answered("replan", || self.registry.replan(call.id, &request))
            .await;
        match answer {
            Some(Ok(permit)) => {
                call.plan = prepared.digest;
                Ok((permit, prepared))
            }
            Some(Err(error)) => {
                tracing::info!(call = %call.id, error = error.to_string(), "not planned again");
                Err(changed)
            }
            None => Err(changed),
        }
    }

    async fn act(&self, redeemed: Redeemed, act: Act) -> Finish {
        match act {
            Act::Python {
                code,
                image,
                timeout,
            } => self.run_code(redeemed, code, image, timeout).await,
            Act::Read(read) => self.on_files(move || text(read.read(&redeemed))).await,
            Act::List(list) => self.on_files(move || text(list.list(&redeemed))).await,
            Act::Write(write) => {
                let (created, after) = (write.before.is_none(), write.after);
                self.on_files(move || written(write.write(&redeemed), created, &after))
                    .await
            }
        }
    }

    async fn on_files(&self, work: impl FnOnce() -> Finish + Send + 'static) -> Finish {
        match tokio::task::spawn_blocking(work).await {
            Ok(finish) => finish,
            Err(_) => {
                Finish::Lost("The file tool failed in the middle; the log says more.".to_owned())
            }
        }
    }

    async fn run_code(
        &self,
        redeemed: Redeemed,
        code: String,
        image: Option<String>,
        timeout: Duration,
    ) -> Finish {
        let call = redeemed.call();
        let spec = CodeSpec {
            code,
            image,
            timeout,
            output_cap: self.output_cap,
        };
        let deadline = Instant::now() + timeout + BROKER_GRACE;
        let mut events = match self.planner.code.run(redeemed, spec).await {
            Ok(events) => events,
            Err(CodeError::Refused(why)) => return failed(format!("not started: {why}")),
            Err(error @ CodeError::Unreachable(_)) => {
                return self
                    .lost(call, format!("{error}; whether the code ran is not known."))
                    .await;
            }
        };
        let live = Live::start(Arc::clone(&self.registry), call);
        let mut printed = Printed::new(self.output_cap);
        let mut end = None;
        while let Ok(Some(event)) = tokio::time::timeout_at(deadline, events.next()).await {
            match event {
                CodeEvent::Output { stream, bytes } => {
                    printed.take(stream, &bytes);
                    live.pass(stream, bytes);
                }
                CodeEvent::Ended(ended) => {
                    end = Some(ended);
                    break;
                }
            }
        }
        live.finish().await;
        match end {
            Some(Ended {
                how: How::Unknown { what },
                ..
            }) => self.lost(call, what).await,
            Some(ended) => match outcome::outcome(&ended, timeout) {
                Some(outcome) => Finish::Settled(SettleRequest {
                    outcome,
                    output: printed.output(&ended),
                }),
                None => {
                    self.lost(call, "How the code ended is not known.".to_owned())
                        .await
                }
            },
            None => {
                let what = "The sandbox broker stopped answering while the code ran.".to_owned();
                self.lost(call, what).await
            }
        }
    }

    /// Nobody knows how the run ended: whatever is left of it is ended, and that is said.
    async fn lost(&self, call: CallId, what: String) -> Finish {
        if let Err(error) = self.planner.code.cancel(call).await {
            tracing::warn!(%call, error = error.to_string(), "the run could not be cancelled");
        }
        Finish::Lost(what)
    }

    /// Tells the registry how a call ended, until it answers.
    pub(crate) async fn conclude(&self, call: CallId, finish: Finish) {
        let answer = match finish {
            Finish::Settled(request) => {
                self.retry()
                    .until_answered("settle", || self.registry.settle(call, &request))
                    .await
            }
            Finish::Lost(what) => {
                let request = LoseRequest {
                    what: clipped(&what),
                };
                self.retry()
                    .until_answered("lose", || self.registry.lose(call, &request))
                    .await
            }
        };
        if let Some(Err(error)) = answer {
            log_refusal(call, &error);
        }
    }

    async fn withdraw(&self, call: CallId, reason: &str) {
        let request = WithdrawRequest {
            reason: clipped(reason),
        };
        let answer = self
            .retry()
            .until_answered("withdraw", || self.registry.withdraw(call, &request))
            .await;
        if let Some(Err(error)) = answer {
            log_refusal(call, &error);
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        Retry::until(self.hard.clone())
    }
}

fn log_refusal(call: CallId, error: &RegistryError) {
    tracing::error!(%call, error = error.to_string(), "the registry does not take the end of a call");
}

/// At most as long as the registry takes a reason.
pub(crate) fn clipped(reason: &str) -> String {
    let end = reason.floor_char_boundary(limits::REASON_MAX);
    reason.get(..end).unwrap_or_default().to_owned()
}

fn text(result: Result<Returned, String>) -> Finish {
    match result {
        Ok(text) => Finish::Settled(SettleRequest {
            outcome: Outcome {
                ok: true,
                summary: text.summary,
            },
            output: Output {
                text: text.text,
                truncated: text.truncated,
                total_bytes: text.total_bytes,
                note: String::new(),
            },
        }),
        Err(why) => failed(why),
    }
}

fn written(result: Result<(), WriteFailed>, created: bool, after: &Digest) -> Finish {
    match result {
        Ok(()) => settled_write(if created { "created" } else { "overwritten" }, after),
        Err(failure) => failed(failure.to_string()),
    }
}

/// A write that is known to have happened.
pub(crate) fn settled_write(how: &str, after: &Digest) -> Finish {
    Finish::Settled(SettleRequest {
        outcome: Outcome {
            ok: true,
            summary: how.to_owned(),
        },
        output: Output {
            text: format!("The file was {how}; its content is {after}.\n"),
            ..Output::default()
        },
    })
}

/// An end that is known and not well.
pub(crate) fn failed(summary: impl Into<String>) -> Finish {
    let summary = clipped(&summary.into());
    Finish::Settled(SettleRequest {
        output: Output {
            text: format!("{summary}\n"),
            ..Output::default()
        },
        outcome: Outcome { ok: false, summary },
    })
}
