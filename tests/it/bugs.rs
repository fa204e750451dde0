//! Ways in which others lost, doubled or leaked a decision, tried here on real processes. docs/testing.md has
//! where each of them is tested.

use std::{collections::BTreeMap, fs};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    crash::{Witness, set},
    processes::{SERVICES, until_ready},
    stack::{PATIENCE, Stack, signal, until},
};

/// How often each service is started again, in an ordinary run and in a long one.
const ROUNDS: u32 = 2;
const ROUNDS_LONG: u32 = 20;

fn states(view: &Value) -> Vec<&str> {
    let calls = view["calls"].as_array().map(Vec::as_slice);
    calls
        .unwrap_or_default()
        .iter()
        .filter_map(|call| call["state"].as_str())
        .collect()
}

/// A03: after each start of each service the way from proposal to effect is there.
#[tokio::test(flavor = "multi_thread")]
async fn each_service_is_started_again_and_again_and_calls_pass_every_time() {
    let stack = Stack::start();
    let rounds = set("KAZMA_TEST_LONG").map_or(ROUNDS, |_| ROUNDS_LONG);
    let mut wanted = BTreeMap::new();
    let witness = Witness::on(&stack.folder().join("workspace"));
    for round in 0..rounds {
        for name in SERVICES {
            let old = stack.service(name);
            signal(old.pid, Signal::TERM);
            until(
                PATIENCE,
                || matches!(&stack.services()[name], Some(new) if *new != old),
            )
            .await
            .unwrap_or_else(|()| panic!("{name} is not back"));
            let api = stack.fresh_api();
            until_ready(&api).await;
            let file = format!("{name}-{round}.txt");
            let thread = api.say(&format!("write {file}: {name}")).await.unwrap();
            let card = api.card(&thread).await.unwrap();
            assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
            let (state, reply) = api.ended(&thread).await.unwrap();
            assert_eq!(state, "done", "after {name}: {reply}");
            wanted.insert(file, 1);
        }
    }
    assert_eq!(witness.seen(), wanted);
}

/// A28: a decision does not wait for the agent.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_agent_stands_still_a_decision_counts_and_the_call_runs() {
    let stack = Stack::start();
    let thread = stack.api.say("write still.txt: here").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    let agent = stack.service("agent").pid;
    signal(agent, Signal::STOP);
    assert_eq!(
        stack.api.decide(&card, "approve").await.unwrap().status,
        200
    );
    stack
        .api
        .until(&thread, |view| (states(view) == ["settled"]).then_some(()))
        .await
        .unwrap();
    let file = stack.folder().join("workspace/still.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "here");
    signal(agent, Signal::CONT);
    let (state, reply) = stack.api.ended(&thread).await.unwrap();
    assert_eq!(state, "done", "{reply}");
}

/// A13, A20: none before the approval, one after it, and none more with the words that follow.
#[tokio::test(flavor = "multi_thread")]
async fn words_after_an_approved_call_do_not_run_it_again() {
    let stack = Stack::start();
    let witness = Witness::on(&stack.folder().join("workspace"));
    let thread = stack.api.say("write once.txt: x").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    assert_eq!(witness.seen(), BTreeMap::new());
    assert_eq!(
        stack.api.decide(&card, "approve").await.unwrap().status,
        200
    );
    stack.api.ended(&thread).await.unwrap();
    assert_eq!(witness.seen(), BTreeMap::from([("once.txt".to_owned(), 1)]));
    for words in ["hello", "go on", "yes, approved"] {
        stack.api.say_in(&thread, words).await.unwrap();
        stack.api.ended(&thread).await.unwrap();
    }
    assert_eq!(witness.seen(), BTreeMap::new());
    let view = stack.api.thread(&thread).await.unwrap();
    assert_eq!(states(&view), ["settled"]);
}

#[test]
fn each_test_that_the_list_of_bugs_names_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    let list = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let rows: Vec<&str> = list
        .lines()
        .filter(|line| line.starts_with("| A"))
        .collect();
    assert!(rows.len() >= 26, "{}", rows.len());
    let sources = sources(root);
    for row in rows {
        for name in row.split('`').skip(1).step_by(2) {
            let test = format!("fn {name}() {{");
            assert!(sources.iter().any(|text| text.contains(&test)), "{name}");
        }
    }
}

/// The text of every Rust file.
fn sources(root: &std::path::Path) -> Vec<String> {
    let mut folders: Vec<_> = ["crates", "services", "tests"]
        .map(|name| root.join(name))
        .into();
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}
