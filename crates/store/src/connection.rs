//! A connection to either database. What differs between the two is here and in their own modules.

use crate::{StoreError, postgres::Session, row::Row, sqlite, statement::Statement};

/// Keeps what a request did, and begins the next one.
const NEXT: &str = "RELEASE request; SAVEPOINT request";
/// Undoes what a request did, and begins the next one.
const UNDO: &str = "ROLLBACK TO request";

/// How far a commit came.
#[derive(Debug)]
pub(crate) enum Committed {
    /// It is durable; whether the next transaction was begun.
    Yes { begun: bool },
    /// The transaction is not there any more, so nothing was kept.
    Lost(StoreError),
    /// The disk is full, so nothing was kept.
    Full,
    /// Nobody knows.
    Unknown(StoreError),
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Session),
}

impl Connection {
    /// Every row.
    pub(crate) async fn all(&mut self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        Ok(match self {
            Self::Sqlite(connection) => {
                let rows = sqlite::rows(connection, &statement, usize::MAX)?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Self::Postgres(session) => {
                let rows = session.all(statement).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    /// The first row, if there is one.
    pub(crate) async fn optional(
        &mut self,
        statement: Statement,
    ) -> Result<Option<Row>, StoreError> {
        Ok(match self {
            Self::Sqlite(connection) => {
                let rows = sqlite::rows(connection, &statement, 1)?;
                rows.into_iter().next().map(Row::Sqlite)
            }
            Self::Postgres(session) => session.optional(statement).await?.map(Row::Postgres),
        })
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => sqlite::execute(connection, &statement),
            Self::Postgres(session) => session.execute(statement).await,
        }
    }

    /// Runs statements without values, one after the other.
    pub(crate) async fn run(&mut self, statements: &'static str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => Ok(connection.execute_batch(statements)?),
            Self::Postgres(session) => session.run(statements).await,
        }
    }

    /// Begins a transaction and its first request. Says whether somebody else may have written since the last one.
    pub(crate) async fn begin(&mut self) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(_) => self.run(sqlite::BEGIN).await.map(|()| false),
            Self::Postgres(session) => session.begin().await,
        }
    }

    /// Keeps what a request did, and begins the next one. With it the transaction has kept `kept` of them.
    pub(crate) async fn next(&mut self, kept: usize) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) if kept == 1 => self.run(sqlite::SECOND).await,
            Self::Sqlite(_) | Self::Postgres(_) => self.run(NEXT).await,
        }
    }

    /// Undoes what a request did, and begins the next one. The transaction has kept `kept` of them.
    pub(crate) async fn undo(&mut self, kept: usize) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) if kept == 0 => self.run(sqlite::ANEW).await,
            Self::Sqlite(_) | Self::Postgres(_) => self.run(UNDO).await,
        }
    }

    /// Makes everything durable.
    pub(crate) async fn commit(&mut self) -> Committed {
        match self {
            Self::Sqlite(connection) => sqlite::commit(connection),
            Self::Postgres(session) => session.commit().await,
        }
    }

    /// Begins one consistent view; its end is a rollback.
    pub(crate) async fn begin_view(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => self.run("BEGIN").await,
            Self::Postgres(session) => session.begin_view().await,
        }
    }

    pub(crate) async fn rollback(&mut self) -> Result<(), StoreError> {
        self.run("ROLLBACK").await
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(connection) => connection.close().map_err(|(_, error)| error.into()),
            Self::Postgres(session) => session.close().await,
        }
    }
}
