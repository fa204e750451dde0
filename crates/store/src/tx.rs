//! A transaction: statements that read are run at once, those that write wait and travel together.

use kazma_faults::{Check, wrong};

use crate::{
    StoreError, connection::Connection, error::SqlError, registry::tail::Tail, row::Row,
    statement::Statement,
};

/// A transaction, or a consistent view where nothing is written. Repositories take one.
#[derive(Debug)]
pub struct Tx {
    pub(crate) connection: Connection,
    waiting: Vec<Statement>,
    /// What the registry's chain and events end with, as this transaction sees it.
    pub(crate) tail: Option<Tail>,
}

impl Tx {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self {
            connection,
            waiting: Vec::new(),
            tail: None,
        }
    }

    /// Every row of a statement.
    pub(crate) async fn all(&mut self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        self.flush().await?;
        self.connection.all(statement).await
    }

    /// The first row of a statement, if there is one.
    pub(crate) async fn optional(
        &mut self,
        statement: Statement,
    ) -> Result<Option<Row>, StoreError> {
        self.flush().await?;
        self.connection.optional(statement).await
    }

    /// The first row of a statement that always has one.
    pub(crate) async fn one(&mut self, statement: Statement) -> Result<Row, StoreError> {
        let row = self.optional(statement).await?;
        row.ok_or_else(|| SqlError::NoRow.into())
    }

    /// Runs a statement at once and says how many rows it changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<u64, StoreError> {
        self.flush().await?;
        self.connection.execute(statement).await
    }

    /// Writes with the next flush; it must change exactly one row. The end of the request is a flush.
    pub(crate) fn later(&mut self, statement: Statement) {
        self.waiting.push(statement);
    }

    /// Forgets what waits: the request failed.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Sends what waits.
    pub(crate) async fn flush(&mut self) -> Result<(), StoreError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        for mut statement in std::mem::take(&mut self.waiting) {
            let seen = statement.seen.take();
            let changed = self.connection.execute(statement).await?;
            // Each write changes one row, or the row is not the one that was seen.
            if wrong(Check::Version, changed != 1) {
                return Err(StoreError::stale(seen));
            }
        }
        Ok(())
    }
}
