//! The pool: every jail is used once, and there is always a next one.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use kazma_sandbox_runner::broker::{Outcome, Readiness, StartFailure};

use crate::house::{House, PATIENCE, spec, text};

#[tokio::test(flavor = "multi_thread")]
async fn no_run_sees_what_another_left() {
    let house = House::with(|o| o.pool_size = 1).await;
    // The second line proves that a jail used again would show on the first.
    let code = "import os, builtins\n\
        print(os.path.exists('/tmp/left'), hasattr(builtins, 'left'))\n\
        open('/tmp/left', 'w').write('x'); builtins.left = 1\n\
        print(os.path.exists('/tmp/left'), hasattr(builtins, 'left'))";
    for _ in 0..6 {
        let run = house.run(code).await;
        assert_eq!(text(&run.stdout), "False False\nTrue True\n", "{run:?}");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_fills_up_again() {
    let house = House::with(|o| o.pool_size = 3).await;
    house
        .until(|s| s.pool.idle == 3 && s.pool.starting == 0)
        .await;
    house.run("pass").await;
    house
        .until(|s| s.pool.idle == 3 && s.pool.running == 0)
        .await;
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_twenty_is_served() {
    let house = House::open().await;
    let runs = (0..20).map(|n| {
        let client = house.client.clone();
        tokio::spawn(async move {
            let run = spec(&format!("print({n} * {n})"));
            (n, client.run(run).await.unwrap().collect().await)
        })
    });
    for run in runs.collect::<Vec<_>>() {
        let (n, run) = run.await.unwrap();
        assert_eq!(
            text(&run.stdout),
            format!("{}\n", n * n),
            "{:?}",
            run.finished
        );
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_says_so() {
    let house = House::with(|o| {
        o.max_running = 1;
        o.queue_bound = 1;
    })
    .await;
    let forever = spec("import time; print('on', flush=True); time.sleep(1000)");
    let busy = forever.call_id;
    let mut first = house.client.run(forever).await.unwrap();
    first.next().await.unwrap();
    let second = house.client.run(spec("print(2)")).await.unwrap();
    house.until(|s| s.pool.queued == 1).await;
    let third = house.run("print(3)").await;
    assert_eq!(
        third.finished.outcome,
        Outcome::StartFailed {
            failure: StartFailure::QueueFull { bound: 1 }
        }
    );
    assert!(house.client.cancel(busy).await.unwrap());
    assert_eq!(text(&second.collect().await.stdout), "2\n");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_has_an_end() {
    let house = House::with(|o| {
        o.max_running = 1;
        o.queue_wait = Duration::from_millis(50);
    })
    .await;
    let mut first = house
        .client
        .run(spec(
            "import time; print('on', flush=True); time.sleep(1000)",
        ))
        .await
        .unwrap();
    first.next().await.unwrap();
    let second = house.run("print(2)").await;
    assert!(matches!(
        second.finished.outcome,
        Outcome::StartFailed {
            failure: StartFailure::QueueTimeout { .. }
        }
    ));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_jail_is_replaced() {
    let house = House::with(|o| {
        o.pool_size = 1;
        o.max_idle_age = Duration::from_millis(300);
    })
    .await;
    house.until(|s| s.pool.replaced >= 2).await;
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_jail_is_noticed_and_replaced() {
    let house = House::with(|o| o.pool_size = 1).await;
    let mark = house.workspace.to_string();
    // The only process with this workspace on its command line is the idle jail's bubblewrap.
    let bwraps = crate::house::pids_with(&mark);
    assert!(!bwraps.is_empty());
    for pid in bwraps {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    house
        .until(|s| s.pool.replaced == 1 && s.pool.idle == 1)
        .await;
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_broker_stops() {
    let house = House::with(|o| o.pool_size = 3).await;
    house.until(|s| s.pool.idle == 3).await;
    let mark = house.workspace.to_string();
    assert!(crate::house::processes_with(&mark) >= 3);
    house.close().await;
    assert_eq!(crate::house::processes_with(&mark), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_python_is_named_with_its_fix() {
    not_ready(
        |o| o.python = "/usr/bin/no-such-python".into(),
        "no-such-python",
        "Install Python",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bubblewrap_is_named_with_its_fix() {
    not_ready(
        |o| o.bwrap = "/usr/bin/no-such-bwrap".into(),
        "no-such-bwrap",
        "apt-get install bubblewrap",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_init_is_named_with_its_fix() {
    not_ready(
        |o| o.init = Some("/no/such/init".into()),
        "/no/such/init",
        "beside",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_workspace_is_named_with_its_fix() {
    not_ready(
        |o| o.workspace = "/no/such/workspace".into(),
        "/no/such/workspace",
        "Create the folder",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_snippets_cannot_read_is_named_with_its_fix() {
    if !rustix::process::geteuid().is_root() {
        // An ordinary user's snippets run as that user, who reads whatever the broker can write.
        return;
    }
    let hidden = tempfile::tempdir().unwrap();
    let path = camino::Utf8PathBuf::from_path_buf(hidden.path().join("inner")).unwrap();
    std::fs::create_dir(&path).unwrap();
    let mine = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(hidden.path(), mine).unwrap();
    not_ready(|o| o.workspace = path.clone(), "inner", "chgrp 65534").await;
}

async fn not_ready(
    change: impl FnOnce(&mut kazma_sandbox_runner::broker::BrokerOptions),
    in_reason: &str,
    in_fix: &str,
) {
    let house = House::unready(change);
    let judged = async {
        loop {
            let status = house.client.status().await.unwrap();
            match status.readiness {
                Readiness::NotReady { reason, fix } if status.settled => break (reason, fix),
                other => assert_ne!(other, Readiness::Ready),
            }
        }
    };
    let (reason, fix) = tokio::time::timeout(PATIENCE, judged).await.unwrap();
    assert!(reason.contains(in_reason), "{reason}");
    assert!(fix.contains(in_fix), "{fix}");
    // Asked all the same, it says no and why.
    let run = house.run("print(1)").await;
    assert!(matches!(
        &run.finished.outcome,
        Outcome::StartFailed { failure: StartFailure::NotReady { reason: r, .. } } if *r == reason
    ));
    house.close().await;
}
