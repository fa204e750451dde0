//! From a permit to the right to act.
//!
//! A [`Redeemed`] is that right. It has private fields, is not `Clone`, and only [`Checked::redeem`] makes
//! one, so code that acts without a spent permit does not type-check.

use kazma_domain::{
    AttemptId, Call, CallId, Digest, Service, State,
    permit::{PermitFault, SignedPermit},
};
use kazma_faults::{Check, wrong};
use kazma_signing::VerifyingKey;
use kazma_wire::{Problem, executor::RedeemRequest};

use super::{
    registry::{Registry, RegistryError},
    retry::Retry,
};

/// A permit whose signature is the registry's and whose claims fit what is about to run.
#[derive(Debug)]
pub(crate) struct Checked {
    permit: SignedPermit,
    plan: Digest,
}

/// The right to do one planned thing once: a permit that the registry took back as spent.
#[derive(Debug)]
#[must_use = "a permit that is dropped has been spent for nothing"]
pub struct Redeemed {
    call: CallId,
    plan: Digest,
}

/// Why a permit was not redeemed.
#[derive(Debug)]
pub(crate) enum NotRedeemed {
    /// The registry refuses. Nothing may run.
    Refused(Box<Problem>),
    /// The registry's answer is about something else. Nothing may run.
    OtherAnswer,
    /// The process ends before an answer came. Nothing may run.
    Ending,
}

impl Checked {
    /// Checks `permit` for `call` against the plan that was made just now.
    ///
    /// # Errors
    ///
    /// Names the first thing that does not fit.
    pub(crate) fn check(
        permit: SignedPermit,
        key: &VerifyingKey,
        me: Service,
        call: &Call,
        plan: Digest,
    ) -> Result<Self, PermitFault> {
        if let Err(fault) = key.verify_permit(&permit)
            && wrong(Check::PermitSignature, true)
        {
            return Err(fault);
        }
        permit.claims.check(me, call.id, &plan)?;
        let of_another =
            permit.claims.thread != call.thread || permit.claims.principal != call.principal;
        if wrong(Check::PermitThread, of_another) {
            return Err(PermitFault::Call);
        }
        Ok(Self { permit, plan })
    }

    /// Spends the permit. A lost answer is asked for again with the same attempt, which the registry
    /// answers the same way.
    pub(crate) async fn redeem(
        self,
        registry: &dyn Registry,
        attempt: AttemptId,
        retry: &Retry,
    ) -> Result<Redeemed, NotRedeemed> {
        let call = self.permit.claims.call;
        let request = RedeemRequest {
            permit: self.permit,
            attempt,
        };
        let answer = match retry
            .until_answered("redeem", || registry.redeem(&request))
            .await
        {
            Some(Ok(answer)) => answer,
            Some(Err(RegistryError::Refused(problem))) => {
                return Err(NotRedeemed::Refused(problem));
            }
            Some(Err(RegistryError::Lost(_))) | None => return Err(NotRedeemed::Ending),
        };
        let ours = matches!(&answer.call.state, State::Claimed { attempt: a, permit, .. }
            if *a == attempt && *permit == request.permit.claims.permit);
        let fits = ours && answer.call.id == call && answer.call.plan == self.plan;
        if wrong(Check::RedeemAnswer, !fits) {
            return Err(NotRedeemed::OtherAnswer);
        }
        Ok(Redeemed {
            call,
            plan: self.plan,
        })
    }
}

impl Redeemed {
    /// The call that may run.
    pub const fn call(&self) -> CallId {
        self.call
    }

    /// The plan that may be carried out.
    pub const fn plan(&self) -> &Digest {
        &self.plan
    }

    /// A right for tests of what is done with one.
    #[cfg(test)]
    pub(crate) fn for_tests(call: CallId, plan: Digest) -> Self {
        Self { call, plan }
    }
}
