//! What one process of the runner can do: the part of an executor that differs.

use std::fmt::Debug;

use kazma_domain::{Action, Digest, Plan, Service, canonical_json};
use kazma_wire::{Problem, executor::Claim};
use serde_json::Value;

use super::{Finish, Redeemed, Refused};

/// Bytes of one plan in canonical form. With the call's arguments beside it, it fits what the registry
/// takes as one filing.
const PLAN_BYTES: usize = 3 * 1024 * 1024;

/// Plans and does what one process of the runner is there for.
pub(crate) trait Hands: Clone + Debug + Send + Sync + 'static {
    /// Who this is to the registry.
    const ME: Service;
    /// A call with arguments of the right types.
    type Request: Send;
    /// What carries a plan out: open things, not names.
    type Act: Send;
    /// What a call holds while it is carried out, such as a slot.
    type Place: Send;

    /// Reads a call as the agent names it.
    ///
    /// # Errors
    ///
    /// A 422 problem with the field that is wrong and what to do.
    fn parse(tool: &str, arguments: &Value) -> Result<Self::Request, Problem>;

    /// What exactly would be done, or why it will not be. Changes nothing.
    fn plan(
        &self,
        request: Self::Request,
    ) -> impl Future<Output = Result<(Action, Self::Act), Refused>> + Send;

    /// Waits for what a call needs to hold. None when the process ends first.
    fn place(&self, filed: &Plan) -> impl Future<Output = Option<Self::Place>> + Send;

    /// Does it, once.
    fn act(
        &self,
        redeemed: Redeemed,
        act: Self::Act,
        place: &mut Self::Place,
    ) -> impl Future<Output = Finish> + Send;

    /// What is another now than when the plan was filed, in words.
    fn what_changed(filed: &Plan, now: &Plan) -> String;

    /// How a call ended that an earlier process had begun. Nothing is done again to learn it.
    fn what_became_of(&self, claim: &Claim) -> impl Future<Output = Finish> + Send;

    /// Plans a call whole: the plan for the card with its digest, and what carries it out.
    ///
    /// The same function makes the plan that people see and the one that is compared just before it runs.
    fn prepare(
        &self,
        tool: &str,
        arguments: &Value,
        request: Self::Request,
    ) -> impl Future<Output = Result<Prepared<Self::Act>, Refused>> + Send {
        async move {
            let (action, act) = self.plan(request).await?;
            let plan = Plan {
                tool: tool.to_owned(),
                arguments: arguments.clone(),
                action,
            };
            let digest = exact(&plan)?;
            Ok(Prepared { plan, digest, act })
        }
    }
}

/// A plan, and what carries it out.
#[derive(Debug)]
pub(crate) struct Prepared<A> {
    pub(crate) plan: Plan,
    pub(crate) digest: Digest,
    pub(crate) act: A,
}

/// The digest of a plan that has an exact form and fits a card.
fn exact(plan: &Plan) -> Result<Digest, Refused> {
    let bytes = canonical_json(plan).map_err(|_| {
        Refused::new(
            "plan-form",
            "The plan has no exact form. Write plain numbers.",
        )
    })?;
    if bytes.len() > PLAN_BYTES {
        return Err(Refused::new(
            "plan-too-big",
            "The change is too large to be shown whole on a card. Write to a new file instead.",
        ));
    }
    Ok(Digest::of_bytes(&bytes))
}
