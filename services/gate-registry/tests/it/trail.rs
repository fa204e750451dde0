use kazma_gate_registry::{Error, Place, audit_verify};
use kazma_signing::SigningKey;

use crate::house::House;

async fn one_call_through(house: &House) {
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.begin(&filed).await;
    house.settle(&filed, "1").await;
}

#[tokio::test]
async fn every_step_leaves_a_record_and_the_chain_holds() {
    let house = House::new().await;
    one_call_through(&house).await;
    for kind in [
        "thread.begun",
        "message.written",
        "call.asked",
        "gate.decided",
        "permit.minted",
        "call.claimed",
        "call.settled",
    ] {
        assert_eq!(house.records(kind).await, 1, "{kind}");
    }
    let key = house.registry.verifying_key();
    let report = audit_verify(&house.database(), Some(key)).await.unwrap();
    assert_eq!((report.records, report.erased, report.heads), (7, 0, 0));
    house.registry.sign_head().await.unwrap().unwrap();
    let report = audit_verify(&house.database(), Some(key)).await.unwrap();
    assert_eq!(report.heads, 1);
    let stranger = SigningKey::generate().unwrap().verifying_key();
    let refused = audit_verify(&house.database(), Some(stranger)).await;
    assert!(matches!(refused, Err(Error::Audit(_))), "{refused:?}");
}

#[tokio::test]
async fn an_erased_payload_is_gone_and_the_chain_still_holds() {
    let house = House::new().await;
    one_call_through(&house).await;
    house.registry.erase(3, "test".to_owned()).await.unwrap();
    let report = audit_verify(&house.database(), None).await.unwrap();
    assert_eq!((report.records, report.erased), (8, 1));
    let again = house.registry.erase(3, "test".to_owned()).await;
    assert!(matches!(again, Err(Error::NotFound(_))), "{again:?}");
}

#[tokio::test]
async fn one_flipped_byte_in_the_file_is_found() {
    let house = House::at(None).await;
    one_call_through(&house).await;
    let place = house.database();
    let Place::File(path) = &place else {
        panic!("{place:?}");
    };
    house.registry.close().await.unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let word = b"call.claimed";
    let places: Vec<usize> = (0..bytes.len() - word.len())
        .filter(|at| &bytes[*at..at + word.len()] == word)
        .collect();
    assert!(!places.is_empty(), "the record must be in the file");
    for at in places {
        bytes[at] ^= 1;
    }
    std::fs::write(path, &bytes).unwrap();
    let broken = audit_verify(&place, None).await.unwrap_err();
    assert!(
        matches!(&broken, Error::Audit(at) if at.seq == 6),
        "{broken:?}"
    );
}
