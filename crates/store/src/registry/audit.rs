//! The audit chain's rows. What they mean is the business of the audit crate.

use kazma_domain::Digest;

use super::tail::{Tail, tail};
use crate::{StoreError, Tx, row::Reader, statement::Statement};

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place, from 1.
    pub seq: i64,
    /// Its bytes.
    pub record: String,
    /// Its hash.
    pub hash: Digest,
    /// Its payload; none once erased.
    pub payload: Option<String>,
}

/// The last record's place and hash; none in an empty chain.
pub async fn head(tx: &mut Tx) -> Result<Option<(i64, Digest)>, StoreError> {
    Ok(tail(tx).await?.audit)
}

/// Writes a record behind the head.
pub async fn append(
    tx: &mut Tx,
    seq: i64,
    record: String,
    hash: &Digest,
    payload: String,
) -> Result<(), StoreError> {
    let known = tail(tx).await?;
    tx.later(
        Statement::new("INSERT INTO audit (seq, record, hash) VALUES ($1, $2, $3)")
            .bind(seq)
            .bind(record)
            .bind(hash),
    );
    tx.later(
        Statement::new("INSERT INTO audit_payloads (seq, body) VALUES ($1, $2)")
            .bind(seq)
            .bind(payload),
    );
    tx.tail = Some(Tail {
        audit: Some((seq, *hash)),
        ..known
    });
    Ok(())
}

/// At most `limit` records after `after`, in order.
pub async fn after(tx: &mut Tx, after: i64, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
    tx.all(
        Statement::new(
            "SELECT a.seq, a.record, a.hash, p.body AS payload
         FROM audit a LEFT JOIN audit_payloads p ON p.seq = a.seq
         WHERE a.seq > $1 ORDER BY a.seq LIMIT $2",
        )
        .bind(after)
        .bind(i64::from(limit)),
    )
    .await?
    .iter()
    .map(|row| {
        let seq: i64 = row.get("seq")?;
        let row = Reader::new(row, "audit", seq);
        Ok(AuditRow {
            seq,
            record: row.get("record")?,
            hash: row.digest("hash")?,
            payload: row.get("payload")?,
        })
    })
    .collect()
}

/// Erases the payload of a record; the chain still verifies. False if there was none.
pub async fn erase_payload(tx: &mut Tx, seq: i64) -> Result<bool, StoreError> {
    let done = tx
        .execute(Statement::new("DELETE FROM audit_payloads WHERE seq = $1").bind(seq))
        .await?;
    Ok(done > 0)
}

/// Keeps a signed head, as JSON.
pub async fn keep_head(tx: &mut Tx, seq: i64, body: &str) -> Result<(), StoreError> {
    tx.execute(
        Statement::new(
            "INSERT INTO audit_heads (seq, body) VALUES ($1, $2) ON CONFLICT (seq) DO NOTHING",
        )
        .bind(seq)
        .bind(body),
    )
    .await?;
    Ok(())
}

/// Every signed head, as JSON, oldest first.
pub async fn heads(tx: &mut Tx) -> Result<Vec<String>, StoreError> {
    tx.all(Statement::new("SELECT body FROM audit_heads ORDER BY seq"))
        .await?
        .iter()
        .map(|row| row.get("body"))
        .collect()
}
