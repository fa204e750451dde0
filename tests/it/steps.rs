//! Every named step of a call's way: the process that comes there first is killed, and the call ends as the
//! table of the architecture says.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use kazma_faults::Point;
use kazma_testkit::Api;
use serde_json::{Value, json};

use crate::{
    crash::{Wish, Witness, ended, judge},
    stack::{PATIENCE, Setup, Stack, until},
};

/// Asks until the gateway answers.
async fn insist(api: &Api, path: &str, body: &Value) -> Value {
    loop {
        match api.post(path, body).await {
            Ok(answer) if answer.status < 500 && answer.status != 429 => return answer.body,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn view(api: &Api, thread: &str) -> Value {
    loop {
        match api.thread(thread).await {
            Ok(view) => return view,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// One whole call with `point` set: asks for a file, approves its card, and waits for the end of the turn.
async fn call(stack: &Stack, faults: &Path, point: Point) -> (Wish, Value) {
    let file = format!("{}.txt", point.name());
    let armed = faults.join(point.name());
    fs::write(&armed, b"").unwrap();
    let api = stack.fresh_api();
    let begun = insist(&api, "/api/threads", &json!({})).await;
    let thread = begun["thread_id"].as_str().unwrap().to_owned();
    let words = json!({"text": format!("write {file}: {file}"), "idempotency_key": file});
    insist(&api, &format!("/api/threads/{thread}/messages"), &words).await;
    let mut wish = Wish {
        thread: thread.clone(),
        file,
        answered: None,
    };
    let view = loop {
        let view = view(&api, &thread).await;
        if ended(&view) {
            break view;
        }
        for gate in view["gates"].as_array().into_iter().flatten() {
            if gate["state"] == "pending" {
                let path = format!("/api/gates/{}/decision", gate["gate_id"].as_str().unwrap());
                let body = json!({"decision": "approve", "args_digest": gate["args_digest"]});
                insist(&api, &path, &body).await;
                wish.answered = Some("approve");
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(!armed.exists(), "nobody came by {}", point.name());
    (wish, view)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_at_a_named_step_the_call_ends_as_it_must() {
    let faults = tempfile::Builder::new()
        .prefix("kazma-faults-")
        .tempdir_in("/tmp")
        .unwrap();
    // Every service's user takes files away in there.
    fs::set_permissions(faults.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut stack = Stack::start_as(Setup::faulty(faults.path()));
    let witness = Witness::on(&stack.folder().join("workspace"));
    let mut wrong = Vec::new();
    let mut table = Vec::new();
    for point in Point::ALL {
        let within = tokio::time::timeout(2 * PATIENCE, call(&stack, faults.path(), *point));
        let (wish, view) = within
            .await
            .unwrap_or_else(|_| panic!("{} never ended", point.name()));
        let effects = witness.seen().get(&wish.file).copied().unwrap_or(0);
        match judge(&wish, &view, effects) {
            Ok(end) => table.push((point.name(), end, effects)),
            Err(why) => wrong.push((point.name(), why)),
        }
        // All are up again before the next step.
        until(PATIENCE, || stack.services().values().all(Option::is_some))
            .await
            .unwrap();
    }
    stack.end().await;
    println!("{table:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Wherever nothing had been done yet, or it was on the disk, the call runs all the same.
    for (point, end, _) in &table {
        let runs = *end == "ran";
        // A write that was claimed is looked at, and what is found is told.
        assert!(
            runs || matches!(*point, "redeemed" | "claimed"),
            "{point}: {end}"
        );
    }
    stack.start_again();
    let audit = stack.command(&["audit", "verify"]);
    assert!(audit.status.success(), "{audit:?}");
}
