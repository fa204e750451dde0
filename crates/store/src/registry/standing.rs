//! How everything stands, in a few numbers that cost little to read: each is the end of an index.

use jiff::Timestamp;

use crate::{StoreError, Tx, row::Reader, statement::Statement};

/// How the registry stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Gates that wait for an answer.
    pub gates: i64,
    /// When the oldest of them was asked.
    pub oldest: Option<Timestamp>,
    /// Calls that wait for an answer.
    pub pending: i64,
    /// Calls that may run and have not begun.
    pub approved: i64,
    /// Calls that have begun.
    pub claimed: i64,
    /// Live turns by the word of their state.
    pub turns: Vec<(String, i64)>,
    /// The last record of the audit chain; 0 for none.
    pub audit_head: i64,
    /// The last record that a signed head covers; 0 for none.
    pub audit_signed: i64,
}

/// Reads how it stands.
pub async fn standing(tx: &mut Tx) -> Result<Standing, StoreError> {
    // The conditions are those of the indexes, word for word: only then are they used.
    let row = tx
        .one(Statement::new(
            "SELECT
           (SELECT COUNT(*) FROM calls WHERE state = 'pending') AS pending,
           (SELECT COUNT(*) FROM calls WHERE state = 'approved') AS approved,
           (SELECT COUNT(*) FROM calls WHERE state = 'claimed') AS claimed,
           (SELECT COALESCE(MAX(seq), 0) FROM audit) AS audit_head,
           (SELECT COALESCE(MAX(seq), 0) FROM audit_heads) AS audit_signed",
        ))
        .await?;
    let numbers = Reader::new(&row, "calls", "*");
    let waiting = tx
        .one(Statement::new(
            "SELECT COUNT(*) AS n, MIN(asked_at) AS oldest FROM gates
         WHERE id IN (SELECT gate FROM calls WHERE state = 'pending')",
        ))
        .await?;
    let turns = tx
        .all(Statement::new(
            "SELECT state, COUNT(*) AS n FROM turns
         WHERE state IN ('open', 'running', 'parked') GROUP BY state",
        ))
        .await?
        .iter()
        .map(|row| Ok((row.get("state")?, row.get("n")?)))
        .collect::<Result<_, StoreError>>()?;
    let gates = Reader::new(&waiting, "gates", "*");
    Ok(Standing {
        gates: gates.get("n")?,
        oldest: gates.time_option("oldest")?,
        pending: numbers.get("pending")?,
        approved: numbers.get("approved")?,
        claimed: numbers.get("claimed")?,
        turns,
        audit_head: numbers.get("audit_head")?,
        audit_signed: numbers.get("audit_signed")?,
    })
}
