//! HTTPS for people: the certificate of a public listener, read from files and taken up anew when it was renewed
//! there, and how connections begin where it is shown. It has nothing to do with the mesh but the use of TLS.

mod files;
mod greeting;

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
};

use camino::Utf8PathBuf;
pub use files::Files;
pub use greeting::{Greeted, Greeting};
use jiff::Timestamp;
use rustls::{
    InconsistentKeys, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Why a certificate cannot be shown. Each names the setting and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum NotUsable {
    /// One of the two is missing.
    #[error("{missing}: set it too, or unset {set}; HTTPS needs a certificate and its key")]
    Half {
        /// What is set.
        set: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// A file cannot be read.
    #[error("{setting}: {path}: {source}; name a PEM file that kazma may read")]
    Unreadable {
        /// Which setting names it.
        setting: &'static str,
        /// The file.
        path: Utf8PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The certificate is none.
    #[error(
        "KAZMA_TLS_CERT: no certificate that can be read ({0}); name a PEM file, the server's own certificate first"
    )]
    Certificate(String),
    /// The key is none.
    #[error("KAZMA_TLS_KEY: no private key that can be read; name a PEM file without a passphrase")]
    Key,
    /// They do not belong together.
    #[error(
        "KAZMA_TLS_KEY: it is not the key of the first certificate of KAZMA_TLS_CERT; name the pair that was issued together"
    )]
    Apart,
    /// TLS does not know such keys.
    #[error("KAZMA_TLS_KEY: {0}; use an RSA, ECDSA or Ed25519 key")]
    Kind(rustls::Error),
}

/// A certificate with its chain, and its key, as PEM.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Plain", into = "Plain")]
pub struct Pem {
    certificate: String,
    key: SecretString,
}

impl PartialEq for Pem {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
            && self.key.expose_secret() == other.key.expose_secret()
    }
}

/// The same as it travels from a supervisor through a pipe. It is never shown.
#[derive(Serialize, Deserialize)]
struct Plain {
    certificate: String,
    key: String,
}

impl From<Pem> for Plain {
    fn from(pem: Pem) -> Self {
        Self {
            key: pem.key.expose_secret().to_owned(),
            certificate: pem.certificate,
        }
    }
}

impl From<Plain> for Pem {
    fn from(plain: Plain) -> Self {
        Self {
            certificate: plain.certificate,
            key: plain.key.into(),
        }
    }
}

impl Pem {
    /// Whether it can be shown.
    fn check(&self) -> Result<(), NotUsable> {
        Pair::new(&aws_lc_rs::default_provider(), self).map(drop)
    }
}

/// A certificate with its key, ready to be shown.
#[derive(Debug, Clone)]
struct Pair {
    certified: Arc<CertifiedKey>,
    not_after: Timestamp,
}

impl Pair {
    fn new(provider: &CryptoProvider, pem: &Pem) -> Result<Self, NotUsable> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem.certificate.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|error| NotUsable::Certificate(format!("{error:?}")))?;
        let leaf = chain
            .first()
            .ok_or_else(|| NotUsable::Certificate("there is none".to_owned()))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(leaf)
            .map_err(|error| NotUsable::Certificate(error.to_string()))?;
        let not_after = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|error| NotUsable::Certificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(pem.key.expose_secret().as_bytes())
            .map_err(|_| NotUsable::Key)?;
        let certified =
            CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => NotUsable::Apart,
                rustls::Error::InvalidCertificate(error) => {
                    NotUsable::Certificate(error.to_string())
                }
                error => NotUsable::Kind(error),
            })?;
        Ok(Self {
            certified: Arc::new(certified),
            not_after,
        })
    }
}

/// The serving side of TLS with a certificate that can be replaced. Clones share it.
#[derive(Debug, Clone)]
pub struct Https {
    config: Arc<ServerConfig>,
    slot: Arc<Slot>,
}

/// Holds the current pair.
#[derive(Debug)]
struct Slot {
    provider: Arc<CryptoProvider>,
    pair: RwLock<Pair>,
}

impl Slot {
    fn current(&self) -> Pair {
        self.pair
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().certified)
    }
}

impl Https {
    /// TLS 1.2 and 1.3 that shows this certificate.
    ///
    /// # Errors
    ///
    /// Refuses what is no certificate with its key.
    pub fn new(pem: &Pem) -> Result<Self, NotUsable> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let slot = Arc::new(Slot {
            pair: RwLock::new(Pair::new(&provider, pem)?),
            provider: provider.clone(),
        });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(NotUsable::Kind)?
            .with_no_client_auth()
            .with_cert_resolver(slot.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            slot,
        })
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// When the certificate that is shown ends.
    pub fn not_after(&self) -> Timestamp {
        self.slot.current().not_after
    }

    /// Shows whatever `renewed` holds next to connections made from then on, as long as there is one who tells.
    pub async fn follow(&self, mut renewed: watch::Receiver<Pem>) {
        while renewed.changed().await.is_ok() {
            let pem = renewed.borrow_and_update().clone();
            match Pair::new(&self.slot.provider, &pem) {
                Ok(pair) => {
                    let until = pair.not_after;
                    *self
                        .slot
                        .pair
                        .write()
                        .unwrap_or_else(PoisonError::into_inner) = pair;
                    tracing::info!(%until, "a renewed certificate is shown");
                }
                Err(error) => {
                    let why = error.to_string();
                    tracing::warn!(
                        why,
                        "the renewed certificate cannot be used; the one before goes on"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
