//! `kazma up` as processes: what it prints, what it refuses, and what is left of it when any of it dies.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use kazma_testkit::Api;
use serde_json::{Value, json};

use crate::stack::{
    END_LIMIT, PATIENCE, Process, Stack, port, program, refused, until, up_command,
};

/// A service that died is back by then, as promised.
const BACK_LIMIT: Duration = Duration::from_millis(1500);
/// Services whose supervisor was killed are gone by then.
const ORPHAN_LIMIT: Duration = Duration::from_secs(8);
/// Wrong usage.
const USAGE: i32 = 64;

pub(crate) const SERVICES: [&str; 6] = [
    "agent",
    "gate-registry",
    "gateway",
    "runner-api",
    "runner-broker",
    "runner-egress",
];

/// A browser's side of a sign-in: what it sends along from then on.
struct Session(String);

fn http() -> reqwest::Client {
    kazma_mesh::install_crypto_provider();
    let builder = reqwest::Client::builder().no_proxy().timeout(PATIENCE);
    // A connection of its own each time: a gateway that was killed leaves dead ones.
    builder.pool_max_idle_per_host(0).build().unwrap()
}

impl Session {
    /// Signs in by a one-time link; the status where it is refused.
    async fn by(stack: &Stack, link: &str) -> Result<Self, u16> {
        let (_, secret) = link.split_once("#token=").unwrap();
        let answer = http()
            .post(stack.url("/api/auth/login"))
            .json(&json!({ "secret": secret }))
            .send()
            .await
            .unwrap();
        if answer.status() != 200 {
            return Err(answer.status().as_u16());
        }
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        Ok(Self(cookie.split(';').next().unwrap().to_owned()))
    }

    /// Who this is; the status where nobody is signed in.
    async fn me(&self, stack: &Stack) -> Result<Value, u16> {
        let request = http().get(stack.url("/api/auth/me"));
        let answer = request.header("cookie", &self.0).send().await.unwrap();
        match answer.status().as_u16() {
            200 => Ok(answer.json().await.unwrap()),
            status => Err(status),
        }
    }
}

fn call_states(view: &Value) -> Vec<&str> {
    let calls = view["calls"].as_array().unwrap();
    calls.iter().map(|c| c["state"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_says_all_and_the_link_is_good_once() {
    let stack = Stack::start();
    assert_eq!(
        stack.text("url"),
        format!("http://localhost:{}", port(&stack.ready))
    );
    assert!(stack.ready["ready_ms"].as_u64().unwrap() > 0);
    assert_eq!(stack.text("sandbox"), "native");

    let services = stack.ready["services"].as_array().unwrap();
    let mut names: Vec<_> = services
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, SERVICES);
    for service in services {
        let pid = service["pid"].as_u64().unwrap().try_into().unwrap();
        assert!(Process::of(pid).is_some(), "{service}");
        let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        let wanted = format!("kazma\0service\0{}\0", service["name"].as_str().unwrap());
        assert_eq!(arguments, wanted);
    }

    let token = stack.folder().join("token");
    assert_eq!(
        fs::metadata(&token).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert_eq!(fs::read_to_string(&token).unwrap(), stack.text("api_token"));
    assert_eq!(stack.api.get("/api/auth/me").await.unwrap().status, 200);

    let session = Session::by(&stack, stack.text("login_url")).await.unwrap();
    assert_eq!(session.me(&stack).await.unwrap()["person"]["role"], "admin");
    let again = Session::by(&stack, stack.text("login_url")).await;
    assert_eq!(again.err(), Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_everything() {
    let mut stack = Stack::start();
    let thread = sleeping(&stack.api).await;
    let before = stack.processes();
    assert!(before.len() > 1 + SERVICES.len(), "{before:#?}");
    let began = Instant::now();
    let status = stack.end().await;
    assert!(status.success(), "{status}");
    stack
        .until_gone(&before, END_LIMIT.saturating_sub(began.elapsed()))
        .await;

    // What ran is not known to have ended, so it is not run again.
    stack.start_again();
    let (_, reply) = stack.api.ended(&thread).await.unwrap();
    assert!(!reply.is_empty());
    let view = stack.api.thread(&thread).await.unwrap();
    assert_ne!(call_states(&view), ["claimed"]);
}

/// Starts code that does not end by itself, and waits until it runs.
async fn sleeping(api: &Api) -> String {
    let code = "run python: import time; print('asleep', flush=True); time.sleep(250)";
    let thread = api.say(code).await.unwrap();
    let card = api.card(&thread).await.unwrap();
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    api.until(&thread, |view| {
        (call_states(view) == ["claimed"]).then_some(())
    })
    .await
    .unwrap();
    thread
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_killed_is_back_and_nothing_is_lost() {
    let stack = Stack::start();
    let session = Session::by(&stack, stack.text("login_url")).await.unwrap();
    let mut slow = Vec::new();
    for name in SERVICES {
        let file = format!("{name}.txt");
        let api = stack.fresh_api();
        let thread = api.say(&format!("write {file}: {name}")).await.unwrap();
        let card = api.card(&thread).await.unwrap();

        let old = stack.service(name);
        let others: Vec<_> = stack
            .services()
            .into_iter()
            .filter(|one| one.0 != name)
            .collect();
        let killed = Instant::now();
        old.kill();
        let back = || matches!(&stack.services()[name], Some(new) if *new != old);
        until(PATIENCE, back)
            .await
            .unwrap_or_else(|()| panic!("{name} is not back"));
        if killed.elapsed() > BACK_LIMIT {
            slow.push((name, killed.elapsed()));
        }
        // Nobody else fell over.
        for (other, process) in others {
            assert_eq!(
                stack.services()[&other],
                process,
                "{name} took {other} along"
            );
        }

        let api = stack.fresh_api();
        assert_eq!(api.get("/api/auth/me").await.unwrap().status, 200, "{name}");
        assert!(session.me(&stack).await.is_ok(), "{name}");
        let same = still_pending(&api, &card).await;
        assert_eq!(same["args_digest"], card["args_digest"], "{name}");
        assert!(!stack.folder().join("workspace").join(&file).exists());

        assert_eq!(
            api.decide(&card, "approve").await.unwrap().status,
            200,
            "{name}"
        );
        assert_eq!(api.ended(&thread).await.unwrap().0, "done", "{name}");
        ran_once(&stack, &api, &thread, &file, name).await;
    }
    assert!(
        slow.is_empty(),
        "back, but not within {BACK_LIMIT:?}: {slow:?}"
    );
    let before = stack.processes();
    assert!(stack.bubblewraps().iter().all(|one| before.contains(one)));
}

/// Waits out the moment in which a service that came back finds the others.
async fn still_pending(api: &Api, card: &Value) -> Value {
    let path = format!("/api/gates/{}", card["gate_id"].as_str().unwrap());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = api.get(&path).await.unwrap();
        if answer.status == 200 {
            assert_eq!(answer.body["state"], "pending");
            return answer.body;
        }
        assert!(
            answer.status >= 500 && Instant::now() < deadline,
            "{answer:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The file was written, and is not written again when it is gone and the talk goes on.
async fn ran_once(stack: &Stack, api: &Api, thread: &str, file: &str, content: &str) {
    let path = stack.folder().join("workspace").join(file);
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
    fs::remove_file(&path).unwrap();
    api.say_in(thread, "hello").await.unwrap();
    api.ended(thread).await.unwrap();
    assert!(!path.exists(), "{file} was written twice");
    assert_eq!(call_states(&api.thread(thread).await.unwrap()), ["settled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_their_supervisor_the_services_end_and_another_can_start() {
    let mut stack = Stack::start();
    let thread = stack.api.say("write later.txt: later").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    sleeping(&stack.api).await;
    let before = stack.processes();
    Process::of(stack.supervisor()).unwrap().kill();
    stack.ended(END_LIMIT).await;
    stack.until_gone(&before, ORPHAN_LIMIT).await;

    let token = stack.text("api_token").to_owned();
    stack.start_again();
    assert_eq!(stack.text("api_token"), token);
    assert_eq!(
        stack.api.decide(&card, "approve").await.unwrap().status,
        200
    );
    stack.api.ended(&thread).await.unwrap();
    ran_once(&stack, &stack.api, &thread, "later.txt", "later").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_one_on_the_same_folder_is_refused() {
    let stack = Stack::start();
    let output = refused(up_command(stack.folder())).await;
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    for word in [
        "another kazma",
        stack.folder().to_str().unwrap(),
        "--data-dir",
    ] {
        assert!(words.contains(word), "{words}");
    }
    assert!(output.stdout.is_empty());
    // The first has not noticed.
    assert_eq!(stack.api.get("/health/ready").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let data = folder.path().join("data");
    let up = |arguments: &[&str], setting: Option<(&str, &str)>| {
        let mut command = crate::stack::command(program());
        command
            .arg("up")
            .args(arguments)
            .arg("--data-dir")
            .arg(&data);
        command.envs(setting);
        command
    };
    let secret = ("KAZMA_SECRET", "0123456789abcdef");
    for (arguments, setting, name) in [
        (&["--listen", "0.0.0.0:0"][..], None, "KAZMA_SECRET"),
        (
            &["--listen", "0.0.0.0:0"],
            Some(("KAZMA_SECRET", "")),
            "KAZMA_SECRET",
        ),
        (
            &["--listen", "0.0.0.0:0"],
            Some(("KAZMA_SECRET", "short")),
            "KAZMA_SECRET",
        ),
        (&["--demo", "--listen", "0.0.0.0:0"], Some(secret), "--demo"),
        (&["--demo"], Some(("KAZMA_PRODUCTION", "1")), "--demo"),
        (&["--sandbox", "kubernetes"], None, "--sandbox"),
        (&["--sandbox", "local"], None, "--sandbox"),
    ] {
        let output = refused(up(arguments, setting)).await;
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{arguments:?}: {words}");
        assert!(words.contains(name), "{arguments:?}: {words}");
        assert!(!words.contains(secret.1), "{words}");
        assert!(!data.exists(), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_s_commands_speak_to_the_running_one() {
    let mut stack = Stack::start();
    assert_eq!(ok(&stack, &["gates", "list"]), "");
    let thread = stack.api.say("write x.txt: x").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    let id = card["gate_id"].as_str().unwrap();
    let listed = ok(&stack, &["gates", "list"]);
    assert!(
        listed.starts_with(id) && listed.contains("x.txt"),
        "{listed}"
    );
    assert!(ok(&stack, &["gates", "show", id]).contains("pending"));
    // Nobody is at the terminal, so nobody has said yes.
    let unasked = stack.command(&["gates", "approve", id]);
    assert_eq!(unasked.status.code(), Some(USAGE));
    ok(&stack, &["gates", "deny", id, "--reason", "not today"]);
    stack.api.ended(&thread).await.unwrap();
    assert_eq!(ok(&stack, &["gates", "list"]), "");
    assert!(!stack.folder().join("workspace/x.txt").exists());

    let link = ok(&stack, &["users", "add", "Petra", "--role", "approver"]);
    let petra = Session::by(&stack, link.trim()).await.unwrap();
    let me = petra.me(&stack).await.unwrap();
    assert_eq!(
        (&me["person"]["name"], &me["person"]["role"]),
        (&json!("Petra"), &json!("approver"))
    );
    assert!(ok(&stack, &["users", "list"]).contains("approver   Petra"));
    let link = ok(&stack, &["login-link"]);
    assert!(Session::by(&stack, link.trim()).await.is_ok());

    assert!(ok(&stack, &["audit", "verify"]).starts_with("whole: "));
    assert!(stack.end().await.success());
    let words = stack.command(&["gates", "list"]);
    assert!(!words.status.success() && !words.stderr.is_empty());
    // The record can be checked without anything running.
    assert!(ok(&stack, &["audit", "verify"]).starts_with("whole: "));
    let copy = tempfile::tempdir_in("/tmp").unwrap();
    copy_registry(stack.folder(), copy.path());
    assert_eq!(verify(copy.path()), (Some(0), true));
    flip(&copy.path().join("gate-registry/registry.db"));
    assert_eq!(verify(copy.path()), (Some(1), false));
}

/// What a command prints that must succeed.
fn ok(stack: &Stack, arguments: &[&str]) -> String {
    let output = stack.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn copy_registry(from: &Path, to: &Path) {
    let (from, to) = (from.join("gate-registry"), to.join("gate-registry"));
    fs::create_dir(&to).unwrap();
    for name in ["registry.db", "permit.key"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let log = from.join("registry.db-wal");
    assert!(
        fs::metadata(log).map_or(0, |log| log.len()) == 0,
        "not all is in the database"
    );
}

/// The exit code of `kazma audit verify`, and whether it says that all is whole.
fn verify(folder: &Path) -> (Option<i32>, bool) {
    let mut command = crate::stack::command(program());
    command.args(["audit", "verify", "--data-dir"]).arg(folder);
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    let (whole, broken) = (words.starts_with("whole: "), words.starts_with("BROKEN"));
    assert!(whole != broken, "{output:?}");
    (output.status.code(), whole)
}

/// Changes one byte of one record, which says who did it. SQLite may have left old copies of a row behind
/// in pages that it has split: they change too, since it reads only one of them.
fn flip(database: &Path) {
    let mut bytes = fs::read(database).unwrap();
    let start = br#"{"actor":""#;
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what);
    let first = find(&bytes, start).unwrap();
    // Long enough to hold the time, which no other record has.
    let record = bytes[first..first + 100].to_vec();
    let mut copies = 0;
    while let Some(at) = find(&bytes, &record) {
        bytes[at + start.len()] ^= 1;
        copies += 1;
    }
    assert!(copies > 0);
    fs::write(database, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_takes_what_ran_along_and_the_turn_ends_with_words() {
    let stack = Stack::start();
    let thread = sleeping(&stack.api).await;
    let broker = stack.service("runner-broker");
    let before = Process::tree(broker.pid);
    assert!(before.len() > 3, "{before:#?}");
    broker.kill();
    // The new broker's own sandboxes are none of these.
    let left = || before.iter().filter(|one| one.lives()).count();
    until(PATIENCE, || left() == 0)
        .await
        .unwrap_or_else(|()| panic!("{} of the jail's processes are left", left()));

    let (_, reply) = stack.api.ended(&thread).await.unwrap();
    assert!(reply.contains("nobody knows how it ended"), "{reply}");
    let view = stack.api.thread(&thread).await.unwrap();
    assert_eq!(call_states(&view), ["orphaned"], "{view:#}");

    // Every bubblewrap there is belongs to the broker that came back.
    let strays = || {
        let own = stack.services()["runner-broker"].clone();
        let own = own
            .map(|broker| Process::tree(broker.pid))
            .unwrap_or_default();
        let mut all = stack.bubblewraps();
        all.retain(|one| !own.contains(one));
        all
    };
    until(PATIENCE, || strays().is_empty())
        .await
        .unwrap_or_else(|()| panic!("strays: {:#?}", strays()));
    until_ready(&stack.api).await;
    let thread = stack.api.say("run python: print(6 * 7)").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    stack.api.decide(&card, "approve").await.unwrap();
    let (_, reply) = stack.api.ended(&thread).await.unwrap();
    assert!(reply.contains("42"), "{reply}");
}

/// Waits until code can run again.
pub(crate) async fn until_ready(api: &Api) {
    let deadline = Instant::now() + PATIENCE;
    while !matches!(api.get("/health/ready").await, Ok(answer) if answer.status == 200) {
        assert!(Instant::now() < deadline, "not ready");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
