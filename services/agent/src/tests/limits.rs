//! What is bounded, and models that fail.

use kazma_domain::TurnState;
use kazma_fence::Fenced;
use kazma_wire::{
    agent::EntryKind,
    model::{ChatMessage, Delta},
};

use super::house::*;

fn bytes(messages: &[ChatMessage]) -> usize {
    serde_json::to_string(messages).unwrap().len()
}

#[tokio::test]
async fn a_long_past_loses_its_oldest_turns_and_says_so() {
    let stage = stage("oldest").await;
    stage.house.look(|w| w.live.clear());
    for n in 2..40 {
        stage
            .house
            .message(turn(n), &format!("question {n} {}", "x".repeat(300)));
        stage.house.entry(
            turn(n),
            EntryKind::Reply {
                text: format!("answer {n}"),
            },
        );
        stage.house.look(|w| w.live.clear());
    }
    stage.house.message(turn(40), "newest");
    stage.house.look(|w| w.context_bytes = 8_000);
    stage.house.says(says("ok"));
    stage.start(40).await.unwrap().unwrap();
    let messages = stage.house.look(|w| w.asked[0].messages.clone());
    assert!(bytes(&messages) < 8_000, "{}", bytes(&messages));
    let ChatMessage::System { content } = &messages[0] else {
        panic!("{messages:?}")
    };
    assert!(content.contains("left out"), "{content}");
    let first = &messages[1];
    assert!(
        matches!(first, ChatMessage::User { content } if content.starts_with("question")),
        "{first:?}"
    );
    let tail = &messages[messages.len() - 2..];
    assert!(
        matches!(tail, [ChatMessage::Assistant { content, .. }, ChatMessage::User { content: own }]
        if content == "answer 39" && own == "newest")
    );
}

#[tokio::test]
async fn large_outputs_are_cut_to_the_room_there_is() {
    let stage = stage("go").await;
    stage.house.look(|w| w.context_bytes = 16_000);
    for _ in 0..6 {
        stage.house.says(calls(&["python_exec"]));
    }
    stage.house.says(says("ok"));
    let running = stage.start(1);
    for index in 0..6 {
        stage.house.pending(1).await;
        stage
            .house
            .settle(index, settled(true, "exit 0"), Some(&"é".repeat(20_000)));
    }
    running.await.unwrap().unwrap();
    let (all, last) = stage
        .house
        .look(|w| (w.asked.clone(), w.asked.last().unwrap().messages.clone()));
    for request in &all {
        assert!(
            bytes(&request.messages) < 16_000,
            "{}",
            bytes(&request.messages)
        );
    }
    let outputs: Vec<_> = stage
        .house
        .answers_told()
        .iter()
        .map(|(_, content)| Fenced::find(content).unwrap().inner().len())
        .collect();
    assert_eq!(outputs.len(), 6);
    assert_eq!((outputs[0], outputs[5]), (0, 4_000), "{outputs:?}");
    assert!(format!("{last:?}").contains("4000 of 40000 bytes"));
}

#[tokio::test]
async fn more_calls_than_allowed_end_the_turn_in_words_and_none_is_filed() {
    let stage = stage("go").await;
    stage.house.says(calls(&["python_exec"; 65]));
    let finished = stage.run().await;
    assert_eq!(finished.state, TurnState::Failed);
    assert!(finished.text.contains("64 tool calls"), "{}", finished.text);
    assert_eq!(stage.house.look(|w| w.calls.len()), 0);
}

#[tokio::test]
async fn more_rounds_than_allowed_end_the_turn_in_words() {
    let stage = stage("go").await;
    stage
        .house
        .look(|w| w.begins.push(("file_list", settled(true, "listed"))));
    for _ in 0..30 {
        stage.house.says(calls(&["file_list"]));
    }
    let finished = stage.run().await;
    assert_eq!(finished.state, TurnState::Failed);
    assert!(finished.text.contains("24 rounds"), "{}", finished.text);
    assert_eq!(stage.house.look(|w| w.asked.len()), 24);
}

#[tokio::test]
async fn a_model_that_fails_ends_the_turn_with_what_happened() {
    let failed = |retryable| {
        vec![Delta::Failed {
            message: "The model server refuses the key.".to_owned(),
            retryable,
        }]
    };
    let stage = stage("go").await;
    stage.house.says(failed(false));
    let finished = stage.run().await;
    assert_eq!(finished.state, TurnState::Failed);
    assert!(
        finished.text.contains("refuses the key") && finished.text.contains("kept"),
        "{}",
        finished.text
    );

    let stage = super::house::stage("go").await;
    stage.house.says(failed(true));
    stage.house.says(vec![words("half an ans")]);
    stage.house.says(says("whole"));
    assert_eq!(stage.run().await.text, "whole");

    let stage = super::house::stage("go").await;
    for _ in 0..3 {
        stage.house.says(vec![words("half")]);
    }
    let finished = stage.run().await;
    assert!(finished.text.contains("cut off"), "{}", finished.text);
    assert_eq!(stage.house.look(|w| w.asked.len()), 3);
}
