//! Everything that a stack writes for others to see, searched for what must not stand there; and one call,
//! found again in the log of every service that had a part in it.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    metrics::{listeners, scrape},
    stack::{PATIENCE, Setup, Stack, command, port, program, until},
};

/// Words that stand for a person's own: in messages, code, files and what code printed.
const WORDS: [&str; 4] = [
    "vault-string-4a1c9e",
    "printed-7d20bb",
    "hunter2-in-a-file",
    "spoken-aloud-91ff",
];
const PASSWORD: &str = "correct horse battery staple 5ee2";
const WRONG_PASSWORD: &str = "wrong horse battery staple 0d17";

/// What was written under a stack's folder for anybody who may read it, and the log and metrics.
async fn written(stack: &Stack) -> Vec<(String, String)> {
    let mut all = vec![("the log".to_owned(), stack.log())];
    for (service, at) in listeners(stack) {
        all.push((format!("the metrics of {service}"), scrape(&at).await));
    }
    for path in files(stack.folder()) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        if mode & 0o004 != 0 && !path.starts_with(stack.folder().join("workspace")) {
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            all.push((path.display().to_string(), text));
        }
    }
    all
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// The keys that lie in private files: each line of a PEM body, and of what is no PEM the whole.
fn keys(stack: &Stack) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files(stack.folder()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("key") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().map(str::trim);
        found.extend(
            lines
                .filter(|line| line.len() >= 32 && !line.starts_with("-----"))
                .map(str::to_owned),
        );
    }
    found
}

fn nowhere(all: &[(String, String)], what: &str, secret: &str) {
    assert!(secret.len() >= 12, "{what} is too short to be looked for");
    for (place, text) in all {
        assert!(!text.contains(secret), "{what} stands in {place}");
    }
}

/// Signs in with what a person types, and returns the session's cookie; none where it was refused.
async fn sign_in(stack: &Stack, secret: &str) -> Option<String> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client
        .post(stack.url("/api/auth/login"))
        .json(&json!({ "secret": secret }))
        .send()
        .await
        .unwrap();
    let cookie = answer.headers().get("set-cookie")?.to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let me = client
        .get(stack.url("/api/auth/me"))
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(me.status(), 200);
    Some(cookie.split_once('=').unwrap().1.to_owned())
}

#[tokio::test]
async fn nothing_secret_is_written_anywhere_even_where_everything_is_logged() {
    let stack = Stack::start_as(Setup {
        flags: vec!["--log".to_owned(), "trace".to_owned()],
        environment: vec![("KAZMA_SECRET".to_owned(), PASSWORD.to_owned())],
        ..Setup::usual()
    });
    let api = &stack.api;
    let login = stack.text("login_url").rsplit_once("token=").unwrap().1;
    let by_link = sign_in(&stack, login).await.unwrap();
    let by_password = sign_in(&stack, PASSWORD).await.unwrap();
    assert_eq!(sign_in(&stack, WRONG_PASSWORD).await, None);
    let said = format!(
        "run python: print('{}'[:8] + '{}'[8:]) # {}",
        WORDS[1], WORDS[1], WORDS[0]
    );
    let ran = api.say(&said).await.unwrap();
    let card = api.card(&ran).await.unwrap();
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    let (_, reply) = api.ended(&ran).await.unwrap();
    assert!(reply.contains(WORDS[1]), "{reply}");
    let wrote = api
        .say(&format!("write note.txt: {}", WORDS[2]))
        .await
        .unwrap();
    let card = api.card(&wrote).await.unwrap();
    assert_eq!(api.decide(&card, "deny").await.unwrap().status, 200);
    api.ended(&wrote).await.unwrap();
    let spoken = api.say(WORDS[3]).await.unwrap();
    api.ended(&spoken).await.unwrap();
    // A path that looks like a route, a token in the wrong place, a body that is no JSON.
    let odd = format!(
        "/api/threads/{}?token={}",
        WORDS[0],
        stack.text("api_token")
    );
    assert_eq!(api.get(&odd).await.unwrap().status, 404);

    let all = written(&stack).await;
    assert!(
        all[0].1.contains("\"level\":\"INFO\""),
        "nothing was logged"
    );
    nowhere(&all, "the API token", stack.text("api_token"));
    nowhere(&all, "the token of a sign-in link", login);
    nowhere(&all, "a session of a link", &by_link);
    nowhere(&all, "a session of a password", &by_password);
    nowhere(&all, "the operator's password", PASSWORD);
    nowhere(&all, "a wrong password", WRONG_PASSWORD);
    for words in WORDS {
        nowhere(&all, "a person's own words", words);
    }
    let keys = keys(&stack);
    assert!(keys.len() >= 6, "too few keys were found: {}", keys.len());
    for key in &keys {
        nowhere(&all, "a private key", key);
    }
    nowhere(&all, "a permit", "\\\"signature\\\"");
    nowhere(&all, "a permit", "\"signature\":");
    nowhere(&all, "a private key", "PRIVATE KEY-----");
}

/// A model server that knows no key and says the one that it was shown, as some do.
fn indiscreet_model() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let shown = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("authorization: ")
                        .map(str::to_owned)
                })
                .unwrap_or_default();
            let body =
                json!({"error": {"message": format!("Incorrect API key provided: {shown}")}})
                    .to_string();
            let answer = format!(
                "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    at
}

#[tokio::test]
async fn the_model_s_key_is_written_nowhere_not_even_by_a_server_that_says_it() {
    const KEY: &str = "sk-not-for-anybody-51c0ffee";
    let folder = tempfile::Builder::new()
        .prefix("kazma-key-")
        .tempdir_in("/tmp")
        .unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let model = indiscreet_model();
    let log = folder.path().join("log");
    let mut up = command(program())
        .args(["up", "--json", "--listen", "127.0.0.1:0", "--log", "trace"])
        .args(["--model", "any", "--model-base-url"])
        .arg(format!("http://{model}/v1"))
        .env("KAZMA_MODEL_API_KEY", KEY)
        .env("KAZMA_SANDBOX", "native")
        .arg("--data-dir")
        .arg(folder.path())
        .stdout(fs::File::create(folder.path().join("out")).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut ready = None;
    let out = folder.path().join("out");
    let started = until(PATIENCE, || {
        let line = fs::read_to_string(&out).unwrap_or_default();
        ready = serde_json::from_str::<Value>(&line).ok();
        ready.is_some()
    })
    .await;
    let asked = match ready {
        Some(ready) => ask(&ready).await,
        None => String::new(),
    };
    let text = fs::read_to_string(&log).unwrap();
    let _ = up.kill();
    let _ = up.wait();
    assert!(started.is_ok(), "{text}");
    assert!(asked.contains("key"), "the model was not asked: {asked}");
    assert!(!text.contains(KEY), "the model's key stands in the log");
    assert!(!asked.contains(KEY), "the model's key was told to a person");
}

/// Says something and returns what came of it.
async fn ask(ready: &Value) -> String {
    let at = ([127, 0, 0, 1], port(ready)).into();
    let api = kazma_testkit::Api::new(at, ready["api_token"].as_str().unwrap()).unwrap();
    let thread = api.say("hello").await.unwrap();
    api.ended(&thread).await.unwrap().1
}

/// The lines of a log that name `id`, by the service that wrote them.
fn services_that_name(log: &str, id: &str) -> BTreeSet<String> {
    log.lines()
        .filter(|line| line.contains(id))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Some(line["service"].as_str()?.to_owned()))
        .collect()
}

#[tokio::test]
async fn one_call_is_found_in_the_log_of_every_service_that_had_a_part_in_it() {
    let stack = Stack::start_with(&["--log", "info"]);
    let api = &stack.api;
    let thread = api.say("run python: print(1)").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let id = "0192f0c4a7b17c3d8e4f5a6b7c8d9e0f";
    let decide = |request: &'static str| {
        client
            .post(stack.url(&format!(
                "/api/gates/{}/decision",
                card["gate_id"].as_str().unwrap()
            )))
            .bearer_auth(stack.text("api_token"))
            .header("x-request-id", request)
            .json(&json!({"decision": "approve", "args_digest": card["args_digest"]}))
            .send()
    };
    let answer = decide(id).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(
        answer.headers()["x-request-id"],
        format!("request_{id}").as_str()
    );
    let forged = decide("not an id").await.unwrap();
    assert_ne!(forged.headers()["x-request-id"], "not an id");
    api.ended(&thread).await.unwrap();
    let view = api.thread(&thread).await.unwrap();
    let call = view["calls"][0]["call_id"].as_str().unwrap().to_owned();

    let everybody: BTreeSet<String> = ["agent", "gate-registry", "gateway", "runner-api"]
        .map(str::to_owned)
        .into();
    let seen = || services_that_name(&stack.log(), &call);
    until(PATIENCE, || seen() == everybody)
        .await
        .unwrap_or_else(|()| panic!("{call} is named by {:?} alone", seen()));
    // The person's request went through the gateway to the registry, under one id.
    let seen = services_that_name(&stack.log(), &format!("request_{id}"));
    let both: BTreeSet<String> = ["gate-registry", "gateway"].map(str::to_owned).into();
    assert_eq!(seen, both);
    // What the runner then did for the call went to the registry under the call's own number.
    let number = call.strip_prefix("call_").unwrap();
    let seen = services_that_name(&stack.log(), &format!("request_{number}"));
    let both: BTreeSet<String> = ["gate-registry", "runner-api"].map(str::to_owned).into();
    assert_eq!(seen, both);
    assert!(!stack.log().contains("not an id"));
}
