//! What the agent asks: which turns are live, what was said, how its calls ended; and the end of a turn.

use kazma_domain::{MessageId, Service, ThreadId, TurnId, TurnState};
use kazma_faults::{Point, reach};
use kazma_store::registry::{calls, threads};
use kazma_wire::{
    agent::{Entry, EntryKind, FinishRequest, LiveTurn, ProgressRequest, TurnCall},
    events::What,
    poll::{Poll, Polled},
};
use serde_json::json;

use crate::{Error, Registry, filing::short, people::end_turn, step::Change};

/// Entries of one page of the ledger, and bytes of their texts.
const PAGE: u32 = 200;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the agent's last words.
const REPLY_MAX: usize = 256 * 1024;

impl Registry {
    /// The live turns that changed since.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn live_turns(&self, poll: Poll) -> Result<Polled<LiveTurn>, Error> {
        let database = self.database.clone();
        let concerns = |change: &Change| matches!(change, Change::Turn(_));
        self.poll(poll.wait_ms, concerns, move || {
            let database = database.clone();
            Box::pin(async move {
                database
                    .read(move |tx| {
                        Box::pin(async move {
                            let (items, seq) = threads::live_turns(tx, poll.after).await?;
                            Ok(Polled { items, seq })
                        })
                    })
                    .await
            })
        })
        .await
    }

    /// The calls of a turn that changed since.
    ///
    /// # Errors
    ///
    /// Refuses a turn that does not exist.
    pub async fn turn_calls(&self, turn: TurnId, poll: Poll) -> Result<Polled<TurnCall>, Error> {
        let database = self.database.clone();
        // The end of the turn wakes who waits for its calls.
        let concerns = move |change: &Change| match change {
            Change::Turn(of) | Change::Call { turn: of, .. } => *of == turn,
            Change::Anything => true,
        };
        self.poll(poll.wait_ms, concerns, move || {
            let database = database.clone();
            Box::pin(async move {
                database
                    .read(move |tx| {
                        Box::pin(async move {
                            threads::turn(tx, turn)
                                .await?
                                .ok_or(Error::NotFound("turn"))?;
                            let rows = calls::of_turn(tx, turn, poll.after).await?;
                            let seq = rows
                                .iter()
                                .map(|row| row.changed)
                                .fold(poll.after, i64::max);
                            let items = rows
                                .into_iter()
                                .map(|row| TurnCall {
                                    call: row.call,
                                    tool: row.tool,
                                    output: row.output,
                                    changed: row.changed,
                                })
                                .collect();
                            Ok(Polled { items, seq })
                        })
                    })
                    .await
            })
        })
        .await
    }

    /// A page of a thread's ledger.
    ///
    /// # Errors
    ///
    /// Refuses a thread that does not exist.
    pub async fn ledger(&self, thread: ThreadId, after: i64) -> Result<Polled<Entry>, Error> {
        self.read(move |tx| {
            Box::pin(async move {
                threads::created_at(tx, thread)
                    .await?
                    .ok_or(Error::NotFound("thread"))?;
                let mut items = Vec::new();
                let mut bytes = 0;
                for entry in threads::entries(tx, thread, after, PAGE).await? {
                    bytes += size(&entry);
                    if bytes > PAGE_BYTES && !items.is_empty() {
                        break;
                    }
                    items.push(entry);
                }
                let seq = items.last().map_or(after, |entry: &Entry| entry.seq);
                Ok(Polled { items, seq })
            })
        })
        .await
    }

    /// Says where a live turn stands: running or parked.
    ///
    /// # Errors
    ///
    /// Refuses another state, and a turn that has ended.
    pub async fn progress(&self, turn: TurnId, request: ProgressRequest) -> Result<(), Error> {
        let to = request.state;
        if !matches!(to, TurnState::Running | TurnState::Parked) {
            return Err(Error::invalid("state", "running or parked"));
        }
        self.write(move |tx, step| {
            Box::pin(async move {
                let seen = threads::turn(tx, turn)
                    .await?
                    .ok_or(Error::NotFound("turn"))?;
                if !seen.state.is_live() {
                    return Err(Error::TurnClosed { state: seen.state });
                }
                if seen.state == to {
                    return Ok(());
                }
                step.changes.push(Change::Turn(turn));
                let changed = step
                    .event(tx, seen.thread, Some(turn), &What::Turn { state: to })
                    .await?;
                threads::move_turn(tx, &seen, to, changed);
                let about = [
                    ("turn", turn.to_string()),
                    ("thread", seen.thread.to_string()),
                ];
                let payload = json!({"state": to});
                step.record(tx, "turn.moved", Service::Agent, about, payload)
                    .await
            })
        })
        .await
    }

    /// Writes the agent's last words and ends the turn, with everything in it that has not begun.
    /// Idempotent.
    ///
    /// # Errors
    ///
    /// Refuses an end without words, and a turn that ended otherwise.
    pub async fn finish(&self, turn: TurnId, request: FinishRequest) -> Result<(), Error> {
        let to = request.state;
        if !matches!(to, TurnState::Done | TurnState::Failed) {
            return Err(Error::invalid("state", "done or failed"));
        }
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "no turn ends in silence"));
        }
        short("text", &request.text, REPLY_MAX)?;
        self.write(move |tx, step| {
            Box::pin(async move {
                let seen = threads::turn(tx, turn)
                    .await?
                    .ok_or(Error::NotFound("turn"))?;
                let kind = EntryKind::Reply { text: request.text };
                if seen.state == to
                    && threads::reply(tx, turn)
                        .await?
                        .is_some_and(|entry| entry.kind == kind)
                {
                    return Ok(());
                }
                if !seen.state.is_live() {
                    return Err(Error::TurnClosed { state: seen.state });
                }
                let message: MessageId = step.id();
                let now = step.moment.now;
                threads::append(tx, message, seen.thread, turn, now, &kind)?;
                step.event(tx, seen.thread, Some(turn), &What::Reply { message })
                    .await?;
                end_turn(tx, step, &seen, to).await?;
                let about = [
                    ("turn", turn.to_string()),
                    ("thread", seen.thread.to_string()),
                    ("message", message.to_string()),
                ];
                let payload = json!({"state": to});
                step.record(tx, "turn.finished", Service::Agent, about, payload)
                    .await
            })
        })
        .await?;
        reach(Point::TurnEnded);
        Ok(())
    }
}

fn size(entry: &Entry) -> usize {
    match &entry.kind {
        EntryKind::Message { text, .. } | EntryKind::Reply { text } => text.len(),
        EntryKind::Result { output, .. } => output.text.len(),
    }
}
