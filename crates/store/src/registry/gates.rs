//! Gates: the questions, each a card over one or several equal calls.

use jiff::Timestamp;
use kazma_domain::{Digest, GateId, ThreadId, TurnId, card::Card};
use uuid::Uuid;

use crate::{
    StoreError, Tx,
    row::{Reader, Row, json, micros},
    statement::Statement,
};

/// A gate as it is stored. Where it stands is where its calls stand.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRow {
    /// Which.
    pub id: GateId,
    /// In which thread.
    pub thread: ThreadId,
    /// In which turn.
    pub turn: TurnId,
    /// The card as it was shown last.
    pub card: Card,
    /// Its digest.
    pub digest: Digest,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// Writes a new gate.
pub fn insert(tx: &mut Tx, gate: &GateRow) -> Result<(), StoreError> {
    tx.later(
        Statement::new(
            "INSERT INTO gates (id, thread, turn, card, digest, count, asked_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(gate.id)
        .bind(gate.thread)
        .bind(gate.turn)
        .bind(json("gates", gate.id, &gate.card)?)
        .bind(&gate.digest)
        .bind(i64::from(gate.card.count))
        .bind(micros(gate.asked_at)),
    );
    Ok(())
}

/// Puts another card in the place of the one with the digest `seen`. `Stale` if it is another by now.
pub fn recard(tx: &mut Tx, gate: &GateRow, seen: &Digest) -> Result<(), StoreError> {
    tx.later(
        Statement::new(
            "UPDATE gates SET card = $1, digest = $2, count = $3 WHERE id = $4 AND digest = $5",
        )
        .bind(json("gates", gate.id, &gate.card)?)
        .bind(&gate.digest)
        .bind(i64::from(gate.card.count))
        .bind(gate.id)
        .bind(seen)
        .seen("gates", gate.id),
    );
    Ok(())
}

/// A gate.
pub async fn find(tx: &mut Tx, id: GateId) -> Result<Option<GateRow>, StoreError> {
    let row = tx
        .optional(
            Statement::new(
                "SELECT id, thread, turn, card, digest, asked_at FROM gates WHERE id = $1",
            )
            .bind(id),
        )
        .await?;
    row.map(|row| gate(&row)).transpose()
}

/// The gates of a thread, oldest first.
pub async fn of_thread(tx: &mut Tx, thread: ThreadId) -> Result<Vec<GateRow>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT id, thread, turn, card, digest, asked_at FROM gates
         WHERE thread = $1 ORDER BY asked_at, id",
        )
        .bind(thread),
    )
    .await?
    .iter()
    .map(gate)
    .collect()
}

/// Which gates are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those that wait.
    Pending,
    /// Those that no longer wait.
    Settled,
}

/// At most `limit` gates, newest first; with `before` those that come after that one in this order.
pub async fn list(
    tx: &mut Tx,
    which: Which,
    before: Option<&GateRow>,
    limit: u32,
) -> Result<Vec<GateRow>, StoreError> {
    let statement = match which {
        Which::All => {
            "SELECT id, thread, turn, card, digest, asked_at FROM gates
             WHERE (asked_at, id) < ($1, $2)
             ORDER BY asked_at DESC, id DESC LIMIT $3"
        }
        Which::Pending => {
            "SELECT id, thread, turn, card, digest, asked_at FROM gates
             WHERE id IN (SELECT gate FROM calls WHERE state = 'pending')
               AND (asked_at, id) < ($1, $2)
             ORDER BY asked_at DESC, id DESC LIMIT $3"
        }
        Which::Settled => {
            "SELECT id, thread, turn, card, digest, asked_at FROM gates
             WHERE NOT EXISTS (SELECT 1 FROM calls
                               WHERE calls.gate = gates.id AND calls.state = 'pending')
               AND (asked_at, id) < ($1, $2)
             ORDER BY asked_at DESC, id DESC LIMIT $3"
        }
    };
    let end = before.map_or((i64::MAX, GateId::from_uuid(Uuid::max())), |gate| {
        (micros(gate.asked_at), gate.id)
    });
    let statement = Statement::new(statement).bind(end.0).bind(end.1);
    tx.all(statement.bind(i64::from(limit)))
        .await?
        .iter()
        .map(gate)
        .collect()
}

/// How many gates of a thread wait.
pub async fn pending_in(tx: &mut Tx, thread: ThreadId) -> Result<u32, StoreError> {
    let row = tx.one(Statement::new(
        "SELECT COUNT(DISTINCT gate) AS n FROM calls WHERE thread = $1 AND state = 'pending'",
    ).bind(thread))
    .await?;
    Reader::new(&row, "calls", thread).count("n")
}

fn gate(row: &Row) -> Result<GateRow, StoreError> {
    let id = Reader::new(row, "gates", "?").id("id")?;
    let row = Reader::new(row, "gates", id);
    Ok(GateRow {
        id,
        thread: row.id("thread")?,
        turn: row.id("turn")?,
        card: row.json("card")?,
        digest: row.digest("digest")?,
        asked_at: row.time("asked_at")?,
    })
}
