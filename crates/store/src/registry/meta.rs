//! What is true of the whole installation.

use super::tail::tail;
use crate::{StoreError, Tx, statement::Statement};

/// The epoch: a restore bumps it. A new database begins with 1.
pub async fn epoch(tx: &mut Tx) -> Result<u64, StoreError> {
    Ok(tail(tx).await?.epoch)
}

/// Begins another epoch: every permit of the earlier ones is void.
pub async fn set_epoch(tx: &mut Tx, epoch: u64) -> Result<(), StoreError> {
    let known = tail(tx).await?;
    tx.execute(
        Statement::new(
            "INSERT INTO meta (name, value) VALUES ('epoch', $1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(epoch.to_string()),
    )
    .await?;
    tx.tail = Some(super::tail::Tail { epoch, ..known });
    Ok(())
}
