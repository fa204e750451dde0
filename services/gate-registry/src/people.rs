//! What signed-in people do, as the gateway vouches for them: speak, decide, end a turn.

use kazma_domain::{
    Actor, Call, Digest, Event, GateId, Refusal, State, ThreadId, TurnId, TurnState, Vote, limits,
};
use kazma_faults::{Point, reach};
use kazma_store::{
    Tx,
    registry::{
        calls::{self, CallRow},
        gates, threads,
    },
};
use kazma_wire::{
    agent::EntryKind,
    events::What,
    gateway::{
        AbortRequest, Decided, DecisionRequest, NewMessage, NewThread, ThreadCreated, TurnOpened,
    },
};
use serde_json::json;

use crate::{
    Error, Registry,
    filing::short,
    metrics::Count,
    step::{Change, Step, subjects},
    view,
};

/// Bytes of an idempotency key.
const KEY_MAX: usize = 200;

impl Registry {
    /// Begins a thread.
    ///
    /// # Errors
    ///
    /// Refuses who may not chat.
    pub async fn new_thread(&self, request: NewThread) -> Result<ThreadCreated, Error> {
        may_chat(&request.actor)?;
        self.write(move |tx, step| {
            Box::pin(async move {
                let thread: ThreadId = step.id();
                threads::insert(tx, thread, request.actor.id, step.moment.now);
                step.event(tx, thread, None, &What::Thread).await?;
                let about = [("thread", thread.to_string())];
                let payload = json!({"name": request.actor.name});
                step.record(tx, "thread.begun", request.actor.id, about, payload)
                    .await?;
                Ok(ThreadCreated { thread })
            })
        })
        .await
    }

    /// Writes a person's message and opens its turn, both or neither.
    ///
    /// # Errors
    ///
    /// Refuses who may not chat, and a key that was used for another text.
    pub async fn new_message(
        &self,
        thread: ThreadId,
        request: NewMessage,
    ) -> Result<TurnOpened, Error> {
        may_chat(&request.actor)?;
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "a message has words"));
        }
        short("text", &request.text, limits::MESSAGE_MAX)?;
        if let Some(key) = &request.idempotency_key {
            short("idempotency_key", key, KEY_MAX)?;
        }
        let opened = self
            .write(move |tx, step| Box::pin(message(tx, step, thread, request)))
            .await?;
        reach(Point::MessageKept);
        Ok(opened)
    }

    /// Takes a person's decision: for every call of the card that waits, or for none.
    ///
    /// # Errors
    ///
    /// Refuses who may not decide, another card, and a question that was decided or has ended. Every
    /// refusal is recorded.
    pub async fn decide(&self, gate: GateId, request: DecisionRequest) -> Result<Decided, Error> {
        if let Some(reason) = &request.reason {
            short("reason", reason, limits::REASON_MAX)?;
        }
        if request.electorate == 0 {
            return Err(Error::invalid("electorate", "at least 1"));
        }
        // A refusal commits too: its record is part of the history.
        let decided = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let rows = calls::of_gate(tx, gate).await?;
                    if rows.is_empty() {
                        return Err(Error::NotFound("gate"));
                    }
                    match decide(tx, step, gate, &rows, &request).await {
                        Ok(decided) => Ok(Ok(decided)),
                        Err(error) if !error.is_refusal() => Err(error),
                        Err(refused) => {
                            let payload = json!({
                                "decision": request.decision,
                                "card": request.card,
                                "name": request.actor.name,
                                "surface": request.surface,
                                "why": refused.to_string(),
                            });
                            let about = gate_subjects(gate, &rows);
                            step.record(tx, "decision.refused", request.actor.id, about, payload)
                                .await?;
                            Ok(Err(refused))
                        }
                    }
                })
            })
            .await?;
        reach(Point::Decided);
        decided
    }

    /// Ends a turn: what waits or has not begun will not run.
    ///
    /// # Errors
    ///
    /// Refuses who may not chat, and a turn that ended otherwise.
    pub async fn abort(&self, turn: TurnId, request: AbortRequest) -> Result<(), Error> {
        may_chat(&request.actor)?;
        self.write(move |tx, step| {
            Box::pin(async move {
                let seen = threads::turn(tx, turn)
                    .await?
                    .ok_or(Error::NotFound("turn"))?;
                if seen.state == TurnState::Aborted {
                    return Ok(());
                }
                end_turn(tx, step, &seen, TurnState::Aborted).await?;
                let about = [
                    ("turn", turn.to_string()),
                    ("thread", seen.thread.to_string()),
                ];
                let payload = json!({"name": request.actor.name});
                step.record(tx, "turn.aborted", request.actor.id, about, payload)
                    .await
            })
        })
        .await
    }
}

fn may_chat(actor: &Actor) -> Result<(), Error> {
    if actor.role.may_chat() {
        Ok(())
    } else {
        Err(Error::MayNot { role: actor.role })
    }
}

async fn message(
    tx: &mut Tx,
    step: &mut Step,
    thread: ThreadId,
    request: NewMessage,
) -> Result<TurnOpened, Error> {
    threads::created_at(tx, thread)
        .await?
        .ok_or(Error::NotFound("thread"))?;
    let digest = Digest::of_bytes(request.text.as_bytes());
    if let Some(key) = &request.idempotency_key
        && let Some((turn, text)) = threads::by_key(tx, thread, key).await?
    {
        return if text == digest {
            Ok(TurnOpened { turn })
        } else {
            Err(Error::MessageKeyReused)
        };
    }
    let now = step.moment.now;
    let turn: TurnId = step.id();
    let id = step.id();
    threads::entitle(tx, thread, &request.text).await?;
    step.changes.push(Change::Turn(turn));
    let state = TurnState::Open;
    let changed = step
        .event(tx, thread, Some(turn), &What::Turn { state })
        .await?;
    threads::open_turn(tx, turn, thread, request.wait, now, changed);
    let kind = EntryKind::Message {
        text: request.text,
        by: request.actor.name.clone(),
    };
    threads::append(tx, id, thread, turn, now, &kind)?;
    threads::set_message(tx, turn, id);
    if let Some(key) = &request.idempotency_key {
        threads::keep_key(tx, thread, key, &digest, turn);
    }
    step.event(tx, thread, Some(turn), &What::Message { message: id })
        .await?;
    let about = [
        ("thread", thread.to_string()),
        ("turn", turn.to_string()),
        ("message", id.to_string()),
    ];
    let payload = json!({
        "text": digest,
        "name": request.actor.name,
        "surface": request.surface,
    });
    step.record(tx, "message.written", request.actor.id, about, payload)
        .await?;
    Ok(TurnOpened { turn })
}

/// Ends a live turn with everything in it that has not begun.
pub(crate) async fn end_turn(
    tx: &mut Tx,
    step: &mut Step,
    seen: &threads::TurnRow,
    to: TurnState,
) -> Result<(), Error> {
    if !seen.state.is_live() {
        return Err(Error::TurnClosed { state: seen.state });
    }
    let mut gates_changed = Vec::new();
    for row in calls::of_turn(tx, seen.id, 0).await? {
        if !matches!(
            row.call.state,
            State::Pending { .. } | State::Approved { .. }
        ) {
            continue;
        }
        if let Some(next) = step.apply(tx, &row, &Event::Cancel).await? {
            let payload = json!({"turn": to.name()});
            step.record(
                tx,
                "call.cancelled",
                "gate-registry",
                subjects(&next),
                payload,
            )
            .await?;
            gates_changed.extend(next.gate.filter(|gate| !gates_changed.contains(gate)));
        }
    }
    for gate in gates_changed {
        step.gate_anew(tx, gate).await?;
    }
    step.changes.push(Change::Turn(seen.id));
    let changed = step
        .event(tx, seen.thread, Some(seen.id), &What::Turn { state: to })
        .await?;
    threads::move_turn(tx, seen, to, changed);
    Ok(())
}

pub(crate) fn gate_subjects(gate: GateId, rows: &[CallRow]) -> Vec<(&'static str, String)> {
    let mut about = vec![("gate", gate.to_string())];
    if let Some(first) = rows.first() {
        about.push(("thread", first.call.thread.to_string()));
        about.push(("turn", first.call.turn.to_string()));
    }
    about
}

async fn decide(
    tx: &mut Tx,
    step: &mut Step,
    gate: GateId,
    rows: &[CallRow],
    request: &DecisionRequest,
) -> Result<Decided, Error> {
    let vote = Vote {
        decision: request.decision,
        by: request.actor.id,
        name: request.actor.name.clone(),
        surface: request.surface,
        at: step.moment.now,
        reason: request.reason.clone(),
    };
    let event = Event::Vote {
        vote: vote.clone(),
        role: request.actor.role,
        card: request.card,
        electorate: request.electorate,
    };
    let waiting: Vec<&CallRow> = rows
        .iter()
        .filter(|row| matches!(row.call.state, State::Pending { .. }))
        .collect();
    let asked: Vec<&CallRow> = if waiting.is_empty() {
        rows.iter().collect()
    } else {
        waiting
    };
    // All or nothing: every call must take the vote before one is changed.
    for row in &asked {
        if let Err(refusal) = row.call.apply(&event, step.moment) {
            return Err(refused(tx, gate, &row.call.state, refusal).await?);
        }
    }
    let mut changed: Vec<Call> = Vec::new();
    for row in asked {
        changed.extend(step.apply(tx, row, &event).await?);
    }
    let states: Vec<&State> = rows
        .iter()
        .map(|row| {
            let now = changed.iter().find(|call| call.id == row.call.id);
            &now.unwrap_or(&row.call).state
        })
        .collect();
    let state = view::gate_state(states.iter().copied());
    if let Some(first) = changed.first() {
        step.counts
            .extend(rows.first().map(|row| Count::voted(row, &vote, state)));
        step.gate_stands(tx, gate, first, states.iter().copied())
            .await?;
        let payload = json!({
            "vote": vote,
            "card": request.card,
            "electorate": request.electorate,
            "calls": changed.iter().map(|call| call.id).collect::<Vec<_>>(),
            "state": state,
        });
        let about = gate_subjects(gate, rows);
        step.record(tx, "gate.decided", request.actor.id, about, payload)
            .await?;
    }
    reach(Point::Deciding);
    Ok(Decided {
        settled: state != "pending",
        state: state.to_owned(),
        votes: view::votes(states.iter().copied()),
    })
}

/// What a refused vote is told.
async fn refused(
    tx: &mut Tx,
    gate: GateId,
    state: &State,
    refusal: Refusal,
) -> Result<Error, Error> {
    Ok(match refusal {
        Refusal::NotNow { state } => Error::GateEnded {
            state: state.to_owned(),
        },
        // The sweep has not been there yet, but the deadline has.
        Refusal::TooLate => Error::GateEnded {
            state: match state {
                State::Pending { .. } => "expired".to_owned(),
                other => other.name().to_owned(),
            },
        },
        Refusal::OtherCard => Error::CardChanged {
            digest: gates::find(tx, gate)
                .await?
                .ok_or(Error::NotFound("gate"))?
                .digest,
        },
        other => other.into(),
    })
}
