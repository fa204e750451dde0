//! How a service gets its leaf: once by a token, from then on by its key.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Digest, Service, canonical::NotADigest};
use kazma_wire::mesh::{JoinRequest, Leaf, RenewRequest};
use rcgen::KeyPair;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;

use crate::{Address, Ca, CallError, Client, Identity, KeyFolder, MeshError, identity};

/// A single-use invitation: the CA it is for, and the secret.
#[derive(Debug, Clone)]
pub struct JoinToken {
    /// The digest of the CA's certificate (DER).
    pub ca: Digest,
    /// The secret, base64url.
    pub secret: SecretString,
}

impl JoinToken {
    /// Reads `sha256:<digits>.<secret>`.
    ///
    /// # Errors
    ///
    /// Refuses a text of another form.
    pub fn parse(text: &str) -> Result<Self, NotADigest> {
        let (ca, secret) = text.split_once('.').ok_or(NotADigest)?;
        Ok(Self {
            ca: ca.parse()?,
            secret: secret.to_owned().into(),
        })
    }
}

/// What a service holds once it is part of the mesh.
#[derive(Debug, Clone)]
pub struct Enrolment {
    /// Who it is.
    pub identity: Arc<Identity>,
    /// The registry's Ed25519 key for permits, standard base64 of 32 bytes.
    pub permit_key: String,
}

/// Makes this process part of the mesh: by the leaf in `folder` while it is good, else by renewal with
/// the key in `folder`, else by `token`.
///
/// # Errors
///
/// Says what the folder, the registry or TLS says.
pub async fn enrol(
    folder: &Utf8Path,
    service: Service,
    registry: impl Into<Address>,
    token: Option<&JoinToken>,
    clock: &dyn Clock,
) -> Result<Enrolment, MeshError> {
    let registry = &registry.into();
    let folder = KeyFolder::open(folder)?;
    let key = key_of(&folder)?;
    let known = (
        folder.read("leaf.pem")?,
        folder.read("ca.pem")?,
        folder.read("permit.key")?,
    );
    if let (Some(leaf), Some(ca), Some(permit_key)) = known {
        let kept = Identity::new(service, clone(&key)?, &leaf, &ca)?;
        // Where the registry began anew since, with another CA, what is kept is of no use.
        let of_this_mesh = token.is_none_or(|token| token.ca == kept.ca_digest());
        if of_this_mesh && !due(&kept, clock.now()) {
            let identity = Arc::new(kept);
            return Ok(Enrolment {
                identity,
                permit_key,
            });
        }
        let renewed = if of_this_mesh {
            Some(renew(&kept, registry).await)
        } else {
            None
        };
        match renewed {
            None => {}
            Some(Ok(fresh)) => {
                return keep(
                    &folder,
                    service,
                    key,
                    &fresh.certificate,
                    &ca,
                    &fresh.permit_key,
                );
            }
            // What is still good is good enough; the renewal task tries again.
            Some(Err(_)) if kept.not_after() > clock.now() => {
                let identity = Arc::new(kept);
                return Ok(Enrolment {
                    identity,
                    permit_key,
                });
            }
            // The registry does not know the key, or has not seen it for too long: a token begins anew.
            Some(Err(MeshError::Enrol(CallError::Problem { .. }))) if token.is_some() => {}
            Some(Err(error)) => return Err(error),
        }
    }
    let fresh = join(&key, registry, token.ok_or(MeshError::NoToken)?).await?;
    keep(
        &folder,
        service,
        key,
        &fresh.certificate,
        &fresh.ca,
        &fresh.permit_key,
    )
}

fn keep(
    folder: &KeyFolder,
    service: Service,
    key: KeyPair,
    leaf: &str,
    ca: &str,
    permit_key: &str,
) -> Result<Enrolment, MeshError> {
    let identity = Arc::new(Identity::new(service, key, leaf, ca)?);
    folder.write("ca.pem", ca)?;
    folder.write("permit.key", permit_key)?;
    folder.write("leaf.pem", leaf)?;
    Ok(Enrolment {
        identity,
        permit_key: permit_key.to_owned(),
    })
}

/// The identity of the registry itself, which holds the CA and asks nobody.
///
/// # Errors
///
/// Says what the folder or TLS says.
pub fn own_identity(
    folder: &Utf8Path,
    ca: &Ca,
    clock: &dyn Clock,
) -> Result<Arc<Identity>, MeshError> {
    let folder = KeyFolder::open(folder)?;
    let key = key_of(&folder)?;
    let leaf = ca.issue(
        &identity::request(&key)?,
        Service::GateRegistry,
        clock.now(),
    )?;
    Ok(Arc::new(Identity::new(
        Service::GateRegistry,
        key,
        &leaf.pem,
        ca.pem(),
    )?))
}

/// Gives the registry a new leaf whenever two thirds of the old one's life are over, until `stop`.
///
/// # Errors
///
/// Only where a leaf cannot be made at all.
pub async fn keep_own_fresh(
    identity: Arc<Identity>,
    ca: Arc<Ca>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<(), MeshError> {
    while stop
        .run_until_cancelled(tokio::time::sleep(Duration::from_secs(30)))
        .await
        .is_some()
    {
        if due(&identity, clock.now()) {
            let leaf = ca.issue(&identity.request()?, Service::GateRegistry, clock.now())?;
            identity.replace_leaf(&leaf.pem)?;
        }
    }
    Ok(())
}

fn key_of(folder: &KeyFolder) -> Result<KeyPair, MeshError> {
    if let Some(pem) = folder.read("mesh.key")? {
        return KeyPair::from_pem(&pem).map_err(MeshError::Make);
    }
    let key = KeyPair::generate().map_err(MeshError::Make)?;
    folder.write("mesh.key", &key.serialize_pem())?;
    Ok(key)
}

/// Renews the leaf of `identity` whenever two thirds of its life are over, until `stop`.
///
/// # Errors
///
/// Only where the key folder cannot be written; a registry that does not answer is asked again.
pub async fn keep_fresh(
    folder: &Utf8Path,
    identity: Arc<Identity>,
    registry: impl Into<Address>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<(), MeshError> {
    let registry = registry.into();
    let mut wait = Duration::ZERO;
    loop {
        // The clock is asked now and then, not once: a machine that slept would sleep on.
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait.max(Duration::from_secs(1))) => {}
        }
        wait = Duration::from_secs(30);
        if !due(&identity, clock.now()) {
            continue;
        }
        match renew(&identity, &registry).await {
            Ok(fresh) => {
                identity.replace_leaf(&fresh.certificate)?;
                KeyFolder::open(folder)?.write("leaf.pem", &fresh.certificate)?;
                tracing::info!(
                    not_after = identity.not_after().to_string(),
                    "certificate renewed"
                );
            }
            Err(error) => {
                tracing::warn!(
                    error = error.to_string(),
                    "certificate not renewed; trying again"
                );
            }
        }
    }
}

/// Whether two thirds of the leaf's life are over.
fn due(identity: &Identity, now: Timestamp) -> bool {
    let left = identity.not_after().duration_since(now);
    left < SignedDuration::from_secs(crate::ca::LEAF_LIFE.as_secs() / 3)
}

async fn join(key: &KeyPair, registry: &Address, token: &JoinToken) -> Result<Leaf, MeshError> {
    let request = JoinRequest {
        token: token.secret.expose_secret().to_owned(),
        csr: STANDARD.encode(identity::request(key)?),
    };
    nameless(Service::GateRegistry, registry, token.ca)?
        .post("/v1/mesh/join", &request)
        .await
        .map_err(MeshError::Enrol)
}

/// Asks for a new leaf. The key's signature on the request is the proof, so the caller goes without a
/// certificate: its own may have expired.
async fn renew(identity: &Identity, registry: &Address) -> Result<Leaf, MeshError> {
    let request = RenewRequest {
        service: identity.service(),
        csr: STANDARD.encode(identity.request()?),
    };
    nameless(Service::GateRegistry, registry, identity.ca_digest())?
        .post("/v1/mesh/renew", &request)
        .await
        .map_err(MeshError::Enrol)
}

/// Whether `service` answers at `at` with a certificate of the CA whose certificate lies in `folder` as
/// `ca.pem`. What it answers makes no difference: whoever has no certificate is refused.
///
/// # Errors
///
/// Says what the folder or TLS says, or that nobody answers.
pub async fn answers(folder: &Utf8Path, service: Service, at: &Address) -> Result<(), MeshError> {
    let pem = KeyFolder::open(folder)?
        .read("ca.pem")?
        .ok_or(MeshError::NoToken)?;
    let ca = identity::certificates(&pem)?
        .first()
        .map(|der| Digest::of_bytes(der))
        .ok_or_else(|| MeshError::Certificate("ca.pem holds no certificate".to_owned()))?;
    match nameless(service, at, ca)?
        .get::<serde_json::Value>("/v1/health")
        .await
    {
        Ok(_) | Err(CallError::Problem { .. }) => Ok(()),
        Err(error) => Err(MeshError::Silent(error)),
    }
}

/// A client without a certificate that trusts only the CA of this digest.
fn nameless(service: Service, at: &Address, ca: Digest) -> Result<Client, MeshError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(MeshError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCa { ca, provider }))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Client::with_tls(tls, service, at.clone())
}

fn clone(key: &KeyPair) -> Result<KeyPair, MeshError> {
    KeyPair::from_pem(&key.serialize_pem()).map_err(MeshError::Make)
}

/// Trusts what the pinned CA signed, and takes the CA from what the server sends along.
#[derive(Debug)]
struct PinnedCa {
    ca: Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let ca = intermediates
            .iter()
            .find(|sent| Digest::of_bytes(sent) == self.ca)
            .ok_or_else(|| rustls::Error::General("not the CA of the token".to_owned()))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
