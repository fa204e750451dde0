use rcgen::{CertificateParams, KeyPair};

use super::*;

/// A certificate for `localhost` and its key.
pub(crate) fn pair() -> Pem {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    Pem {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

impl Pem {
    /// The certificate as PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
}

#[test]
fn a_key_is_not_shown() {
    let pem = pair();
    assert_eq!(format!("{pem:?}"), "Pem(…)");
}
