//! What the registry counts, and how it says that it stands.

use kazma_domain::Decision;
use kazma_wire::executor::LoseRequest;
use serde_json::json;

use crate::house::{House, RUNNER, ada, bo};

async fn shown(house: &House, line: &str) {
    let text = house.meters.text().await;
    assert!(
        text.lines().any(|shown| shown == line),
        "{line} is not in\n{text}"
    );
}

#[tokio::test]
async fn waiting_cards_and_the_age_of_the_oldest_are_those_of_the_registry_s_clock() {
    let house = House::new().await;
    shown(&house, "kazma_gates_pending 0").await;
    shown(&house, "kazma_gates_oldest_pending_seconds 0").await;
    let at = house.turn().await;
    let first = house.python(at, 0, "print(1)").await;
    house.clock.pass(90);
    let second = house.python(at, 1, "print(2)").await;
    // An equal call joins the card of the first one.
    house.python(at, 2, "print(1)").await;
    house.clock.pass(10);
    shown(&house, "kazma_gates_pending 2").await;
    shown(&house, "kazma_gates_oldest_pending_seconds 100").await;
    shown(&house, "kazma_calls_live{state=\"pending\"} 3").await;
    shown(&house, "kazma_turns_live{state=\"open\"} 1").await;
    house.decide(&first, &ada(), Decision::Deny).await.unwrap();
    shown(&house, "kazma_gates_pending 1").await;
    shown(&house, "kazma_gates_oldest_pending_seconds 10").await;
    house.begin(&second).await;
    shown(&house, "kazma_gates_oldest_pending_seconds 0").await;
    shown(&house, "kazma_calls_live{state=\"claimed\"} 1").await;
    // What waits is in the database, not in this process: a restart changes nothing.
    house.python(at, 3, "print(3)").await;
    let house = house.restarted().await;
    shown(&house, "kazma_gates_pending 1").await;
}

#[tokio::test]
async fn outcomes_are_counted_by_rule_tier_and_surface_once_each() {
    let house = House::new().await;
    let at = house.turn().await;
    let orphans = "kazma_calls_ended_total{state=\"orphaned\",tier=\"danger\"}";
    // Before the first one, so that it is seen as a step.
    shown(&house, &format!("{orphans} 0")).await;
    house
        .file(at, 0, "file_list", json!({"path": "."}))
        .await
        .unwrap();
    let run = house.python(at, 1, "print(1)").await;
    // The same filing again is the same call.
    house.python(at, 1, "print(1)").await;
    house.begin(&run).await;
    house.settle(&run, "1").await;
    house.settle(&run, "1").await;
    let denied = house.python(at, 2, "print(2)").await;
    house.clock.pass(20);
    house.decide(&denied, &bo(), Decision::Deny).await.unwrap();
    let lost = house.python(at, 3, "print(3)").await;
    house.begin(&lost).await;
    let what = "gone".to_owned();
    let request = LoseRequest { what };
    house
        .registry
        .lose(RUNNER, lost.call.id, request)
        .await
        .unwrap();
    for line in [
        "kazma_calls_filed_total{decision=\"allow\",rule=\"tier-read\",tier=\"read\"} 1",
        "kazma_calls_filed_total{decision=\"ask\",rule=\"tier-danger\",tier=\"danger\"} 3",
        "kazma_gate_decisions_total{decision=\"approve\",surface=\"web\",tier=\"danger\"} 2",
        "kazma_gate_decisions_total{decision=\"deny\",surface=\"web\",tier=\"danger\"} 1",
        "kazma_gate_answer_seconds_count{decision=\"deny\"} 1",
        "kazma_gate_answer_seconds_sum{decision=\"deny\"} 20",
        "kazma_calls_ended_total{state=\"settled_ok\",tier=\"danger\"} 1",
        "kazma_calls_ended_total{state=\"denied\",tier=\"danger\"} 1",
        &format!("{orphans} 1"),
    ] {
        shown(&house, line).await;
    }
    let text = house.meters.text().await;
    let head = text
        .lines()
        .find_map(|line| line.strip_prefix("kazma_audit_head_sequence "))
        .unwrap();
    assert!(head.parse::<u32>().unwrap() > 10, "{head}");
    shown(&house, "kazma_audit_signed_sequence 0").await;
    house.registry.sign_head().await.unwrap();
    shown(&house, &format!("kazma_audit_signed_sequence {head}")).await;
}

#[tokio::test]
async fn an_executor_cannot_make_more_series_than_there_is_room_for() {
    let house = House::new().await;
    let at = house.turn().await;
    for index in 0..40 {
        let rule = if index % 2 == 0 {
            format!("made-up-{index}")
        } else {
            format!("Ada's secret {index}")
        };
        house.refuse(at, index, &rule).await;
    }
    let text = house.meters.text().await;
    let series = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("kazma_calls_filed_total"))
            .count()
    };
    assert!(!text.contains("Ada"), "{text}");
    assert_eq!(series(&text), 21, "{text}");
}
