//! Calls with their plans and outputs. A change names the version it saw.

use jiff::Timestamp;
use kazma_domain::{Call, CallId, Digest, GateId, Plan, Service, State, ThreadId, TurnId};
use kazma_wire::executor::Output;
use serde_json::Value;

use crate::{
    StoreError, Tx,
    row::{Reader, Row, json, micros},
    statement::Statement,
};

/// A call as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRow {
    /// The call.
    pub call: Call,
    /// Its tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The digest of their canonical form.
    pub arguments_digest: Digest,
    /// When it was filed.
    pub filed_at: Timestamp,
    /// The event of its last change.
    pub changed: i64,
    /// What it returned, once settled.
    pub output: Option<Output>,
    /// How many calls the question is about that it belongs to; 0 where there is none.
    pub asked_with: u32,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.id, c.gate, c.thread, c.turn, c.idx, c.tool, c.arguments, c.arguments_digest,
                    c.principal, c.executor, c.plan, c.version, c.state, c.body, c.filed_at,
                    c.changed, o.body AS output, COALESCE(g.count, 0) AS asked_with
             FROM calls c LEFT JOIN outputs o ON o.call = c.id LEFT JOIN gates g ON g.id = c.gate ",
            $rest
        )
    };
}

/// Writes a new call, with its plan if it has one.
pub fn insert(tx: &mut Tx, row: &CallRow, plan: Option<&Plan>) -> Result<(), StoreError> {
    let call = &row.call;
    tx.later(
        Statement::new(
            "INSERT INTO calls (id, gate, thread, turn, idx, tool, arguments, arguments_digest,
                                principal, executor, plan, version, state, body, deadline,
                                filed_at, changed)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        )
        .bind(call.id)
        .bind(call.gate)
        .bind(call.thread)
        .bind(call.turn)
        .bind(i64::from(call.index))
        .bind(row.tool.as_str())
        .bind(json("calls", call.id, &row.arguments)?)
        .bind(&row.arguments_digest)
        .bind(call.principal.name())
        .bind(call.executor.name())
        .bind(&call.plan)
        .bind(version(call.id, call.version)?)
        .bind(call.state.name())
        .bind(json("calls", call.id, &call.state)?)
        .bind(call.state.deadline().map(micros))
        .bind(micros(row.filed_at))
        .bind(row.changed),
    );
    if let Some(plan) = plan {
        tx.later(
            Statement::new("INSERT INTO plans (call, body) VALUES ($1, $2)")
                .bind(call.id)
                .bind(json("plans", call.id, plan)?),
        );
    }
    Ok(())
}

/// Writes the next version of a call over the one before it. `Stale` if that is not there any more.
pub fn update(tx: &mut Tx, next: &Call, changed: i64) -> Result<(), StoreError> {
    tx.later(
        Statement::new(
            "UPDATE calls SET version = $1, state = $2, body = $3, deadline = $4, changed = $5
             WHERE id = $6 AND version = $7",
        )
        .bind(version(next.id, next.version)?)
        .bind(next.state.name())
        .bind(json("calls", next.id, &next.state)?)
        .bind(next.state.deadline().map(micros))
        .bind(changed)
        .bind(next.id)
        .bind(version(next.id, next.version)? - 1)
        .seen("calls", next.id),
    );
    Ok(())
}

/// Writes the plan that took the place of a call's first one, with the next version of the call.
/// `Stale` if the version before it is not there any more.
pub fn replan(tx: &mut Tx, next: &Call, plan: &Plan, changed: i64) -> Result<(), StoreError> {
    update(tx, next, changed)?;
    tx.later(
        Statement::new("UPDATE calls SET plan = $1 WHERE id = $2")
            .bind(&next.plan)
            .bind(next.id),
    );
    tx.later(
        Statement::new("UPDATE plans SET body = $1 WHERE call = $2")
            .bind(json("plans", next.id, plan)?)
            .bind(next.id)
            .seen("plans", next.id),
    );
    Ok(())
}

/// A call.
pub async fn find(tx: &mut Tx, id: CallId) -> Result<Option<CallRow>, StoreError> {
    let row = tx
        .optional(Statement::new(select!("WHERE c.id = $1")).bind(id))
        .await?;
    row.map(|row| call(&row)).transpose()
}

/// The calls of a turn that have this index, or this tool and these arguments.
pub async fn alike(
    tx: &mut Tx,
    turn: TurnId,
    index: u32,
    tool: &str,
    arguments: &Digest,
) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(
            Statement::new(select!(
                "WHERE c.turn = $1 AND (c.idx = $2 OR (c.tool = $3 AND c.arguments_digest = $4))
         ORDER BY c.idx"
            ))
            .bind(turn)
            .bind(i64::from(index))
            .bind(tool)
            .bind(arguments),
        )
        .await?)
}

/// The calls of a turn that changed after `after`, by index.
pub async fn of_turn(tx: &mut Tx, turn: TurnId, after: i64) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(
            Statement::new(select!(
                "WHERE c.turn = $1 AND c.changed > $2 ORDER BY c.idx"
            ))
            .bind(turn)
            .bind(after),
        )
        .await?)
}

/// The calls of a thread, oldest first.
pub async fn of_thread(tx: &mut Tx, thread: ThreadId) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(Statement::new(select!("WHERE c.thread = $1 ORDER BY c.filed_at, c.idx")).bind(thread))
        .await?)
}

/// The calls of a gate, by index.
pub async fn of_gate(tx: &mut Tx, gate: GateId) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(Statement::new(select!("WHERE c.gate = $1 ORDER BY c.idx")).bind(gate))
        .await?)
}

/// The approved calls of an executor that changed after `after`, oldest change first.
pub async fn approved_for(
    tx: &mut Tx,
    executor: Service,
    after: i64,
    limit: u32,
) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(
            Statement::new(select!(
                "WHERE c.executor = $1 AND c.state = 'approved' AND c.changed > $2
             ORDER BY c.changed LIMIT $3"
            ))
            .bind(executor.name())
            .bind(after)
            .bind(i64::from(limit)),
        )
        .await?)
}

/// The calls that an executor has begun.
pub async fn claimed_by(tx: &mut Tx, executor: Service) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(
            Statement::new(select!(
                "WHERE c.executor = $1 AND c.state = 'claimed' ORDER BY c.filed_at"
            ))
            .bind(executor.name()),
        )
        .await?)
}

/// At most `limit` calls in this state whose deadline is not after `until`, the earliest first.
pub async fn due(
    tx: &mut Tx,
    state: &'static str,
    until: Timestamp,
    limit: u32,
) -> Result<Vec<CallRow>, StoreError> {
    all(&tx
        .all(
            Statement::new(select!(
                "WHERE c.state = $1 AND c.deadline <= $2 ORDER BY c.deadline LIMIT $3"
            ))
            .bind(state)
            .bind(micros(until))
            .bind(i64::from(limit)),
        )
        .await?)
}

/// The earliest deadline among the calls in this state.
pub async fn next_deadline(
    tx: &mut Tx,
    state: &'static str,
) -> Result<Option<Timestamp>, StoreError> {
    let row = tx
        .optional(
            Statement::new(
                "SELECT deadline FROM calls WHERE state = $1 AND deadline IS NOT NULL
         ORDER BY deadline LIMIT 1",
            )
            .bind(state),
        )
        .await?;
    row.map(|row| Reader::new(&row, "calls", state).time("deadline"))
        .transpose()
}

/// The plan of a call.
pub async fn plan(tx: &mut Tx, id: CallId) -> Result<Option<Plan>, StoreError> {
    let row = tx
        .optional(Statement::new("SELECT body FROM plans WHERE call = $1").bind(id))
        .await?;
    row.map(|row| Reader::new(&row, "plans", id).json("body"))
        .transpose()
}

/// Keeps what a call returned.
pub fn keep_output(tx: &mut Tx, id: CallId, output: &Output) -> Result<(), StoreError> {
    tx.later(
        Statement::new("INSERT INTO outputs (call, body) VALUES ($1, $2)")
            .bind(id)
            .bind(json("outputs", id, output)?),
    );
    Ok(())
}

fn version(id: CallId, version: u64) -> Result<i64, StoreError> {
    i64::try_from(version).map_err(|error| StoreError::inconsistent("calls", id, error))
}

fn all(rows: &[Row]) -> Result<Vec<CallRow>, StoreError> {
    rows.iter().map(call).collect()
}

fn call(row: &Row) -> Result<CallRow, StoreError> {
    let id: CallId = Reader::new(row, "calls", "?").id("id")?;
    let output: Option<String> = row.get("output")?;
    let row = Reader::new(row, "calls", id);
    let state: State = row.json("body")?;
    let word: String = row.get("state")?;
    if state.name() != word {
        return Err(row.wrong(format!("the word says {word}, the state {}", state.name())));
    }
    let output = output
        .map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| row.wrong(error))?;
    Ok(CallRow {
        call: Call {
            id,
            gate: row.id_option("gate")?,
            thread: row.id("thread")?,
            turn: row.id("turn")?,
            index: row.count("idx")?,
            principal: row.word("principal")?,
            executor: row.word("executor")?,
            plan: row.digest("plan")?,
            version: row.count("version")?,
            state,
        },
        tool: row.get("tool")?,
        arguments: row.json("arguments")?,
        arguments_digest: row.digest("arguments_digest")?,
        filed_at: row.time("filed_at")?,
        changed: row.get("changed")?,
        output,
        asked_with: row.count("asked_with")?,
    })
}
