//! The audit chain: records bound to one another by digests, so that none can be changed, dropped or
//! slipped in unseen.
//!
//! A record holds the digest of its payload, never the payload: that is kept beside it, and can be erased
//! without breaking the chain. Each payload is salted, so that an erased one cannot be guessed back
//! from its digest. What only a witness can see, a tail that was cut off, shows against a [`SignedHead`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use kazma_domain::{Digest, Entropy};
use kazma_signing::{SigningError, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is recorded: one step of one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// When, by the registry's clock.
    pub at: Timestamp,
    /// What happened, as a word such as `call.redeemed`.
    pub kind: &'static str,
    /// Who caused it, such as `person_0192…` or `runner-api`.
    pub actor: String,
    /// What it is about: the kind of thing and its id, such as `call` and `call_0192…`.
    pub subjects: BTreeMap<&'static str, String>,
    /// The details.
    pub payload: Value,
}

/// One record of the chain.
///
/// **Invariant:** its members stand in the order of RFC 8785, and none of them is a number that is no integer, so that
/// JSON as serde writes it is canonical JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Who caused it.
    pub actor: String,
    /// When, by the registry's clock.
    pub at: Timestamp,
    /// What happened.
    pub kind: String,
    /// The digest of its payload.
    pub payload: Digest,
    /// The hash of the record before it; of the first one, [`Head::GENESIS`]'s.
    pub prev: Digest,
    /// Its place, from 1, without gaps.
    pub seq: i64,
    /// What it is about.
    pub subjects: BTreeMap<String, String>,
}

/// The details of a record, kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// Sixteen random bytes, hexadecimal.
    pub salt: String,
    /// The details.
    pub body: Value,
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// How many records there are.
    pub seq: i64,
    /// The hash of the last one.
    pub hash: Digest,
}

/// A head with the registry's word for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    /// What is signed.
    pub head: Vouched,
    /// Ed25519 over its canonical JSON, standard base64.
    pub signature: String,
}

/// What the registry vouches for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vouched {
    /// Always `audit-head`: the same key signs permits.
    pub purpose: String,
    /// How many records there were.
    pub seq: i64,
    /// The hash of the last one.
    pub hash: Digest,
    /// The registry's epoch.
    pub epoch: u64,
    /// When.
    pub at: Timestamp,
}

/// A record ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The record's canonical JSON: exactly these bytes were hashed.
    pub record: String,
    /// Its hash.
    pub hash: Digest,
    /// Its payload's JSON: the record holds the digest of exactly these bytes.
    pub payload: String,
    /// The chain's new end.
    pub head: Head,
}

/// A stored record, as it is read for verification.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its place.
    pub seq: i64,
    /// Its bytes.
    pub record: String,
    /// The hash beside it.
    pub hash: Digest,
    /// Its payload; none once erased.
    pub payload: Option<String>,
}

/// What a chain that holds comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many records there are.
    pub records: i64,
    /// How many payloads were erased.
    pub erased: i64,
    /// The end of the chain.
    pub head: Digest,
    /// How many signed heads fit it.
    pub heads: i64,
}

/// The first place where a chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq}: {what}")]
pub struct Break {
    /// Which record.
    pub seq: i64,
    /// What is wrong, in words.
    pub what: String,
}

impl Head {
    /// The end of an empty chain.
    pub const GENESIS: Self = Self {
        seq: 0,
        hash: Digest::from_bytes([0; 32]),
    };

    /// Appends a fact.
    ///
    /// # Errors
    ///
    /// Refuses what JSON cannot hold.
    pub fn append(&self, fact: Fact, entropy: &dyn Entropy) -> Result<Link, serde_json::Error> {
        let mut salt = [0_u8; 16];
        entropy.fill(&mut salt);
        let payload = serde_json::to_string(&Payload {
            salt: hex::encode(salt),
            body: fact.payload,
        })?;
        let record = serde_json::to_string(&Record {
            actor: fact.actor,
            at: fact.at,
            kind: fact.kind.to_owned(),
            payload: Digest::of_bytes(payload.as_bytes()),
            prev: self.hash,
            seq: self.seq + 1,
            subjects: fact
                .subjects
                .into_iter()
                .map(|(kind, id)| (kind.to_owned(), id))
                .collect(),
        })?;
        let head = Self {
            seq: self.seq + 1,
            hash: Digest::of_bytes(record.as_bytes()),
        };
        Ok(Link {
            record,
            hash: head.hash,
            payload,
            head,
        })
    }

    /// Vouches for this end.
    ///
    /// # Errors
    ///
    /// Fails when the key cannot sign.
    pub fn sign(
        &self,
        key: &SigningKey,
        epoch: u64,
        at: Timestamp,
    ) -> Result<SignedHead, SigningError> {
        let head = Vouched {
            purpose: "audit-head".to_owned(),
            seq: self.seq,
            hash: self.hash,
            epoch,
            at,
        };
        let signature = key.sign(&head)?;
        Ok(SignedHead { head, signature })
    }
}

impl SignedHead {
    /// Checks the registry's word.
    ///
    /// # Errors
    ///
    /// Refuses what another key signed, or this one for another purpose.
    pub fn verify(&self, key: &VerifyingKey) -> Result<(), SigningError> {
        if self.head.purpose != "audit-head" {
            return Err(SigningError::BadSignature);
        }
        key.verify(&self.head, &self.signature)
    }
}

/// Walks a chain, one stored record after the other.
#[derive(Debug)]
pub struct Verifier<'h> {
    end: Head,
    erased: i64,
    heads: &'h [SignedHead],
    fitting: i64,
}

impl<'h> Verifier<'h> {
    /// Begins at the genesis. `heads` are those that witnesses kept, their signatures already checked.
    pub const fn new(heads: &'h [SignedHead]) -> Self {
        Self {
            end: Head::GENESIS,
            erased: 0,
            heads,
            fitting: 0,
        }
    }

    /// Takes the next record.
    ///
    /// # Errors
    ///
    /// The break, if it does not follow.
    pub fn next(&mut self, stored: &Stored) -> Result<(), Break> {
        let seq = self.end.seq + 1;
        let broken = |what: &str| {
            Err(Break {
                seq,
                what: what.to_owned(),
            })
        };
        if stored.seq != seq {
            return broken("it is missing");
        }
        let Ok(record) = serde_json::from_str::<Record>(&stored.record) else {
            return broken("it is not a record");
        };
        if Digest::of_bytes(stored.record.as_bytes()) != stored.hash {
            return broken("its hash is not the hash of its bytes");
        }
        if record.seq != seq {
            return broken("it belongs in another place");
        }
        if record.prev != self.end.hash {
            return broken("it does not follow the record before it");
        }
        match &stored.payload {
            Some(payload) if Digest::of_bytes(payload.as_bytes()) != record.payload => {
                return broken("its payload is another");
            }
            Some(_) => {}
            None => self.erased += 1,
        }
        for witness in self.heads.iter().filter(|witness| witness.head.seq == seq) {
            if witness.head.hash != stored.hash {
                return broken("a signed head says another hash");
            }
            self.fitting += 1;
        }
        self.end = Head {
            seq,
            hash: stored.hash,
        };
        Ok(())
    }

    /// Ends the walk.
    ///
    /// # Errors
    ///
    /// The break, if a signed head vouches for records that are gone.
    pub fn finish(self) -> Result<Report, Break> {
        if let Some(longest) = self.heads.iter().map(|h| h.head.seq).max()
            && longest > self.end.seq
        {
            return Err(Break {
                seq: self.end.seq + 1,
                what: format!("it is missing: a signed head vouches for {longest} records"),
            });
        }
        Ok(Report {
            records: self.end.seq,
            erased: self.erased,
            head: self.end.hash,
            heads: self.fitting,
        })
    }
}

/// Verifies a whole chain.
///
/// # Errors
///
/// The first break.
pub fn verify<'s>(
    records: impl IntoIterator<Item = &'s Stored>,
    heads: &[SignedHead],
) -> Result<Report, Break> {
    let mut verifier = Verifier::new(heads);
    for stored in records {
        verifier.next(stored)?;
    }
    verifier.finish()
}

/// One line of an export: the record, its hash and, unless erased, its payload.
///
/// # Errors
///
/// Refuses a record that does not parse.
pub fn export_line(stored: &Stored) -> Result<String, serde_json::Error> {
    let payload = stored
        .payload
        .as_deref()
        .map(serde_json::from_str::<Payload>)
        .transpose()?;
    serde_json::to_string(&serde_json::json!({
        "record": serde_json::from_str::<Value>(&stored.record)?,
        "hash": stored.hash,
        "payload": payload,
    }))
}

#[cfg(test)]
mod tests;
