//! Threads, their turns and their ledger.

use jiff::Timestamp;
use kazma_domain::{Digest, MessageId, PersonId, ThreadId, TurnId, TurnState, Wait};
use kazma_wire::{
    agent::{Entry, EntryKind, LiveTurn},
    gateway::ThreadSummary,
    view::TurnView,
};

use crate::{
    StoreError, Tx,
    row::{Reader, Row, json, micros},
    statement::Statement,
};

/// Characters of a thread's title.
const TITLE: usize = 120;

/// A turn as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnRow {
    /// Which.
    pub id: TurnId,
    /// In which thread.
    pub thread: ThreadId,
    /// Where it stands.
    pub state: TurnState,
    /// How whoever spoke waits for it.
    pub wait: Wait,
}

/// Begins a thread.
pub fn insert(tx: &mut Tx, id: ThreadId, by: PersonId, at: Timestamp) {
    tx.later(
        Statement::new(
            "INSERT INTO threads (id, created_at, created_by, changed_at) VALUES ($1, $2, $3, $2)",
        )
        .bind(id)
        .bind(micros(at))
        .bind(by),
    );
}

/// When a thread began; none if there is no such thread.
pub async fn created_at(tx: &mut Tx, id: ThreadId) -> Result<Option<Timestamp>, StoreError> {
    let row = tx
        .optional(Statement::new("SELECT created_at FROM threads WHERE id = $1").bind(id))
        .await?;
    row.map(|row| Reader::new(&row, "threads", id).time("created_at"))
        .transpose()
}

/// Notes that something happened in a thread.
pub fn touch(tx: &mut Tx, id: ThreadId, at: Timestamp) {
    tx.later(
        Statement::new(
            "UPDATE threads SET changed_at = CASE WHEN changed_at < $1 THEN $1 ELSE changed_at END
                 WHERE id = $2",
        )
        .bind(micros(at))
        .bind(id)
        .seen("threads", id),
    );
}

/// Gives a thread that has none yet its title.
pub async fn entitle(tx: &mut Tx, id: ThreadId, text: &str) -> Result<(), StoreError> {
    // PostgreSQL keeps no NUL; other control characters are no part of a title either.
    let title: String = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(TITLE)
        .collect();
    tx.execute(
        Statement::new("UPDATE threads SET title = $1 WHERE id = $2 AND title = ''")
            .bind(title)
            .bind(id),
    )
    .await?;
    Ok(())
}

/// At most `limit` threads, the last changed first.
pub async fn summaries(tx: &mut Tx, limit: u32) -> Result<Vec<ThreadSummary>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT t.id, t.title, t.created_at, t.changed_at,
                (SELECT COUNT(DISTINCT c.gate) FROM calls c
                 WHERE c.thread = t.id AND c.state = 'pending') AS pending
         FROM threads t ORDER BY t.changed_at DESC, t.id DESC LIMIT $1",
        )
        .bind(i64::from(limit)),
    )
    .await?
    .iter()
    .map(|row| {
        let row = Reader::new(row, "threads", "summary");
        Ok(ThreadSummary {
            thread: row.id("id")?,
            title: row.get("title")?,
            created_at: row.time("created_at")?,
            changed_at: row.time("changed_at")?,
            pending: row.count("pending")?,
        })
    })
    .collect()
}

/// Opens a turn. Its message is written next, by [`append`] and [`set_message`].
pub fn open_turn(
    tx: &mut Tx,
    id: TurnId,
    thread: ThreadId,
    wait: Wait,
    at: Timestamp,
    changed: i64,
) {
    tx.later(
        Statement::new(
            "INSERT INTO turns (id, thread, state, opened_at, message, changed, wait)
             VALUES ($1, $2, 'open', $3, 0, $4, $5)",
        )
        .bind(id)
        .bind(thread)
        .bind(micros(at))
        .bind(changed)
        .bind(wait.name()),
    );
}

/// Says which entry of the ledger is the message of a turn.
pub fn set_message(tx: &mut Tx, turn: TurnId, message: MessageId) {
    tx.later(
        Statement::new(
            "UPDATE turns SET message = (SELECT seq FROM entries WHERE id = $1) WHERE id = $2",
        )
        .bind(message)
        .bind(turn),
    );
}

/// A turn.
pub async fn turn(tx: &mut Tx, id: TurnId) -> Result<Option<TurnRow>, StoreError> {
    let row = tx
        .optional(Statement::new("SELECT thread, state, wait FROM turns WHERE id = $1").bind(id))
        .await?;
    row.map(|row| {
        let row = Reader::new(&row, "turns", id);
        Ok(TurnRow {
            id,
            thread: row.id("thread")?,
            state: row.word("state")?,
            wait: row.word("wait")?,
        })
    })
    .transpose()
}

/// Moves a turn from the state it was seen in. `Stale` if it is in another by now.
pub fn move_turn(tx: &mut Tx, seen: &TurnRow, to: TurnState, changed: i64) {
    tx.later(
        Statement::new("UPDATE turns SET state = $1, changed = $2 WHERE id = $3 AND state = $4")
            .bind(to.name())
            .bind(changed)
            .bind(seen.id)
            .bind(seen.state.name())
            .seen("turns", seen.id),
    );
}

/// The live turns that changed after `after`, oldest first, and the last change among them.
pub async fn live_turns(tx: &mut Tx, after: i64) -> Result<(Vec<LiveTurn>, i64), StoreError> {
    let rows = tx
        .all(
            Statement::new(
                "SELECT id, thread, state, message, changed FROM turns
         WHERE state IN ('open', 'running', 'parked') AND changed > $1 ORDER BY message",
            )
            .bind(after),
        )
        .await?;
    let mut seq = after;
    let mut turns = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Reader::new(row, "turns", "live");
        seq = seq.max(row.get("changed")?);
        turns.push(LiveTurn {
            turn: row.id("id")?,
            thread: row.id("thread")?,
            state: row.word("state")?,
            seq: row.get("message")?,
        });
    }
    Ok((turns, seq))
}

/// The turns of a thread, oldest first.
pub async fn turns(tx: &mut Tx, thread: ThreadId) -> Result<Vec<TurnView>, StoreError> {
    tx.all(
        Statement::new("SELECT id, state, opened_at FROM turns WHERE thread = $1 ORDER BY message")
            .bind(thread),
    )
    .await?
    .iter()
    .map(|row| {
        let row = Reader::new(row, "turns", thread);
        Ok(TurnView {
            turn: row.id("id")?,
            state: row.word("state")?,
            opened_at: row.time("opened_at")?,
        })
    })
    .collect()
}

/// Writes an entry of the ledger.
pub fn append(
    tx: &mut Tx,
    id: MessageId,
    thread: ThreadId,
    turn: TurnId,
    at: Timestamp,
    kind: &EntryKind,
) -> Result<(), StoreError> {
    let word = match kind {
        EntryKind::Message { .. } => "message",
        EntryKind::Result { .. } => "result",
        EntryKind::Reply { .. } => "reply",
    };
    tx.later(
        Statement::new(
            "INSERT INTO entries (id, thread, turn, at, kind, body)
             VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(id)
        .bind(thread)
        .bind(turn)
        .bind(micros(at))
        .bind(word)
        .bind(json("entries", id, kind)?),
    );
    Ok(())
}

/// At most `limit` entries of a thread after `after`, oldest first.
pub async fn entries(
    tx: &mut Tx,
    thread: ThreadId,
    after: i64,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT id, seq, turn, at, body FROM entries
         WHERE thread = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(thread)
        .bind(after)
        .bind(i64::from(limit)),
    )
    .await?
    .iter()
    .map(entry)
    .collect()
}

/// The last `limit` entries of a thread, newest first.
pub async fn newest_entries(
    tx: &mut Tx,
    thread: ThreadId,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    tx.all(Statement::new(
        "SELECT id, seq, turn, at, body FROM entries WHERE thread = $1 ORDER BY seq DESC LIMIT $2",
    ).bind(thread).bind(i64::from(limit)))
    .await?
    .iter()
    .map(entry)
    .collect()
}

/// At most `limit` messages and results that hold `text`, among the last `among` entries of a thread:
/// messages first, then the newest.
pub async fn holding(
    tx: &mut Tx,
    thread: ThreadId,
    text: &str,
    among: u32,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    // As it stands in the stored JSON, without the quotes around it.
    let quoted = json("entries", thread, &text)?;
    let escaped = quoted
        .get(1..quoted.len().saturating_sub(1))
        .unwrap_or_default();
    tx.all(
        Statement::new(
            "SELECT id, seq, turn, at, body FROM
            (SELECT * FROM entries WHERE thread = $1 ORDER BY seq DESC LIMIT $2) AS newest
         WHERE kind IN ('message', 'result') AND instr(body, $3) > 0
         ORDER BY kind = 'message' DESC, seq DESC LIMIT $4",
        )
        .bind(thread)
        .bind(i64::from(among))
        .bind(escaped)
        .bind(i64::from(limit)),
    )
    .await?
    .iter()
    .map(entry)
    .collect()
}

/// The agent's last words of a turn, if it has spoken.
pub async fn reply(tx: &mut Tx, turn: TurnId) -> Result<Option<Entry>, StoreError> {
    let row = tx.optional(Statement::new(
        "SELECT e.id, e.seq, e.turn, e.at, e.body FROM entries e JOIN turns t ON t.id = e.turn
         WHERE e.turn = $1 AND e.thread = t.thread AND e.kind = 'reply'
         ORDER BY e.seq DESC LIMIT 1",
    ).bind(turn))
    .await?;
    row.map(|row| entry(&row)).transpose()
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let seq: i64 = row.get("seq")?;
    let row = Reader::new(row, "entries", seq);
    Ok(Entry {
        id: row.id("id")?,
        seq,
        turn: row.id("turn")?,
        at: row.time("at")?,
        kind: row.json("body")?,
    })
}

/// The turn that a key of this thread opened, with the digest of its text.
pub async fn by_key(
    tx: &mut Tx,
    thread: ThreadId,
    key: &str,
) -> Result<Option<(TurnId, Digest)>, StoreError> {
    let row = tx
        .optional(
            Statement::new("SELECT turn, digest FROM message_keys WHERE thread = $1 AND key = $2")
                .bind(thread)
                .bind(key),
        )
        .await?;
    row.map(|row| {
        let row = Reader::new(&row, "message_keys", key);
        Ok((row.id("turn")?, row.digest("digest")?))
    })
    .transpose()
}

/// Keeps the key under which a turn was opened.
pub fn keep_key(tx: &mut Tx, thread: ThreadId, key: &str, text: &Digest, turn: TurnId) {
    tx.later(
        Statement::new(
            "INSERT INTO message_keys (thread, key, digest, turn) VALUES ($1, $2, $3, $4)",
        )
        .bind(thread)
        .bind(key)
        .bind(text)
        .bind(turn),
    );
}
