use std::{fs, sync::atomic::Ordering};

use kazma_domain::Action;
use serde_json::json;
use tokio::sync::Notify;

use super::{doubles::Python, *};
use crate::{
    api::code::{How, Stream},
    executor::doubles::{Astray, Fault},
};

#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_once_and_is_settled() {
    let house = House::new();
    let call = house.run_python().await;
    assert_eq!(house.python.runs(), 1);
    let settled = house.settled();
    assert_eq!(
        (settled.outcome.ok, settled.outcome.summary.as_str()),
        (true, "exit 0 after 0.04 s")
    );
    assert_eq!(settled.output.text, "45\n");
    house.registry.with(|inner| {
        assert_eq!(inner.log, ["collect", "redeem", "settle"]);
        assert_eq!(inner.settled[0].0, call.id);
        assert_eq!(inner.output, "45\n");
    });
}

#[tokio::test(start_paused = true)]
async fn without_a_redeemed_permit_nothing_has_an_effect() {
    for kind in ["permit-redeemed", "frozen", "policy-stricter"] {
        let house = House::new();
        house
            .registry
            .with(|inner| inner.refuse_redeems.push_back(kind));
        house.run_python().await;
        assert_eq!(house.python.runs(), 0, "{kind}");
        assert!(
            house.registry.with(|inner| inner.settled.is_empty()),
            "{kind}"
        );

        let write = house
            .plan("file_write", json!({"path": "a.txt", "content": "x"}))
            .await;
        house.registry.with(|inner| {
            inner.work.clear();
            inner.refuse_redeems.push_back(kind);
        });
        house.registry.approve(&write);
        house.run().await;
        assert!(!house.file("a.txt").exists(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_does_not_fit_is_refused_without_effect() {
    for fault in [
        Fault::OtherCall,
        Fault::OtherPlan,
        Fault::OtherAudience,
        Fault::OtherThread,
        Fault::Forged,
        Fault::Tampered,
    ] {
        let house = House::new();
        house.registry.with(|inner| inner.faults.push_back(fault));
        let call = house.run_python().await;
        assert_eq!(house.python.runs(), 0, "{fault:?}");
        house.registry.with(|inner| {
            assert!(inner.attempts.is_empty(), "{fault:?}");
            assert_eq!(inner.withdrawn.len(), 1, "{fault:?}");
            assert_eq!(inner.withdrawn[0].0, call.id);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_something_else_runs_nothing() {
    for astray in [
        Astray::Attempt,
        Astray::Permit,
        Astray::Call,
        Astray::Plan,
        Astray::State,
    ] {
        let house = House::new();
        house.registry.with(|inner| inner.astray.push_back(astray));
        house.run_python().await;
        assert_eq!(house.python.runs(), 0, "{astray:?}");
        house.registry.with(|inner| {
            assert_eq!(inner.attempts.len(), 1, "{astray:?}");
            assert!(inner.settled.is_empty(), "{astray:?}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_permit_is_collected_anew_and_never_used() {
    let house = House::new();
    house
        .registry
        .with(|inner| inner.faults.push_back(Fault::Expired));
    house.run_python().await;
    assert_eq!(house.python.runs(), 1);
    house.registry.with(|inner| {
        assert_eq!(
            inner.log,
            ["collect", "redeem", "collect", "redeem", "settle"]
        );
    });

    let house = House::new();
    house
        .registry
        .with(|inner| inner.faults.extend([Fault::Expired; 3]));
    house.run_python().await;
    assert_eq!(house.python.runs(), 0);
    house.registry.with(|inner| {
        assert_eq!(inner.attempts.len(), 3);
        assert!(
            inner.withdrawn[0].1.contains("too old"),
            "{:?}",
            inner.withdrawn
        );
    });
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_redeem_is_asked_for_again_and_runs_once() {
    let house = House::new();
    house.registry.with(|inner| inner.lose_redeems = 3);
    house.run_python().await;
    assert_eq!(house.python.runs(), 1);
    house.registry.with(|inner| {
        assert_eq!(inner.attempts.len(), 4);
        assert!(inner.attempts.iter().all(|a| *a == inner.attempts[0]));
        assert_eq!(inner.settled.len(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_settlement_is_asked_for_again() {
    let house = House::new();
    house.registry.with(|inner| inner.lose_settles = 2);
    house.run_python().await;
    assert_eq!(house.python.runs(), 1);
    house.registry.with(|inner| {
        assert_eq!(inner.settled.len(), 3);
        assert!(inner.settled.iter().all(|s| *s == inner.settled[0]));
    });
}

#[tokio::test(start_paused = true)]
async fn the_same_work_delivered_twice_runs_once() {
    let house = House::new();
    let plan = house.python_plan().await;
    let call = house.registry.approve(&plan);
    let gate = Arc::new(Notify::new());
    house.python.with(|inner| inner.gate = Some(gate.clone()));
    // While it runs, and by both ways at once.
    house.executor.start(call.clone(), plan.clone(), None);
    house.executor.start(call.clone(), plan.clone(), None);
    house
        .registry
        .until(|inner| (!inner.output.is_empty()).then_some(()))
        .await;
    house.executor.start(call.clone(), plan.clone(), None);
    gate.notify_one();
    house.idle().await;
    // After it ran: even if the registry would hand out another permit.
    house
        .registry
        .with(|inner| inner.calls.insert(call.id, (call.clone(), plan.clone())));
    house.executor.start(call, plan, None);
    house.idle().await;
    assert_eq!(house.python.runs(), 1);
    house
        .registry
        .with(|inner| assert_eq!(inner.settled.len(), 1));
}

#[tokio::test(start_paused = true)]
async fn work_is_fetched_from_the_start_and_each_call_is_taken() {
    let house = House::new();
    let plan = house.python_plan().await;
    house.registry.approve(&plan);
    house.registry.approve(&plan);
    let (executor, stop) = (house.executor.clone(), CancellationToken::new());
    let fetching = tokio::spawn({
        let stop = stop.clone();
        async move { executor.fetch_work(stop).await }
    });
    house
        .registry
        .until(|inner| (inner.settled.len() == 2).then_some(()))
        .await;
    house.registry.approve(&plan);
    house
        .registry
        .until(|inner| (inner.settled.len() == 3).then_some(()))
        .await;
    stop.cancel();
    fetching.await.unwrap();
    assert_eq!(house.python.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_changed_between_approval_and_run_is_withdrawn_in_words() {
    let house = House::new();
    fs::write(house.file("a.txt"), "old\n").unwrap();
    let plan = house
        .plan("file_write", json!({"path": "a.txt", "content": "new\n"}))
        .await;
    assert!(
        matches!(&plan.action, Action::WriteFile { diff, .. } if diff.contains("-old\n+new\n"))
    );
    house.registry.approve(&plan);
    fs::write(house.file("a.txt"), "theirs\n").unwrap();
    house.run().await;
    assert_eq!(fs::read_to_string(house.file("a.txt")).unwrap(), "theirs\n");
    house.registry.with(|inner| {
        assert!(inner.attempts.is_empty());
        assert_eq!(
            inner.withdrawn[0].1,
            "The file a.txt was changed since the card was made."
        );
    });
    let changed = house.executor.changed.load(Ordering::Relaxed);
    assert_eq!(changed, 1, "and it is counted, for the alert");
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_allowed_is_planned_again_once_and_runs_under_the_new_permit() {
    let house = House::new();
    fs::write(house.file("a.txt"), "words\n").unwrap();
    let plan = house.plan("file_read", json!({"path": "a.txt"})).await;
    house.registry.allowed_with_another_plan(&plan);
    house.run().await;
    assert!(house.settled().output.text.contains("words"));
    house.registry.with(|inner| {
        assert_eq!(inner.log, ["collect", "replan", "redeem", "settle"]);
        assert!(inner.withdrawn.is_empty());
    });

    let house = House::new();
    fs::write(house.file("a.txt"), "words\n").unwrap();
    let plan = house.plan("file_read", json!({"path": "a.txt"})).await;
    house.registry.with(|inner| inner.refuse_replan = true);
    house.registry.allowed_with_another_plan(&plan);
    house.run().await;
    house.registry.with(|inner| {
        assert_eq!(inner.log, ["collect", "replan"]);
        assert_eq!(inner.withdrawn.len(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn a_link_in_place_of_the_approved_file_is_withdrawn() {
    let house = House::new();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let plan = house
        .plan("file_write", json!({"path": "a.txt", "content": "new\n"}))
        .await;
    house.registry.approve(&plan);
    std::os::unix::fs::symlink(outside.path(), house.file("a.txt")).unwrap();
    house.run().await;
    assert_eq!(fs::read_to_string(outside.path()).unwrap(), "");
    house
        .registry
        .with(|inner| assert!(inner.withdrawn[0].1.contains("symbolic link")));
}

/// What happens to the sandbox after the card was made.
type Change = fn(&Python);

#[tokio::test(start_paused = true)]
async fn another_sandbox_than_on_the_card_voids_the_approval() {
    let cases: [(Change, &str); 3] = [
        (
            |p| p.with(|i| i.status.sandbox.enforcement = vec!["memory 512 MiB (rlimit)".into()]),
            "limits are now",
        ),
        (
            |p| p.with(|i| i.status.sandbox.runtime = "nothing".into()),
            "native by nothing now",
        ),
        (|p| p.trouble("bwrap is missing."), "bwrap is missing."),
    ];
    for (change, words) in cases {
        let house = House::new();
        house.registry.approve(&house.python_plan().await);
        change(&house.python);
        house.run().await;
        assert_eq!(house.python.runs(), 0);
        house.registry.with(|inner| {
            assert!(
                inner.withdrawn[0].1.contains(words),
                "{:?}",
                inner.withdrawn
            );
        });
    }
}

#[tokio::test(start_paused = true)]
async fn file_tools_do_what_their_plan_says() {
    let house = House::new();
    let plan = house
        .plan(
            "file_write",
            json!({"path": "./d//a.txt", "content": "hello\n"}),
        )
        .await;
    house.registry.approve(&plan);
    house.run().await;
    assert_eq!(
        fs::read_to_string(house.file("d/a.txt")).unwrap(),
        "hello\n"
    );
    assert_eq!(house.settled().outcome.summary, "created");

    for (tool, arguments, text) in [
        ("file_read", json!({"path": "d/a.txt"}), "hello\n"),
        (
            "file_read",
            json!({"path": "d/a.txt", "offset": 1, "limit": 2}),
            "el",
        ),
        ("file_list", json!({"path": "d"}), "file          6 a.txt\n"),
        ("file_list", json!({}), "folder        - d/\n"),
    ] {
        house.registry.with(|inner| inner.work.clear());
        let plan = house.plan(tool, arguments).await;
        house.registry.approve(&plan);
        house.run().await;
        assert!(house.settled().outcome.ok);
        assert_eq!(house.settled().output.text, text);
    }
    assert_eq!(house.python.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_settled_as_failed_with_its_reason() {
    let house = House::new();
    fs::write(house.file("b"), b"\xff\x00").unwrap();
    let plan = house.plan("file_read", json!({"path": "b"})).await;
    house.registry.approve(&plan);
    house.run().await;
    assert!(!house.settled().outcome.ok);
    assert!(house.settled().outcome.summary.contains("binary"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_is_settled_as_it_failed() {
    let house = House::new();
    house.python.with(|inner| {
        inner.how = Some(How::TimeLimit);
        inner.print = vec![(Stream::Stdout, b"a\n"), (Stream::Stderr, b"b\n")];
    });
    house.run_python().await;
    let settled = house.settled();
    assert_eq!(
        (settled.outcome.ok, settled.outcome.summary.as_str()),
        (false, "time limit of 30 s reached")
    );
    assert_eq!(settled.output.text, "[stdout]\na\n[stderr]\nb\n");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_knows_the_end_of_is_lost_not_failed() {
    for how in [
        None,
        Some(How::Unknown {
            what: "the jail is gone".to_owned(),
        }),
    ] {
        let house = House::new();
        house.python.with(|inner| inner.how = how);
        let call = house.run_python().await;
        house.registry.with(|inner| {
            assert!(inner.settled.is_empty());
            assert_eq!(inner.lost[0].0, call.id);
        });
        // What may be left of it is ended.
        assert_eq!(
            house.python.with(|inner| inner.cancelled.clone()),
            [call.id]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_falls_silent_does_not_hold_the_call_for_ever() {
    let house = House::new();
    house
        .python
        .with(|inner| inner.gate = Some(Arc::new(Notify::new())));
    let call = house.run_python().await;
    house
        .registry
        .with(|inner| assert_eq!(inner.lost[0].0, call.id));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_takes_no_live_output_does_not_hold_up_the_run() {
    let house = House::new();
    house.registry.with(|inner| inner.hold_output = true);
    house.run_python().await;
    assert_eq!(house.settled().output.text, "45\n");
}

#[tokio::test(start_paused = true)]
async fn held_calls_are_reported_while_they_run() {
    let house = House::new();
    let gate = Arc::new(Notify::new());
    house.python.with(|inner| inner.gate = Some(gate.clone()));
    let plan = house
        .plan("python_exec", json!({"code": "x", "timeout": 300}))
        .await;
    let call = house.registry.approve(&plan);
    house.executor.start(call.clone(), plan, None);
    let (executor, stop) = (house.executor.clone(), house.stop.child_token());
    let reporting = tokio::spawn({
        let stop = stop.clone();
        async move { executor.report_claims(stop).await }
    });
    let reported = house
        .registry
        .until(|inner| inner.reported.first().cloned())
        .await;
    assert_eq!(reported, [call.id]);
    gate.notify_one();
    house
        .registry
        .until(|inner| inner.settled.first().cloned())
        .await;
    house.idle().await;
    assert!(house.executor.begun.held().is_empty());
    stop.cancel();
    reporting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_workspace_do_not_overlap() {
    let house = House::new();
    fs::write(house.file("a.txt"), "old\n").unwrap();
    for n in 0..8 {
        let content = format!("new {n}\n");
        let plan = house
            .plan("file_write", json!({"path": "a.txt", "content": content}))
            .await;
        house.registry.approve(&plan);
    }
    house.run().await;
    // Each plan was made over the old content: the first to write voids the others.
    house.registry.with(|inner| {
        assert_eq!((inner.settled.len(), inner.withdrawn.len()), (1, 7));
        assert!(inner.settled[0].1.outcome.ok);
    });
}
