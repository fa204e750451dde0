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
        key: key.serialize_pem().into(),
    }
}

impl Pem {
    /// The certificate as PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }
}

#[test]
fn a_key_is_not_shown_and_travels_whole() {
    let pem = pair();
    assert!(!format!("{pem:?}").contains("PRIVATE"), "{pem:?}");
    let line = serde_json::to_string(&pem).unwrap();
    assert!(!line.contains('\n'), "a supervisor says it in one line");
    assert_eq!(serde_json::from_str::<Pem>(&line).unwrap(), pem);
}
