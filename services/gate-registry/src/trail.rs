//! The audit trail: heads that are signed, payloads that are erased, the whole chain verified.

use std::{sync::Arc, time::Duration};

use kazma_audit::{Break, Head, Report, SignedHead, Stored, Verifier, export_line};
use kazma_signing::VerifyingKey;
use kazma_store::{
    Database, Place, Tx,
    registry::{audit, audit::AuditRow, meta},
};
use serde_json::json;

use crate::{Error, Registry};

/// Records that are read at once.
const PAGE: u32 = 512;
/// How often a head is signed, if there are new records.
const EVERY: Duration = Duration::from_mins(1);

impl Registry {
    /// Signs the end of the chain as it is now and keeps the signature. None for an empty chain.
    ///
    /// # Errors
    ///
    /// Fails when the head cannot be signed or kept.
    pub async fn sign_head(&self) -> Result<Option<SignedHead>, Error> {
        let (head, epoch) = self
            .read(|tx| {
                Box::pin(async move { Ok((audit::head(tx).await?, meta::epoch(tx).await?)) })
            })
            .await?;
        let Some((seq, hash)) = head else {
            return Ok(None);
        };
        let signed = Head { seq, hash }.sign(&self.key, epoch, self.moment().now)?;
        let body = serde_json::to_string(&signed)?;
        self.write(move |tx, _| {
            Box::pin(async move { Ok(audit::keep_head(tx, seq, &body).await?) })
        })
        .await?;
        Ok(Some(signed))
    }

    /// Signs heads once a minute until the registry stops.
    ///
    /// # Errors
    ///
    /// Never: what fails is tried again.
    pub async fn keep_signing(self: Arc<Self>) -> Result<(), kazma_runtime::BoxError> {
        loop {
            if let Err(error) = self.sign_head().await {
                tracing::warn!(
                    error = error.to_string(),
                    "no audit head signed; trying again"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = self.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// Erases the details of a record. The chain still verifies, and says that they were erased.
    ///
    /// # Errors
    ///
    /// Refuses a record without details.
    pub async fn erase(&self, seq: i64, actor: String) -> Result<(), Error> {
        self.write(move |tx, step| {
            Box::pin(async move {
                if !audit::erase_payload(tx, seq).await? {
                    return Err(Error::NotFound("audit payload"));
                }
                let payload = json!({"seq": seq});
                step.record(tx, "audit.erased", actor, [], payload).await
            })
        })
        .await
    }
}

/// Verifies the audit chain in the database at `place`, beside a registry that uses it. With `key`,
/// heads that another key signed are a break.
///
/// # Errors
///
/// [`Error::Audit`] names the first record that does not hold.
pub async fn audit_verify(place: &Place, key: Option<VerifyingKey>) -> Result<Report, Error> {
    Database::read_only(place, move |tx| {
        Box::pin(async move {
            let heads = heads(tx, key).await?;
            let mut verifier = Verifier::new(&heads);
            let mut after = 0;
            loop {
                let page = audit::after(tx, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                for row in page {
                    verifier.next(&stored(row))?;
                }
            }
            Ok(verifier.finish()?)
        })
    })
    .await
}

/// Hands the audit chain in the database at `place` to `line`, one JSON object a record.
///
/// # Errors
///
/// Fails when the database cannot be read, and when `line` does.
pub async fn audit_export(
    place: &Place,
    mut line: impl FnMut(String) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    Database::read_only(place, move |tx| {
        Box::pin(async move {
            let mut after = 0;
            loop {
                let page = audit::after(tx, after, PAGE).await?;
                let Some(last) = page.last() else {
                    return Ok(());
                };
                after = last.seq;
                for row in page {
                    line(export_line(&stored(row))?)?;
                }
            }
        })
    })
    .await
}

async fn heads(tx: &mut Tx, key: Option<VerifyingKey>) -> Result<Vec<SignedHead>, Error> {
    let mut heads = Vec::new();
    for body in audit::heads(tx).await? {
        let head: SignedHead = serde_json::from_str(&body)?;
        if let Some(key) = key {
            head.verify(&key).map_err(|_| Break {
                seq: head.head.seq,
                what: "its signed head was not signed by this registry".to_owned(),
            })?;
        }
        heads.push(head);
    }
    Ok(heads)
}

fn stored(row: AuditRow) -> Stored {
    Stored {
        seq: row.seq,
        record: row.record,
        hash: row.hash,
        payload: row.payload,
    }
}
