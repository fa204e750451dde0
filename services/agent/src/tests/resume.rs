//! The agent dies and comes back: nothing is asked twice, nothing is filed twice.

use super::house::*;

#[tokio::test]
async fn a_crash_before_or_after_filing_repeats_nothing() {
    for hands in [Hands::DieBefore, Hands::DieAfter] {
        let stage = stage("go").await;
        stage.house.says(calls(&["python_exec"]));
        stage.house.says(says("done"));
        stage.house.look(|w| w.hands = hands);
        let first = stage.start(1);
        stage.house.until(|w| (w.named == 1).then_some(())).await;
        if hands == Hands::DieAfter {
            stage.house.pending(1).await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());

        stage.house.look(|w| w.hands = Hands::Work);
        let second = stage.start(1);
        stage.house.until(|w| (w.named == 2).then_some(())).await;
        stage.house.pending(1).await;
        stage.house.settle(0, settled(true, "exit 0"), Some("once"));
        second.await.unwrap().unwrap();
        stage.house.look(|w| {
            assert_eq!(
                w.asked.len(),
                2,
                "the model was asked again for a step that was kept"
            );
            assert_eq!(w.calls.len(), 1, "one key, one call");
            assert_eq!(w.finished.len(), 1);
        });
    }
}

#[tokio::test]
async fn a_call_that_ended_while_the_agent_was_down_is_picked_up() {
    let stage = stage("go").await;
    stage.house.says(calls(&["python_exec", "python_exec"]));
    stage.house.says(says("done"));
    let first = stage.start(1);
    stage.house.pending(2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    stage.house.settle(1, settled(true, "exit 0"), Some("b"));
    stage.house.settle(0, settled(false, "exit 1"), Some("a"));
    assert_eq!(stage.run().await.text, "done");
    let told = stage.house.answers_told();
    assert!(
        told[0].1.contains("exit 1") && told[1].1.contains("exit 0"),
        "{told:?}"
    );
    assert_eq!(stage.house.look(|w| (w.asked.len(), w.calls.len())), (2, 2));
}

#[tokio::test]
async fn last_words_that_were_kept_are_said_without_the_model() {
    let stage = stage("go").await;
    stage.house.says(says("the answer"));
    // Its progress is heard; then the registry falls silent for so long that the agent is ended.
    let first = stage.start(1);
    stage
        .house
        .until(|w| (w.asked.len() == 1).then(|| w.silent = 1_000_000))
        .await;
    let journal = stage.agent.journal.clone();
    while journal.steps(turn(1)).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    stage.house.look(|w| {
        assert_eq!(w.finished.len(), 0);
        w.silent = 0;
    });
    assert_eq!(stage.run().await.text, "the answer");
    assert_eq!(stage.house.look(|w| w.asked.len()), 1);
}
