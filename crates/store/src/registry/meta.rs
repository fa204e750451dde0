//! What is true of the whole installation.

use sqlx::Row as _;

use crate::{StoreError, Tx};

/// The epoch: a restore bumps it. A new database begins with 1.
pub async fn epoch(tx: &mut Tx) -> Result<u64, StoreError> {
    let row = sqlx::query("SELECT value FROM meta WHERE name = 'epoch'")
        .fetch_optional(tx.connection())
        .await?;
    let Some(row) = row else { return Ok(1) };
    row.try_get::<String, _>(0)?
        .parse()
        .map_err(|error| StoreError::inconsistent("meta", "epoch", Box::new(error)))
}

/// Begins another epoch: every permit of the earlier ones is void.
pub async fn set_epoch(tx: &mut Tx, epoch: u64) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ('epoch', $1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(epoch.to_string())
    .execute(tx.connection())
    .await?;
    Ok(())
}
