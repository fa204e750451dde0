//! Bringing a database to the schema of this build.

use kazma_domain::Digest;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::{StoreError, postgres, sqlite, statement::Statement};

/// One step of a schema. A step that was released never changes; a later one amends it.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Its number; steps run in this order.
    pub version: i64,
    /// What it does, in a few words.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// The steps that lead to one schema, for either database.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The steps for SQLite.
    pub sqlite: &'static [Migration],
    /// The steps for PostgreSQL.
    pub postgres: &'static [Migration],
}

const APPLIED: &str = "SELECT version, digest FROM migrations ORDER BY version";
const RECORD: &str = "INSERT INTO migrations (version, name, digest) VALUES ($1, $2, $3)";

/// Applies the steps that are missing, each in one transaction with its record.
pub(crate) fn on_sqlite(
    connection: &mut rusqlite::Connection,
    steps: &'static [Migration],
) -> Result<(), StoreError> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
            version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL) STRICT",
    )?;
    let applied: Vec<(i64, String)> =
        sqlite::rows(connection, &Statement::new(APPLIED), usize::MAX)?
            .iter()
            .map(|row| Ok((row.get("version")?, row.get("digest")?)))
            .collect::<Result<_, StoreError>>()?;
    for step in missing(&applied, steps)? {
        let tx = connection.transaction()?;
        tx.execute_batch(step.sql)?;
        sqlite::execute(&tx, &record(step))?;
        tx.commit()?;
    }
    Ok(())
}

/// The same on a server, in the schema that the connection looks at first.
pub(crate) async fn on_postgres(
    connection: &mut PgConnection,
    steps: &'static [Migration],
) -> Result<(), StoreError> {
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS migrations (
            version BIGINT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL)",
    )
    .execute(&mut *connection)
    .await?;
    let applied: Vec<(i64, String)> = sqlx::query(APPLIED)
        .fetch_all(&mut *connection)
        .await?
        .iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, sqlx::Error>>()?;
    for step in missing(&applied, steps)? {
        let mut tx = connection.begin().await?;
        sqlx::raw_sql(step.sql).execute(&mut *tx).await?;
        postgres::query(record(step)).execute(&mut *tx).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// The steps that were not applied yet. Those that were must be the ones of this build.
fn missing(
    applied: &[(i64, String)],
    steps: &'static [Migration],
) -> Result<Vec<&'static Migration>, StoreError> {
    let known = steps.iter().map(|step| step.version).max().unwrap_or(0);
    if let Some((found, _)) = applied.last().filter(|(version, _)| *version > known) {
        return Err(StoreError::Newer {
            found: *found,
            known,
        });
    }
    let mut missing = Vec::new();
    for step in steps {
        match applied.iter().find(|(v, _)| *v == step.version) {
            Some((_, earlier)) if *earlier == digest(step) => {}
            Some(_) => {
                return Err(StoreError::MigrationChanged {
                    version: step.version,
                });
            }
            None => missing.push(step),
        }
    }
    Ok(missing)
}

fn digest(step: &Migration) -> String {
    Digest::of_bytes(step.sql.as_bytes()).to_string()
}

fn record(step: &Migration) -> Statement {
    Statement::new(RECORD)
        .bind(step.version)
        .bind(step.name)
        .bind(digest(step))
}
