//! The transition function.

use super::{
    Applied, Call, Decision, Denial, Event, FIRST_VERSION, Grounds, Moment, Outcome, Refusal, Role,
    Service, State, Vote, after, limits, repeats,
};
use crate::canonical::Digest;
use kazma_faults::{Check, wrong};

impl Call {
    /// Applies `event` at `moment`.
    ///
    /// # Errors
    ///
    /// Refuses whenever the event does not fit where the call stands; the call is then as it was.
    pub fn apply(&self, event: &Event, moment: Moment) -> Result<Applied, Refusal> {
        match event {
            Event::Vote {
                vote,
                role,
                card,
                electorate,
            } => self.vote(vote, *role, card, *electorate, moment),
            Event::Recard { card } => self.recard(*card),
            Event::Extend { role } => self.extend(*role, moment),
            Event::Redeem { .. } => self.redeem(event, moment),
            Event::Report { executor } => self.report(*executor, moment),
            Event::Settle { executor, outcome } => self.settle(*executor, outcome, moment),
            Event::Replan { executor, plan } => self.replan(*executor, *plan, moment),
            Event::Withdraw { executor, reason } => self.withdraw(*executor, reason, moment),
            Event::Lose { executor, what } => self.lose(*executor, what, moment),
            Event::Cancel => self.cancel(moment),
            Event::Supersede { by } => match &self.state {
                State::Pending { .. } => Ok(self.to(State::Superseded {
                    by: *by,
                    at: moment.now,
                })),
                state => Err(not_now(state)),
            },
            Event::Tick => Ok(self.tick(moment)),
        }
    }

    fn to(&self, state: State) -> Applied {
        Applied::Changed(Box::new(Self {
            version: self.version + 1,
            state,
            ..self.clone()
        }))
    }

    fn vote(
        &self,
        vote: &Vote,
        role: Role,
        seen: &Digest,
        electorate: u32,
        moment: Moment,
    ) -> Result<Applied, Refusal> {
        if wrong(Check::DecisionRole, !role.may_decide()) {
            return Err(Refusal::MayNot { role });
        }
        let State::Pending {
            expires_at,
            card,
            votes,
        } = &self.state
        else {
            if self.state.has_vote(vote.by, vote.decision) {
                return Ok(Applied::Unchanged);
            }
            return match self.state.settling_vote() {
                Some(first) => Err(Refusal::Decided { by: first.clone() }),
                None => Err(not_now(&self.state)),
            };
        };
        if wrong(Check::DecisionDeadline, moment.is_past(*expires_at)) {
            return Err(Refusal::TooLate);
        }
        if wrong(Check::DecisionCard, card != seen) {
            return Err(Refusal::OtherCard);
        }
        if votes
            .iter()
            .any(|earlier| repeats(earlier, vote.by, vote.decision))
        {
            // Those who were waited for may be gone by now: then their silence is waited for no more.
            if vote.decision == Decision::Approve || !all_voted(votes, electorate) {
                return Ok(Applied::Unchanged);
            }
        }
        // One vote a person: who changes their mind replaces what they said.
        let mut votes: Vec<Vote> = votes.iter().filter(|v| v.by != vote.by).cloned().collect();
        votes.push(vote.clone());
        Ok(self.to(match vote.decision {
            Decision::Approve => State::Approved {
                grounds: Grounds::Person {
                    vote: vote.clone(),
                    card: *card,
                },
                use_before: after(moment.now, limits::APPROVAL_LIFE),
            },
            Decision::Deny if all_voted(&votes, electorate) => State::Denied {
                by: Denial::People { votes },
                at: moment.now,
            },
            Decision::Deny => State::Pending {
                expires_at: *expires_at,
                card: *card,
                votes,
            },
        }))
    }

    fn recard(&self, card: Digest) -> Result<Applied, Refusal> {
        match &self.state {
            State::Pending { expires_at, .. } => Ok(self.to(State::Pending {
                expires_at: *expires_at,
                card,
                votes: Vec::new(),
            })),
            state => Err(not_now(state)),
        }
    }

    fn extend(&self, role: Role, moment: Moment) -> Result<Applied, Refusal> {
        if !role.may_decide() {
            return Err(Refusal::MayNot { role });
        }
        let State::Pending {
            expires_at,
            card,
            votes,
        } = &self.state
        else {
            return Err(not_now(&self.state));
        };
        if moment.is_past(*expires_at) {
            return Err(Refusal::TooLate);
        }
        let until = after(moment.now, limits::EXTENSION);
        if until <= *expires_at {
            return Ok(Applied::Unchanged);
        }
        Ok(self.to(State::Pending {
            expires_at: until,
            card: *card,
            votes: votes.clone(),
        }))
    }

    fn redeem(&self, event: &Event, moment: Moment) -> Result<Applied, Refusal> {
        let Event::Redeem {
            permit,
            permit_expires_at,
            plan,
            executor,
            attempt,
        } = event
        else {
            return Err(not_now(&self.state));
        };
        self.only(*executor)?;
        match &self.state {
            State::Approved {
                grounds,
                use_before,
            } => {
                if wrong(Check::RedeemPlan, self.plan != *plan) {
                    return Err(Refusal::OtherPlan);
                }
                if wrong(Check::RedeemExpiry, moment.now >= *permit_expires_at) {
                    return Err(Refusal::PermitExpired);
                }
                if wrong(Check::RedeemLate, moment.is_past(*use_before)) {
                    return Err(Refusal::TooLate);
                }
                Ok(self.to(State::Claimed {
                    grounds: grounds.clone(),
                    permit: *permit,
                    attempt: *attempt,
                    at: moment.now,
                    reported_at: moment.now,
                }))
            }
            State::Claimed {
                permit: used,
                attempt: earlier,
                ..
            } => {
                if wrong(Check::RedeemOnce, used != permit || earlier != attempt) {
                    Err(Refusal::Redeemed)
                } else {
                    Ok(Applied::Unchanged)
                }
            }
            State::Settled { .. } | State::Orphaned { .. } => Err(Refusal::Redeemed),
            state => Err(not_now(state)),
        }
    }

    fn report(&self, executor: Service, moment: Moment) -> Result<Applied, Refusal> {
        self.only(executor)?;
        match &self.state {
            State::Claimed {
                grounds,
                permit,
                attempt,
                at,
                ..
            } => Ok(self.to(State::Claimed {
                grounds: grounds.clone(),
                permit: *permit,
                attempt: *attempt,
                at: *at,
                reported_at: moment.now,
            })),
            state => Err(not_now(state)),
        }
    }

    fn settle(
        &self,
        executor: Service,
        outcome: &Outcome,
        moment: Moment,
    ) -> Result<Applied, Refusal> {
        self.only(executor)?;
        match &self.state {
            State::Claimed { grounds, .. } => Ok(self.to(State::Settled {
                grounds: grounds.clone(),
                outcome: outcome.clone(),
                at: moment.now,
            })),
            State::Settled { outcome: known, .. } if wrong(Check::SettleOnce, known != outcome) => {
                Err(Refusal::SettledOtherwise)
            }
            State::Settled { .. } => Ok(Applied::Unchanged),
            state => Err(not_now(state)),
        }
    }

    fn replan(&self, executor: Service, plan: Digest, moment: Moment) -> Result<Applied, Refusal> {
        self.only(executor)?;
        let State::Approved {
            grounds,
            use_before,
        } = &self.state
        else {
            return Err(not_now(&self.state));
        };
        if moment.is_past(*use_before) {
            return Err(Refusal::TooLate);
        }
        match grounds {
            Grounds::Rule { .. } if self.plan == plan => Ok(Applied::Unchanged),
            // An allowed call begins approved: its first version is one that nothing happened to.
            Grounds::Rule { .. } if self.version == FIRST_VERSION => {
                Ok(Applied::Changed(Box::new(Self {
                    version: self.version + 1,
                    plan,
                    ..self.clone()
                })))
            }
            Grounds::Rule { .. } | Grounds::Person { .. } => Err(Refusal::NotAgain),
        }
    }

    fn withdraw(
        &self,
        executor: Service,
        reason: &str,
        moment: Moment,
    ) -> Result<Applied, Refusal> {
        self.only(executor)?;
        match &self.state {
            State::Approved { .. } => Ok(self.to(State::Denied {
                by: Denial::Changed {
                    reason: reason.to_owned(),
                },
                at: moment.now,
            })),
            State::Denied {
                by: Denial::Changed { .. },
                ..
            } => Ok(Applied::Unchanged),
            state => Err(not_now(state)),
        }
    }

    fn lose(&self, executor: Service, what: &str, moment: Moment) -> Result<Applied, Refusal> {
        self.only(executor)?;
        match &self.state {
            State::Claimed { grounds, .. } => Ok(self.to(State::Orphaned {
                grounds: grounds.clone(),
                what: what.to_owned(),
                at: moment.now,
            })),
            State::Orphaned { .. } => Ok(Applied::Unchanged),
            state => Err(not_now(state)),
        }
    }

    fn cancel(&self, moment: Moment) -> Result<Applied, Refusal> {
        match &self.state {
            State::Pending { .. } | State::Approved { .. } => {
                Ok(self.to(State::Cancelled { at: moment.now }))
            }
            State::Cancelled { .. } => Ok(Applied::Unchanged),
            state => Err(not_now(state)),
        }
    }

    fn tick(&self, moment: Moment) -> Applied {
        let due = self.state.due(moment.started);
        if due.is_none_or(|due| moment.now < due) {
            return Applied::Unchanged;
        }
        match &self.state {
            State::Claimed { grounds, .. } => self.to(State::Orphaned {
                grounds: grounds.clone(),
                what: "its executor has not reported it for 300 s".to_owned(),
                at: moment.now,
            }),
            // Silence is a denial, and so is a vote short of the rest: neither ever approves.
            State::Pending { votes, .. } if !votes.is_empty() => self.to(State::Denied {
                by: Denial::People {
                    votes: votes.clone(),
                },
                at: moment.now,
            }),
            State::Pending { .. } => self.to(State::Expired {
                approved: false,
                at: moment.now,
            }),
            State::Approved { .. } => self.to(State::Expired {
                approved: true,
                at: moment.now,
            }),
            State::Settled { .. }
            | State::Denied { .. }
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Superseded { .. }
            | State::Orphaned { .. } => Applied::Unchanged,
        }
    }

    fn only(&self, executor: Service) -> Result<(), Refusal> {
        if wrong(Check::OnlyExecutor, self.executor != executor) {
            return Err(Refusal::NotTheExecutor);
        }
        Ok(())
    }
}

fn all_voted(votes: &[Vote], electorate: u32) -> bool {
    votes.len() >= usize::try_from(electorate).unwrap_or(usize::MAX)
}

fn not_now(state: &State) -> Refusal {
    Refusal::NotNow {
        state: state.name(),
    }
}
