//! How far the registry's events were told.

use crate::{StoreError, Tx, row::Reader, statement::Statement};

/// The sequence number of the last event that was told.
pub async fn cursor(tx: &mut Tx) -> Result<i64, StoreError> {
    let row = tx
        .one(Statement::new("SELECT seq FROM cursor WHERE one = 1"))
        .await?;
    Reader::new(&row, "cursor", 1).get("seq")
}

/// Notes that the event `seq` was told. Never goes back.
pub async fn move_cursor(tx: &mut Tx, seq: i64) -> Result<(), StoreError> {
    tx.execute(Statement::new("UPDATE cursor SET seq = max(seq, $1) WHERE one = 1").bind(seq))
        .await?;
    Ok(())
}
