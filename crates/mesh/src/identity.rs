//! Who this process is in the mesh: its key, its current leaf, and whom it trusts.

use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use kazma_domain::{Digest, Service};
use rcgen::KeyPair;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::ResolvesClientCert,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use crate::MeshError;

/// The identity of one service process. Its leaf can be replaced while connections use it.
pub struct Identity {
    service: Service,
    key: KeyPair,
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    ca: CertificateDer<'static>,
    leaf: Arc<Slot>,
}

/// Holds the current leaf for both sides of TLS.
struct Slot(RwLock<(Arc<CertifiedKey>, Timestamp)>);

impl Identity {
    /// Puts an identity together: `leaf` and `ca` are PEM.
    ///
    /// # Errors
    ///
    /// Refuses what does not parse or does not belong together.
    pub fn new(service: Service, key: KeyPair, leaf: &str, ca: &str) -> Result<Self, MeshError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let ca = certificates(ca)?
            .into_iter()
            .next()
            .ok_or_else(|| MeshError::Certificate("the CA holds no certificate".to_owned()))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone()).map_err(MeshError::Tls)?;
        let first = certified(&provider, &key, leaf, &ca)?;
        Ok(Self {
            service,
            key,
            provider,
            roots: Arc::new(roots),
            ca,
            leaf: Arc::new(Slot(RwLock::new(first))),
        })
    }

    /// The service this is.
    pub const fn service(&self) -> Service {
        self.service
    }

    /// When the current leaf ends.
    pub fn not_after(&self) -> Timestamp {
        self.leaf.0.read().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Takes a new leaf (PEM) into use; connections made from now on show it.
    ///
    /// # Errors
    ///
    /// Refuses a leaf that does not parse or is not for this key.
    pub fn replace_leaf(&self, leaf: &str) -> Result<(), MeshError> {
        let next = certified(&self.provider, &self.key, leaf, &self.ca)?;
        *self.leaf.0.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The digest of the CA that this process trusts.
    pub(crate) fn ca_digest(&self) -> Digest {
        Digest::of_bytes(&self.ca)
    }

    /// A request (PKCS #10, DER) for a leaf for this key.
    pub(crate) fn request(&self) -> Result<Vec<u8>, MeshError> {
        request(&self.key)
    }

    /// TLS 1.3 for the serving side. A caller without a certificate is let in nameless, for joining;
    /// every route but that one refuses it.
    pub(crate) fn server(&self) -> Result<ServerConfig, MeshError> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(|error| MeshError::Certificate(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(MeshError::Tls)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.leaf.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// TLS 1.3 for the calling side.
    pub(crate) fn client(&self) -> Result<ClientConfig, MeshError> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(MeshError::Tls)?
            .with_root_certificates(self.roots.clone())
            .with_client_cert_resolver(self.leaf.clone());
        // A resumed session keeps the certificate it began with, and a renewed one must be shown.
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("service", &self.service)
            .field("not_after", &self.not_after())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slot")
    }
}

impl Slot {
    fn current(&self) -> Arc<CertifiedKey> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for Slot {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The certificates of a PEM text.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, MeshError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| MeshError::Certificate(format!("not PEM: {error:?}")))
}

/// A request (PKCS #10, DER) that `key` signs. It names nobody: the registry decides for whom.
pub(crate) fn request(key: &KeyPair) -> Result<Vec<u8>, MeshError> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let csr = params.serialize_request(key).map_err(MeshError::Make)?;
    Ok(csr.der().to_vec())
}

fn certified(
    provider: &CryptoProvider,
    key: &KeyPair,
    leaf: &str,
    ca: &CertificateDer<'static>,
) -> Result<(Arc<CertifiedKey>, Timestamp), MeshError> {
    let leaf = certificates(leaf)?
        .into_iter()
        .next()
        .ok_or_else(|| MeshError::Certificate("the leaf holds no certificate".to_owned()))?;
    let not_after = {
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf)
            .map_err(|error| MeshError::Certificate(error.to_string()))?;
        Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|error| MeshError::Certificate(error.to_string()))?
    };
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // The CA travels along, so that who joins can check it against the digest in the token.
    let certified =
        CertifiedKey::from_der(vec![leaf, ca.clone()], der, provider).map_err(MeshError::Tls)?;
    Ok((Arc::new(certified), not_after))
}
