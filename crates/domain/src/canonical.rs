//! Canonical JSON (RFC 8785) and digests over it: one value, one sequence of bytes, one name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// The value has no canonical form: a number that is not finite, or a map with keys that are no text.
#[derive(Debug, thiserror::Error)]
#[error("the value has no canonical JSON form")]
pub struct NotCanonical(#[source] serde_json::Error);

/// Writes `value` as RFC 8785 canonical JSON.
///
/// # Errors
///
/// Refuses a value that JSON cannot hold exactly.
pub fn canonical_json<T: Serialize>(value: &T) -> Result<Vec<u8>, NotCanonical> {
    serde_json_canonicalizer::to_vec(value).map_err(NotCanonical)
}

/// A SHA-256 digest, shown as `sha256:` and 64 hexadecimal digits. Compared in constant time.
#[derive(Clone, Copy, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the canonical JSON form of `value`.
    ///
    /// # Errors
    ///
    /// Refuses a value that JSON cannot hold exactly.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, NotCanonical> {
        canonical_json(value).map(|bytes| Self::of_bytes(&bytes))
    }

    /// Wraps the 32 bytes of a digest that was computed elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex::encode(self.0).chars().take(12).collect()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for Digest {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: it looks like sha256: and 64 hexadecimal digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.strip_prefix("sha256:").ok_or(NotADigest)?;
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(NotADigest);
        }
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| NotADigest)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_change_the_digest_and_every_byte_does() {
        let one = Digest::of(&json!({"b": 1, "a": "x"})).unwrap();
        let two = Digest::of(&json!({"a": "x", "b": 1.0})).unwrap();
        assert_eq!(one, two);
        let other = Digest::of(&json!({"a": "x ", "b": 1})).unwrap();
        assert_ne!(one, other);
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let digest = Digest::of_bytes(b"kazma");
        assert_eq!(digest.to_string().parse::<Digest>(), Ok(digest));
        assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
        assert!("sha256:00".parse::<Digest>().is_err());
    }
}
