//! Decisions: who was first, what was decided, and on what.

use std::sync::atomic::Ordering;

use jiff::SignedDuration;
use kazma_domain::{Role, Surface};
use serde_json::{Value, json};

use crate::{
    double::{gate_id, thread_id, turn_id},
    house::{House, Show},
};

async fn asked() -> (House, Value) {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    house.registry.ask(1, thread);
    let gate = house
        .get("/api/gates?state=pending", &House::operator())
        .await
        .json()["gates"][0]
        .clone();
    (house, gate)
}

fn path(n: u128) -> String {
    format!("/api/gates/{}/decision", gate_id(n))
}

#[tokio::test]
async fn the_whole_card_is_at_the_top_level() {
    let (house, gate) = asked().await;
    let members: Vec<&str> = gate
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for name in [
        "gate_id",
        "thread_id",
        "turn_id",
        "tool",
        "args",
        "args_digest",
        "reason",
        "provenance",
        "tier",
        "expires_at",
        "state",
        "plan",
        "headline",
        "rule",
        "count",
        "votes",
        "calls",
    ] {
        assert!(members.contains(&name), "{name} is missing: {members:?}");
    }
    assert_eq!(gate["gate_id"], gate_id(1).to_string());
    assert_eq!(gate["thread_id"], thread_id(1).to_string());
    assert_eq!(gate["args"]["code"], "print(sum(range(10)))");
    assert_eq!(
        (&gate["tier"], &gate["state"]),
        (&json!("native"), &json!("pending"))
    );
    assert_eq!(gate["expires_at"], "2027-01-15T08:05:00Z");
    assert_eq!(gate["provenance"][0]["source"], "person");
    assert_eq!(
        house
            .get("/api/gates?state=settled", &House::operator())
            .await
            .json()["gates"],
        json!([])
    );
    let one = house
        .get(&format!("/api/gates/{}", gate_id(1)), &House::operator())
        .await
        .json();
    assert_eq!(one, gate);
}

#[tokio::test]
async fn the_first_decision_settles_and_the_second_reads_who_was_first() {
    let (house, gate) = asked().await;
    let (lea, omar) = (
        house.person("Lea", Role::Approver).await,
        house.person("Omar", Role::Approver).await,
    );
    let approve =
        json!({"decision": "approve", "args_digest": gate["args_digest"], "scope": "once"});
    let got = house.post(&path(1), &lea, approve.clone()).await;
    assert_eq!(got.status, 200);
    assert_eq!(
        (&got.json()["settled"], &got.json()["votes"][0]["name"]),
        (&json!(true), &json!("Lea"))
    );
    // The same again by the same person is the same answer.
    assert_eq!(
        house.post(&path(1), &lea, approve.clone()).await.status,
        200
    );
    for body in [
        approve,
        json!({"decision": "deny", "args_digest": gate["args_digest"]}),
    ] {
        let late = house.post(&path(1), &omar, body).await;
        assert_eq!(late.status, 409);
        let problem = late.json();
        assert_eq!(problem["decision"], "approve");
        assert_eq!(problem["decided_by"], "Lea");
        assert_eq!(problem["surface"], "web");
        assert_eq!(problem["decided_at"], "2027-01-15T08:00:10Z");
    }
    let shown = house
        .get(&format!("/api/gates/{}", gate_id(1)), &omar)
        .await
        .json();
    assert_eq!(
        (&shown["state"], &shown["decided_by"]),
        (&json!("approved"), &json!("Lea"))
    );
}

#[tokio::test]
async fn a_decision_names_the_card_it_is_about() {
    let (house, gate) = asked().await;
    let operator = House::operator();
    let got = house
        .post(&path(1), &operator, json!({"decision": "approve"}))
        .await;
    assert_eq!(
        (got.status.as_u16(), got.problem().field.as_deref()),
        (422, Some("args_digest"))
    );
    let other = format!("sha256:{}", "0".repeat(64));
    let got = house
        .post(
            &path(1),
            &operator,
            json!({"decision": "approve", "args_digest": other}),
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), got.problem().field.as_deref()),
        (409, Some("args_digest"))
    );
    assert_eq!(got.json()["args_digest"], gate["args_digest"]);
    assert!(house.registry.decisions.lock().unwrap().is_empty());
    let body = json!({"decision": "approve", "args_digest": gate["args_digest"]});
    assert_eq!(house.post(&path(9), &operator, body).await.status, 404);
}

#[tokio::test]
async fn an_ended_gate_says_how_it_ended() {
    let (house, gate) = asked().await;
    house.registry.expire(gate_id(1));
    let got = house
        .post(
            &path(1),
            &House::operator(),
            json!({"decision": "approve", "args_digest": gate["args_digest"]}),
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["state"]),
        (409, &json!("expired"))
    );
}

#[tokio::test]
async fn only_once_is_a_scope_of_this_version() {
    let (house, gate) = asked().await;
    for scope in ["tool", "task", "yolo", "Once", ""] {
        let body =
            json!({"decision": "approve", "args_digest": gate["args_digest"], "scope": scope});
        let got = house.post(&path(1), &House::operator(), body).await;
        assert_eq!(
            (got.status.as_u16(), got.problem().field.as_deref()),
            (422, Some("scope")),
            "{scope}"
        );
    }
    assert!(house.registry.decisions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn who_may_decide_and_can_sign_in_is_expected_to_answer() {
    let (house, gate) = asked().await;
    house.person("Lea", Role::Approver).await;
    house.person("Omar", Role::Viewer).await;
    let gone = house.person("Petra", Role::Admin).await;
    let id = house.get("/api/auth/me", &gone).await.json()["person"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    house
        .delete(&format!("/api/users/{id}"), &House::operator())
        .await;
    // A link that nobody used in time lets nobody in.
    house.invite("Nadia", Role::Approver).await;
    house.clock.pass(SignedDuration::from_mins(5));
    let body =
        json!({"decision": "deny", "args_digest": gate["args_digest"], "reason": "  wrong file "});
    assert_eq!(
        house.post(&path(1), &House::operator(), body).await.status,
        200
    );
    assert_eq!(house.registry.electorate.load(Ordering::SeqCst), 2);
    let decisions = house.registry.decisions.lock().unwrap();
    assert_eq!(
        (decisions[0].surface, decisions[0].reason.as_deref()),
        (Surface::Api, Some("wrong file"))
    );
}

#[tokio::test]
async fn the_surface_is_where_the_decision_came_from() {
    let (house, gate) = asked().await;
    let body = json!({"decision": "deny", "args_digest": gate["args_digest"]}).to_string();
    let request = crate::house::request("POST", &path(1), &House::operator())
        .header("content-type", "application/json")
        .header("x-kazma-surface", "terminal");
    assert_eq!(
        house.send(request.body(body.into()).unwrap()).await.status,
        200
    );
    assert_eq!(
        house.registry.decisions.lock().unwrap()[0].surface,
        Surface::Terminal
    );
}

#[tokio::test]
async fn a_registry_that_is_away_is_503_and_nothing_is_lost() {
    let (house, gate) = asked().await;
    house.registry.away.store(true, Ordering::SeqCst);
    let got = house
        .post(
            &path(1),
            &House::operator(),
            json!({"decision": "deny", "args_digest": gate["args_digest"]}),
        )
        .await;
    assert_eq!(got.status, 503);
    assert_ne!(got.header("retry-after"), "");
    assert_eq!(house.get("/health/ready", &Show::Nothing).await.status, 503);
    assert_eq!(house.get("/health/live", &Show::Nothing).await.status, 200);
}

#[tokio::test]
async fn the_references_route_decides_on_the_same_registry() {
    let (house, gate) = asked().await;
    let approve = format!("/api/approve/{}", thread_id(1));
    let operator = House::operator();
    let pending = house.get("/api/pending-approvals", &operator).await.json();
    assert_eq!(
        (&pending["count"], &pending["pending"][0]["gate_id"]),
        (&json!(1), &gate["gate_id"])
    );

    let got = house
        .post(
            &format!("/api/approve/{}", thread_id(9)),
            &operator,
            json!({"action": "approve"}),
        )
        .await;
    assert_eq!(got.status, 404);
    let got = house
        .post(
            &approve,
            &operator,
            json!({"action": "approve", "gate_id": gate_id(9)}),
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["registry_state"]),
        (409, &json!("foreign"))
    );

    let got = house
        .post(
            &approve,
            &operator,
            json!({"action": "approve", "actor": "somebody else"}),
        )
        .await;
    assert_eq!(got.status, 200, "{}", got.body);
    let answer = got.json();
    assert_eq!(
        (&answer["ok"], &answer["approved"], &answer["hitl_state"]),
        (&json!(true), &json!(true), &json!("approved"))
    );
    assert_eq!(
        (&answer["gate_id"], &answer["turn_id"]),
        (&gate["gate_id"], &json!(turn_id(1)))
    );
    assert_eq!(
        house.registry.decisions.lock().unwrap()[0].actor.name,
        "operator"
    );

    let got = house
        .post(&approve, &operator, json!({"action": "approve"}))
        .await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["registry_state"]),
        (409, &json!("not_pending"))
    );
}

#[tokio::test]
async fn without_an_action_the_references_route_denies() {
    let (house, _) = asked().await;
    let got = house
        .post(
            &format!("/api/approve/{}", thread_id(1)),
            &House::operator(),
            json!({}),
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["hitl_state"]),
        (200, &json!("denied"))
    );
}

#[tokio::test]
async fn two_cards_in_a_thread_are_told_apart() {
    let (house, _) = asked().await;
    house.registry.ask(2, thread_id(1));
    let approve = format!("/api/approve/{}", thread_id(1));
    let got = house
        .post(&approve, &House::operator(), json!({"action": "approve"}))
        .await;
    assert_eq!(
        (got.status.as_u16(), got.problem().field.as_deref()),
        (409, Some("gate_id"))
    );
    let got = house
        .post(
            &approve,
            &House::operator(),
            json!({"action": "approve", "interrupt_id": gate_id(2)}),
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), &got.json()["gate_id"]),
        (200, &json!(gate_id(2)))
    );
}

#[tokio::test]
async fn the_references_route_takes_twenty_a_minute() {
    let (house, _) = asked().await;
    let approve = format!("/api/approve/{}", thread_id(9));
    for n in 0..20 {
        assert_eq!(
            house
                .post(&approve, &House::operator(), json!({}))
                .await
                .status,
            404,
            "{n}"
        );
    }
    let got = house.post(&approve, &House::operator(), json!({})).await;
    assert_eq!(got.status, 429);
    assert!(got.header("retry-after").parse::<u64>().unwrap() >= 1);
    let lea = house.person("Lea", Role::Approver).await;
    assert_eq!(
        house.post(&approve, &lea, json!({})).await.status,
        404,
        "another credential"
    );
}

#[tokio::test]
async fn there_is_no_swarm_so_no_task_is_there() {
    let house = House::open().await;
    for verb in ["approve", "reject"] {
        let got = house
            .post(
                &format!("/api/swarm/tasks/t1/{verb}"),
                &House::operator(),
                json!({}),
            )
            .await;
        assert_eq!(got.status, 404);
    }
}
