//! Permits that were minted. That one was redeemed stands in its call.

use jiff::Timestamp;
use kazma_domain::{CallId, PermitId};

use crate::{
    StoreError, Tx,
    row::{Reader, micros},
    statement::Statement,
};

/// A permit as it was minted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitRow {
    /// Which.
    pub id: PermitId,
    /// The call it is for.
    pub call: CallId,
    /// The epoch it belongs to.
    pub epoch: u64,
    /// When it was minted.
    pub minted_at: Timestamp,
    /// Not good from then on.
    pub expires_at: Timestamp,
}

/// Writes a minted permit.
pub fn insert(tx: &mut Tx, permit: &PermitRow) -> Result<(), StoreError> {
    let epoch = i64::try_from(permit.epoch)
        .map_err(|error| StoreError::inconsistent("permits", permit.id, error))?;
    tx.later(
        Statement::new(
            "INSERT INTO permits (id, call, epoch, minted_at, expires_at)
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(permit.id)
        .bind(permit.call)
        .bind(epoch)
        .bind(micros(permit.minted_at))
        .bind(micros(permit.expires_at)),
    );
    Ok(())
}

/// A permit, if this registry minted it.
pub async fn find(tx: &mut Tx, id: PermitId) -> Result<Option<PermitRow>, StoreError> {
    let row = tx
        .optional(
            Statement::new("SELECT call, epoch, minted_at, expires_at FROM permits WHERE id = $1")
                .bind(id),
        )
        .await?;
    row.map(|row| {
        let row = Reader::new(&row, "permits", id);
        Ok(PermitRow {
            id,
            call: row.id("call")?,
            epoch: row.count("epoch")?,
            minted_at: row.time("minted_at")?,
            expires_at: row.time("expires_at")?,
        })
    })
    .transpose()
}
