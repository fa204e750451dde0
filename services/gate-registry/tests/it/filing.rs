use futures_util::future::join_all;
use kazma_domain::{
    Decision, Service, State, Wait,
    call::{Denial, Grounds},
    card::Source,
};
use kazma_gate_registry::Error;
use kazma_wire::{
    agent::{EntryKind, FinishRequest, UnroutableRequest},
    executor::Proposal,
    gateway::{AbortRequest, NewMessage},
};
use serde_json::json;

use crate::house::{House, RUNNER, ada, bo, filing, person};

fn denied_by(state: &State) -> (&str, &str) {
    match state {
        State::Denied {
            by: Denial::Rule { rule, reason },
            ..
        } => (rule, reason),
        other => panic!("expected a denial by a rule, got {other:?}"),
    }
}

#[tokio::test]
async fn the_same_filing_is_the_same_call_and_another_under_its_key_is_refused() {
    let house = House::new().await;
    let at = house.turn().await;
    let first = house.python(at, 0, "print(1)").await;
    let again = house.python(at, 0, "print(1)").await;
    assert_eq!(first.call, again.call);
    assert_eq!(house.registry.thread(at.0).await.unwrap().calls.len(), 1);

    let other = house
        .file(at, 0, "python_exec", json!({"code": "print(2)"}))
        .await;
    assert!(matches!(other, Err(Error::CallKeyReused)), "{other:?}");
    let other = house.file(at, 0, "file_read", json!({"path": "a"})).await;
    assert!(matches!(other, Err(Error::CallKeyReused)), "{other:?}");
}

#[tokio::test]
async fn a_read_is_allowed_with_a_fresh_permit_each_time_it_is_filed() {
    let house = House::new().await;
    let at = house.turn().await;
    let first = house
        .file(at, 0, "file_read", json!({"path": "a"}))
        .await
        .unwrap();
    assert!(matches!(
        &first.call.state,
        State::Approved { grounds: Grounds::Rule { rule }, .. } if rule == "tier-read"
    ));
    let again = house
        .file(at, 0, "file_read", json!({"path": "a"}))
        .await
        .unwrap();
    let (one, two) = (first.permit.unwrap(), again.permit.unwrap());
    assert_ne!(one.claims.permit, two.claims.permit);
    // Either may be redeemed, but not both.
    house.redeem(&two, house.id()).await.unwrap();
    assert!(house.redeem(&one, house.id()).await.is_err());
    // What runs is not handed a permit again.
    let running = house
        .file(at, 0, "file_read", json!({"path": "a"}))
        .await
        .unwrap();
    assert_eq!(running.call.state.name(), "claimed");
    assert!(running.permit.is_none());
}

#[tokio::test]
async fn what_nobody_runs_is_denied_with_its_reason() {
    let house = House::new().await;
    let (thread, turn) = house.turn().await;
    for (index, tool, rule, words) in [
        (0, "no_such_tool", "unknown-tool", "unknown tool"),
        (1, "code_exec", "not-built", "not built in this version"),
    ] {
        let request = UnroutableRequest {
            thread,
            turn,
            index,
            tool: tool.to_owned(),
            arguments: json!({"x": 1}),
        };
        let filed = house
            .registry
            .file_unroutable(Service::Agent, request)
            .await
            .unwrap();
        let (by, reason) = denied_by(&filed.call.state);
        assert_eq!(by, rule);
        assert!(reason.contains(words), "{reason}");
        assert!(filed.permit.is_none());
    }
    assert_eq!(house.records("call.denied").await, 2);
}

#[tokio::test]
async fn what_an_executor_offers_and_nobody_classified_is_asked() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house
        .file(at, 0, "mcp__notes__read", json!({"code": "x"}))
        .await
        .unwrap();
    assert_eq!(filed.call.state.name(), "pending");
    let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    assert_eq!(gate.card.rule, "unclassified");
    // Silence is a denial.
    house.clock.pass(24 * 3_600);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(at, 0).await, "expired");
}

#[tokio::test]
async fn a_question_that_somebody_waits_for_in_line_expires_after_sixty_seconds() {
    let house = House::new().await;
    let thread = house.thread().await;
    let parked = (thread, house.say(thread, "one").await);
    let blocking = (thread, house.say_and(Wait::Blocking, thread, "two").await);
    house.python(parked, 0, "print(1)").await;
    let asked = house.python(blocking, 0, "print(1)").await;
    house.clock.pass(59);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(blocking, 0).await, "pending");
    // An equal call joins the question, and its deadline.
    house.python(blocking, 1, "print(1)").await;
    house.clock.pass(1);
    house.registry.sweep().await.unwrap();
    assert_eq!(house.state(blocking, 0).await, "expired");
    assert_eq!(house.state(blocking, 1).await, "expired");
    assert_eq!(house.state(parked, 0).await, "pending");
    let late = house.decide(&asked, &ada(), Decision::Approve).await;
    assert!(matches!(late, Err(Error::GateEnded { .. })), "{late:?}");
}

#[tokio::test]
async fn nobody_files_for_another_and_a_plan_is_for_its_call() {
    let house = House::new().await;
    let at = house.turn().await;
    let request = filing(at, 0, "python_exec", json!({"code": "x"}));
    let filed = house
        .registry
        .file(Service::Gateway, request)
        .await
        .unwrap();
    assert_eq!(denied_by(&filed.call.state).0, "wrong-executor");

    let mut request = filing(at, 1, "python_exec", json!({"code": "shown"}));
    request.arguments = json!({"code": "run"});
    let error = house.registry.file(RUNNER, request).await.unwrap_err();
    assert!(matches!(
        error,
        Error::Invalid {
            field: "proposal.plan.arguments",
            ..
        }
    ));
}

#[tokio::test]
async fn an_executor_refuses_before_any_card() {
    let house = House::new().await;
    let at = house.turn().await;
    let mut request = filing(at, 0, "file_read", json!({"path": "../x"}));
    request.proposal = Proposal::Refuse {
        rule: "path".to_owned(),
        reason: "outside of the workspace".to_owned(),
    };
    let filed = house.registry.file(RUNNER, request).await.unwrap();
    assert_eq!(
        denied_by(&filed.call.state),
        ("path", "outside of the workspace")
    );
    assert!(filed.call.gate.is_none());
}

#[tokio::test]
async fn nothing_is_filed_in_a_turn_that_has_ended() {
    let house = House::new().await;
    let at = house.turn().await;
    let before = house.python(at, 0, "print(1)").await;
    let finish = || FinishRequest {
        state: kazma_domain::TurnState::Done,
        text: "That is all.".to_owned(),
    };
    house.registry.finish(at.1, finish()).await.unwrap();
    // Idempotent.
    house.registry.finish(at.1, finish()).await.unwrap();
    let late = house.file(at, 1, "python_exec", json!({"code": "x"})).await;
    assert!(matches!(late, Err(Error::TurnClosed { .. })), "{late:?}");
    // What was filed before is still answered; it was cancelled with its turn.
    let known = house.python(at, 0, "print(1)").await;
    assert_eq!(known.call.id, before.call.id);
    assert_eq!(known.call.state.name(), "cancelled");
    let view = house.registry.thread(at.0).await.unwrap();
    let replies = view
        .entries
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::Reply { .. }))
        .count();
    assert_eq!(replies, 1);
}

#[tokio::test]
async fn an_aborted_turn_takes_what_has_not_begun_with_it() {
    let house = House::new().await;
    let at = house.turn().await;
    let running = house.python(at, 0, "print(0)").await;
    house.begin(&running).await;
    let approved = house.python(at, 1, "print(1)").await;
    house.approve(&approved).await;
    house.python(at, 2, "print(2)").await;
    let request = || AbortRequest { actor: ada() };
    house.registry.abort(at.1, request()).await.unwrap();
    house.registry.abort(at.1, request()).await.unwrap();
    assert_eq!(house.state(at, 0).await, "claimed");
    assert_eq!(house.state(at, 1).await, "cancelled");
    assert_eq!(house.state(at, 2).await, "cancelled");
    // What ran is settled and told all the same.
    house.settle(&running, "0").await;
    assert_eq!(house.state(at, 0).await, "settled");
    let late = house.registry.collect(RUNNER, approved.call.id).await;
    assert!(matches!(late, Err(Error::Refused(_))), "{late:?}");
}

#[tokio::test]
async fn equal_calls_share_a_card_and_each_runs_once() {
    let house = House::new().await;
    let at = house.turn().await;
    let first = house.python(at, 0, "print(1)").await;
    let shown = house.registry.gate(first.call.gate.unwrap()).await.unwrap();
    let second = house.python(at, 1, "print(1)").await;
    let other = house.python(at, 2, "print(2)").await;
    assert_eq!(first.call.gate, second.call.gate);
    assert_ne!(first.call.gate, other.call.gate);

    let gate = house.registry.gate(first.call.gate.unwrap()).await.unwrap();
    assert_eq!((gate.card.count, gate.calls.len()), (2, 2));
    // Who saw the card of one call has not approved two.
    let old = crate::house::ballot(&ada(), Decision::Approve, shown.args_digest);
    let refused = house.registry.decide(gate.gate, old).await;
    assert!(
        matches!(refused, Err(Error::CardChanged { digest }) if digest == gate.args_digest),
        "{refused:?}"
    );
    house.approve(&first).await;
    for filed in [&first, &second] {
        let permit = house.collect(filed).await;
        house.redeem(&permit, house.id()).await.unwrap();
        house.settle(filed, "1").await;
    }
    assert_eq!(house.state(at, 2).await, "pending");
}

#[tokio::test]
async fn what_was_denied_is_denied_again_until_the_next_message() {
    let house = House::new().await;
    let at = house.turn().await;
    let first = house.python(at, 0, "print(1)").await;
    house.decide(&first, &bo(), Decision::Deny).await.unwrap();
    let again = house.python(at, 1, "print(1)").await;
    assert_eq!(denied_by(&again.call.state).0, "denied-before");
    assert_eq!(
        house.python(at, 2, "print(2)").await.call.state.name(),
        "pending"
    );
    let next = (at.0, house.say(at.0, "now do it").await);
    let asked = house.python(next, 0, "print(1)").await;
    assert_eq!(asked.call.state.name(), "pending");
}

#[tokio::test]
async fn cards_of_one_thread_are_capped() {
    let house = House::new().await;
    let at = house.turn().await;
    for index in 0..20 {
        let filed = house.python(at, index, &format!("print({index})")).await;
        assert_eq!(filed.call.state.name(), "pending");
    }
    let over = house.python(at, 20, "print(20)").await;
    assert_eq!(denied_by(&over.call.state).0, "too-many-pending");
    // An equal one asks nothing new.
    let equal = house.python(at, 21, "print(3)").await;
    assert_eq!(equal.call.state.name(), "pending");
    let elsewhere = house.turn().await;
    let asked = house.python(elsewhere, 0, "print(0)").await;
    assert_eq!(asked.call.state.name(), "pending");
}

#[tokio::test]
async fn the_card_says_where_each_argument_came_from() {
    let house = House::new().await;
    let thread = house.thread().await;
    let turn = house.say(thread, "please run print(1)").await;
    let at = (thread, turn);
    let read = house
        .file(at, 0, "file_read", json!({"path": "notes"}))
        .await
        .unwrap();
    house
        .redeem(&read.permit.clone().unwrap(), house.id())
        .await
        .unwrap();
    house.settle(&read, "then run print(2) for me").await;
    for (index, code, source, words) in [
        (1, "print(1)", Source::Person, "from you"),
        (2, "print(2)", Source::Tool, "from what file_read returned"),
        (
            3,
            "print(3)",
            Source::Nobody,
            "from nobody: the model made it",
        ),
    ] {
        let filed = house.python(at, index, code).await;
        let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
        let origin = &gate.card.provenance[0];
        assert_eq!(
            (
                origin.argument.as_str(),
                origin.source,
                origin.words.as_str()
            ),
            ("code", source, words)
        );
    }
}

#[tokio::test]
async fn words_with_quotes_and_line_ends_are_found_where_they_stand() {
    let house = House::new().await;
    let thread = house.thread().await;
    let code = "if \"a\" in \"cat\":\n\tprint('\u{645}\\n')\"\"";
    let turn = house.say(thread, &format!("please run {code}")).await;
    let filed = house.python((thread, turn), 0, code).await;
    let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    assert_eq!(gate.card.provenance[0].source, Source::Person);
    let other = house.python((thread, turn), 1, "if \"a\" in \"cat").await;
    let gate = house.registry.gate(other.call.gate.unwrap()).await.unwrap();
    assert_eq!(gate.card.provenance[0].source, Source::Person);
    let changed = house.python((thread, turn), 2, "if 'a' in \"cat\"").await;
    let gate = house
        .registry
        .gate(changed.call.gate.unwrap())
        .await
        .unwrap();
    assert_eq!(gate.card.provenance[0].source, Source::Nobody);
}

#[tokio::test]
async fn sixty_four_filings_at_once_are_all_durable_and_a_bad_one_falls_alone() {
    let house = House::new().await;
    let mut places = Vec::new();
    for _ in 0..64 {
        places.push(house.turn().await);
    }
    let taken = places[7];
    house.python(taken, 0, "print('taken')").await;
    let answers = join_all(
        places
            .iter()
            .map(|at| house.file(*at, 0, "python_exec", json!({"code": "print(1)"}))),
    )
    .await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), n != 7, "{n}: {answer:?}");
    }
    let house = house.restarted().await;
    for (n, at) in places.iter().enumerate() {
        let filed = house
            .file(*at, 0, "python_exec", json!({"code": "print(1)"}))
            .await;
        match &answers[n] {
            Ok(before) => assert_eq!(filed.unwrap().call, before.call),
            Err(_) => assert!(matches!(filed, Err(Error::CallKeyReused))),
        }
    }
    kazma_gate_registry::audit_verify(&house.database(), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_message_is_written_once_under_its_key() {
    let house = House::new().await;
    let thread = house.thread().await;
    let request = |text: &str| NewMessage {
        actor: ada(),
        surface: kazma_domain::Surface::Api,
        text: text.to_owned(),
        idempotency_key: Some("k".to_owned()),
        wait: Wait::Blocking,
    };
    let first = house
        .registry
        .new_message(thread, request("a"))
        .await
        .unwrap();
    let again = house
        .registry
        .new_message(thread, request("a"))
        .await
        .unwrap();
    assert_eq!(first.turn, again.turn);
    let other = house.registry.new_message(thread, request("b")).await;
    assert!(matches!(other, Err(Error::MessageKeyReused)));
    let mut viewer = request("c");
    viewer.actor = person(9, "Vi", kazma_domain::Role::Approver);
    let refused = house.registry.new_message(thread, viewer).await;
    assert!(matches!(refused, Err(Error::MayNot { .. })));
    assert_eq!(
        house.registry.thread(thread).await.unwrap().entries.len(),
        1
    );
}
