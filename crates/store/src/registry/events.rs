//! What happened, in order, for those who follow.

use jiff::Timestamp;
use kazma_domain::{ThreadId, TurnId};
use kazma_wire::events::{Event, What};

use super::tail::tail;
use crate::{
    StoreError, Tx,
    row::{Reader, json, micros},
    statement::Statement,
};

/// Records that something happened and returns its place.
pub async fn append(
    tx: &mut Tx,
    at: Timestamp,
    thread: ThreadId,
    turn: Option<TurnId>,
    what: &What,
) -> Result<i64, StoreError> {
    let mut known = tail(tx).await?;
    known.event += 1;
    tx.later(
        Statement::new(
            "INSERT INTO events (seq, at, thread, turn, body) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(known.event)
        .bind(micros(at))
        .bind(thread)
        .bind(turn)
        .bind(json("events", thread, what)?),
    );
    tx.tail = Some(known);
    Ok(known.event)
}

/// The place of the last event; 0 before the first.
pub async fn last(tx: &mut Tx) -> Result<i64, StoreError> {
    Ok(tail(tx).await?.event)
}

/// The place of the last event of a thread; 0 before the first.
pub async fn last_of(tx: &mut Tx, thread: ThreadId) -> Result<i64, StoreError> {
    let row = tx
        .one(
            Statement::new("SELECT COALESCE(MAX(seq), 0) AS seq FROM events WHERE thread = $1")
                .bind(thread),
        )
        .await?;
    row.get("seq")
}

/// At most `limit` events after `after`, in order.
pub async fn after(tx: &mut Tx, after: i64, limit: u32) -> Result<Vec<Event>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT seq, at, thread, turn, body FROM events WHERE seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(after)
        .bind(i64::from(limit)),
    )
    .await?
    .iter()
    .map(|row| {
        let seq: i64 = row.get("seq")?;
        let row = Reader::new(row, "events", seq);
        Ok(Event {
            seq: Some(seq),
            at: row.time("at")?,
            thread: row.id("thread")?,
            turn: row.id_option("turn")?,
            what: row.json("body")?,
        })
    })
    .collect()
}
