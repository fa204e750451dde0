//! What the gateway shows: threads and gates, whole.

use kazma_domain::{GateId, Moment, State, ThreadId, Vote, call::Denial};
use kazma_store::{
    Tx,
    registry::{
        calls::{self, CallRow},
        events,
        gates::{self, GateRow, Which},
        threads,
    },
};
use kazma_wire::{
    agent::{Entry, EntryKind},
    executor::Output,
    gateway::{GateQuery, ThreadSummary},
    view::{CallView, EntryView, GateView, ThreadView},
};

use crate::{Error, Registry};

/// Threads that are listed.
const THREADS: u32 = 500;
/// Entries of a thread that are shown, the newest ones.
const ENTRIES: u32 = 2_000;
/// Bytes of outputs that one answer shows, the newest ones; the ledger has them all.
const OUTPUTS: usize = 8 * 1024 * 1024;
/// Gates that are listed unless said otherwise, and at most.
const GATES: u32 = 200;
const GATES_MAX: u32 = 1_000;

impl Registry {
    /// All threads, the last changed first.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn threads(&self) -> Result<Vec<ThreadSummary>, Error> {
        self.read(|tx| Box::pin(async move { Ok(threads::summaries(tx, THREADS).await?) }))
            .await
    }

    /// One thread with all that happened in it.
    ///
    /// # Errors
    ///
    /// Refuses a thread that does not exist.
    pub async fn thread(&self, thread: ThreadId) -> Result<ThreadView, Error> {
        let moment = self.moment();
        self.read(move |tx| {
            Box::pin(async move {
                let created_at = threads::created_at(tx, thread)
                    .await?
                    .ok_or(Error::NotFound("thread"))?;
                let mut entries = threads::newest_entries(tx, thread, ENTRIES).await?;
                entries.reverse();
                let mut calls = calls::of_thread(tx, thread).await?;
                within_budget(&mut entries, &mut calls);
                let gates = gates::of_thread(tx, thread).await?;
                Ok(ThreadView {
                    thread,
                    created_at,
                    entries: entries
                        .into_iter()
                        .map(|entry| EntryView {
                            id: entry.id,
                            seq: entry.seq,
                            turn: entry.turn,
                            at: entry.at,
                            kind: entry.kind,
                        })
                        .collect(),
                    turns: threads::turns(tx, thread).await?,
                    gates: gates
                        .into_iter()
                        .map(|gate| {
                            let id = Some(gate.id);
                            let of = calls.iter().filter(|row| row.call.gate == id);
                            gate_view(gate, of.cloned().collect(), moment)
                        })
                        .collect(),
                    calls: calls.into_iter().map(call_view).collect(),
                    seq: events::last_of(tx, thread).await?,
                })
            })
        })
        .await
    }

    /// One gate.
    ///
    /// # Errors
    ///
    /// Refuses a gate that does not exist.
    pub async fn gate(&self, id: GateId) -> Result<GateView, Error> {
        let moment = self.moment();
        self.read(move |tx| {
            Box::pin(async move {
                let gate = gates::find(tx, id).await?.ok_or(Error::NotFound("gate"))?;
                let calls = calls::of_gate(tx, id).await?;
                Ok(gate_view(gate, calls, moment))
            })
        })
        .await
    }

    /// Gates, newest first. A card whose time is over is not pending, swept or not.
    ///
    /// # Errors
    ///
    /// Refuses a state that is none.
    pub async fn gates(&self, query: GateQuery) -> Result<Vec<GateView>, Error> {
        let which = match query.state.as_deref() {
            None => Which::All,
            Some("pending") => Which::Pending,
            Some("settled") => Which::Settled,
            Some(_) => return Err(Error::invalid("state", "pending or settled")),
        };
        let limit = query.limit.unwrap_or(GATES);
        if limit == 0 || limit > GATES_MAX {
            return Err(Error::invalid("limit", format!("1 to {GATES_MAX}")));
        }
        let moment = self.moment();
        self.read(move |tx| {
            Box::pin(async move {
                let before = match query.before {
                    Some(gate) => Some(gates::find(tx, gate).await?.ok_or_else(|| {
                        Error::invalid(
                            "before",
                            "a gate of an earlier answer; there is none of this id",
                        )
                    })?),
                    None => None,
                };
                let mut views = Vec::new();
                for gate in gates::list(tx, which, before.as_ref(), limit).await? {
                    let view = one(tx, gate, moment).await?;
                    if which != Which::Pending || view.state == "pending" {
                        views.push(view);
                    }
                }
                Ok(views)
            })
        })
        .await
    }
}

/// Leaves out the texts of the oldest outputs when all together are too many bytes.
fn within_budget(entries: &mut [Entry], calls: &mut [CallRow]) {
    let mut left = OUTPUTS;
    for row in calls.iter_mut().rev() {
        if let Some(output) = &mut row.output {
            spend(&mut left, output);
        }
    }
    let mut left = OUTPUTS;
    for entry in entries.iter_mut().rev() {
        if let EntryKind::Result { output, .. } = &mut entry.kind {
            spend(&mut left, output);
        }
    }
}

fn spend(left: &mut usize, output: &mut Output) {
    if let Some(rest) = left.checked_sub(output.text.len()) {
        *left = rest;
    } else {
        *left = 0;
        output.text.clear();
        output.truncated = true;
    }
}

async fn one(tx: &mut Tx, gate: GateRow, moment: Moment) -> Result<GateView, Error> {
    let calls = calls::of_gate(tx, gate.id).await?;
    Ok(gate_view(gate, calls, moment))
}

fn gate_view(gate: GateRow, calls: Vec<CallRow>, moment: Moment) -> GateView {
    let states = || calls.iter().map(|row| &row.call.state);
    let expires_at = states()
        .filter(|state| matches!(state, State::Pending { .. }))
        .filter_map(|state| state.due(moment.started))
        .min();
    let over = expires_at.is_some_and(|at| moment.now >= at);
    GateView {
        gate: gate.id,
        thread: gate.thread,
        turn: gate.turn,
        card: gate.card,
        args_digest: gate.digest,
        state: if over {
            "expired"
        } else {
            gate_state(states())
        }
        .to_owned(),
        asked_at: gate.asked_at,
        expires_at: expires_at.filter(|_| !over),
        votes: votes(states()),
        calls: calls.into_iter().map(call_view).collect(),
    }
}

fn call_view(row: CallRow) -> CallView {
    CallView {
        call: row.call,
        tool: row.tool,
        arguments: row.arguments,
        filed_at: row.filed_at,
        output: row.output,
    }
}

/// The word for where a gate stands: the state of its calls, the least advanced first.
pub(crate) fn gate_state<'a>(states: impl Iterator<Item = &'a State>) -> &'static str {
    states
        .min_by_key(|state| match state {
            State::Pending { .. } => 0,
            State::Approved { .. } => 1,
            State::Claimed { .. } => 2,
            State::Orphaned { .. } => 3,
            State::Settled { .. } => 4,
            State::Expired { .. } => 5,
            State::Denied { .. } => 6,
            State::Cancelled { .. } => 7,
            State::Superseded { .. } => 8,
        })
        .map_or("superseded", State::name)
}

/// What people said: the votes of the first call that has some.
pub(crate) fn votes<'a>(states: impl Iterator<Item = &'a State>) -> Vec<Vote> {
    states
        .map(|state| match state {
            State::Pending { votes, .. }
            | State::Denied {
                by: Denial::People { votes },
                ..
            } => votes.clone(),
            other => other.settling_vote().cloned().into_iter().collect(),
        })
        .find(|votes| !votes.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_outputs_are_shown_and_older_ones_say_that_they_are_cut() {
        let mut left = 10;
        let mut output = |text: &str| {
            let mut output = Output {
                text: text.to_owned(),
                ..Output::default()
            };
            spend(&mut left, &mut output);
            (output.text, output.truncated)
        };
        assert_eq!(output("newest"), ("newest".to_owned(), false));
        assert_eq!(output("older"), (String::new(), true));
        // Once one was left out, no older one slips in.
        assert_eq!(output("old"), (String::new(), true));
    }
}
