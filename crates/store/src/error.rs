//! What can go wrong with a database.

use camino::Utf8PathBuf;
use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE};

/// Why the store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process works on the file.
    #[error("another process uses {path}: stop it first, or give this one another data folder")]
    Locked {
        /// The lock file.
        path: Utf8PathBuf,
    },
    /// File locks and syncs cannot be relied on there.
    #[error(
        "{path} lies on a network file system ({kind}), where locks and syncs cannot be relied on: \
         move the data folder to a local disk"
    )]
    NetworkFileSystem {
        /// The folder.
        path: Utf8PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file was written by a newer version of Kazma.
    #[error("the database has version {found}, this build knows {known}: use the newer build")]
    Newer {
        /// The version of the file.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
    },
    /// A migration that was applied is not the one of this build.
    #[error("migration {version} was applied with another content than this build has")]
    MigrationChanged {
        /// Its number.
        version: i64,
    },
    /// A file could not be opened, made or locked.
    #[error("cannot use {path}")]
    Io {
        /// The file or folder.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A statement failed.
    #[error("the database refused a statement")]
    Sql(#[source] SqlError),
    /// Another process writes in this schema of the server.
    #[error(
        "another process uses the schema {schema}: {by}. Stop it first, or give this one another database"
    )]
    Taken {
        /// The schema.
        schema: String,
        /// Which process, as far as the server knows.
        by: String,
    },
    /// The server is not one that can be relied on.
    #[error("the database server cannot be used: {what}")]
    Unfit {
        /// What is wrong with it.
        what: String,
    },
    /// What says where the server is does not read.
    #[error("the URL of the database is wrong: {what}")]
    Address {
        /// What is wrong with it; never what it holds.
        what: String,
    },
    /// The server cannot be reached, or refuses to be used. Nothing was tried.
    #[error("the database cannot be used now: {why}")]
    Unreachable {
        /// Why.
        why: String,
    },
    /// The connection to the server was lost in the middle; nothing was kept.
    #[error("the connection to the database was lost; nothing was kept")]
    Lost(#[source] SqlError),
    /// The connection was lost during a commit: what was asked may have been kept, or not.
    #[error(
        "the connection to the database was lost while it was told to keep this ({why}): whether it did is not known"
    )]
    Unknown {
        /// What became of the connection.
        why: String,
    },
    /// A transaction could not be made durable. The process ends.
    #[error("a transaction could not be made durable")]
    Commit(#[source] SqlError),
    /// A row does not decode, or two rows contradict each other.
    #[error("{table} {id} is inconsistent")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// Which row.
        id: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The row changed since it was read. Read again and decide again.
    #[error("{table} {id} has changed since it was read")]
    Stale {
        /// The table.
        table: &'static str,
        /// Which row.
        id: String,
    },
    /// The whole transaction was lost with a request beside this one; nothing of it was kept.
    #[error("the transaction was rolled back as a whole; nothing was kept")]
    RolledBack,
    /// There is no room left on the disk; nothing of the transaction was kept.
    #[error("the disk is full; nothing was kept")]
    Full,
    /// The request's code panicked; nothing of it was kept.
    #[error("the request failed inside; nothing was kept")]
    Panicked,
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
}

/// What the database or its driver said.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// A server.
    #[error(transparent)]
    Server(#[from] sqlx::Error),
    /// A file.
    #[error(transparent)]
    File(rusqlite::Error),
    /// A statement that always has a row had none.
    #[error("no row where there is always one")]
    NoRow,
    /// A placeholder got no value.
    #[error("placeholder {place} has no value")]
    Unbound {
        /// Which one, from 1.
        place: usize,
    },
    /// A column is missing, or does not hold what it must.
    #[error("column {name} is missing or of another type")]
    Column {
        /// Its name.
        name: String,
    },
}

impl SqlError {
    pub(crate) fn column(name: &str) -> Self {
        Self::Column {
            name: name.to_owned(),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(SqlError::Server(error))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(SqlError::File(error))
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl StoreError {
    /// A row of `table` that is not as it must be.
    pub fn inconsistent(
        table: &'static str,
        id: impl std::fmt::Display,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Inconsistent {
            table,
            id: id.to_string(),
            source: source.into(),
        }
    }

    /// Whether the disk or the file has no room left. Nothing was kept, and nothing is in doubt.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Sql(error) | Self::Commit(error) => match error {
                // PostgreSQL's disk_full.
                SqlError::Server(sqlx::Error::Database(error)) => {
                    error.code().is_some_and(|code| code == "53100")
                }
                SqlError::File(error) => {
                    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// A row that changed; where it is not known which, it says so.
    pub(crate) fn stale(seen: Option<(&'static str, String)>) -> Self {
        let (table, id) = seen.unwrap_or(("a row", String::new()));
        Self::Stale { table, id }
    }

    /// Whether it is the server that is away: later may be better.
    pub(crate) const fn is_away(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Unreachable { .. })
    }

    /// Whether nobody knows if it was kept. Whoever asked must look before asking again.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether a row with this key is already there.
    pub fn is_taken(&self) -> bool {
        match self {
            Self::Sql(SqlError::Server(sqlx::Error::Database(error))) => {
                error.is_unique_violation()
            }
            Self::Sql(SqlError::File(error)) => error.sqlite_error().is_some_and(|error| {
                [SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE]
                    .contains(&error.extended_code)
            }),
            _ => false,
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        // The driver's errors say what their causes say.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
