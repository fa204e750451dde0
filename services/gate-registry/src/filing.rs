//! Filing: a call with its plan comes in, is decided, and stands on the disk before it is answered.

use jiff::SignedDuration;
use kazma_domain::{
    Call, Denial, Digest, Event, GateId, Grounds, Plan, Service, State, ThreadId, TurnId,
    call::FIRST_VERSION,
    canonical_json,
    card::{Card, Origin},
    clock::after,
    limits,
};
use kazma_faults::{Check, Point, reach, wrong};
use kazma_policy::{Heard, Request, Route, Verdict, decide, origins};
use kazma_store::{
    Tx,
    registry::{
        calls::{self, CallRow},
        gates::{self, GateRow},
        threads,
    },
};
use kazma_wire::{
    agent::{EntryKind, UnroutableRequest},
    events::What,
    executor::{FileRequest, Filed, Proposal},
};
use serde_json::{Value, json};

use crate::{
    Error, Registry,
    metrics::Count,
    permits::mint,
    step::{Step, subjects},
};

/// Bytes of a tool's name, and of the name of a rule.
const NAME_MAX: usize = 128;
/// Entries of the ledger that are searched for where an argument came from, newest first; entries that
/// hold it which are looked at; and arguments that are looked up. What is not found is nobody's.
const AMONG: u32 = 500;
const HOLDING: u32 = 32;
const TEXTS: usize = 16;

/// What is to become of a call, as far as it alone tells.
enum Fate {
    Allow { rule: String },
    Ask { rule: String, reason: String },
    Deny { rule: String, reason: String },
}

impl Fate {
    /// The rule that says so.
    fn rule(&self) -> &str {
        match self {
            Self::Allow { rule } | Self::Ask { rule, .. } | Self::Deny { rule, .. } => rule,
        }
    }
}

/// A filing, checked and judged.
struct Filing {
    thread: ThreadId,
    turn: TurnId,
    index: u32,
    tool: String,
    arguments: Value,
    arguments_digest: Digest,
    principal: Service,
    executor: Service,
    plan: Option<Plan>,
    plan_digest: Digest,
    fate: Fate,
    origins: Vec<Origin>,
    wait: SignedDuration,
}

impl Registry {
    /// Files a call with its plan. The same filing again is answered with where the call stands now.
    ///
    /// # Errors
    ///
    /// Refuses a turn that is not live, and an index that is another call's.
    pub async fn file(&self, executor: Service, request: FileRequest) -> Result<Filed, Error> {
        let arguments_digest = check(&request.tool, request.index, &request.arguments)?;
        let verdict = decide(&Request {
            tool: &request.tool,
            route: Route::Executor(executor),
        });
        let (plan, fate) = match (request.proposal, verdict) {
            (Proposal::Plan(plan), verdict) => (Some(*plan), fate(verdict)),
            (Proposal::Refuse { .. }, verdict @ Verdict::Deny { .. }) => (None, fate(verdict)),
            (Proposal::Refuse { rule, reason }, _) => {
                short("proposal.refuse.rule", &rule, NAME_MAX)?;
                short("proposal.refuse.reason", &reason, limits::REASON_MAX)?;
                (None, Fate::Deny { rule, reason })
            }
        };
        if let Some(plan) = &plan {
            if plan.tool != request.tool {
                let what = "not the tool of the call";
                return Err(Error::invalid("proposal.plan.tool", what));
            }
            if plan.arguments != request.arguments {
                let what = "not the arguments of the call";
                return Err(Error::invalid("proposal.plan.arguments", what));
            }
        }
        let plan_digest = match &plan {
            Some(plan) => plan.digest()?,
            None => planless(&request.tool, &request.arguments)?,
        };
        let origins = match fate {
            Fate::Ask { .. } => self.origins(request.thread, &request.arguments).await?,
            Fate::Allow { .. } | Fate::Deny { .. } => Vec::new(),
        };
        self.keep(Filing {
            thread: request.thread,
            turn: request.turn,
            index: request.index,
            tool: request.tool,
            arguments: request.arguments,
            arguments_digest,
            principal: request.principal,
            executor,
            plan,
            plan_digest,
            fate,
            origins,
            wait: self.wait,
        })
        .await
    }

    /// Records a call that no executor has. It is denied.
    ///
    /// # Errors
    ///
    /// As [`Registry::file`].
    pub async fn file_unroutable(
        &self,
        principal: Service,
        request: UnroutableRequest,
    ) -> Result<Filed, Error> {
        let arguments_digest = check(&request.tool, request.index, &request.arguments)?;
        let verdict = decide(&Request {
            tool: &request.tool,
            route: Route::Unroutable,
        });
        let plan_digest = planless(&request.tool, &request.arguments)?;
        self.keep(Filing {
            thread: request.thread,
            turn: request.turn,
            index: request.index,
            tool: request.tool,
            arguments: request.arguments,
            arguments_digest,
            principal,
            executor: Service::GateRegistry,
            plan: None,
            plan_digest,
            fate: fate(verdict),
            origins: Vec::new(),
            wait: self.wait,
        })
        .await
    }

    async fn keep(&self, filing: Filing) -> Result<Filed, Error> {
        let (row, claims) = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let row = keep(tx, step, filing).await?;
                    let claims = match mint(tx, step, &row).await {
                        Ok(claims) => Some(claims),
                        // It may not run now: then there is nothing to collect.
                        Err(Error::Refused(_)) => None,
                        Err(error) => return Err(error),
                    };
                    reach(Point::Filing);
                    Ok((row, claims))
                })
            })
            .await?;
        reach(Point::Filed);
        let permit = claims.map(|claims| self.key.permit(claims)).transpose()?;
        Ok(Filed {
            call: row.call,
            tool: row.tool,
            permit,
        })
    }

    /// Where each argument stands in the thread.
    async fn origins(&self, thread: ThreadId, arguments: &Value) -> Result<Vec<Origin>, Error> {
        let texts: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flat_map(|members| members.values())
            .filter_map(Value::as_str)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .take(TEXTS)
            .collect();
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let entries = self
            .read(move |tx| {
                Box::pin(async move {
                    let mut entries = Vec::new();
                    for text in texts {
                        entries.extend(threads::holding(tx, thread, &text, AMONG, HOLDING).await?);
                    }
                    entries.sort_by_key(|entry| entry.seq);
                    Ok(entries)
                })
            })
            .await?;
        let heard: Vec<Heard<'_>> = entries
            .iter()
            .filter_map(|entry| match &entry.kind {
                EntryKind::Message { text, .. } => Some(Heard::Person(text)),
                EntryKind::Result { tool, output, .. } => Some(Heard::Tool {
                    tool,
                    origin: &output.origin,
                    text: &output.text,
                }),
                // The agent's own words prove nothing.
                EntryKind::Reply { .. } => None,
            })
            .collect();
        Ok(origins(arguments, &heard))
    }
}

fn fate(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Allow { rule } => Fate::Allow {
            rule: rule.to_owned(),
        },
        Verdict::Ask { rule, reason } => Fate::Ask {
            rule: rule.to_owned(),
            reason,
        },
        Verdict::Deny { rule, reason } => Fate::Deny {
            rule: rule.to_owned(),
            reason,
        },
    }
}

fn check(tool: &str, index: u32, arguments: &Value) -> Result<Digest, Error> {
    if tool.is_empty() {
        return Err(Error::invalid("tool", "a name is needed"));
    }
    short("tool", tool, NAME_MAX)?;
    if index >= limits::CALLS_PER_TURN {
        return Err(Error::invalid(
            "index",
            format!("a turn has at most {} calls", limits::CALLS_PER_TURN),
        ));
    }
    let bytes = canonical_json(arguments)?;
    if bytes.len() > limits::ARGUMENTS_MAX {
        return Err(Error::invalid(
            "arguments",
            format!("at most {} bytes", limits::ARGUMENTS_MAX),
        ));
    }
    Ok(Digest::of_bytes(&bytes))
}

pub(crate) fn short(field: &'static str, text: &str, max: usize) -> Result<(), Error> {
    if text.len() > max {
        return Err(Error::invalid(field, format!("at most {max} bytes")));
    }
    Ok(())
}

/// What stands for the plan of a call that has none.
fn planless(tool: &str, arguments: &Value) -> Result<Digest, Error> {
    Ok(Digest::of(
        &json!({"tool": tool, "arguments": arguments, "plan": null}),
    )?)
}

async fn keep(tx: &mut Tx, step: &mut Step, mut filing: Filing) -> Result<CallRow, Error> {
    let turn = threads::turn(tx, filing.turn)
        .await?
        .ok_or(Error::NotFound("turn"))?;
    if turn.thread != filing.thread {
        return Err(Error::invalid("thread", "not the thread of this turn"));
    }
    let mut alike = calls::alike(
        tx,
        filing.turn,
        filing.index,
        &filing.tool,
        &filing.arguments_digest,
    )
    .await?;
    if let Some(at) = alike.iter().position(|row| row.call.index == filing.index) {
        let row = alike.swap_remove(at);
        let same = row.tool == filing.tool
            && row.arguments_digest == filing.arguments_digest
            && row.call.executor == filing.executor;
        return if wrong(Check::FilingKey, !same) {
            Err(Error::CallKeyReused)
        } else {
            Ok(row)
        };
    }
    if wrong(Check::FilingTurn, !turn.state.is_live()) {
        return Err(Error::TurnClosed { state: turn.state });
    }
    filing.wait = turn.wait.span(filing.wait);
    let row = decided(tx, step, &filing, &alike).await?;
    let kind = match row.call.state {
        State::Pending { .. } => "call.asked",
        State::Approved { .. } => "call.allowed",
        _ => "call.denied",
    };
    let payload = json!({
        "tool": row.tool,
        "arguments": row.arguments,
        "plan": filing.plan_digest,
        "executor": row.call.executor,
        "state": row.call.state,
    });
    step.record(tx, kind, row.call.principal, subjects(&row.call), payload)
        .await?;
    Ok(row)
}

/// Decides where a new call begins, and writes it there.
async fn decided(
    tx: &mut Tx,
    step: &mut Step,
    filing: &Filing,
    equal: &[CallRow],
) -> Result<CallRow, Error> {
    let now = step.moment.now;
    let deny = |rule: &str, reason: &str| State::Denied {
        by: Denial::Rule {
            rule: rule.to_owned(),
            reason: reason.to_owned(),
        },
        at: now,
    };
    match (&filing.fate, &filing.plan) {
        (Fate::Deny { rule, reason }, _) => write(tx, step, filing, None, deny(rule, reason)).await,
        (Fate::Allow { rule }, Some(_)) => {
            let state = State::Approved {
                grounds: Grounds::Rule { rule: rule.clone() },
                use_before: after(now, limits::APPROVAL_LIFE),
            };
            write(tx, step, filing, None, state).await
        }
        (Fate::Ask { rule, reason }, Some(plan)) => {
            let denied_before = equal.iter().any(|row| denied_by_people(&row.call.state));
            if wrong(Check::FilingDeniedAgain, denied_before) {
                let reason = "a person denied the same call in this turn; \
                              it stays denied until they say something new";
                return write(tx, step, filing, None, deny("denied-before", reason)).await;
            }
            let joined = equal.iter().find(|row| {
                row.call.plan == filing.plan_digest
                    && row.call.executor == filing.executor
                    && matches!(row.call.state, State::Pending { .. })
                    && row
                        .call
                        .state
                        .due(step.moment.started)
                        .is_none_or(|due| now < due)
            });
            if let Some(row) = joined {
                return join(tx, step, filing, row).await;
            }
            if gates::pending_in(tx, filing.thread).await? >= limits::PENDING_PER_THREAD {
                let reason = "too many cards wait in this thread already; \
                              they must be answered before another is asked";
                return write(tx, step, filing, None, deny("too-many-pending", reason)).await;
            }
            ask(tx, step, filing, plan, rule, reason).await
        }
        // What would run is not known, so nothing may.
        (Fate::Allow { .. } | Fate::Ask { .. }, None) => {
            write(
                tx,
                step,
                filing,
                None,
                deny("no-plan", "its executor made no plan for it"),
            )
            .await
        }
    }
}

fn denied_by_people(state: &State) -> bool {
    matches!(
        state,
        State::Denied {
            by: Denial::People { .. },
            ..
        }
    )
}

/// Asks a new question.
async fn ask(
    tx: &mut Tx,
    step: &mut Step,
    filing: &Filing,
    plan: &Plan,
    rule: &str,
    reason: &str,
) -> Result<CallRow, Error> {
    let id: GateId = step.id();
    let card = Card {
        gate: id,
        thread: filing.thread,
        turn: filing.turn,
        plan: plan.clone(),
        reason: reason.to_owned(),
        rule: rule.to_owned(),
        provenance: filing.origins.clone(),
        count: 1,
    };
    let gate = GateRow {
        id,
        thread: filing.thread,
        turn: filing.turn,
        digest: card.digest()?,
        card,
        asked_at: step.moment.now,
    };
    gates::insert(tx, &gate)?;
    let state = State::Pending {
        expires_at: after(step.moment.now, filing.wait),
        card: gate.digest,
        votes: Vec::new(),
    };
    asked(tx, step, filing, &gate, state).await
}

/// Joins the question that an equal call waits for. Its card counts one more, so it is another card.
async fn join(
    tx: &mut Tx,
    step: &mut Step,
    filing: &Filing,
    equal: &CallRow,
) -> Result<CallRow, Error> {
    let id = equal
        .call
        .gate
        .ok_or_else(|| inconsistent(equal, "pending without a gate"))?;
    let mut gate = gates::find(tx, id)
        .await?
        .ok_or_else(|| inconsistent(equal, "its gate is gone"))?;
    let seen = gate.digest;
    gate.card.count += 1;
    gate.digest = gate.card.digest()?;
    gates::recard(tx, &gate, &seen)?;
    let mut expires_at = None;
    for row in calls::of_gate(tx, id).await? {
        if let State::Pending { expires_at: at, .. } = row.call.state {
            expires_at = Some(at);
            step.apply(tx, &row, &Event::Recard { card: gate.digest })
                .await?;
        }
    }
    let state = State::Pending {
        // One question, one deadline.
        expires_at: expires_at.unwrap_or_else(|| after(step.moment.now, filing.wait)),
        card: gate.digest,
        votes: Vec::new(),
    };
    asked(tx, step, filing, &gate, state).await
}

/// Writes a call that waits for the answer to `gate`, and says that there is a card.
async fn asked(
    tx: &mut Tx,
    step: &mut Step,
    filing: &Filing,
    gate: &GateRow,
    state: State,
) -> Result<CallRow, Error> {
    let row = write(tx, step, filing, Some(gate.id), state).await?;
    let what = What::GatePending { gate: gate.id };
    step.event(tx, gate.thread, Some(gate.turn), &what).await?;
    Ok(row)
}

fn inconsistent(row: &CallRow, what: &str) -> Error {
    kazma_store::StoreError::inconsistent("calls", row.call.id, what).into()
}

/// Writes a new call in its first state.
async fn write(
    tx: &mut Tx,
    step: &mut Step,
    filing: &Filing,
    gate: Option<GateId>,
    state: State,
) -> Result<CallRow, Error> {
    let call = Call {
        id: step.id(),
        gate,
        thread: filing.thread,
        turn: filing.turn,
        index: filing.index,
        principal: filing.principal,
        executor: filing.executor,
        plan: filing.plan_digest,
        version: FIRST_VERSION,
        state,
    };
    let changed = step.call_event(tx, &call, &filing.tool).await?;
    let row = CallRow {
        call,
        tool: filing.tool.clone(),
        arguments: filing.arguments.clone(),
        arguments_digest: filing.arguments_digest,
        filed_at: step.moment.now,
        changed,
        output: None,
        asked_with: u32::from(gate.is_some()),
    };
    calls::insert(tx, &row, filing.plan.as_ref())?;
    step.counts.push(Count::filed(&row, filing.fate.rule()));
    step.counts.push(Count::stands(&row.call, &row.tool));
    Ok(row)
}
