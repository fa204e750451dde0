//! The baseline of the gate cycle: four synced SQLite transactions one after the other, nothing else.
//!
//! `cargo run -p kazma-store --example synced_loop -- FOLDER [ROUNDS]`

use std::time::{Duration, Instant};

use sqlx::{
    ConnectOptions as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let rounds: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let path = std::path::Path::new(&folder).join("synced_loop.db");
    let mut connection = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, state TEXT NOT NULL) STRICT",
    )
    .execute(&mut connection)
    .await?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = Instant::now();
        let id = sqlx::query("INSERT INTO calls (state) VALUES ('pending')")
            .execute(&mut connection)
            .await?
            .last_insert_rowid();
        for state in ["approved", "claimed", "settled"] {
            sqlx::query("UPDATE calls SET state = $1 WHERE id = $2")
                .bind(state)
                .bind(id)
                .execute(&mut connection)
                .await?;
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let p50 = times
        .get(times.len() / 2)
        .copied()
        .unwrap_or(Duration::ZERO);
    let line = format!(
        "{{\"name\":\"synced-loop\",\"value\":{:.3},\"unit\":\"ms\",\"runs\":{rounds}}}\n",
        p50.as_secs_f64() * 1e3
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())?;
    Ok(())
}
