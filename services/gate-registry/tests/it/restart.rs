use kazma_domain::{Decision, State};
use kazma_gate_registry::Error;
use kazma_wire::{
    executor::{LoseRequest, WithdrawRequest},
    gateway::GateQuery,
};

use crate::house::{House, RUNNER, ada, bo};

#[tokio::test]
async fn a_call_in_each_state_is_the_same_after_a_restart() {
    let house = House::new().await;
    let at = house.turn().await;
    for index in 0..7 {
        house.python(at, index, &format!("print({index})")).await;
    }
    let codes: Vec<String> = (0..7).map(|index| format!("print({index})")).collect();
    let filed = |index: usize| house.python(at, u32::try_from(index).unwrap(), &codes[index]);
    house.approve(&filed(1).await).await;
    house.begin(&filed(2).await).await;
    house.begin(&filed(3).await).await;
    house.settle(&filed(3).await, "3").await;
    house
        .decide(&filed(4).await, &bo(), Decision::Deny)
        .await
        .unwrap();
    house.begin(&filed(5).await).await;
    let what = "gone".to_owned();
    let lost = filed(5).await.call.id;
    house
        .registry
        .lose(RUNNER, lost, LoseRequest { what })
        .await
        .unwrap();
    house.approve(&filed(6).await).await;
    let reason = "changed".to_owned();
    let changed = filed(6).await.call.id;
    house
        .registry
        .withdraw(RUNNER, changed, WithdrawRequest { reason })
        .await
        .unwrap();
    let before = house.registry.thread(at.0).await.unwrap();
    let gates = house.registry.gates(GateQuery::default()).await.unwrap();

    let house = house.restarted().await;
    house.registry.sweep().await.unwrap();
    let after = house.registry.thread(at.0).await.unwrap();
    let words: Vec<_> = after
        .calls
        .iter()
        .map(|view| view.call.state.name())
        .collect();
    assert_eq!(
        words,
        [
            "pending", "approved", "claimed", "settled", "denied", "orphaned", "denied"
        ]
    );
    assert_eq!(
        serde_json::to_value(&before).unwrap(),
        serde_json::to_value(&after).unwrap()
    );
    let again = house.registry.gates(GateQuery::default()).await.unwrap();
    assert_eq!(
        serde_json::to_value(&gates).unwrap(),
        serde_json::to_value(&again).unwrap()
    );
    let pending = GateQuery {
        state: Some("pending".to_owned()),
        ..GateQuery::default()
    };
    assert_eq!(house.registry.gates(pending).await.unwrap().len(), 1);

    // And the one that waited is approved and runs, once.
    let waited = house.python(at, 0, "print(0)").await;
    house.begin(&waited).await;
    house.settle(&waited, "0").await;
    assert_eq!(house.state(at, 0).await, "settled");
}

#[tokio::test]
async fn nobody_loses_a_card_to_the_time_the_registry_was_down() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.clock.pass(48 * 3_600);
    let house = house.restarted().await;
    house.clock.pass(59);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "pending");
    let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    assert!(gate.expires_at.is_some());
    house.clock.pass(1);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "expired");
}

#[tokio::test]
async fn a_card_can_be_answered_within_the_grace() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.clock.pass(48 * 3_600);
    let house = house.restarted().await;
    house.clock.pass(59);
    house
        .decide(&filed, &ada(), Decision::Approve)
        .await
        .unwrap();
    assert_eq!(house.state(at, 0).await, "approved");
}

#[tokio::test]
async fn a_claim_is_judged_by_the_registrys_uptime() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.begin(&filed).await;
    house.clock.pass(48 * 3_600);
    let house = house.restarted().await;
    house.clock.pass(299);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "claimed");
    house.clock.pass(1);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "orphaned");
}

#[tokio::test]
async fn an_approval_nobody_collects_lapses_and_says_that_it_was_one() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    house.clock.pass(24 * 3_600);
    let late = house.registry.collect(RUNNER, filed.call.id).await;
    assert!(matches!(late, Err(Error::Refused(_))), "{late:?}");
    house.registry.sweep().await.unwrap();
    let view = house.registry.thread(at.0).await.unwrap();
    assert!(matches!(
        view.calls[0].call.state,
        State::Expired { approved: true, .. }
    ));
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let house = House::new().await;
    let refused = house.second().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Store(error) if error.to_string().contains("another process uses")),
        "{refused:?}"
    );
}
