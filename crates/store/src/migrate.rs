//! Bringing a database to the schema of this build.

use kazma_domain::Digest;
use sqlx::{Connection as _, Row as _, SqliteConnection};

use crate::StoreError;

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

/// Applies the steps that are missing, each in one transaction with its record.
pub(crate) async fn run(
    connection: &mut SqliteConnection,
    migrations: &'static [Migration],
) -> Result<(), StoreError> {
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS migrations (
            version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL) STRICT",
    )
    .execute(&mut *connection)
    .await?;
    let applied: Vec<(i64, String)> =
        sqlx::query("SELECT version, digest FROM migrations ORDER BY version")
            .fetch_all(&mut *connection)
            .await?
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect::<Result<_, sqlx::Error>>()?;
    let known = migrations.iter().map(|m| m.version).max().unwrap_or(0);
    if let Some((found, _)) = applied.last().filter(|(version, _)| *version > known) {
        return Err(StoreError::Newer {
            found: *found,
            known,
        });
    }
    for migration in migrations {
        let digest = Digest::of_bytes(migration.sql.as_bytes()).to_string();
        match applied.iter().find(|(v, _)| *v == migration.version) {
            Some((_, earlier)) if *earlier == digest => {}
            Some(_) => {
                return Err(StoreError::MigrationChanged {
                    version: migration.version,
                });
            }
            None => apply(connection, migration, &digest).await?,
        }
    }
    Ok(())
}

async fn apply(
    connection: &mut SqliteConnection,
    migration: &Migration,
    digest: &str,
) -> Result<(), StoreError> {
    let mut tx = connection.begin().await?;
    sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
    sqlx::query("INSERT INTO migrations (version, name, digest) VALUES ($1, $2, $3)")
        .bind(migration.version)
        .bind(migration.name)
        .bind(digest)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}
