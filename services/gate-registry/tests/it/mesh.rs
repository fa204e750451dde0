use base64::{Engine as _, engine::general_purpose::STANDARD};
use kazma_domain::{Digest, Service};
use kazma_gate_registry::{Error, Token};
use kazma_wire::mesh::{JoinRequest, RenewRequest};

use crate::house::House;

fn join(token: &str, key: &str) -> JoinRequest {
    JoinRequest {
        token: token.to_owned(),
        csr: STANDARD.encode(key),
    }
}

fn renew(service: Service, key: &str) -> RenewRequest {
    RenewRequest {
        service,
        csr: STANDARD.encode(key),
    }
}

async fn with_token(house: &House, secret: &str) {
    let token = Token {
        service: Service::Agent,
        digest: Digest::of_bytes(secret.as_bytes()),
        expires_at: None,
    };
    house.registry.add_tokens(vec![token]).await.unwrap();
}

#[tokio::test]
async fn a_token_lets_its_service_in_once() {
    let house = House::new().await;
    with_token(&house, "secret").await;
    let wrong = house.registry.join(join("guess", "key")).await;
    assert!(matches!(wrong, Err(Error::TokenRefused)));
    // A request that does not parse costs nobody their token.
    let broken = house.registry.join(join("secret", "broken")).await;
    assert!(matches!(broken, Err(Error::Request(_))), "{broken:?}");
    let leaf = house.registry.join(join("secret", "key")).await.unwrap();
    assert_eq!(leaf.certificate, "leaf of agent");
    assert_eq!(leaf.permit_key, house.registry.verifying_key().to_base64());
    let again = house.registry.join(join("secret", "key")).await;
    assert!(matches!(again, Err(Error::TokenRefused)));
    // Not by giving the registry the same token again either, nor after a restart.
    with_token(&house, "secret").await;
    let house = house.restarted().await;
    let again = house.registry.join(join("secret", "key")).await;
    assert!(matches!(again, Err(Error::TokenRefused)));
}

#[tokio::test]
async fn a_token_lasts_ten_minutes() {
    let house = House::new().await;
    with_token(&house, "secret").await;
    house.clock.pass(600);
    let late = house.registry.join(join("secret", "key")).await;
    assert!(matches!(late, Err(Error::TokenRefused)));
}

#[tokio::test]
async fn a_leaf_is_renewed_for_the_key_on_record_until_thirty_days_after_its_end() {
    let house = House::new().await;
    let early = house.registry.renew(renew(Service::Agent, "key")).await;
    assert!(matches!(early, Err(Error::RenewalRefused(_))), "{early:?}");
    with_token(&house, "secret").await;
    house.registry.join(join("secret", "key")).await.unwrap();
    house
        .registry
        .renew(renew(Service::Agent, "key"))
        .await
        .unwrap();
    for (service, key) in [(Service::Agent, "other"), (Service::Gateway, "key")] {
        let refused = house.registry.renew(renew(service, key)).await;
        assert!(
            matches!(refused, Err(Error::RenewalRefused(_))),
            "{refused:?}"
        );
    }
    house.clock.pass(30 * 24 * 3_600);
    house
        .registry
        .renew(renew(Service::Agent, "key"))
        .await
        .unwrap();
    house.clock.pass(31 * 24 * 3_600);
    let late = house.registry.renew(renew(Service::Agent, "key")).await;
    assert!(matches!(late, Err(Error::RenewalRefused(_))), "{late:?}");
}
