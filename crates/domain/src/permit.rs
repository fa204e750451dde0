//! The claims of a permit. The registry signs them; the executor checks them before it acts.

use jiff::Timestamp;
use kazma_faults::{Check, wrong};
use serde::{Deserialize, Serialize};

use crate::{
    call::Grounds,
    canonical::Digest,
    id::{CallId, PermitId, ThreadId},
    service::Service,
};

/// What a permit says. Signed over its canonical JSON (RFC 8785) with Ed25519 (RFC 8032).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermitClaims {
    /// Which permit.
    pub permit: PermitId,
    /// The call that may run, once.
    pub call: CallId,
    /// The plan it was allowed for.
    pub plan: Digest,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// On whose behalf: the service that proposed the call.
    pub principal: Service,
    /// The only service that may redeem it.
    pub audience: Service,
    /// How it was allowed.
    pub grounds: Grounds,
    /// The version of the policy that allowed it.
    pub policy: u32,
    /// The registry's epoch: a restore bumps it and voids what came before.
    pub epoch: u64,
    /// Not good from then on.
    pub expires_at: Timestamp,
}

/// A permit as it travels: the claims and the signature over their canonical JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedPermit {
    /// What it says.
    pub claims: PermitClaims,
    /// The Ed25519 signature, standard base64.
    pub signature: String,
}

/// Why an executor does not accept a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermitFault {
    /// It is meant for another service.
    #[error("the permit is meant for another service")]
    Audience,
    /// It is for another call.
    #[error("the permit is for another call")]
    Call,
    /// What would run now is not what was allowed.
    #[error("what would run now is not what was allowed")]
    Plan,
    /// It was signed by somebody else.
    #[error("the signature is not the registry's")]
    Signature,
}

impl PermitClaims {
    /// Checks everything but the signature and the time: the registry's clock alone decides what has
    /// expired, when the permit is redeemed. An executor's own clock may be an hour off.
    ///
    /// # Errors
    ///
    /// Names the first thing that does not fit.
    pub fn check(&self, me: Service, call: CallId, plan: &Digest) -> Result<(), PermitFault> {
        if wrong(Check::PermitAudience, self.audience != me) {
            return Err(PermitFault::Audience);
        }
        if wrong(Check::PermitCall, self.call != call) {
            return Err(PermitFault::Call);
        }
        if wrong(Check::PermitPlan, self.plan != *plan) {
            return Err(PermitFault::Plan);
        }
        Ok(())
    }
}
