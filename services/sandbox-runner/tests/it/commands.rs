//! Programs in the sandbox in place of Python, in each tier that is here.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    time::Duration,
};

use camino::Utf8Path;
use kazma_sandbox_runner::broker::{
    Collected, Command, EngineRuntime, Outcome, Program, StartFailure,
};

use crate::{
    engine::Engine,
    house::{House, spec, text},
};

/// Who owns the workspace where the tests run as root, as in an installation by root.
pub(crate) const OWNER: (u32, u32) = (61_102, 65_534);

/// Gives a folder to the workspace's owner, as an installation does.
pub(crate) fn give(path: &Utf8Path, mode: u32) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(OWNER.0), Some(OWNER.1)).unwrap();
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A command as the api sends it.
pub(crate) fn command(argv: &[&str]) -> Command {
    let env = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/tmp"),
        ("TMPDIR", "/tmp"),
        ("LANG", "C.UTF-8"),
    ];
    let (name, words) = argv.split_first().unwrap();
    let words = words.iter().map(|word| (*word).to_owned());
    let argv = std::iter::once(format!("/usr/bin/{name}"))
        .chain(words)
        .collect();
    Command {
        argv,
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        cwd: String::new(),
        writable: Vec::new(),
    }
}

pub(crate) async fn start(house: &House, command: Command) -> Collected {
    house
        .run_with("", |spec| {
            spec.program = Program::Command(command);
            spec.timeout = Duration::from_mins(1);
        })
        .await
}

async fn ran(house: &House, argv: &[&str]) -> Collected {
    start(house, command(argv)).await
}

async fn writing(house: &House, argv: &[&str], folders: &[&str]) -> Collected {
    let mut command = command(argv);
    command.writable = folders.iter().map(|path| (*path).to_owned()).collect();
    start(house, command).await
}

/// Runs a test in a jail, and in containers of each kind.
pub(crate) async fn each(test: impl AsyncFn(&House)) {
    let house = House::open().await;
    give(&house.workspace, 0o2750);
    test(&house).await;
    house.close().await;
    let engine = Engine::shared();
    for runtime in [EngineRuntime::Runc, EngineRuntime::Runsc] {
        let (house, owner) = engine.house(runtime, |_| {}).await;
        give(&house.workspace, 0o2750);
        test(&house).await;
        house.close().await;
        engine.until(&owner, 0).await;
    }
}

/// Refused by the kernel, whether ours or gVisor's.
fn not_written(run: &Collected) {
    let said = text(&run.stderr);
    assert_eq!(run.finished.outcome, exited(1), "{said}");
    assert!(
        said.contains("Read-only") || said.contains("Permission denied"),
        "{said}"
    );
}

fn exited(code: i32) -> Outcome {
    Outcome::Exited { code }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_its_words_and_nothing_else() {
    each(async |house| {
        let run = ran(house, &["printf", "[%s]", "a b", "*", "$HOME", "", "'x'"]).await;
        assert_eq!(text(&run.stdout), "[a b][*][$HOME][]['x']", "{run:?}");
        assert_eq!(run.finished.outcome, exited(0));
        // `ps` shows its own environment: nothing of ours is in it.
        let run = ran(house, &["ps", "ewwww", "-o", "args=", "-C", "ps"]).await;
        let shown = text(&run.stdout).trim().to_owned();
        let (_, env) = shown.split_once("-C ps").unwrap_or_default();
        let mut env: Vec<&str> = env.split_whitespace().collect();
        env.sort_unstable();
        assert_eq!(
            env,
            [
                "HOME=/tmp",
                "LANG=C.UTF-8",
                "PATH=/usr/bin:/bin",
                "TMPDIR=/tmp"
            ],
            "{run:?}"
        );
        // No input, no descriptor, no way to wait for one.
        assert_eq!(text(&ran(house, &["cat"]).await.stdout), "");
        let whole = house.workspace.as_str();
        assert_eq!(text(&ran(house, &["pwd"]).await.stdout).trim(), whole);
        fs::create_dir_all(house.workspace.join("a/b c")).unwrap();
        give(&house.workspace.join("a"), 0o2750);
        give(&house.workspace.join("a/b c"), 0o2750);
        let mut inner = command(&["pwd"]);
        inner.cwd = "a/b c".to_owned();
        let run = start(house, inner).await;
        assert_eq!(text(&run.stdout).trim(), format!("{whole}/a/b c"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_is_told_as_with_code() {
    each(async |house| {
        let run = ran(house, &["cat", "no-such-file"]).await;
        assert_eq!(run.finished.outcome, exited(1));
        assert!(text(&run.stderr).contains("No such file"), "{run:?}");
        // What does not work in this sandbox is not started.
        let run = ran(house, &["ls", "-ld", "."]).await;
        let status = house.client.status().await.unwrap();
        match &run.finished.outcome {
            Outcome::Exited { code: 0 } => {}
            other => assert!(
                status.enforcer == "runsc" && matches!(other, Outcome::StartFailed { .. }),
                "{run:?}"
            ),
        }
        let long = Duration::from_millis(1_500);
        let run = house
            .run_with("", |spec| {
                spec.program = Program::Command(command(&["sleep", "1000"]));
                spec.timeout = long;
            })
            .await;
        assert_eq!(run.finished.outcome, Outcome::TimedOut { after: long });
        let run = ran(house, &["tail", "-n", "1", "/dev/zero"]).await;
        assert!(
            matches!(
                run.finished.outcome,
                Outcome::OutOfMemory { .. } | Outcome::Broken { .. }
            ),
            "{run:?}"
        );
        let run = house
            .run_with("", |spec| {
                spec.program = Program::Command(command(&["head", "-c", "3000000", "/dev/zero"]));
                spec.output_cap = 4096;
            })
            .await;
        assert_eq!(run.finished.outcome, exited(0));
        assert!(run.stdout.len() <= 4096 && run.finished.totals.truncated);
        assert_eq!(run.finished.totals.stdout_bytes, 3_000_000);
        let mut forever = spec("");
        let call = forever.call_id;
        forever.program = Program::Command(command(&["sleep", "1000"]));
        let stream = house.client.run(forever).await.unwrap();
        while !house.client.cancel(call).await.unwrap() {
            crate::house::moment().await;
        }
        assert_eq!(stream.collect().await.finished.outcome, Outcome::Cancelled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_named_can_be_written() {
    each(async |house| {
        let workspace = &house.workspace;
        for folder in ["in", "out"] {
            fs::create_dir(workspace.join(folder)).unwrap();
            give(&workspace.join(folder), 0o2750);
        }
        let refused = ran(house, &["touch", "in/x"]).await;
        not_written(&refused);

        let done = writing(house, &["touch", "in/x"], &["in"]).await;
        assert_eq!(done.finished.outcome, exited(0), "{done:?}");
        let found = fs::metadata(workspace.join("in/x")).unwrap();
        let folder = fs::metadata(workspace).unwrap();
        assert_eq!((found.uid(), found.gid()), (folder.uid(), folder.gid()));
        assert_eq!(found.permissions().mode() & 0o7777, 0o640);
        for (path, folders) in [("out/x", &["in"][..]), ("x", &["in", "out"])] {
            let refused = writing(house, &["touch", path], folders).await;
            not_written(&refused);
            assert!(!workspace.join(path).exists());
        }

        let done = writing(house, &["mkdir", "new", "new/deep"], &[""]).await;
        assert_eq!(done.finished.outcome, exited(0), "{done:?}");
        let made = fs::metadata(workspace.join("new/deep")).unwrap();
        assert_eq!(made.uid(), folder.uid());
        assert_eq!(made.permissions().mode() & 0o777, 0o750);
        // The rest of the lock-down is as before.
        let refused = writing(house, &["touch", "/usr/x"], &[""]).await;
        not_written(&refused);
        // The next one that only reads sees what was written.
        let listed = ran(house, &["find", "in", "new"]).await;
        assert_eq!(
            text(&listed.stdout),
            "in\nin/x\nnew\nnew/deep\n",
            "{}",
            text(&listed.stderr)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_elsewhere_is_not_mounted() {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o777)).unwrap();
    each(async |house| {
        symlink(outside.path(), house.workspace.join("link")).unwrap();
        fs::write(house.workspace.join("file"), "").unwrap();
        for folder in ["link", "file", "missing"] {
            let run = writing(house, &["touch", "link/x"], &[folder]).await;
            assert!(
                matches!(
                    &run.finished.outcome,
                    Outcome::StartFailed {
                        failure: StartFailure::Jail { reason }
                    } if reason.contains("cannot be written to")
                ),
                "{run:?}"
            );
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_starts_no_other_program() {
    let house = House::open().await;
    let mut others = Vec::new();
    for program in [
        "/usr/bin/sh",
        "/usr/bin/python3",
        "/usr/bin/env",
        "/bin/ls",
        "ls",
    ] {
        let mut command = command(&["ls"]);
        program.clone_into(command.argv.first_mut().unwrap());
        others.push(command);
    }
    let mut preload = command(&["ls"]);
    preload
        .env
        .insert("LD_PRELOAD".to_owned(), "/tmp/x.so".to_owned());
    others.push(preload);
    for other in others {
        let run = start(&house, other.clone()).await;
        assert!(
            matches!(run.finished.outcome, Outcome::StartFailed { .. }),
            "{other:?}: {run:?}"
        );
        assert!(run.stdout.is_empty());
    }
    let programs: BTreeMap<String, String> = house.client.status().await.unwrap().programs;
    for name in ["ls", "git", "tar", "jq", "grep"] {
        assert_eq!(programs.get(name), Some(&format!("/usr/bin/{name}")));
    }
    assert!(!programs.contains_key("sh") && !programs.contains_key("python3"));
    house.close().await;
}
