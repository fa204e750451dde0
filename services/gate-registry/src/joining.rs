//! Joining the mesh: single-use tokens, the key on record, and renewal by that key alone.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Digest, Service, clock::after};
use kazma_mesh::IssuedLeaf;
use kazma_store::registry::mesh::{self, IdentityRow};
use kazma_wire::mesh::{JoinRequest, Leaf, RenewRequest};
use serde_json::json;

use crate::{Error, Registry, filing::short};

/// How long a join token is good unless set.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// How long after its end a leaf can still be renewed by its key.
const RENEWABLE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Bytes of a token, and of a certificate request in base64.
const TOKEN_MAX: usize = 256;
const CSR_MAX: usize = 16 * 1024;

/// A join token as the registry knows it: never the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Whom it lets in.
    pub service: Service,
    /// The SHA-256 of the secret's text.
    pub digest: Digest,
    /// Not good from then on; [`TOKEN_LIFE`] from now unless set.
    pub expires_at: Option<Timestamp>,
}

impl Registry {
    /// Takes tokens that let services join. One that was used stays used.
    ///
    /// # Errors
    ///
    /// Fails when they cannot be kept.
    pub async fn add_tokens(&self, tokens: Vec<Token>) -> Result<(), Error> {
        self.write(move |tx, step| {
            Box::pin(async move {
                let now = step.moment.now;
                mesh::forget_tokens(tx, now).await?;
                for token in tokens {
                    let expires_at = token.expires_at.unwrap_or_else(|| after(now, TOKEN_LIFE));
                    if mesh::add_token(tx, &token.digest, token.service, expires_at).await? {
                        let about = [("service", token.service.to_string())];
                        let payload = json!({"expires_at": expires_at});
                        step.record(tx, "mesh.invited", "operator", about, payload)
                            .await?;
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// Lets a service in by a token, once, and puts its key on record.
    ///
    /// # Errors
    ///
    /// Refuses a token that is unknown, used or too old, and a request that does not parse.
    pub async fn join(&self, request: JoinRequest) -> Result<Leaf, Error> {
        short("token", &request.token, TOKEN_MAX)?;
        let csr = csr(&request.csr)?;
        let given = Digest::of_bytes(request.token.as_bytes());
        let service = self.token(given).await?.ok_or(Error::TokenRefused)?;
        // Issued before the token is spent: a request that does not parse costs nobody their token.
        let leaf = self.issue(&csr, service)?;
        let record = IdentityRow {
            public_key: leaf.public_key,
            not_after: leaf.not_after,
        };
        self.write(move |tx, step| {
            Box::pin(async move {
                mesh::use_token(tx, &given, step.moment.now)
                    .await
                    .map_err(|_| Error::TokenRefused)?;
                mesh::record_identity(tx, service, &record).await?;
                let about = [("service", service.to_string())];
                let payload = json!({"key": record.public_key, "not_after": record.not_after});
                step.record(tx, "mesh.joined", service, about, payload)
                    .await
            })
        })
        .await?;
        Ok(self.leaf(leaf))
    }

    /// Renews the leaf of the key on record, up to 30 days after it ended.
    ///
    /// # Errors
    ///
    /// Refuses another key, a service without one, and a leaf that ended too long ago.
    pub async fn renew(&self, request: RenewRequest) -> Result<Leaf, Error> {
        let csr = csr(&request.csr)?;
        let service = request.service;
        // The request is signed by the key it names: issuing checks that.
        let leaf = self.issue(&csr, service)?;
        let record = IdentityRow {
            public_key: leaf.public_key,
            not_after: leaf.not_after,
        };
        self.write(move |tx, step| {
            Box::pin(async move {
                let known = mesh::identity(tx, service).await?;
                let known = known.ok_or(Error::RenewalRefused("this service has not joined"))?;
                if known.public_key != record.public_key {
                    return Err(Error::RenewalRefused("it is not the key on record"));
                }
                if step.moment.now >= after(known.not_after, RENEWABLE) {
                    return Err(Error::RenewalRefused(
                        "the certificate ended more than 30 days ago: join again with a token",
                    ));
                }
                mesh::record_identity(tx, service, &record).await?;
                let about = [("service", service.to_string())];
                let payload = json!({"not_after": record.not_after});
                step.record(tx, "mesh.renewed", service, about, payload)
                    .await
            })
        })
        .await?;
        Ok(self.leaf(leaf))
    }

    /// Whom an unused token lets in. Every token is compared, each in constant time.
    async fn token(&self, given: Digest) -> Result<Option<Service>, Error> {
        let now = self.moment().now;
        let tokens = self
            .read(|tx| Box::pin(async move { Ok(mesh::unused_tokens(tx).await?) }))
            .await?;
        let mut found = None;
        for token in tokens {
            if token.digest == given && now < token.expires_at {
                found = Some(token.service);
            }
        }
        Ok(found)
    }

    fn issue(&self, csr: &[u8], service: Service) -> Result<IssuedLeaf, Error> {
        self.issuer
            .issue(csr, service, self.moment().now)
            .map_err(Error::Request)
    }

    fn leaf(&self, leaf: IssuedLeaf) -> Leaf {
        Leaf {
            certificate: leaf.pem,
            ca: self.issuer.ca().to_owned(),
            permit_key: self.verifying_key().to_base64(),
        }
    }
}

fn csr(text: &str) -> Result<Vec<u8>, Error> {
    short("csr", text, CSR_MAX)?;
    STANDARD
        .decode(text)
        .map_err(|_| Error::invalid("csr", "not standard base64"))
}
