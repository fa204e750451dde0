//! SQLite: its settings, and statements that travel together.
//!
//! The driver runs SQLite on a thread of its own, and waking it costs more than most statements do.

use std::time::Duration;

use camino::Utf8Path;
use futures_util::StreamExt as _;
use kazma_faults::{Check, wrong};
use sqlx::{
    AssertSqlSafe, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    StoreError,
    connection::{Committed, bound},
    statement::Statement,
};

/// Keeps everything, and begins anew.
const COMMIT: &str = "RELEASE request; COMMIT; BEGIN; SAVEPOINT request";

/// How a file is opened.
pub(crate) fn settings(path: &Utf8Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(256)
        .pragma("trusted_schema", "OFF")
        // A service may write into its own folder alone, and what a statement sets aside may be secret.
        .pragma("temp_store", "MEMORY")
        // Pages written again and again are folded into the file once: 32 MiB of log, not 4.
        .pragma("wal_autocheckpoint", "8000")
        .pragma("journal_size_limit", "67108864")
}

/// Makes everything durable, and begins the next transaction. Each statement that is through yields one
/// result, so the count says which one failed.
pub(crate) async fn commit(connection: &mut SqliteConnection) -> Committed {
    let mut results = sqlx::raw_sql(COMMIT).execute_many(connection);
    let mut through = 0;
    loop {
        match results.next().await {
            Some(Ok(_)) => through += 1,
            None => return Committed::Yes { begun: true },
            Some(Err(error)) => {
                let error = StoreError::from(error);
                return match through {
                    0 => Committed::Lost(error),
                    1 if error.is_full() => Committed::Full,
                    1 => Committed::Unknown(error),
                    _ => Committed::Yes { begun: false },
                };
            }
        }
    }
}

/// Runs statements that change one row each as one text.
pub(crate) async fn write(
    connection: &mut SqliteConnection,
    statements: Vec<Statement>,
) -> Result<(), StoreError> {
    let sql = together(&statements);
    let expected = u64::try_from(statements.len()).unwrap_or(u64::MAX);
    let may_be_stale = statements.iter().find_map(|one| one.seen.clone());
    let values = statements.into_iter().flat_map(|one| one.values);
    // Every text is put together from the constants of this crate; values are bound.
    let done = bound::<Sqlite>(AssertSqlSafe(sql), values)
        .execute(connection)
        .await?;
    // Each write changes one row, or the row is not the one that was seen.
    if wrong(Check::Version, done.rows_affected() != expected) {
        return Err(StoreError::stale(may_be_stale));
    }
    Ok(())
}

/// The statements in one text, their placeholders counted through.
fn together(statements: &[Statement]) -> String {
    let mut text = String::with_capacity(statements.iter().map(|one| one.sql.len() + 8).sum());
    let mut offset = 0;
    for statement in statements {
        let mut rest = statement.sql;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            text.push('$');
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let (number, left) = after.split_at(digits);
            // A `$` without a number is no placeholder; it stays what it is.
            match number.parse::<usize>() {
                Ok(number) => text.push_str(&(number + offset).to_string()),
                Err(_) => text.push_str(number),
            }
            rest = left;
        }
        text.push_str(rest);
        text.push_str(";\n");
        offset += statement.values.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_counted_through() {
        let statements = [
            Statement::new("UPDATE a SET x = $2 WHERE id = $1 AND y = $2")
                .bind(1_i64)
                .bind("x"),
            Statement::new("INSERT INTO b VALUES ($1)").bind(None::<i64>),
            Statement::new("INSERT INTO c VALUES ($1, '$', $2)")
                .bind(2_i64)
                .bind(3_i64),
        ];
        assert_eq!(
            together(&statements),
            "UPDATE a SET x = $2 WHERE id = $1 AND y = $2;\n\
             INSERT INTO b VALUES ($3);\n\
             INSERT INTO c VALUES ($4, '$', $5);\n"
        );
    }
}
