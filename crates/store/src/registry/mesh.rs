//! Who holds which key, and which join tokens there are.

use jiff::Timestamp;
use kazma_domain::{Digest, Service};

use crate::{
    StoreError, Tx,
    row::{Reader, micros},
    statement::Statement,
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
    let row = tx
        .optional(
            Statement::new("SELECT public_key, not_after FROM identities WHERE service = $1")
                .bind(service.name()),
        )
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
    tx.execute(
        Statement::new(
            "INSERT INTO identities (service, public_key, not_after) VALUES ($1, $2, $3)
         ON CONFLICT (service) DO UPDATE
         SET public_key = excluded.public_key, not_after = excluded.not_after",
        )
        .bind(service.name())
        .bind(&identity.public_key)
        .bind(micros(identity.not_after)),
    )
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
    let done = tx
        .execute(
            Statement::new(
                "INSERT INTO join_tokens (digest, service, expires_at) VALUES ($1, $2, $3)
         ON CONFLICT (digest) DO NOTHING",
            )
            .bind(digest)
            .bind(service.name())
            .bind(micros(expires_at)),
        )
        .await?;
    Ok(done > 0)
}

/// Every token that was not used.
pub async fn unused_tokens(tx: &mut Tx) -> Result<Vec<TokenRow>, StoreError> {
    tx.all(Statement::new(
        "SELECT digest, service, expires_at FROM join_tokens WHERE used_at IS NULL",
    ))
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
    let done = tx
        .execute(
            Statement::new(
                "UPDATE join_tokens SET used_at = $1 WHERE digest = $2 AND used_at IS NULL",
            )
            .bind(micros(at))
            .bind(digest),
        )
        .await?;
    if done == 1 {
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
    tx.execute(Statement::new("DELETE FROM join_tokens WHERE expires_at < $1").bind(micros(now)))
        .await?;
    Ok(())
}
