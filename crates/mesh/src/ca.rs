//! The certificate authority of one installation. It lives in the registry.

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Digest, Service};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType,
};

use crate::{KeyFolder, MeshError};

/// How long a leaf is good.
pub(crate) const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Leaves begin this much earlier, for clocks that are behind.
const BACKDATE: SignedDuration = SignedDuration::from_hours(2);
/// How long a CA is good: longer than any installation stays untouched.
const CA_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365 * 20);

/// The certificate authority.
#[derive(Debug)]
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    digest: Digest,
}

/// A leaf that was issued.
#[derive(Debug, Clone)]
pub struct IssuedLeaf {
    /// The certificate, PEM.
    pub pem: String,
    /// The digest of the public key it is for (its subject public key info, DER).
    pub public_key: Digest,
    /// Not good from then on.
    pub not_after: Timestamp,
}

impl Ca {
    /// Takes the CA of `folder`; makes one where there is none.
    ///
    /// # Errors
    ///
    /// Refuses a folder that cannot be read or written, and a CA that does not parse.
    pub fn load_or_create(folder: &Utf8Path, now: Timestamp) -> Result<Self, MeshError> {
        let folder = KeyFolder::open(folder)?;
        if let (Some(pem), Some(key)) = (folder.read("ca.pem")?, folder.read("ca.key")?) {
            let key = KeyPair::from_pem(&key).map_err(MeshError::Make)?;
            return Self::from_parts(pem, key);
        }
        let key = KeyPair::generate().map_err(MeshError::Make)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("Kazma mesh");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = validity(now, CA_LIFE)?;
        let pem = params.self_signed(&key).map_err(MeshError::Make)?.pem();
        // The key first: a certificate whose key is lost would be worse than none.
        folder.write("ca.key", &key.serialize_pem())?;
        folder.write("ca.pem", &pem)?;
        Self::from_parts(pem, key)
    }

    fn from_parts(pem: String, key: KeyPair) -> Result<Self, MeshError> {
        let der = crate::identity::certificates(&pem)?
            .into_iter()
            .next()
            .ok_or_else(|| MeshError::Certificate("ca.pem holds no certificate".to_owned()))?;
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(MeshError::Make)?;
        Ok(Self {
            issuer,
            pem,
            digest: Digest::of_bytes(&der),
        })
    }

    /// The CA's certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The digest of the CA's certificate (DER), by which join tokens pin it.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Issues a leaf for `service` to the key that signed `csr` (PKCS #10, RFC 2986, DER).
    ///
    /// Only the key is taken from the request: the name is the caller's to decide.
    ///
    /// # Errors
    ///
    /// Refuses a request that does not parse or is not signed by its own key.
    pub fn issue(
        &self,
        csr: &[u8],
        service: Service,
        now: Timestamp,
    ) -> Result<IssuedLeaf, MeshError> {
        let request = CertificateSigningRequestParams::from_der(&csr.to_vec().into())
            .map_err(MeshError::Make)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(service.name());
        params.subject_alt_names = vec![
            SanType::URI(service.spiffe().try_into().map_err(MeshError::Make)?),
            SanType::DnsName(service.host().try_into().map_err(MeshError::Make)?),
        ];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(now, LEAF_LIFE)?;
        let leaf = params
            .signed_by(&request.public_key, &self.issuer)
            .map_err(MeshError::Make)?;
        Ok(IssuedLeaf {
            pem: leaf.pem(),
            public_key: Digest::of_bytes(&request.public_key.subject_public_key_info()),
            not_after: kazma_domain::clock::after(now, LEAF_LIFE),
        })
    }
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn validity(
    now: Timestamp,
    life: SignedDuration,
) -> Result<(time::OffsetDateTime, time::OffsetDateTime), MeshError> {
    let from = now.checked_sub(BACKDATE).unwrap_or(now);
    let to = kazma_domain::clock::after(now, life);
    let convert = |at: Timestamp| {
        time::OffsetDateTime::from_unix_timestamp(at.as_second())
            .map_err(|_| MeshError::Certificate("the clock is outside of X.509 time".to_owned()))
    };
    Ok((convert(from)?, convert(to)?))
}
