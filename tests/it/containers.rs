//! The story with `kazma up --sandbox docker`, on an engine of the tests' own.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    stack::{Stack, command, program},
    story::query::a_shop_is_asked,
};

/// Runs one of the repository's scripts.
fn script(name: &str, arguments: &[&str], engine: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    let mut command = command(path.join(name));
    command
        .args(arguments)
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .env("DOCKER_HOST", format!("unix://{engine}"));
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "scripts/{name} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The engine that the tests of the runner use too, and the image's id.
pub(crate) fn engine() -> (String, String) {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder: PathBuf = tmp.parent().unwrap().join("engine");
    let socket = script("engine", &["start", folder.to_str().unwrap()], "");
    let init = program().with_file_name("sandbox-init");
    let image = script("images", &["--init", init.to_str().unwrap()], &socket);
    let id = image.rsplit(' ').next().unwrap().to_owned();
    (socket, id)
}

/// Says, approves, and gives the card and the reply.
async fn story(stack: &Stack, code: &str) -> (Value, String) {
    let thread = stack.api.say(&format!("run python: {code}")).await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    let decided = stack.api.decide(&card, "approve").await.unwrap();
    assert_eq!(decided.status, 200);
    let (state, reply) = stack.api.ended(&thread).await.unwrap();
    assert_eq!(state, "done", "{reply}");
    (card, reply)
}

async fn by(runtime: &str) {
    let (socket, image) = engine();
    let host = format!("unix://{socket}");
    let mut stack = Stack::start_with(&[
        "--sandbox",
        "docker",
        "--sandbox-runtime",
        runtime,
        "--docker-host",
        &host,
    ]);
    assert_eq!(stack.text("sandbox"), "docker", "{}", stack.log());
    let (card, reply) = story(&stack, "print(sum(range(10)))").await;
    assert!(reply.contains("45"), "{reply}");
    // The card names the tier, what makes the boundary, and the image by its id.
    let told = card.to_string();
    for part in ["docker", runtime, &image] {
        assert!(told.contains(part), "{part} is not on the card: {told}");
    }
    let at = stack.folder().join("workspace");
    a_shop_is_asked(&stack.api, at.as_path().try_into().unwrap()).await;
    // A card that waits through a restart of everything runs once, in a container.
    let thread = stack.api.say("run python: print(6 * 7)").await.unwrap();
    let card = stack.api.card(&thread).await.unwrap();
    stack.end().await;
    stack.start_again();
    stack.api.decide(&card, "approve").await.unwrap();
    let (_, reply) = stack.api.ended(&thread).await.unwrap();
    assert!(reply.contains("42"), "{reply}");
    stack.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_story_in_a_container_by_runc() {
    by("runc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_story_in_a_container_by_gvisor() {
    by("runsc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_says_why_it_took_jails() {
    let stack = Stack::start_with(&[
        "--sandbox",
        "auto",
        "--docker-host",
        "unix:///no/engine.sock",
    ]);
    assert_eq!(stack.text("sandbox"), "native");
    let details = stack.api.get("/health/details").await.unwrap();
    let note = details.body["runner"]["note"].as_str().unwrap();
    assert!(note.contains("/no/engine.sock"), "{note}");
}
