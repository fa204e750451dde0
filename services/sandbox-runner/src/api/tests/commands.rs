//! `shell_exec` from a line to what starts.

use std::{fs, os::unix::fs::symlink};

use kazma_domain::Action;
use serde_json::json;

use super::*;
use crate::broker::Program;

async fn planned(house: &House, line: &str) -> Action {
    house
        .plan("shell_exec", json!({"command": line}))
        .await
        .action
}

async fn refused(house: &House, line: &str) -> (String, String) {
    let arguments = json!({"command": line});
    let request = Request::parse("shell_exec", &arguments).unwrap();
    let refused = house
        .executor
        .hands
        .planner
        .plan(request)
        .await
        .unwrap_err();
    (refused.rule.to_owned(), refused.reason)
}

#[tokio::test(start_paused = true)]
async fn a_line_becomes_the_words_that_start() {
    let house = House::new();
    fs::create_dir(house.file("a b")).unwrap();
    let Action::RunCommand {
        argv,
        env,
        cwd,
        writable,
        runs_code,
        timeout_ms,
        sandbox,
    } = planned(&house, "ls -la 'a b'").await
    else {
        panic!("another action");
    };
    assert_eq!(argv, ["/usr/bin/ls", "-la", "a b"]);
    let env: Vec<_> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(
        env,
        [
            ("HOME", "/tmp"),
            ("LANG", "C.UTF-8"),
            ("PATH", "/usr/bin:/bin"),
            ("TMPDIR", "/tmp")
        ]
    );
    assert_eq!((cwd.as_str(), writable.len(), runs_code), ("", 0, false));
    assert_eq!(
        (timeout_ms, sandbox.workspace.as_str()),
        (30_000, "read-only")
    );
}

#[tokio::test(start_paused = true)]
async fn what_writes_says_so() {
    let house = House::new();
    let Action::RunCommand {
        writable, sandbox, ..
    } = planned(&house, "mkdir new").await
    else {
        panic!("another action");
    };
    assert_eq!(
        (writable, sandbox.workspace.as_str()),
        (vec![String::new()], "writable")
    );
    house
        .python
        .with(|inner| inner.status.unwritable = Some("it is root's".to_owned()));
    let (rule, reason) = refused(&house, "mkdir new").await;
    assert_eq!(rule, "workspace-unwritable");
    assert!(reason.contains("it is root's"), "{reason}");
    planned(&house, "ls").await;
}

#[tokio::test(start_paused = true)]
async fn what_the_judge_refuses_is_refused_with_its_reason() {
    let house = House::new();
    for (line, word) in [
        ("rm -rf /", "deletes"),
        ("ls | cat", "pipe"),
        ("ls /etc", "out of the workspace"),
        ("git push", "push"),
        ("ls --no-such", "--no-such"),
    ] {
        let (rule, reason) = refused(&house, line).await;
        assert_eq!(rule, "command-refused", "{line}");
        assert!(reason.contains(word), "{line}: {reason}");
    }
    let (rule, reason) = refused(&house, "wc -l").await;
    assert_eq!(rule, "command-missing");
    assert!(reason.starts_with("wc "), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn an_approved_command_starts_once_as_planned() {
    let house = House::new();
    let plan = house
        .plan("shell_exec", json!({"command": "ls -l", "timeout": 7}))
        .await;
    house.registry.approve(&plan);
    house.run().await;
    let ran = house.python.with(|inner| inner.ran.clone());
    let [ran] = ran.as_slice() else {
        panic!("{ran:?}");
    };
    let (Program::Command(command), Action::RunCommand { argv, env, .. }) =
        (&ran.program, &plan.action)
    else {
        panic!("{ran:?}");
    };
    assert_eq!((&command.argv, &command.env), (argv, env));
    assert_eq!(ran.timeout.as_secs(), 7);
    assert!(house.settled().outcome.ok);
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_the_card_does_not_start() {
    let house = House::new();
    fs::write(house.file("notes"), "x").unwrap();
    let plan = house
        .plan("shell_exec", json!({"command": "ls notes"}))
        .await;
    house.registry.approve(&plan);
    fs::remove_file(house.file("notes")).unwrap();
    symlink("/etc/passwd", house.file("notes")).unwrap();
    house.run().await;
    assert_eq!(house.python.runs(), 0);
    let withdrawn = house.registry.with(|inner| inner.withdrawn.clone());
    assert!(
        withdrawn[0].1.contains("out of the workspace"),
        "{withdrawn:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_changed_since_the_card_is_named() {
    let house = House::new();
    let git = house.file(".git");
    for folder in ["objects", "refs"] {
        fs::create_dir_all(git.join(folder)).unwrap();
    }
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("config"), "[core]\n\tbare = false\n").unwrap();
    let plan = house
        .plan("shell_exec", json!({"command": "git status"}))
        .await;
    house.registry.approve(&plan);
    fs::write(
        git.join("config"),
        "[core]\n\tbare = false\n[filter \"x\"]\n\tclean = touch pwned\n",
    )
    .unwrap();
    house.run().await;
    assert_eq!(house.python.runs(), 0);
    let withdrawn = house.registry.with(|inner| inner.withdrawn.clone());
    assert!(
        withdrawn[0].1.contains("something else now"),
        "{withdrawn:?}"
    );
}
