//! What the registry's events and audit chain end with.
//!
//! There is one writer, so what it wrote last it need not read again.

use kazma_domain::Digest;

use crate::{StoreError, Tx, row::Reader, statement::Statement};

/// The ends, as one transaction sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// The last event.
    pub(crate) event: i64,
    /// The last audit record with its hash.
    pub(crate) audit: Option<(i64, Digest)>,
    /// The epoch.
    pub(crate) epoch: u64,
}

/// The ends as they are now.
pub(crate) async fn tail(tx: &mut Tx) -> Result<Tail, StoreError> {
    if let Some(tail) = tx.tail {
        return Ok(tail);
    }
    let row = tx
        .one(Statement::new(
            "SELECT (SELECT COALESCE(MAX(seq), 0) FROM events) AS event,
                (SELECT MAX(seq) FROM audit) AS audit,
                (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS hash,
                COALESCE((SELECT value FROM meta WHERE name = 'epoch'), '1') AS epoch",
        ))
        .await?;
    let row = Reader::new(&row, "meta", "tail");
    let audit = match row.get::<Option<i64>>("audit")? {
        Some(seq) => Some((seq, row.digest("hash")?)),
        None => None,
    };
    let tail = Tail {
        event: row.get("event")?,
        audit,
        epoch: row.word("epoch")?,
    };
    tx.tail = Some(tail);
    Ok(tail)
}
