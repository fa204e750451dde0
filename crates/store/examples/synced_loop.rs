//! The baseline of the gate cycle: four synced SQLite transactions one after the other, nothing else.
//!
//! `cargo run -p kazma-store --example synced_loop -- FOLDER [ROUNDS]`

use std::time::{Duration, Instant};

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("which folder?")?;
    let rounds: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let connection = Connection::open(std::path::Path::new(&folder).join("synced_loop.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, state TEXT NOT NULL) STRICT",
    )?;
    let mut insert = connection.prepare("INSERT INTO calls (state) VALUES ('pending')")?;
    let mut update = connection.prepare("UPDATE calls SET state = ?1 WHERE id = ?2")?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = Instant::now();
        let id = insert.insert([])?;
        for state in ["approved", "claimed", "settled"] {
            update.execute((state, id))?;
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
