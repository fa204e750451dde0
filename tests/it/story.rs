//! The story, with every service in one process: a person approves one exact call, and exactly that
//! call runs, once, whatever is stopped and started in between.

mod outside;
pub(crate) mod query;
mod shell;

use jiff::SignedDuration;
use kazma_domain::Service;
use kazma_testkit::Kit;
use serde_json::{Value, json};

const CODE: &str = "run python: print(sum(range(10)))";

fn calls(view: &Value) -> Vec<&str> {
    let calls = view["calls"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    calls
        .iter()
        .filter_map(|call| call["state"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_it_runs_and_denied_it_does_not() {
    let kit = Kit::start().await.unwrap();
    let api = kit.api().unwrap();
    let thread = api.say(CODE).await.unwrap();
    let card = api.card(&thread).await.unwrap();
    assert_eq!(card["args"]["code"], "print(sum(range(10)))");
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    let (state, reply) = api.ended(&thread).await.unwrap();
    assert_eq!(state, "done");
    assert!(reply.contains("45"), "{reply}");

    let file = kit.workspace().unwrap().join("never.txt");
    let thread = api.say("write never.txt: no").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    assert_eq!(api.decide(&card, "deny").await.unwrap().status, 200);
    let (state, reply) = api.ended(&thread).await.unwrap();
    assert_eq!(state, "done");
    assert!(reply.contains("denied"), "{reply}");
    assert!(!file.exists());
}

/// A17, A19: parallel calls in one turn; the safe one runs, each answer reaches its own call.
#[tokio::test(flavor = "multi_thread")]
async fn of_parallel_calls_the_safe_one_runs_and_each_answer_finds_its_own() {
    let kit = Kit::start().await.unwrap();
    std::fs::write(kit.workspace().unwrap().join("a.txt"), "hello\n").unwrap();
    let api = kit.api().unwrap();
    let thread = api
        .say("read a.txt then write one.txt: first then write two.txt: second")
        .await
        .unwrap();
    let gates = api
        .until(&thread, |view| {
            let gates = view["gates"].as_array()?.clone();
            (gates.len() == 2 && calls(view).contains(&"settled")).then_some(gates)
        })
        .await
        .unwrap();
    let card = |path: &str| {
        gates
            .iter()
            .find(|gate| gate["args"]["path"] == path)
            .unwrap()
    };
    api.decide(card("two.txt"), "approve").await.unwrap();
    api.decide(card("one.txt"), "deny").await.unwrap();
    let (_, reply) = api.ended(&thread).await.unwrap();
    assert!(reply.contains("hello"), "{reply}");
    let workspace = kit.workspace().unwrap();
    assert!(!workspace.join("one.txt").exists());
    assert_eq!(
        std::fs::read_to_string(workspace.join("two.txt")).unwrap(),
        "second"
    );
}

/// A16, A13: a card in each state, everything stopped and started; what waited runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_in_each_state_survives_a_restart_of_everything() {
    let mut kit = Kit::start().await.unwrap();
    let api = kit.api().unwrap();
    let pending = api.say("write pending.txt: x").await.unwrap();
    let denied = api.say("write denied.txt: x").await.unwrap();
    let settled = api.say("write settled.txt: x").await.unwrap();
    let approved = api.say("write approved.txt: x").await.unwrap();
    let claimed = api
        .say("run python: import time; time.sleep(20)")
        .await
        .unwrap();
    api.card(&pending).await.unwrap();
    let card = api.card(&denied).await.unwrap();
    api.decide(&card, "deny").await.unwrap();
    let card = api.card(&settled).await.unwrap();
    api.decide(&card, "approve").await.unwrap();
    api.ended(&settled).await.unwrap();
    api.ended(&denied).await.unwrap();
    let card = api.card(&claimed).await.unwrap();
    api.decide(&card, "approve").await.unwrap();
    api.until(&claimed, |view| {
        calls(view).contains(&"claimed").then_some(())
    })
    .await
    .unwrap();
    let card = api.card(&approved).await.unwrap();
    // Nobody collects it: the runner is down when the person answers.
    kit.stop_service(Service::RunnerApi).await.unwrap();
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);

    kit.restart().await.unwrap();

    let workspace = kit.workspace().unwrap();
    let (state, _) = api.ended(&approved).await.unwrap();
    assert_eq!(state, "done");
    assert_eq!(
        std::fs::read_to_string(workspace.join("approved.txt")).unwrap(),
        "x"
    );
    let (_, reply) = api.ended(&claimed).await.unwrap();
    assert!(
        reply.contains("unknown") || reply.contains("not known"),
        "{reply}"
    );
    let card = api.card(&pending).await.unwrap();
    assert!(!workspace.join("pending.txt").exists());
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    let (state, _) = api.ended(&pending).await.unwrap();
    assert_eq!(state, "done");
    assert_eq!(
        std::fs::read_to_string(workspace.join("pending.txt")).unwrap(),
        "x"
    );
    assert!(!workspace.join("denied.txt").exists());
    for (thread, state) in [
        (&denied, "denied"),
        (&settled, "settled"),
        (&claimed, "orphaned"),
        (&approved, "settled"),
    ] {
        assert_eq!(calls(&api.thread(thread).await.unwrap()), [state]);
    }

    // An unrelated message later runs nothing again.
    std::fs::remove_file(workspace.join("pending.txt")).unwrap();
    api.say_in(&pending, "hello").await.unwrap();
    api.ended(&pending).await.unwrap();
    assert!(!workspace.join("pending.txt").exists());
}

/// A06, B10: silence is a denial, and what has expired is not on the list.
#[tokio::test(flavor = "multi_thread")]
async fn silence_denies() {
    let kit = Kit::start().await.unwrap();
    let api = kit.api().unwrap();
    let thread = api.say("write late.txt: x").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    kit.clock.forward(SignedDuration::from_hours(25));
    let (state, reply) = api.ended(&thread).await.unwrap();
    assert_eq!(state, "done");
    assert!(!reply.is_empty());
    let list = api.get("/api/gates?state=pending").await.unwrap();
    assert_eq!(list.body["gates"], json!([]));
    let late = api.decide(&card, "approve").await.unwrap();
    assert_eq!(
        (late.status, late.body["state"].as_str()),
        (409, Some("expired"))
    );
    assert!(!kit.workspace().unwrap().join("late.txt").exists());
}

/// A10: what is no longer what was approved does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changed_since_the_card_is_not_overwritten() {
    let mut kit = Kit::start().await.unwrap();
    let path = kit.workspace().unwrap().join("notes.txt");
    std::fs::write(&path, "mine\n").unwrap();
    let api = kit.api().unwrap();
    let thread = api.say("write notes.txt: theirs").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    kit.stop_service(Service::RunnerApi).await.unwrap();
    api.decide(&card, "approve").await.unwrap();
    std::fs::write(&path, "mine, newer\n").unwrap();
    kit.start_service(Service::RunnerApi).await.unwrap();
    let (_, reply) = api.ended(&thread).await.unwrap();
    assert!(reply.contains("chang"), "{reply}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine, newer\n");
}

/// A22: of two answers at once one wins, and the other hears who.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_answers_at_once_one_wins() {
    let kit = Kit::start().await.unwrap();
    let api = kit.api().unwrap();
    let added = api
        .post("/api/users", &json!({"name": "Petra", "role": "approver"}))
        .await
        .unwrap();
    assert_eq!(added.status, 201, "{added:?}");
    let thread = api.say("write x.txt: x").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    let (approved, denied) =
        tokio::join!(api.decide(&card, "approve"), api.decide(&card, "approve"));
    assert_eq!(
        (approved.unwrap().status, denied.unwrap().status),
        (200, 200)
    );
    let late = api.decide(&card, "deny").await.unwrap();
    assert_eq!(late.status, 409);
    assert_eq!(late.body["decision"], "approve");
    assert_eq!(late.body["decided_by"], "operator");
}
