//! One call from its approval to its settlement.

use std::sync::atomic::Ordering;

use kazma_domain::{AttemptId, Call, CallId, Grounds, Plan, RequestId, permit::SignedPermit};
use kazma_edge::request;
use kazma_faults::{Check, Point, reach, wrong};
use kazma_wire::executor::{LoseRequest, ReplanRequest, WithdrawRequest};

use super::{
    Executor, Finish, Hands, Prepared, Redeemed, RegistryError,
    begun::Working,
    finish::clipped,
    permit::{Checked, NotRedeemed},
    retry::Retry,
};

/// A permit may be found too old this often, and is collected anew.
const PERMITS: usize = 3;

impl<H: Hands> Executor<H> {
    /// Begins to carry out a call in a task of its own, unless this process already has.
    pub(crate) fn start(&self, call: Call, filed: Plan, permit: Option<SignedPermit>) {
        let Some(working) = self.begun.begin(call.id) else {
            return;
        };
        let executor = self.clone();
        // What is asked for a call is asked under the call's own number.
        let request = RequestId::from_uuid(call.id.uuid());
        let work = async move {
            let id = call.id;
            request::about(id, call.thread);
            tracing::info!(tool = filed.tool, "a call may run");
            tokio::select! {
                () = executor.carry_out(&working, &call, &filed, permit) => {}
                () = executor.hard.cancelled() => {
                    tracing::warn!(call = %id, "stopped before the call was settled");
                }
            }
        };
        self.tasks.spawn(request::within(request, work));
    }

    async fn carry_out(
        &self,
        working: &Working,
        call: &Call,
        filed: &Plan,
        permit: Option<SignedPermit>,
    ) {
        let Some(mut place) = self.hands.place(filed).await else {
            return;
        };
        let Some((redeemed, act)) = self.obtain(working, call, filed, permit).await else {
            return;
        };
        reach(Point::Claimed);
        let finish = self.hands.act(redeemed, act, &mut place).await;
        reach(Point::Acted);
        self.conclude(call.id, finish).await;
    }

    /// Collects a permit, makes the plan again, and spends the permit for it. None when it must not run.
    async fn obtain(
        &self,
        working: &Working,
        call: &Call,
        filed: &Plan,
        mut permit: Option<SignedPermit>,
    ) -> Option<(Redeemed, H::Act)> {
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
            let checked = match Checked::check(permit, &self.on.key, H::ME, &call, prepared.digest)
            {
                Ok(checked) => checked,
                Err(fault) => {
                    tracing::error!(call = %call.id, %fault, "a permit does not fit; nothing runs");
                    self.withdraw(call.id, &format!("The permit does not fit: {fault}."))
                        .await;
                    return None;
                }
            };
            working.hold();
            reach(Point::Checked);
            let attempt = AttemptId::new(self.on.clock.now(), self.on.entropy.as_ref());
            match checked
                .redeem(self.on.registry.as_ref(), attempt, &self.retry())
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
            "Its permits were too old each time it came to redeem them: this machine is too busy.",
        )
        .await;
        None
    }

    async fn collect(&self, call: CallId) -> Option<SignedPermit> {
        match self
            .retry()
            .until_answered("collect", || self.on.registry.collect(call))
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
    ) -> Result<(SignedPermit, Prepared<H::Act>), String> {
        let request = H::parse(&filed.tool, &filed.arguments)
            .map_err(|problem| problem.detail.unwrap_or(problem.title))?;
        let prepared = self
            .hands
            .prepare(&filed.tool, &filed.arguments, request)
            .await
            .map_err(|refused| refused.reason)?;
        if prepared.digest == call.plan {
            return Ok((permit, prepared));
        }
        self.changed.fetch_add(1, Ordering::Relaxed);
        let changed = H::what_changed(filed, &prepared.plan);
        let asked = !matches!(permit.claims.grounds, Grounds::Rule { .. });
        if wrong(Check::PlanAgain, asked) {
            return Err(changed);
        }
        let request = ReplanRequest {
            plan: Box::new(prepared.plan.clone()),
        };
        let answer = self
            .retry()
            .until_answered("replan", || self.on.registry.replan(call.id, &request))
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

    /// Tells the registry how a call ended, until it answers.
    pub(crate) async fn conclude(&self, call: CallId, finish: Finish) {
        let answer = match finish {
            Finish::Settled(request) => {
                self.retry()
                    .until_answered("settle", || self.on.registry.settle(call, &request))
                    .await
            }
            Finish::Lost(what) => {
                let request = LoseRequest {
                    what: clipped(&what),
                };
                self.retry()
                    .until_answered("lose", || self.on.registry.lose(call, &request))
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
            .until_answered("withdraw", || self.on.registry.withdraw(call, &request))
            .await;
        if let Some(Err(error)) = answer {
            log_refusal(call, &error);
        }
    }

    fn retry(&self) -> Retry {
        Retry::until(self.hard.clone())
    }
}

fn log_refusal(call: CallId, error: &RegistryError) {
    tracing::error!(%call, error = error.to_string(), "the registry does not take the end of a call");
}
