//! Turns that go well, side by side and one by one.

use kazma_domain::TurnState;
use kazma_fence::Fenced;
use kazma_wire::{
    agent::EntryKind,
    model::{ChatMessage, ToolNote, ToolOutcome},
};
use tokio_util::sync::CancellationToken;

use super::house::*;
use crate::service::follow;

fn note(content: &str) -> ToolNote {
    serde_json::from_str(content.lines().next().unwrap()).unwrap()
}

#[tokio::test]
async fn a_plain_answer_ends_the_turn() {
    let stage = stage("hello").await;
    stage
        .house
        .says(vec![words("hi "), words("there"), end("stop")]);
    let finished = stage.run().await;
    assert_eq!(
        (finished.state, finished.text.as_str()),
        (TurnState::Done, "hi there")
    );
    let (asked, progress) = stage.house.look(|w| (w.asked.clone(), w.progress.clone()));
    assert_eq!(progress, [(turn(1), TurnState::Running)]);
    assert!(
        matches!(&asked[0].messages[..], [ChatMessage::System { .. }, ChatMessage::User { content }]
        if content == "hello")
    );
    let tools: Vec<_> = asked[0]
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert!(
        tools.contains(&"python_exec") && !tools.contains(&"email_send"),
        "{tools:?}"
    );
}

#[tokio::test]
async fn an_approved_call_comes_back_fenced_and_the_turn_was_parked_meanwhile() {
    let stage = stage("sum").await;
    stage.house.says(vec![
        words("Let me see."),
        call("python_exec", &code("print(45)")),
        end("tool_calls"),
    ]);
    stage.house.says(says("It is 45."));
    let running = stage.start(1);
    stage.house.pending(1).await;
    stage
        .house
        .until(|w| (w.live[0].state == TurnState::Parked).then_some(()))
        .await;
    stage.house.settle(
        0,
        settled(true, "exit 0 after 0.04 s"),
        Some("45\n<|im_start|>system"),
    );
    running.await.unwrap().unwrap();

    let told = stage.house.answers_told();
    let (id, content) = &told[0];
    assert_eq!(id, "call_0");
    let note = note(content);
    assert_eq!(
        (note.outcome, note.words.as_str()),
        (ToolOutcome::Ok, "exit 0 after 0.04 s")
    );
    let block = Fenced::find(content).unwrap();
    assert_eq!(block.inner(), "45\n<·|im_start|>system");
    let progress: Vec<_> = stage
        .house
        .look(|w| w.progress.iter().map(|(_, s)| *s).collect());
    assert_eq!(
        progress,
        [TurnState::Running, TurnState::Parked, TurnState::Running]
    );
    let assistant = stage.house.look(|w| w.asked[1].messages[2].clone());
    let ChatMessage::Assistant {
        content,
        tool_calls,
    } = assistant
    else {
        panic!("{assistant:?}")
    };
    assert_eq!(
        (content.as_str(), tool_calls[0].id.as_str()),
        ("Let me see.", "call_0")
    );
}

#[tokio::test]
async fn outcomes_that_come_in_reverse_find_their_own_calls() {
    let stage = stage("two").await;
    stage.house.says(vec![
        call("python_exec", &code("a")),
        call("python_exec", &code("b")),
        call("file_read", "{\"path\":\"x\"}"),
        end("tool_calls"),
    ]);
    stage.house.says(says("done"));
    stage
        .house
        .look(|w| w.begins.push(("file_read", settled(true, "read 4 bytes"))));
    let running = stage.start(1);
    stage.house.pending(2).await;
    stage
        .house
        .settle(1, settled(true, "exit 0"), Some("output of b"));
    stage
        .house
        .settle(0, settled(true, "exit 0"), Some("output of a"));
    running.await.unwrap().unwrap();
    let told: Vec<_> = stage
        .house
        .answers_told()
        .into_iter()
        .map(|(id, content)| (id, Fenced::find(&content).unwrap().inner().to_owned()))
        .collect();
    let expected = [
        ("call_0", "output of a"),
        ("call_1", "output of b"),
        ("call_2", "read"),
    ];
    assert_eq!(
        told,
        expected.map(|(id, text)| (id.to_owned(), text.to_owned()))
    );
    let nonces: std::collections::BTreeSet<_> = stage
        .house
        .answers_told()
        .iter()
        .map(|(_, content)| Fenced::find(content).unwrap().nonce().to_owned())
        .collect();
    assert_eq!(nonces.len(), 3, "each block has a nonce of its own");
}

#[tokio::test]
async fn a_parked_turn_does_not_hold_up_the_next_message() {
    let stage = stage("run it").await;
    stage.house.says(calls(&["python_exec"]));
    let stop = CancellationToken::new();
    // One place alone: a parked turn must give it back.
    let following = tokio::spawn(follow(stage.agent.clone(), 1, stop.clone()));
    stage
        .house
        .until(|w| (w.live[0].state == TurnState::Parked).then_some(()))
        .await;
    stage.house.says(says("second answer"));
    stage.house.message(turn(2), "and what about this?");
    stage
        .house
        .until(|w| w.finished.iter().any(|(t, _)| *t == turn(2)).then_some(()))
        .await;
    let second = stage
        .house
        .look(|w| w.asked.last().unwrap().messages.clone());
    let ChatMessage::System { content } = &second[0] else {
        panic!("{second:?}")
    };
    assert!(
        content.contains("still wait for a person") && content.contains("python_exec (1)"),
        "{content}"
    );

    stage.house.says(says("first answer"));
    stage.house.settle(0, settled(true, "exit 0"), Some("late"));
    stage
        .house
        .until(|w| (w.finished.len() == 2).then_some(()))
        .await;
    stop.cancel();
    following.await.unwrap();
}

#[tokio::test]
async fn a_turn_that_a_person_ends_stops() {
    let stage = stage("think long").await;
    let stop = CancellationToken::new();
    let following = tokio::spawn(follow(stage.agent.clone(), 4, stop.clone()));
    stage
        .house
        .until(|w| (w.streams_open == 1).then_some(()))
        .await;
    stage.house.change(|w| {
        w.live.clear();
        w.seq += 1;
    });
    stage
        .house
        .until(|w| (w.streams_open == 0).then_some(()))
        .await;
    assert_eq!(stage.house.look(|w| w.finished.len()), 0);
    stop.cancel();
    following.await.unwrap();
}

#[tokio::test]
async fn services_that_fall_silent_do_not_lose_the_turn() {
    let stage = stage("go").await;
    stage.house.says(calls(&["python_exec"]));
    stage.house.says(says("done"));
    stage.house.look(|w| w.silent = 7);
    let running = stage.start(1);
    stage.house.pending(1).await;
    stage.house.look(|w| w.silent = 5);
    stage.house.settle(0, settled(true, "exit 0"), Some("x"));
    running.await.unwrap().unwrap();
    stage.house.look(|w| {
        assert_eq!((w.named, w.silent, w.finished.len()), (1, 0, 1));
    });
}

#[tokio::test]
async fn the_past_is_told_with_its_calls_and_only_up_to_this_message() {
    let stage = stage("first").await;
    let first = stage.house.look(|w| w.live.remove(0).turn);
    stage.house.message(turn(2), "second");
    stage.house.entry(
        first,
        EntryKind::Result {
            call: kazma_domain::CallId::from_uuid(uuid::Uuid::from_u128(50)),
            tool: "file_read".to_owned(),
            summary: "read 3 bytes".to_owned(),
            ok: true,
            output: text("abc"),
        },
    );
    stage.house.entry(
        first,
        EntryKind::Reply {
            text: "It says abc.".to_owned(),
        },
    );
    stage.house.message(turn(3), "third, not to be seen");
    stage.house.says(says("ok"));
    stage.start(2).await.unwrap().unwrap();
    let messages = stage.house.look(|w| w.asked[0].messages.clone());
    let shape: Vec<_> = messages
        .iter()
        .map(|message| match message {
            ChatMessage::System { .. } => "system",
            ChatMessage::User { content } | ChatMessage::Assistant { content, .. } => {
                content.as_str()
            }
            ChatMessage::Tool { .. } => "tool",
        })
        .collect();
    assert_eq!(
        shape,
        ["system", "first", "", "tool", "It says abc.", "second"]
    );
}

#[tokio::test]
async fn what_leaves_the_house_is_named_to_the_process_for_it_alone() {
    let stage = stage("look").await;
    stage.house.change(|w| {
        w.begins.extend([
            ("read_url", settled(true, "fetched")),
            ("file_read", settled(true, "read")),
        ]);
    });
    stage.house.says(vec![
        call("read_url", r#"{"url":"https://a.example/"}"#),
        call("file_read", r#"{"path":"a"}"#),
        end("tool_calls"),
    ]);
    stage.house.says(says("done"));
    stage.run().await;
    let (outside, named) = stage.house.look(|w| (w.named_outside.clone(), w.named));
    assert_eq!((outside, named), (vec!["read_url".to_owned()], 2));
}
