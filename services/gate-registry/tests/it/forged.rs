//! Permits that the registry's own key signed and that the registry nevertheless does not honour: a stolen
//! or restored key is not a permit.

use kazma_domain::{
    AttemptId,
    permit::{PermitClaims, SignedPermit},
};
use kazma_gate_registry::Error;
use kazma_signing::SigningKey;
use kazma_store::{
    Database, StoreError,
    registry::{SCHEMA, meta},
};
use serde_json::json;

use crate::house::House;

fn key(house: &House) -> SigningKey {
    SigningKey::load(&house.folder().join("permit.key")).unwrap()
}

/// The same permit with other claims, signed as the registry would.
fn with(
    house: &House,
    permit: &SignedPermit,
    change: impl FnOnce(&mut PermitClaims),
) -> SignedPermit {
    let mut claims = permit.claims.clone();
    change(&mut claims);
    key(house).permit(claims).unwrap()
}

async fn void(house: &House, permit: &SignedPermit) -> &'static str {
    let attempt: AttemptId = house.id();
    match house.redeem(permit, attempt).await {
        Err(Error::PermitVoid { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_permit_is_good_for_the_call_that_it_was_minted_for() {
    let house = House::new().await;
    let at = house.turn().await;
    let seen = house.python(at, 0, "print(1)").await;
    house.approve(&seen).await;
    let permit = house.collect(&seen).await;
    let other = house.python(at, 1, "print(2)").await;
    house.approve(&other).await;
    let moved = with(&house, &permit, |claims| {
        claims.call = other.call.id;
        claims.plan = other.call.plan;
    });
    assert_eq!(void(&house, &moved).await, "this registry does not know it");
    let unknown = with(&house, &permit, |claims| claims.permit = house.id());
    assert_eq!(
        void(&house, &unknown).await,
        "this registry does not know it"
    );
    assert_eq!(house.state(at, 0).await, "approved");
    assert_eq!(house.state(at, 1).await, "approved");
    assert_eq!(house.records("permit.refused").await, 2);
    house.redeem(&permit, house.id()).await.unwrap();
}

#[tokio::test]
async fn a_permit_of_another_policy_is_void() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let permit = house.collect(&filed).await;
    for policy in [0, 2, u32::MAX] {
        let old = with(&house, &permit, |claims| claims.policy = policy);
        assert_eq!(
            void(&house, &old).await,
            "it was minted under another policy"
        );
    }
    assert_eq!(house.state(at, 0).await, "approved");
    house.redeem(&permit, house.id()).await.unwrap();
}

#[tokio::test]
async fn a_permit_from_before_a_restore_is_void_and_another_can_be_collected() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let read = house
        .file(at, 1, "file_read", json!({"path": "a"}))
        .await
        .unwrap();
    let before = [house.collect(&filed).await, read.permit.clone().unwrap()];

    house.registry.close().await.unwrap();
    let database = Database::open_at(&house.database(), &SCHEMA).await.unwrap();
    database
        .write(|tx| {
            Box::pin(async move {
                let epoch = meta::epoch(tx).await?;
                meta::set_epoch(tx, epoch + 1).await?;
                Ok::<_, StoreError>(())
            })
        })
        .await
        .unwrap();
    database.close().await.unwrap();
    let house = house.restarted().await;

    for permit in &before {
        assert_eq!(void(&house, permit).await, "it is from before a restore");
        // Nor does it help to claim the new epoch.
        let dressed = with(&house, permit, |claims| claims.epoch += 1);
        assert_eq!(void(&house, &dressed).await, "it is from before a restore");
    }
    for call in [&filed, &read] {
        let fresh = house.collect(call).await;
        house.redeem(&fresh, house.id()).await.unwrap();
    }
}
