//! Who holds which key, and which join tokens there are.

use jiff::Timestamp;
use kazma_domain::{Digest, Service};

use crate::{
    StoreError, Tx,
    row::{Reader, micros},
};

/// The key on record for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityRow {
    /// The digest of its public key.
    pub public_key: Digest,
    /// The end of the last leaf.
    pub not_after: Timestamp,
}

/// A join token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRow {
    /// The digest of its secret.
    pub digest: Digest,
    /// Whom it lets in.
    pub service: Service,
    /// Not good from then on.
    pub expires_at: Timestamp,
    /// When it was used, if it was.
    pub used_at: Option<Timestamp>,
}

/// The key on record for `service`.
pub async fn identity(tx: &mut Tx, service: Service) -> Result<Option<IdentityRow>, StoreError> {
    let row = sqlx::query("SELECT public_key, not_after FROM identities WHERE service = $1")
        .bind(service.name())
        .fetch_optional(tx.settled().await?)
        .await?;
    row.map(|row| {
        let row = Reader::new(&row, "identities", service);
        Ok(IdentityRow {
            public_key: row.digest("public_key")?,
            not_after: row.time("not_after")?,
        })
    })
    .transpose()
}

/// Puts a key on record for `service`, in the place of the one before.
pub async fn record_identity(
    tx: &mut Tx,
    service: Service,
    identity: &IdentityRow,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO identities (service, public_key, not_after) VALUES ($1, $2, $3)
         ON CONFLICT (service) DO UPDATE
         SET public_key = excluded.public_key, not_after = excluded.not_after",
    )
    .bind(service.name())
    .bind(identity.public_key.as_bytes().as_slice())
    .bind(micros(identity.not_after))
    .execute(tx.settled().await?)
    .await?;
    Ok(())
}

/// Adds a token; one that is there already stays as it is, used or not. False if it was there.
pub async fn add_token(
    tx: &mut Tx,
    digest: &Digest,
    service: Service,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "INSERT INTO join_tokens (digest, service, expires_at) VALUES ($1, $2, $3)
         ON CONFLICT (digest) DO NOTHING",
    )
    .bind(digest.as_bytes().as_slice())
    .bind(service.name())
    .bind(micros(expires_at))
    .execute(tx.settled().await?)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Every token that was not used.
pub async fn unused_tokens(tx: &mut Tx) -> Result<Vec<TokenRow>, StoreError> {
    sqlx::query("SELECT digest, service, expires_at FROM join_tokens WHERE used_at IS NULL")
        .fetch_all(tx.settled().await?)
        .await?
        .iter()
        .map(|row| {
            let row = Reader::new(row, "join_tokens", "unused");
            Ok(TokenRow {
                digest: row.digest("digest")?,
                service: row.word("service")?,
                expires_at: row.time("expires_at")?,
                used_at: None,
            })
        })
        .collect()
}

/// Marks a token as used. `Stale` if it was.
pub async fn use_token(tx: &mut Tx, digest: &Digest, at: Timestamp) -> Result<(), StoreError> {
    let done =
        sqlx::query("UPDATE join_tokens SET used_at = $1 WHERE digest = $2 AND used_at IS NULL")
            .bind(micros(at))
            .bind(digest.as_bytes().as_slice())
            .execute(tx.settled().await?)
            .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(StoreError::Stale {
            table: "join_tokens",
            id: digest.short(),
        })
    }
}

/// Forgets tokens that expired before `now`.
pub async fn forget_tokens(tx: &mut Tx, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM join_tokens WHERE expires_at < $1")
        .bind(micros(now))
        .execute(tx.settled().await?)
        .await?;
    Ok(())
}
