use std::sync::Arc;

use kazma_domain::{Actor, Decision, Role, State};
use kazma_gate_registry::Error;
use kazma_wire::gateway::{ExtendRequest, GateQuery};
use serde_json::json;

use crate::house::{House, ada, ballot, bo, person};

fn pending() -> GateQuery {
    GateQuery {
        state: Some("pending".to_owned()),
        ..GateQuery::default()
    }
}

#[tokio::test]
async fn the_first_decision_settles_and_the_late_one_learns_who_was_first() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let decided = house
        .decide(&filed, &ada(), Decision::Approve)
        .await
        .unwrap();
    assert!(decided.settled);
    assert_eq!(decided.votes.len(), 1);
    // The same by the same person.
    let again = house
        .decide(&filed, &ada(), Decision::Approve)
        .await
        .unwrap();
    assert_eq!(again.votes, decided.votes);
    for decision in [Decision::Approve, Decision::Deny] {
        let late = house.decide(&filed, &bo(), decision).await;
        assert!(
            matches!(&late, Err(Error::GateDecided { by }) if by.name == "Ada"),
            "{late:?}"
        );
    }
    assert_eq!(house.records("gate.decided").await, 1);
    assert_eq!(house.records("decision.refused").await, 2);
}

#[tokio::test]
async fn of_two_approvals_at_once_one_counts_and_one_record_is_written() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let (ada, bo) = (ada(), bo());
    let (one, two) = tokio::join!(
        house.decide(&filed, &ada, Decision::Approve),
        house.decide(&filed, &bo, Decision::Approve)
    );
    let refused = match (one, two) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        both => panic!("{both:?}"),
    };
    assert!(matches!(refused, Error::GateDecided { .. }), "{refused:?}");
    assert_eq!(house.records("gate.decided").await, 1);
    assert_eq!(house.state(at, 0).await, "approved");
}

#[tokio::test]
async fn a_denied_call_never_runs() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let decided = house.decide(&filed, &bo(), Decision::Deny).await.unwrap();
    assert_eq!(decided.state, "denied");
    let collected = house
        .registry
        .collect(crate::house::RUNNER, filed.call.id)
        .await;
    assert!(matches!(collected, Err(Error::Refused(_))), "{collected:?}");
}

#[tokio::test]
async fn who_may_not_decide_and_who_saw_another_card_are_refused_and_recorded() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let viewer = person(3, "Vi", Role::Viewer);
    let refused = house.decide(&filed, &viewer, Decision::Approve).await;
    assert!(matches!(refused, Err(Error::MayNot { .. })), "{refused:?}");
    let other = kazma_domain::Digest::of_bytes(b"another card");
    let gate = filed.call.gate.unwrap();
    let refused = house
        .registry
        .decide(gate, ballot(&ada(), Decision::Approve, other))
        .await;
    assert!(
        matches!(refused, Err(Error::CardChanged { .. })),
        "{refused:?}"
    );
    let unknown = house
        .registry
        .decide(house.id(), ballot(&ada(), Decision::Approve, other))
        .await;
    assert!(
        matches!(unknown, Err(Error::NotFound("gate"))),
        "{unknown:?}"
    );
    assert_eq!(house.records("decision.refused").await, 2);
    assert_eq!(house.state(at, 0).await, "pending");
}

#[tokio::test]
async fn with_two_voters_a_denial_waits_for_the_other() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    let vote = |by: Actor, decision| {
        let mut request = ballot(&by, decision, gate.args_digest);
        request.electorate = 2;
        house.registry.decide(gate.gate, request)
    };
    let first = vote(ada(), Decision::Deny).await.unwrap();
    assert_eq!((first.settled, first.votes.len()), (false, 1));
    let shown = house.registry.gate(gate.gate).await.unwrap();
    assert_eq!((shown.state.as_str(), shown.votes.len()), ("pending", 1));
    let second = vote(bo(), Decision::Deny).await.unwrap();
    assert_eq!((second.settled, second.state.as_str()), (true, "denied"));
    assert_eq!(second.votes.len(), 2);
}

#[tokio::test]
async fn parallel_calls_ask_apart_and_each_answer_reaches_its_own() {
    let house = House::new().await;
    let at = house.turn().await;
    let a = house.python(at, 0, "print('a')").await;
    let b = house.python(at, 1, "print('b')").await;
    // A safe call runs while both wait.
    let safe = house
        .file(at, 2, "file_read", json!({"path": "x"}))
        .await
        .unwrap();
    let permit = safe.permit.clone().unwrap();
    house.redeem(&permit, house.id()).await.unwrap();
    house.settle(&safe, "x").await;
    assert_eq!(house.state(at, 2).await, "settled");

    // The answer to the second comes first.
    house.approve(&b).await;
    assert_eq!(house.state(at, 0).await, "pending");
    assert_eq!(house.state(at, 1).await, "approved");
    house.decide(&a, &ada(), Decision::Deny).await.unwrap();
    assert_eq!(house.state(at, 0).await, "denied");
    assert_eq!(house.state(at, 1).await, "approved");
    let permit = house.collect(&b).await;
    assert_eq!(permit.claims.call, b.call.id);
    house.redeem(&permit, house.id()).await.unwrap();
    house.settle(&b, "b").await;
    let view = house.registry.thread(at.0).await.unwrap();
    let outputs: Vec<_> = view
        .calls
        .iter()
        .map(|view| {
            (
                view.call.index,
                view.output.as_ref().map(|o| o.text.as_str()),
            )
        })
        .collect();
    assert_eq!(outputs, [(0, None), (1, Some("b")), (2, Some("x"))]);
}

#[tokio::test]
async fn an_expired_card_leaves_the_list_by_itself() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    let list = house.registry.gates(pending()).await.unwrap();
    assert_eq!(list.len(), 1);
    assert!(list[0].expires_at.is_some());
    house.clock.pass(24 * 3_600);
    // Also before the sweep was there.
    assert!(house.registry.gates(pending()).await.unwrap().is_empty());
    let late = house.decide(&filed, &ada(), Decision::Approve).await;
    assert!(
        matches!(&late, Err(Error::GateEnded { state }) if state == "expired"),
        "{late:?}"
    );
    assert_eq!(house.registry.sweep().await.unwrap(), 1);
    assert!(house.registry.gates(pending()).await.unwrap().is_empty());
    let late = house.decide(&filed, &ada(), Decision::Approve).await;
    assert!(matches!(&late, Err(Error::GateEnded { state }) if state == "expired"));
    let view = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    assert!(matches!(
        view.calls[0].call.state,
        State::Expired {
            approved: false,
            ..
        }
    ));
}

#[tokio::test]
async fn a_card_gets_more_time_for_all_its_calls_and_stays_the_card() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.python(at, 1, "print(1)").await;
    let gate = filed.call.gate.unwrap();
    let before = house.registry.gate(gate).await.unwrap();
    let more = |actor| {
        let registry = Arc::clone(&house.registry);
        async move { registry.extend(gate, ExtendRequest { actor }).await }
    };
    // There is more than that left: nothing is taken away.
    let same = more(bo()).await.unwrap();
    assert_eq!(Some(same.expires_at), before.expires_at);
    house.clock.pass(24 * 3_600 - 30);
    let viewer = person(9, "Vi", Role::Viewer);
    let refused = more(viewer).await;
    assert!(matches!(refused, Err(Error::MayNot { .. })), "{refused:?}");
    more(bo()).await.unwrap();
    house.clock.pass(500);
    house.registry.sweep().await.unwrap();
    let after = house.registry.gate(gate).await.unwrap();
    assert_eq!(
        (after.state.as_str(), after.args_digest),
        ("pending", before.args_digest)
    );
    assert_eq!(house.records("gate.extended").await, 1);
    house.clock.pass(100);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "expired");
    assert_eq!(house.state(at, 1).await, "expired");
    let late = more(bo()).await;
    assert!(
        matches!(&late, Err(Error::GateEnded { state }) if state == "expired"),
        "{late:?}"
    );
}

#[tokio::test]
async fn older_gates_are_reached_page_by_page() {
    let house = House::new().await;
    let mut filed = Vec::new();
    for n in 0..5 {
        let at = house.turn().await;
        // Two of them are asked at the same time.
        if n % 2 == 0 {
            house.clock.pass(1);
        }
        filed.push(
            house
                .python(at, 0, &format!("print({n})"))
                .await
                .call
                .gate
                .unwrap(),
        );
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let query = GateQuery {
            limit: Some(2),
            before,
            ..GateQuery::default()
        };
        let page = house.registry.gates(query).await.unwrap();
        assert!(page.len() <= 2);
        seen.extend(page.iter().map(|gate| gate.gate));
        match page.last() {
            Some(last) => before = Some(last.gate),
            None => break,
        }
    }
    let newest_first = house.registry.gates(GateQuery::default()).await.unwrap();
    let newest_first: Vec<_> = newest_first.iter().map(|gate| gate.gate).collect();
    assert_eq!(seen, newest_first);
    filed.sort();
    seen.sort();
    assert_eq!(seen, filed, "each once");

    let nobody = GateQuery {
        before: Some(kazma_domain::GateId::from_uuid(uuid::Uuid::nil())),
        ..GateQuery::default()
    };
    let refused = house.registry.gates(nobody).await.unwrap_err();
    assert!(refused.to_string().contains("before"), "{refused}");
}
