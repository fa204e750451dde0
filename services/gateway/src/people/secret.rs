//! Opaque secrets: 256 random bits for their holder, a digest for us.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kazma_domain::{Digest, Entropy};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// A secret that somebody shows in a request.
#[derive(Debug, Clone)]
pub(crate) struct Shown(pub(crate) SecretString);

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretString::from(text)))
    }
}

/// A new secret behind `prefix`.
pub(crate) fn make(prefix: &str, entropy: &dyn Entropy) -> SecretString {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    entropy.fill(bytes.as_mut());
    let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_ref()));
    SecretString::from(format!("{prefix}{}", text.as_str()))
}

/// What is stored of a secret. Looking it up by this digest tells nothing through time: who can guess a
/// prefix of the digest cannot guess the secret.
pub(crate) fn digest(secret: &SecretString) -> Digest {
    Digest::of_bytes(secret.expose_secret().as_bytes())
}

/// Whether two secrets are the same, in a time that depends on neither.
pub(crate) fn same(one: &SecretString, other: &SecretString) -> bool {
    digest(one) == digest(other)
}

/// The token that a form of this session carries: derived from the session's secret, so that nobody
/// without it can make one, and one-way, so that a page does not hold the secret.
pub(crate) fn csrf(session: &SecretString) -> String {
    let mut hash = Sha256::new();
    hash.update(b"kazma csrf 1\0");
    hash.update(session.expose_secret().as_bytes());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// Whether `given` is the form token of `session`, in constant time.
pub(crate) fn csrf_is(session: &SecretString, given: &str) -> bool {
    Digest::of_bytes(csrf(session).as_bytes()) == Digest::of_bytes(given.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed(u8);

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn a_secret_holds_256_bits_and_does_not_print() {
        let secret = make("kazma_", &Fixed(7));
        assert_eq!(secret.expose_secret().len(), "kazma_".len() + 43);
        assert!(!format!("{secret:?}").contains("Bwc"));
        assert!(same(&secret, &make("kazma_", &Fixed(7))));
        assert!(!same(&secret, &make("kazma_", &Fixed(8))));
    }

    #[test]
    fn a_form_token_belongs_to_one_session() {
        let (one, other) = (make("", &Fixed(1)), make("", &Fixed(2)));
        assert!(csrf_is(&one, &csrf(&one)));
        assert!(!csrf_is(&other, &csrf(&one)));
        assert!(!csrf_is(&one, ""));
        assert!(!csrf(&one).contains(one.expose_secret()));
    }
}
