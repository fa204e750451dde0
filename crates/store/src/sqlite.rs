//! SQLite: its settings, and statements on the thread of whoever asks.
//!
//! **Invariant:** nothing here waits for another thread. The writer and every reader are on threads that may block
//! ([`crate::Database`]), so that a whole request is one hand-over and not one for each statement.

use std::time::Duration;

use camino::Utf8Path;
use rusqlite::{
    CachedStatement, Connection, OpenFlags, ToSql,
    config::DbConfig,
    types::{ToSqlOutput, Value as Cell, ValueRef},
};

use crate::{
    StoreError,
    connection::Committed,
    error::SqlError,
    statement::{Statement, Value},
};

/// How long a lock of another connection is waited for.
const BUSY: Duration = Duration::from_secs(5);
/// Statements that stay prepared on each connection.
const PREPARED: usize = 256;
/// For every connection. A service may write into its own folder alone, and what a statement sets aside may be secret.
const SETTINGS: &str =
    "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY";
/// For the one that writes. Pages written again and again are folded into the file once: 32 MiB of log, not 4.
const WRITING: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
     PRAGMA wal_autocheckpoint = 8000; PRAGMA journal_size_limit = 67108864";

/// Begins a transaction. It takes no lock before it writes, and its first request has no savepoint: where that one is
/// undone, nothing else is there to be kept.
pub(crate) const BEGIN: &str = "BEGIN";
/// Begins the second request of those that are kept.
pub(crate) const SECOND: &str = "SAVEPOINT request";
/// Undoes the first request, and begins again.
pub(crate) const ANEW: &str = "ROLLBACK; BEGIN";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It writes; the file is made where there is none.
    Write,
    /// It reads a file that is there.
    Read,
}

/// Opens the file at `path`.
pub(crate) fn open(path: &Utf8Path, access: Access) -> Result<Connection, StoreError> {
    let flags = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(PREPARED);
    connection.execute_batch(SETTINGS)?;
    // A plan never depends on values; else statements are prepared again whenever a partial index might do.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if access == Access::Write {
        connection.execute_batch(WRITING)?;
    }
    Ok(connection)
}

/// Makes everything durable, and begins the next transaction.
pub(crate) fn commit(connection: &Connection) -> Committed {
    let gone = connection.is_autocommit();
    if let Err(error) = connection.execute_batch("COMMIT") {
        let error = StoreError::from(error);
        return if gone {
            Committed::Lost(error)
        } else if error.is_full() {
            Committed::Full
        } else {
            Committed::Unknown(error)
        };
    }
    Committed::Yes {
        begun: connection.execute_batch(BEGIN).is_ok(),
    }
}

/// The rows of a statement, `most` of them at most.
pub(crate) fn rows(
    connection: &Connection,
    statement: &Statement,
    most: usize,
) -> Result<Vec<Row>, StoreError> {
    let mut prepared = connection.prepare_cached(statement.sql)?;
    bind(&mut prepared, &statement.values)?;
    let names: Names = prepared.column_names().map(Box::from).collect();
    let mut found = Vec::new();
    let mut rows = prepared.raw_query();
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        let cells = (0..names.len())
            .map(|column| row.get(column))
            .collect::<Result<_, _>>()?;
        found.push(Row {
            names: names.clone(),
            cells,
        });
    }
    Ok(found)
}

/// Runs a statement and says how many rows it changed.
pub(crate) fn execute(connection: &Connection, statement: &Statement) -> Result<u64, StoreError> {
    let mut prepared = connection.prepare_cached(statement.sql)?;
    bind(&mut prepared, &statement.values)?;
    let changed = prepared.raw_execute()?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

/// Gives every placeholder its value. To SQLite `$2` is a name, and counts by where it first stands.
fn bind(prepared: &mut CachedStatement<'_>, values: &[Value]) -> Result<(), StoreError> {
    for place in 1..=prepared.parameter_count() {
        let value = prepared
            .parameter_name(place)
            .and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok())
            .and_then(|number| values.get(number.checked_sub(1)?))
            .ok_or(SqlError::Unbound { place })?;
        prepared.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Number(Some(number)) => ValueRef::Integer(*number),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Self::Number(None) | Self::Text(None) | Self::Bytes(None) => ValueRef::Null,
        }))
    }
}

type Names = std::sync::Arc<[Box<str>]>;

/// A row, read out.
#[derive(Debug)]
pub(crate) struct Row {
    names: Names,
    cells: Vec<Cell>,
}

impl Row {
    /// What stands in a column.
    pub(crate) fn get<'r, T: Readable<'r>>(&'r self, column: &str) -> Result<T, StoreError> {
        let at = self.names.iter().position(|name| **name == *column);
        let cell = at.and_then(|at| self.cells.get(at));
        let read = cell.and_then(T::read);
        read.ok_or_else(|| SqlError::column(column).into())
    }
}

/// What a cell can be read as. A number is not a text, and nothing is neither.
pub(crate) trait Readable<'r>: Sized {
    fn read(cell: &'r Cell) -> Option<Self>;
}

macro_rules! readable {
    ($($type:ty => $variant:ident, |$value:ident| $read:expr;)+) => {
        $(
            impl<'r> Readable<'r> for $type {
                fn read(cell: &'r Cell) -> Option<Self> {
                    match cell {
                        Cell::$variant($value) => Some($read),
                        _ => None,
                    }
                }
            }
        )+
    };
}

readable! {
    i64 => Integer, |number| *number;
    &'r str => Text, |text| text;
    String => Text, |text| text.clone();
    &'r [u8] => Blob, |bytes| bytes;
    Vec<u8> => Blob, |bytes| bytes.clone();
}

impl<'r, T: Readable<'r>> Readable<'r> for Option<T> {
    fn read(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            other => T::read(other).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, bytes BLOB) STRICT";
        connection.execute_batch(table).unwrap();
        connection
    }

    #[test]
    fn a_placeholder_is_its_number_wherever_it_stands() {
        let connection = memory();
        let put = Statement::new("INSERT INTO t (bytes, name, id) VALUES ($3, $2, $1)")
            .bind(7_i64)
            .bind("$1 is text")
            .bind(None::<uuid::Uuid>);
        assert_eq!(execute(&connection, &put).unwrap(), 1);
        let twice =
            Statement::new("SELECT id, name, bytes FROM t WHERE id < $2 OR id = $1 OR id > $2")
                .bind(7_i64)
                .bind(7_i64);
        let found = rows(&connection, &twice, usize::MAX).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].get::<i64>("id").unwrap(), 7);
        assert_eq!(found[0].get::<&str>("name").unwrap(), "$1 is text");
        assert_eq!(found[0].get::<Option<&[u8]>>("bytes").unwrap(), None);
    }

    #[test]
    fn a_value_that_is_missing_is_an_error_and_not_nothing() {
        let short = Statement::new("INSERT INTO t (id, name) VALUES ($1, $2)").bind(1_i64);
        let error = execute(&memory(), &short).unwrap_err();
        assert!(matches!(
            error,
            StoreError::Sql(SqlError::Unbound { place: 2 })
        ));
    }

    #[test]
    fn a_column_of_another_type_names_itself() {
        let one = Statement::new("SELECT 'seven' AS number, NULL AS gap");
        let row = rows(&memory(), &one, 1).unwrap().remove(0);
        for column in ["number", "gap", "absent"] {
            let error = row.get::<i64>(column).unwrap_err();
            let StoreError::Sql(error) = error else {
                panic!("{error}");
            };
            assert!(error.to_string().contains(column), "{error}");
        }
    }

    #[test]
    fn as_many_rows_as_asked_for_and_the_statement_can_be_used_again() {
        let connection = memory();
        let many = Statement::new("SELECT value FROM json_each('[1,2,3]')");
        assert_eq!(rows(&connection, &many, 1).unwrap().len(), 1);
        let all = rows(&connection, &many, usize::MAX).unwrap();
        let numbers: Vec<i64> = all.iter().map(|row| row.get("value").unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }
}
