//! What happened, in order, for those who follow.

use jiff::Timestamp;
use kazma_domain::{ThreadId, TurnId};
use kazma_wire::events::{Event, What};
use sqlx::Row as _;

use crate::{
    StoreError, Tx,
    row::{Reader, json, micros},
};

/// Records that something happened and returns its place.
pub async fn append(
    tx: &mut Tx,
    at: Timestamp,
    thread: ThreadId,
    turn: Option<TurnId>,
    what: &What,
) -> Result<i64, StoreError> {
    let row = sqlx::query(
        "INSERT INTO events (at, thread, turn, body) VALUES ($1, $2, $3, $4) RETURNING seq",
    )
    .bind(micros(at))
    .bind(thread.uuid())
    .bind(turn.map(TurnId::uuid))
    .bind(json("events", thread, what)?)
    .fetch_one(tx.connection())
    .await?;
    Ok(row.try_get(0)?)
}

/// The place of the last event; 0 before the first.
pub async fn last(tx: &mut Tx) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT COALESCE(MAX(seq), 0) FROM events")
        .fetch_one(tx.connection())
        .await?;
    Ok(row.try_get(0)?)
}

/// The place of the last event of a thread; 0 before the first.
pub async fn last_of(tx: &mut Tx, thread: ThreadId) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT COALESCE(MAX(seq), 0) FROM events WHERE thread = $1")
        .bind(thread.uuid())
        .fetch_one(tx.connection())
        .await?;
    Ok(row.try_get(0)?)
}

/// At most `limit` events after `after`, in order.
pub async fn after(tx: &mut Tx, after: i64, limit: u32) -> Result<Vec<Event>, StoreError> {
    sqlx::query(
        "SELECT seq, at, thread, turn, body FROM events WHERE seq > $1 ORDER BY seq LIMIT $2",
    )
    .bind(after)
    .bind(i64::from(limit))
    .fetch_all(tx.connection())
    .await?
    .iter()
    .map(|row| {
        let seq: i64 = row.try_get("seq")?;
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
