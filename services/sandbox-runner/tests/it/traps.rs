//! What the judge permits although a trap is set, run with the trap set, in the real jail and in containers.
//!
//! The workspace is mounted so that a trap that goes off can leave its mark, which no run would have by itself.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_policy::argv::{self, Permitted, Profile, Tier, Verdict};
use kazma_sandbox_runner::broker::{Collected, Command, EngineRuntime, Outcome};
use kazma_workspace::Disk;
use serde::Deserialize;

use crate::{
    commands::{OWNER, command, give, start},
    engine::Engine,
    house::{House, long, text},
};

/// A row of the cases. What is refused is another test's.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    id: String,
    argv: Vec<String>,
    expect: Option<String>,
    workspace_setup: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

/// The rows with a trap that the judge may leave to be neutralised.
fn rows() -> Vec<Row> {
    let rows: Vec<Row> = ["shell.jsonl", "argv-more.jsonl"]
        .iter()
        .flat_map(|name| {
            let text = fs::read_to_string(cases().join(name)).unwrap();
            text.lines()
                .map(|line| serde_json::from_str::<Row>(line).unwrap())
                .collect::<Vec<_>>()
        })
        .filter(|row| row.expect.as_deref().is_some_and(|it| it != "refuse"))
        .collect();
    assert!(rows.len() >= 110, "only {} rows", rows.len());
    rows
}

/// One of every so many rows; all of them in a long run.
fn some(rows: Vec<Row>, of: usize) -> Vec<Row> {
    if long() {
        return rows;
    }
    rows.into_iter().step_by(of).collect()
}

fn script(program: &str, arguments: &[&str], folder: &Utf8Path, home: &Utf8Path) -> bool {
    let ran = std::process::Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    ran.status.success()
}

/// A copy of the workspace that the rows speak of, with a row's trap set, given to the workspace's owner.
fn set(house: &House, row: &Row) -> Utf8PathBuf {
    let base = house.workspace.join("base");
    if !base.exists() {
        let made = cases().join("shell-workspace");
        let arguments = [made.to_str().unwrap(), base.as_str()];
        assert!(script(
            "bash",
            &arguments,
            &house.workspace,
            &house.workspace
        ));
        // Samples from git's template: nothing but more to copy.
        fs::remove_dir_all(base.join("ws/.git/hooks")).unwrap();
    }
    let copy = house.workspace.join(&row.id);
    let arguments = ["-a", base.as_str(), copy.as_str()];
    assert!(script("cp", &arguments, &house.workspace, &house.workspace));
    let workspace = copy.join("ws");
    if let Some(setup) = &row.workspace_setup {
        let setup = setup.replace("@WS@", workspace.as_str());
        script("sh", &["-c", &setup], &workspace, &copy.join("home"));
    }
    // A trap may go off while it is being set: only what happens afterwards counts.
    let _ = fs::remove_file(workspace.join("PWNED"));
    if rustix::process::geteuid().is_root() {
        let owner = format!("{}:{}", OWNER.0, OWNER.1);
        let arguments = ["-Rh", owner.as_str(), copy.as_str()];
        assert!(script(
            "chown",
            &arguments,
            &house.workspace,
            &house.workspace
        ));
    }
    workspace
}

/// What was permitted as the api sends it, but that all of the row's own workspace is writable.
fn open(permitted: Permitted, row: &Row) -> Command {
    let words: Vec<&str> = permitted.argv.iter().map(String::as_str).collect();
    let mut command = command(&words);
    command.env.extend(permitted.env);
    command.cwd = format!("{}/ws/{}", row.id, permitted.cwd);
    command.cwd = command.cwd.trim_end_matches('/').to_owned();
    command.writable = vec![format!("{}/ws", row.id)];
    command
}

/// Whether a program did not understand its own arguments, so that nothing was tried at all.
fn misunderstood(run: &Collected) -> bool {
    let words = String::from_utf8_lossy(&run.stderr);
    run.finished.outcome == (Outcome::Exited { code: 129 })
        || ["unknown option", "unrecognized option", "invalid option"]
            .iter()
            .any(|complaint| words.contains(complaint))
}

async fn spring(house: &House, rows: Vec<Row>) -> usize {
    give(&house.workspace, 0o2750);
    let there = house.client.status().await.unwrap().programs;
    let mut sprung = Vec::new();
    let mut tried = 0;
    for row in rows {
        let workspace = set(house, &row);
        let disk = Disk::open(workspace.as_std_path()).unwrap();
        let asked = argv::Command {
            argv: &row.argv,
            env: &row.env,
            cwd: row.cwd.as_deref(),
        };
        let Verdict::Allow(permitted) = argv::judge(&asked, &disk, Profile::DEFAULT) else {
            continue;
        };
        if permitted.tier == Tier::SandboxExec
            || !there.contains_key(permitted.argv.first().unwrap())
        {
            continue;
        }
        let run = start(house, open(permitted, &row)).await;
        let ended = matches!(run.finished.outcome, Outcome::Exited { .. });
        if !ended || workspace.join("PWNED").exists() || misunderstood(&run) {
            sprung.push(format!("{} {:?}: {run:?}", row.id, row.argv));
        }
        tried += 1;
        fs::remove_dir_all(house.workspace.join(&row.id)).unwrap();
    }
    assert!(sprung.is_empty(), "{}", sprung.join("\n"));
    tried
}

/// The same trap without the judge's work on the command: it goes off, so that its mark means something.
async fn the_mark_is_seen(house: &House) {
    give(&house.workspace, 0o2750);
    let row = Row {
        id: "control".to_owned(),
        argv: Vec::new(),
        expect: None,
        workspace_setup: Some(
            "printf '#!/bin/sh\\ntouch @WS@/PWNED\\n' > e; chmod 755 e; git config core.fsmonitor @WS@/e".to_owned(),
        ),
        env: BTreeMap::new(),
        cwd: None,
    };
    let workspace = set(house, &row);
    let mut plain = command(&[
        "git",
        "-c",
        &format!("safe.directory={workspace}"),
        "status",
    ]);
    "control/ws".clone_into(&mut plain.cwd);
    plain.writable = vec!["control/ws".to_owned()];
    let run = start(house, plain).await;
    assert!(workspace.join("PWNED").exists(), "{}", text(&run.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trap_goes_off_in_a_jail() {
    let house = House::open().await;
    the_mark_is_seen(&house).await;
    let tried = spring(&house, some(rows(), 3)).await;
    assert!(tried >= 25, "only {tried} were tried");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trap_goes_off_in_a_container() {
    let engine = Engine::shared();
    for (runtime, of) in [(EngineRuntime::Runc, 6), (EngineRuntime::Runsc, 9)] {
        let (house, owner) = engine.house(runtime, |_| {}).await;
        the_mark_is_seen(&house).await;
        let tried = spring(&house, some(rows(), of)).await;
        assert!(tried >= 5, "only {tried} were tried");
        house.close().await;
        engine.until(&owner, 0).await;
    }
}
