//! The whole with the registry's state on a PostgreSQL server.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;

use crate::stack::{Setup, Stack, command, refused, up_command};

const URL: &str = "KAZMA_REGISTRY_DATABASE_URL";

/// A server of a test's own. Gone with it.
struct Server {
    folder: tempfile::TempDir,
    url: String,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let url = postgres("start", folder.path());
        Self { folder, url }
    }

    fn setup(&self) -> Setup {
        Setup {
            environment: vec![(URL.to_owned(), self.url.clone())],
            ..Setup::usual()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        postgres("stop", self.folder.path());
    }
}

fn postgres(what: &str, folder: &Path) -> String {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres");
    let done = command(script).arg(what).arg(folder).output().unwrap();
    assert!(done.status.success(), "scripts/postgres {what}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// `kazma audit verify` of this stack, told where the database is.
fn verify(stack: &Stack, url: Option<&str>) -> Output {
    let mut verify = command(crate::stack::program());
    verify
        .args(["audit", "verify", "--data-dir"])
        .arg(stack.folder());
    verify.envs(url.map(|url| (URL, url))).output().unwrap()
}

fn ended(view: &Value) -> Option<String> {
    let state = view["calls"][0]["state"].as_str()?;
    (state == "settled").then(|| state.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_on_a_server_outlives_the_server_and_runs_once() {
    let server = Server::start();
    let mut stack = Stack::start_as(server.setup());
    let thread = stack.api.say("write x.txt: x").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();

    postgres("kill", server.folder.path());
    let away = stack.api.decide(&card, "approve").await.unwrap();
    assert_ne!(away.status, 200, "decided without a database");
    let doctor = |stack: &Stack| {
        let mut doctor = command(crate::stack::program());
        doctor.args(["doctor", "--data-dir"]).arg(stack.folder());
        let output = doctor.env(URL, &server.url).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = doctor(&stack);
    assert!(
        said.contains("BROKEN  Registry: cannot use its database"),
        "{said}"
    );

    postgres("start", server.folder.path());
    let said = doctor(&stack);
    assert!(
        said.contains("Registry: keeps its state in PostgreSQL 15"),
        "{said}"
    );
    let decided = stack.api.decide(&card, "approve").await.unwrap();
    assert_eq!(decided.status, 200, "{decided:?}");
    stack.api.until(&thread, ended).await.unwrap();
    let written = fs::read_to_string(stack.folder().join("workspace/x.txt")).unwrap();
    assert_eq!(written, "x");

    let whole = verify(&stack, Some(&server.url));
    assert!(whole.status.success(), "{whole:?}");
    // Without the setting it says where the record is, and not that it is broken.
    let lost = verify(&stack, None);
    let said = String::from_utf8_lossy(&lost.stderr);
    assert!(!lost.status.success() && lost.stdout.is_empty(), "{lost:?}");
    assert!(said.contains(URL), "{said}");

    // After an orderly end another one takes the state up; without the setting it does not begin anew.
    assert!(stack.end().await.success());
    let output = refused(up_command(stack.folder())).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(URL), "{said}");
    stack.start_again();
    let view = stack.api.thread(&thread).await.unwrap();
    assert_eq!(ended(&view).as_deref(), Some("settled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_registry_on_one_database_is_refused_and_told_who_is_there() {
    let server = Server::start();
    let stack = Stack::start_as(server.setup());
    let other = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let mut second = up_command(other.path());
    second.env(URL, &server.url);
    let output = refused(second).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("another process uses the schema registry"),
        "{said}"
    );
    let first = format!(
        "kazma registry, process {}",
        stack.service("gate-registry").pid
    );
    assert!(said.contains(&first), "{said}");
    assert_eq!(stack.api.get("/health/ready").await.unwrap().status, 200);
}
