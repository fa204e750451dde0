//! The steps of a turn: what the model said, kept before anything of it is done.

use jiff::Timestamp;
use kazma_domain::{CallId, ThreadId, TurnId, TurnState};

use crate::{
    StoreError, Tx,
    row::{Reader, micros},
    statement::Statement,
};

/// One answer of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// In which turn.
    pub turn: TurnId,
    /// The how-manieth of the turn, from 0.
    pub step: u32,
    /// In which thread.
    pub thread: ThreadId,
    /// What it said.
    pub text: String,
    /// `done` or `failed` where these are the turn's last words; then there are no calls.
    pub ending: Option<TurnState>,
    /// What it called, in order.
    pub calls: Vec<StepCall>,
    /// When.
    pub at: Timestamp,
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCall {
    /// The how-manieth of the turn, from 0: the key under which it is filed.
    pub index: u32,
    /// The model's own id for it, unique in the turn.
    pub model_id: String,
    /// The tool as the model named it.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The registry's id, once it answered.
    pub call: Option<CallId>,
}

/// Keeps a step.
///
/// # Errors
///
/// Refuses a step or an index that the turn already has.
pub async fn record(tx: &mut Tx, step: &Step) -> Result<(), StoreError> {
    tx.execute(Statement::new(
        "INSERT INTO steps (turn, step, thread, text, ending, at) VALUES ($1, $2, $3, $4, $5, $6)",
    ).bind(step.turn).bind(step.step).bind(step.thread).bind(&step.text).bind(step.ending.map(TurnState::name)).bind(micros(step.at)))
    .await?;
    for call in &step.calls {
        tx.execute(
            Statement::new(
                "INSERT INTO step_calls (turn, call_index, step, model_id, tool, arguments, call)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(step.turn)
            .bind(call.index)
            .bind(step.step)
            .bind(&call.model_id)
            .bind(&call.tool)
            .bind(&call.arguments)
            .bind(call.call),
        )
        .await?;
    }
    Ok(())
}

/// Notes the registry's id of a call.
///
/// # Errors
///
/// Fails when the database does.
pub async fn filed(tx: &mut Tx, turn: TurnId, index: u32, call: CallId) -> Result<(), StoreError> {
    tx.execute(
        Statement::new("UPDATE step_calls SET call = $3 WHERE turn = $1 AND call_index = $2")
            .bind(turn)
            .bind(index)
            .bind(call),
    )
    .await?;
    Ok(())
}

/// The steps of a turn, in order.
///
/// # Errors
///
/// Fails when the database does, or a row does not decode.
pub async fn of_turn(tx: &mut Tx, turn: TurnId) -> Result<Vec<Step>, StoreError> {
    let rows = tx
        .all(
            Statement::new(
                "SELECT step, thread, text, ending, at FROM steps WHERE turn = $1 ORDER BY step",
            )
            .bind(turn),
        )
        .await?;
    let mut steps = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = Reader::new(row, "steps", turn);
        steps.push(Step {
            turn,
            step: row.count("step")?,
            thread: row.id("thread")?,
            text: row.get("text")?,
            ending: ending(&row)?,
            calls: Vec::new(),
            at: row.time("at")?,
        });
    }
    let rows = tx
        .all(
            Statement::new(
                "SELECT call_index, step, model_id, tool, arguments, call FROM step_calls
         WHERE turn = $1 ORDER BY call_index",
            )
            .bind(turn),
        )
        .await?;
    for row in &rows {
        let row = Reader::new(row, "step_calls", turn);
        let of: u32 = row.count("step")?;
        let step = steps
            .iter_mut()
            .find(|step| step.step == of)
            .ok_or_else(|| row.wrong("its step is missing"))?;
        step.calls.push(StepCall {
            index: row.count("call_index")?,
            model_id: row.get("model_id")?,
            tool: row.get("tool")?,
            arguments: row.get("arguments")?,
            call: row.id_option("call")?,
        });
    }
    Ok(steps)
}

fn ending(row: &Reader<'_>) -> Result<Option<TurnState>, StoreError> {
    match row.get::<Option<String>>("ending")?.as_deref() {
        None => Ok(None),
        Some("done") => Ok(Some(TurnState::Done)),
        Some("failed") => Ok(Some(TurnState::Failed)),
        Some(_) => Err(row.wrong("ending is neither done nor failed")),
    }
}

/// The arguments of a thread's filed calls, as the model wrote them.
///
/// # Errors
///
/// Fails when the database does, or a row does not decode.
pub async fn arguments(tx: &mut Tx, thread: ThreadId) -> Result<Vec<(CallId, String)>, StoreError> {
    let rows = tx.all(Statement::new(
        "SELECT c.call, c.arguments FROM step_calls c JOIN steps s ON s.turn = c.turn AND s.step = c.step
         WHERE s.thread = $1 AND c.call IS NOT NULL ORDER BY s.at, c.call_index",
    ).bind(thread))
    .await?;
    rows.iter()
        .map(|row| {
            let row = Reader::new(row, "step_calls", thread);
            Ok((row.id("call")?, row.get("arguments")?))
        })
        .collect()
}

/// Drops what is older than `at`. Returns how many steps went.
///
/// # Errors
///
/// Fails when the database does.
pub async fn forget_before(tx: &mut Tx, at: Timestamp) -> Result<u64, StoreError> {
    let gone = tx
        .execute(Statement::new("DELETE FROM steps WHERE at < $1").bind(micros(at)))
        .await?;
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use uuid::Uuid;

    use super::*;
    use crate::{Database, agent::MIGRATIONS};

    fn step(step: u32, at: i64, indexes: &[u32]) -> Step {
        Step {
            turn: TurnId::from_uuid(Uuid::from_u128(1)),
            step,
            thread: ThreadId::from_uuid(Uuid::from_u128(2)),
            text: format!("step {step}"),
            ending: indexes.is_empty().then_some(TurnState::Done),
            calls: indexes
                .iter()
                .map(|index| StepCall {
                    index: *index,
                    model_id: format!("m{index}"),
                    tool: "python_exec".to_owned(),
                    arguments: format!("{{\"code\":\"{index}\"}}"),
                    call: None,
                })
                .collect(),
            at: Timestamp::from_second(at).unwrap(),
        }
    }

    async fn keep(database: &Database, step: Step) -> Result<(), StoreError> {
        database
            .write(move |tx| Box::pin(async move { record(tx, &step).await }))
            .await
    }

    #[tokio::test]
    async fn steps_read_back_after_a_restart_and_no_index_is_used_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(folder.path().join("agent.db")).unwrap();
        let database = Database::open(&path, &MIGRATIONS).await.unwrap();
        keep(&database, step(0, 100, &[0, 1])).await.unwrap();
        let again = keep(&database, step(0, 100, &[2])).await.unwrap_err();
        assert!(again.is_taken(), "{again}");
        let reused = keep(&database, step(1, 101, &[1])).await.unwrap_err();
        assert!(reused.is_taken(), "{reused}");
        keep(&database, step(1, 101, &[])).await.unwrap();
        let call = CallId::from_uuid(Uuid::from_u128(9));
        let turn = step(0, 0, &[]).turn;
        database
            .write(move |tx| Box::pin(async move { filed(tx, turn, 1, call).await }))
            .await
            .unwrap();
        database.close().await.unwrap();

        let database = Database::open(&path, &MIGRATIONS).await.unwrap();
        let mut first = step(0, 100, &[0, 1]);
        first.calls[1].call = Some(call);
        let thread = first.thread;
        let steps = database
            .read(move |tx| Box::pin(async move { of_turn(tx, turn).await }))
            .await
            .unwrap();
        assert_eq!(steps, [first, step(1, 101, &[])]);
        let known = database
            .read(move |tx| Box::pin(async move { arguments(tx, thread).await }))
            .await
            .unwrap();
        assert_eq!(known, [(call, "{\"code\":\"1\"}".to_owned())]);

        let limit = Timestamp::from_second(101).unwrap();
        let gone = database
            .write(move |tx| Box::pin(async move { forget_before(tx, limit).await }))
            .await
            .unwrap();
        assert_eq!(gone, 1);
        let left = database
            .read(move |tx| Box::pin(async move { of_turn(tx, turn).await }))
            .await
            .unwrap();
        assert_eq!(left, [step(1, 101, &[])]);
    }
}
