use camino::Utf8PathBuf;
use jiff::Timestamp;
use kazma_domain::{Digest, Grounds, Service};
use serde_json::json;

use super::*;

fn claims() -> PermitClaims {
    PermitClaims {
        permit: "permit_00000000000070008000000000000001".parse().unwrap(),
        call: "call_00000000000070008000000000000002".parse().unwrap(),
        plan: Digest::of_bytes(b"plan"),
        thread: "thread_00000000000070008000000000000003".parse().unwrap(),
        principal: Service::Agent,
        audience: Service::RunnerApi,
        grounds: Grounds::Rule {
            rule: "tier-read".to_owned(),
        },
        policy: 1,
        epoch: 1,
        expires_at: Timestamp::from_second(1_700_000_060).unwrap(),
    }
}

#[test]
fn a_permit_verifies_until_one_claim_is_changed() {
    let key = SigningKey::generate().unwrap();
    let permit = key.permit(claims()).unwrap();
    let public = key.verifying_key();
    assert_eq!(public.verify_permit(&permit), Ok(()));

    let mut other = permit.clone();
    other.claims.plan = Digest::of_bytes(b"another plan");
    assert_eq!(public.verify_permit(&other), Err(PermitFault::Signature));
    let mut later = permit.clone();
    later.claims.expires_at = Timestamp::MAX;
    assert_eq!(public.verify_permit(&later), Err(PermitFault::Signature));
    let mut unsigned = permit.clone();
    unsigned.signature = String::new();
    assert_eq!(public.verify_permit(&unsigned), Err(PermitFault::Signature));
    let stranger = SigningKey::generate().unwrap().verifying_key();
    assert_eq!(stranger.verify_permit(&permit), Err(PermitFault::Signature));
}

#[test]
fn key_order_does_not_matter_to_a_signature() {
    let key = SigningKey::generate().unwrap();
    let signature = key.sign(&json!({"a": 1, "b": 2})).unwrap();
    let public = VerifyingKey::from_base64(&key.verifying_key().to_base64()).unwrap();
    public.verify(&json!({"b": 2, "a": 1}), &signature).unwrap();
}

#[test]
fn a_key_file_is_kept_private_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::try_from(folder.path().join("permit.key")).unwrap();
    let key = SigningKey::load_or_generate(&path).unwrap();
    let again = SigningKey::load_or_generate(&path).unwrap();
    assert_eq!(key.verifying_key(), again.verifying_key());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(key.store(&path).is_err(), "an existing key must survive");

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(
        SigningKey::load(&path),
        Err(SigningError::Exposed { .. })
    ));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, b"no key").unwrap();
    assert!(matches!(
        SigningKey::load(&path),
        Err(SigningError::NotAKey)
    ));
}

#[test]
fn debug_shows_the_public_half_alone() {
    let key = SigningKey::generate().unwrap();
    let secret = key.0.to_pkcs8().unwrap();
    let shown = format!("{key:?}");
    assert!(shown.starts_with("SigningKey(VerifyingKey("), "{shown}");
    assert!(!shown.contains(&format!("{:?}", secret.as_ref())));
}
