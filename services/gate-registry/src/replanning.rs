//! A call that a rule allowed, planned again because what would run has changed before it began.

use kazma_domain::{CallId, Event, Refusal, Service, call::Applied, permit::SignedPermit};
use kazma_policy::{Request, Route, Verdict, decide};
use kazma_store::{
    Tx,
    registry::calls::{self, CallRow},
};
use kazma_wire::executor::ReplanRequest;
use serde_json::json;

use crate::{
    Error, Registry,
    permits::mint,
    step::{Step, subjects},
};

impl Registry {
    /// Puts a new plan in the place of an allowed call's first one, and mints a permit for it. Once for
    /// each call; the same plan again gets another permit.
    ///
    /// # Errors
    ///
    /// Refuses another service's call, a plan of another tool or other arguments, a call that a person
    /// approved, one that was planned again before, and what the rules do not allow by themselves.
    pub async fn replan(
        &self,
        executor: Service,
        id: CallId,
        request: ReplanRequest,
    ) -> Result<SignedPermit, Error> {
        let claims = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let row = calls::find(tx, id).await?.ok_or(Error::NotFound("call"))?;
                    let row = replan(tx, step, row, executor, &request).await?;
                    mint(tx, step, &row).await
                })
            })
            .await?;
        Ok(self.key.permit(claims)?)
    }
}

async fn replan(
    tx: &mut Tx,
    step: &mut Step,
    mut row: CallRow,
    executor: Service,
    request: &ReplanRequest,
) -> Result<CallRow, Error> {
    if request.plan.tool != row.tool {
        return Err(Error::invalid("plan.tool", "not the tool of the call"));
    }
    if request.plan.arguments != row.arguments {
        let what = "not the arguments of the call";
        return Err(Error::invalid("plan.arguments", what));
    }
    let verdict = decide(&Request {
        tool: &row.tool,
        route: Route::Executor(executor),
    });
    let Verdict::Allow { rule } = verdict else {
        return Err(Refusal::NotAgain.into());
    };
    let plan = request.plan.digest()?;
    let event = Event::Replan { executor, plan };
    if let Applied::Changed(next) = row.call.apply(&event, step.moment)? {
        let changed = step.call_event(tx, &next, &row.tool).await?;
        calls::replan(tx, &next, &request.plan, changed)?;
        let payload = json!({"was": row.call.plan, "plan": plan, "rule": rule});
        step.record(tx, "call.replanned", executor, subjects(&next), payload)
            .await?;
        (row.call, row.changed) = (*next, changed);
    }
    Ok(row)
}
