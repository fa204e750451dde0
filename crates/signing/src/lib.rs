//! Ed25519 (RFC 8032) over canonical JSON (RFC 8785): permits and the heads of the audit chain.

use std::{
    fmt,
    fs::OpenOptions,
    io::{Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use camino::Utf8Path;
use kazma_domain::{
    canonical::NotCanonical,
    canonical_json,
    permit::{PermitClaims, PermitFault, SignedPermit},
};
use serde::Serialize;
use zeroize::Zeroizing;

/// Bytes of a key file that are read; a PKCS #8 Ed25519 key has fewer than a hundred.
const KEY_FILE_MAX: u64 = 4096;

/// What goes wrong with a key or a signature.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The key file could not be read or written.
    #[error("the key file {path} cannot be used")]
    File {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others may read the key file.
    #[error("others may read the key file {path}: make it readable by its owner alone (chmod 600)")]
    Exposed {
        /// Which file.
        path: String,
    },
    /// The file or text holds no Ed25519 key.
    #[error("this is no Ed25519 key")]
    NotAKey,
    /// No key could be made, or it could not sign.
    #[error("the cryptographic library refuses")]
    Refused,
    /// What is to be signed has no canonical form.
    #[error("what is to be signed has no canonical form")]
    Canonical(#[from] NotCanonical),
    /// The signature is not this key's over this value.
    #[error("the signature is not this key's over this value")]
    BadSignature,
}

/// The secret half. Only the registry has one.
pub struct SigningKey(Ed25519KeyPair);

/// The public half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey([u8; 32]);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey")
            .field(&self.verifying_key())
            .finish()
    }
}

impl SigningKey {
    /// Makes a new key from the operating system's randomness.
    ///
    /// # Errors
    ///
    /// Fails when there is no randomness to be had.
    pub fn generate() -> Result<Self, SigningError> {
        Ed25519KeyPair::generate()
            .map(Self)
            .map_err(|_| SigningError::Refused)
    }

    /// Takes the key in `path` (PKCS #8, RFC 5958); makes one where there is no such file.
    ///
    /// # Errors
    ///
    /// Refuses a file that others may read or that holds no Ed25519 key.
    pub fn load_or_generate(path: &Utf8Path) -> Result<Self, SigningError> {
        match Self::load(path) {
            Err(SigningError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                let key = Self::generate()?;
                key.store(path)?;
                Ok(key)
            }
            other => other,
        }
    }

    /// Takes the key in `path`.
    ///
    /// # Errors
    ///
    /// Refuses a file that others may read or that holds no Ed25519 key.
    pub fn load(path: &Utf8Path) -> Result<Self, SigningError> {
        let file = OpenOptions::new()
            .read(true)
            .open(path)
            .map_err(|source| at(path, source))?;
        let about = file.metadata().map_err(|source| at(path, source))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(SigningError::Exposed {
                path: path.to_string(),
            });
        }
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(KEY_FILE_MAX)
            .read_to_end(&mut bytes)
            .map_err(|source| at(path, source))?;
        Ed25519KeyPair::from_pkcs8(&bytes)
            .map(Self)
            .map_err(|_| SigningError::NotAKey)
    }

    /// Writes the key to `path`, which must not be there yet, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// Refuses to write over a file.
    pub fn store(&self, path: &Utf8Path) -> Result<(), SigningError> {
        let document = self.0.to_pkcs8().map_err(|_| SigningError::Refused)?;
        let bytes = Zeroizing::new(document.as_ref().to_vec());
        // Whole or not at all: a key file that a crash cut short would lock the registry out.
        let parts = path.with_extension("new");
        let written = write_new(&parts, &bytes).and_then(|()| {
            std::fs::hard_link(&parts, path)?;
            sync_folder(path)
        });
        let tidied = std::fs::remove_file(&parts);
        written.and(tidied).map_err(|source| at(path, source))
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        let mut bytes = [0_u8; 32];
        for (slot, byte) in bytes.iter_mut().zip(self.0.public_key().as_ref()) {
            *slot = *byte;
        }
        VerifyingKey(bytes)
    }

    /// Signs the canonical JSON of `value`. Standard base64 of 64 bytes.
    ///
    /// # Errors
    ///
    /// Refuses a value without a canonical form.
    pub fn sign<T: Serialize>(&self, value: &T) -> Result<String, SigningError> {
        let bytes = canonical_json(value)?;
        let signature = self.0.try_sign(&bytes).map_err(|_| SigningError::Refused)?;
        Ok(STANDARD.encode(signature))
    }

    /// Signs a permit.
    ///
    /// # Errors
    ///
    /// Fails when the cryptographic library refuses.
    pub fn permit(&self, claims: PermitClaims) -> Result<SignedPermit, SigningError> {
        let signature = self.sign(&claims)?;
        Ok(SignedPermit { claims, signature })
    }
}

impl VerifyingKey {
    /// Wraps the 32 bytes of a public key.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads standard base64 of 32 bytes.
    ///
    /// # Errors
    ///
    /// Refuses anything else.
    pub fn from_base64(text: &str) -> Result<Self, SigningError> {
        let bytes = STANDARD.decode(text).map_err(|_| SigningError::NotAKey)?;
        <[u8; 32]>::try_from(bytes.as_slice())
            .map(Self)
            .map_err(|_| SigningError::NotAKey)
    }

    /// Standard base64 of the 32 bytes.
    pub fn to_base64(self) -> String {
        STANDARD.encode(self.0)
    }

    /// Checks a signature over the canonical JSON of `value`.
    ///
    /// # Errors
    ///
    /// [`SigningError::BadSignature`] unless this key made it over exactly this value.
    pub fn verify<T: Serialize>(&self, value: &T, signature: &str) -> Result<(), SigningError> {
        let bytes = canonical_json(value)?;
        let signature = STANDARD
            .decode(signature)
            .map_err(|_| SigningError::BadSignature)?;
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(&bytes, &signature)
            .map_err(|_| SigningError::BadSignature)
    }

    /// Checks the signature of a permit, and nothing else of it.
    ///
    /// # Errors
    ///
    /// [`PermitFault::Signature`].
    pub fn verify_permit(&self, permit: &SignedPermit) -> Result<(), PermitFault> {
        self.verify(&permit.claims, &permit.signature)
            .map_err(|_| PermitFault::Signature)
    }
}

fn write_new(path: &Utf8Path, bytes: &[u8]) -> std::io::Result<()> {
    // A leftover of a crash; nothing ever used it.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder(path: &Utf8Path) -> std::io::Result<()> {
    match path.parent().filter(|folder| !folder.as_str().is_empty()) {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn at(path: &Utf8Path, source: std::io::Error) -> SigningError {
    SigningError::File {
        path: path.to_string(),
        source,
    }
}

#[cfg(test)]
mod tests;
