//! Permits: minted when collected, row first, signed after the commit, redeemed once.

use kazma_domain::{
    CallId, Event, PermitId, Refusal, Service, State,
    clock::after,
    limits,
    permit::{PermitClaims, PermitFault, SignedPermit},
};
use kazma_faults::{Check, Point, reach, wrong};
use kazma_policy::POLICY_VERSION;
use kazma_store::{
    Tx,
    registry::{
        calls::{self, CallRow},
        meta,
        permits::{self, PermitRow},
    },
};
use kazma_wire::executor::{RedeemRequest, Redeemed};
use serde_json::json;

use crate::{
    Error, Registry,
    step::{Step, subjects},
};

impl Registry {
    /// Mints a permit for an approved call. Each collection mints one; one alone can be redeemed.
    ///
    /// # Errors
    ///
    /// Refuses anyone but the call's executor, and a call that may not run now.
    pub async fn collect(&self, executor: Service, call: CallId) -> Result<SignedPermit, Error> {
        let claims = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let row = calls::find(tx, call)
                        .await?
                        .ok_or(Error::NotFound("call"))?;
                    if wrong(Check::CollectExecutor, row.call.executor != executor) {
                        return Err(Refusal::NotTheExecutor.into());
                    }
                    mint(tx, step, &row).await
                })
            })
            .await?;
        reach(Point::Minted);
        Ok(self.key.permit(claims)?)
    }

    /// Redeems a permit: the call is claimed. The same attempt again gets the same answer.
    ///
    /// # Errors
    ///
    /// Refuses a permit that is forged, another's, void, expired or spent. A refusal of a permit that
    /// this registry minted is recorded.
    pub async fn redeem(
        &self,
        executor: Service,
        request: RedeemRequest,
    ) -> Result<Redeemed, Error> {
        let claims = request.permit.claims.clone();
        let signed = self.key.verifying_key().verify_permit(&request.permit);
        if let Err(fault) = signed
            && wrong(Check::RedeemSignature, true)
        {
            return Err(Error::Permit(fault));
        }
        if wrong(Check::RedeemAudience, claims.audience != executor) {
            return Err(Error::Permit(PermitFault::Audience));
        }
        let permit = claims.permit;
        // A refusal commits too: its record is part of the history.
        let call = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let row = calls::find(tx, claims.call)
                        .await?
                        .ok_or(Error::NotFound("call"))?;
                    match redeem(tx, step, &row, &claims, &request, executor).await {
                        Ok(call) => Ok(Ok(call)),
                        Err(error) if !error.is_refusal() => Err(error),
                        Err(refused) => {
                            let payload = json!({
                                "permit": claims.permit,
                                "attempt": request.attempt,
                                "why": refused.to_string(),
                            });
                            let about = subjects(&row.call);
                            step.record(tx, "permit.refused", executor, about, payload)
                                .await?;
                            Ok(Err(refused))
                        }
                    }
                })
            })
            .await??;
        reach(Point::Redeemed);
        Ok(Redeemed { call, permit })
    }
}

async fn redeem(
    tx: &mut Tx,
    step: &mut Step,
    row: &CallRow,
    claims: &PermitClaims,
    request: &RedeemRequest,
    executor: Service,
) -> Result<kazma_domain::Call, Error> {
    let minted = permits::find(tx, claims.permit)
        .await?
        .filter(|minted| !wrong(Check::RedeemMinted, minted.call != claims.call))
        .ok_or(Error::PermitVoid {
            why: "this registry does not know it",
        })?;
    let epoch = meta::epoch(tx).await?;
    if wrong(
        Check::RedeemEpoch,
        minted.epoch != epoch || minted.epoch != claims.epoch,
    ) {
        return Err(Error::PermitVoid {
            why: "it is from before a restore",
        });
    }
    if wrong(Check::RedeemPolicy, claims.policy != POLICY_VERSION) {
        return Err(Error::PermitVoid {
            why: "it was minted under another policy",
        });
    }
    let event = Event::Redeem {
        permit: claims.permit,
        permit_expires_at: minted.expires_at,
        plan: claims.plan,
        executor,
        attempt: request.attempt,
    };
    let next = step
        .apply_alone(tx, row, &event, "call.claimed", executor)
        .await?;
    reach(Point::Redeeming);
    Ok(next.unwrap_or_else(|| row.call.clone()))
}

/// Writes a permit for an approved call. What it returns is signed only after the commit.
pub(crate) async fn mint(
    tx: &mut Tx,
    step: &mut Step,
    row: &CallRow,
) -> Result<PermitClaims, Error> {
    let call = &row.call;
    let State::Approved {
        grounds,
        use_before,
    } = &call.state
    else {
        return Err(Refusal::NotNow {
            state: call.state.name(),
        }
        .into());
    };
    let now = step.moment.now;
    if wrong(Check::CollectLate, step.moment.is_past(*use_before)) {
        return Err(Refusal::TooLate.into());
    }
    let epoch = meta::epoch(tx).await?;
    let id: PermitId = step.id();
    let minted = PermitRow {
        id,
        call: call.id,
        epoch,
        minted_at: now,
        expires_at: after(now, limits::PERMIT_LIFE),
    };
    permits::insert(tx, &minted)?;
    let claims = PermitClaims {
        permit: id,
        call: call.id,
        plan: call.plan,
        thread: call.thread,
        principal: call.principal,
        audience: call.executor,
        grounds: grounds.clone(),
        policy: POLICY_VERSION,
        epoch,
        expires_at: minted.expires_at,
    };
    let payload = serde_json::to_value(&claims)?;
    let mut about = subjects(call);
    about.push(("permit", id.to_string()));
    step.record(tx, "permit.minted", call.executor, about, payload)
        .await?;
    Ok(claims)
}
