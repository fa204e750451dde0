//! One transaction's hand: the moment it is judged at, what it tells the world once committed, and the
//! audit records it leaves.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kazma_audit::{Fact, Head};
use kazma_domain::{
    Call, Entropy, Event, GateId, Id, Moment, Service, State, ThreadId, TurnId, call::Applied,
    id::Kind,
};
use kazma_store::{
    Tx,
    registry::{audit, calls, calls::CallRow, events, threads},
};
use kazma_wire::events::What;
use serde_json::Value;

use crate::{Error, metrics::Count, view};

/// What changed, for those who wait. Told after the commit, never before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nobody knows what: whoever waits must look.
    Anything,
    /// A turn.
    Turn(TurnId),
    /// A call.
    Call {
        /// Its turn.
        turn: TurnId,
        /// Who runs it.
        executor: Service,
    },
}

/// What one transaction knows and leaves behind.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) moment: Moment,
    entropy: Arc<dyn Entropy>,
    /// The thread whose last change is this moment already.
    touched: Option<ThreadId>,
    /// The last event it wrote; 0 for none.
    pub(crate) last: i64,
    pub(crate) changes: Vec<Change>,
    /// What is counted once it is durable.
    pub(crate) counts: Vec<Count>,
    /// The earliest moment at which time alone changes one of the calls it wrote.
    pub(crate) due: Option<Timestamp>,
}

impl Step {
    pub(crate) fn new(moment: Moment, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            moment,
            entropy,
            touched: None,
            last: 0,
            changes: Vec::new(),
            counts: Vec::new(),
            due: None,
        }
    }

    pub(crate) fn id<K: Kind>(&self) -> Id<K> {
        Id::new(self.moment.now, &*self.entropy)
    }

    /// Writes an event.
    pub(crate) async fn event(
        &mut self,
        tx: &mut Tx,
        thread: ThreadId,
        turn: Option<TurnId>,
        what: &What,
    ) -> Result<i64, Error> {
        // Once is enough: the moment is the same.
        if self.touched != Some(thread) {
            threads::touch(tx, thread, self.moment.now);
            self.touched = Some(thread);
        }
        let seq = events::append(tx, self.moment.now, thread, turn, what).await?;
        self.last = self.last.max(seq);
        Ok(seq)
    }

    /// Writes an audit record.
    pub(crate) async fn record(
        &self,
        tx: &mut Tx,
        kind: &'static str,
        actor: impl ToString,
        subjects: impl IntoIterator<Item = (&'static str, String)>,
        payload: Value,
    ) -> Result<(), Error> {
        let head = audit::head(tx)
            .await?
            .map_or(Head::GENESIS, |(seq, hash)| Head { seq, hash });
        let fact = Fact {
            at: self.moment.now,
            kind,
            actor: actor.to_string(),
            subjects: subjects.into_iter().collect::<BTreeMap<_, _>>(),
            payload,
        };
        let link = head.append(fact, &*self.entropy)?;
        audit::append(tx, link.head.seq, link.record, &link.hash, link.payload).await?;
        Ok(())
    }

    /// Writes the event of a call that stands elsewhere now, and returns its place.
    pub(crate) async fn call_event(
        &mut self,
        tx: &mut Tx,
        call: &Call,
        tool: &str,
    ) -> Result<i64, Error> {
        self.changes.push(Change::Call {
            turn: call.turn,
            executor: call.executor,
        });
        if let Some(due) = call.state.due(self.moment.started) {
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
        let what = What::Call {
            call: call.id,
            tool: tool.to_owned(),
            state: call.state.name().to_owned(),
            gate: call.gate,
        };
        self.event(tx, call.thread, Some(call.turn), &what).await
    }

    /// Says where the gate of a call stands, which is now `next` and was `row`.
    pub(crate) async fn gate_event(
        &mut self,
        tx: &mut Tx,
        row: &CallRow,
        next: &Call,
    ) -> Result<(), Error> {
        match next.gate {
            None => Ok(()),
            Some(gate) if row.asked_with > 1 => self.gate_anew(tx, gate).await,
            // A question about one call stands where that call stands.
            Some(gate) => self.gate_stands(tx, gate, next, [&next.state]).await,
        }
    }

    /// Says where a gate stands, whatever of it has changed.
    pub(crate) async fn gate_anew(&mut self, tx: &mut Tx, gate: GateId) -> Result<(), Error> {
        let rows = calls::of_gate(tx, gate).await?;
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let states = rows.iter().map(|row| &row.call.state);
        self.gate_stands(tx, gate, &first.call, states).await
    }

    /// Says where a gate stands whose calls are in these states, `call` among them.
    pub(crate) async fn gate_stands<'s>(
        &mut self,
        tx: &mut Tx,
        gate: GateId,
        call: &Call,
        states: impl IntoIterator<Item = &'s State>,
    ) -> Result<(), Error> {
        let state = view::gate_state(states.into_iter());
        let what = if state == "pending" {
            What::GatePending { gate }
        } else {
            What::GateSettled {
                gate,
                state: state.to_owned(),
            }
        };
        self.event(tx, call.thread, Some(call.turn), &what).await?;
        Ok(())
    }

    /// Applies `event` to a call and writes what it comes to. None for a repetition.
    ///
    /// The gate's own event is left to the caller, who may change several of its calls.
    pub(crate) async fn apply(
        &mut self,
        tx: &mut Tx,
        row: &CallRow,
        event: &Event,
    ) -> Result<Option<Call>, Error> {
        match row.call.apply(event, self.moment)? {
            Applied::Unchanged => Ok(None),
            Applied::Changed(next) => {
                let changed = self.call_event(tx, &next, &row.tool).await?;
                calls::update(tx, &next, changed)?;
                self.counts.push(Count::stands(&next, &row.tool));
                Ok(Some(*next))
            }
        }
    }

    /// The same with the gate's event and an audit record, for a change of one call alone.
    pub(crate) async fn apply_alone(
        &mut self,
        tx: &mut Tx,
        row: &CallRow,
        event: &Event,
        kind: &'static str,
        actor: impl ToString,
    ) -> Result<Option<Call>, Error> {
        let Some(next) = self.apply(tx, row, event).await? else {
            return Ok(None);
        };
        self.gate_event(tx, row, &next).await?;
        let state = serde_json::to_value(&next.state)?;
        self.record(tx, kind, actor, subjects(&next), state).await?;
        Ok(Some(next))
    }
}

/// What a record about a call is about.
pub(crate) fn subjects(call: &Call) -> Vec<(&'static str, String)> {
    let mut subjects = vec![
        ("call", call.id.to_string()),
        ("thread", call.thread.to_string()),
        ("turn", call.turn.to_string()),
    ];
    subjects.extend(call.gate.map(|gate| ("gate", gate.to_string())));
    subjects
}
