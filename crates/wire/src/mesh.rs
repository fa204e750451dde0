//! Joining the mesh and renewing a certificate. Served by the registry, which holds the CA.

use kazma_domain::Service;
use serde::{Deserialize, Serialize};

/// `POST /v1/mesh/join`, the only route besides renewal that takes callers without a certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The single-use secret, base64url.
    pub token: String,
    /// A PKCS #10 request (RFC 2986), DER, standard base64. Its subject is ignored.
    pub csr: String,
}

/// `POST /v1/mesh/renew`: a new leaf for the key that the registry has on record.
///
/// The request is signed by that key, so an expired leaf does not stand in the way for 30 days.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Whose leaf.
    pub service: Service,
    /// A PKCS #10 request, DER, standard base64.
    pub csr: String,
}

/// A new leaf.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Leaf {
    /// The leaf, PEM.
    pub certificate: String,
    /// The CA, PEM.
    pub ca: String,
    /// The registry's Ed25519 key for permits and audit heads, standard base64 of 32 bytes.
    pub permit_key: String,
}
