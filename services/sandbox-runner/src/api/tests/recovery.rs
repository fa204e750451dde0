use std::fs;

use serde_json::json;

use super::*;

impl House {
    async fn recover(&self) {
        let claims = self.executor.old_claims(self.stop.clone()).await.unwrap();
        self.executor.recover(claims).await;
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_an_earlier_process_began_is_lost_and_never_run_again() {
    let house = House::new();
    let call = house.registry.claimed(&house.python_plan().await);
    house.recover().await;
    assert_eq!(house.python.runs(), 0);
    house.registry.with(|inner| {
        assert_eq!(inner.lost.len(), 1);
        assert_eq!(inner.lost[0].0, call.id);
        assert!(inner.lost[0].1.contains("died with its parent"));
    });
    assert_eq!(
        house.python.with(|inner| inner.cancelled.clone()),
        [call.id]
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_is_settled_by_what_the_file_is() {
    for (before, now, expected) in [
        (Some("old"), Some("new"), Ok((true, "overwritten"))),
        (Some("old"), Some("old"), Ok((false, "not written"))),
        (Some("old"), Some("theirs"), Err(())),
        (Some("old"), None, Err(())),
        (None, Some("new"), Ok((true, "created"))),
        (None, None, Ok((false, "not written"))),
        (None, Some("theirs"), Err(())),
    ] {
        let house = House::new();
        if let Some(before) = before {
            fs::write(house.file("a.txt"), before).unwrap();
        }
        let plan = house
            .plan("file_write", json!({"path": "a.txt", "content": "new"}))
            .await;
        let call = house.registry.claimed(&plan);
        let left = format!(".kazma-{}.tmp", call.id.uuid().simple());
        fs::write(house.file(&left), "ne").unwrap();
        match now {
            Some(now) => fs::write(house.file("a.txt"), now).unwrap(),
            None => drop(fs::remove_file(house.file("a.txt"))),
        }
        house.recover().await;
        house.registry.with(|inner| match expected {
            Ok((ok, words)) => {
                let outcome = &inner.settled[0].1.outcome;
                assert_eq!(outcome.ok, ok, "{before:?} {now:?}");
                assert!(outcome.summary.starts_with(words), "{}", outcome.summary);
            }
            Err(()) => assert_eq!(inner.lost.len(), 1, "{before:?} {now:?}"),
        });
        assert!(!house.file(&left).exists());
        assert_eq!(fs::read_to_string(house.file("a.txt")).ok().as_deref(), now);
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_read_is_failed() {
    let house = House::new();
    fs::write(house.file("a.txt"), "x").unwrap();
    let plan = house.plan("file_read", json!({"path": "a.txt"})).await;
    house.registry.claimed(&plan);
    house.recover().await;
    assert!(!house.settled().outcome.ok);
    assert!(house.settled().outcome.summary.starts_with("interrupted"));
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_this_very_process_is_left_alone() {
    let house = House::new();
    house.run_python().await;
    // The registry still counts it as claimed, as it does while a settlement is under way.
    house.recover().await;
    house.registry.with(|inner| assert!(inner.lost.is_empty()));
}
