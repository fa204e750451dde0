//! Failed sign-ins. They are on disk, so that a restart does not give new tries.

use jiff::Timestamp;

use crate::{
    StoreError, Tx,
    row::{Reader, micros},
    statement::Statement,
};

/// How many sign-ins failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// From one peer.
    pub of_peer: u32,
    /// From everybody.
    pub of_all: u32,
    /// The oldest one counted, if any.
    pub oldest: Option<Timestamp>,
}

/// How many sign-ins failed after `since`, in all and from `peer`.
pub async fn failures_since(
    tx: &mut Tx,
    peer: &str,
    since: Timestamp,
) -> Result<Failures, StoreError> {
    let row = tx.one(Statement::new(
        "SELECT count(*) AS of_all, count(CASE WHEN peer = $1 THEN 1 END) AS of_peer, min(at) AS oldest
         FROM failures WHERE at > $2",
    ).bind(peer).bind(micros(since)))
    .await?;
    let reader = Reader::new(&row, "failures", "all");
    Ok(Failures {
        of_peer: reader.count("of_peer")?,
        of_all: reader.count("of_all")?,
        oldest: reader.time_option("oldest")?,
    })
}

/// Notes a failed sign-in of `peer`, and drops the ones before `since`.
pub async fn add_failure(
    tx: &mut Tx,
    peer: &str,
    now: Timestamp,
    since: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(Statement::new("DELETE FROM failures WHERE at <= $1").bind(micros(since)))
        .await?;
    tx.execute(
        Statement::new("INSERT INTO failures (peer, at) VALUES ($1, $2)")
            .bind(peer)
            .bind(micros(now)),
    )
    .await?;
    Ok(())
}

/// Forgets the failures of `peer`, who has signed in.
pub async fn forget_failures(tx: &mut Tx, peer: &str) -> Result<(), StoreError> {
    tx.execute(Statement::new("DELETE FROM failures WHERE peer = $1").bind(peer))
        .await?;
    Ok(())
}
