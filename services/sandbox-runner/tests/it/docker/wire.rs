//! What really goes to the engine, whatever comes from the runner's API: recorded on the way.

use std::sync::{Arc, Mutex};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::Entropy;
use kazma_runtime::SystemEntropy;
use kazma_sandbox_runner::broker::{EngineRuntime, TierChoice};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::{
    engine::Engine,
    house::{House, PATIENCE, spec, text},
};

/// Passes everything on, and keeps what each connection asked.
struct Relay {
    socket: Utf8PathBuf,
    asked: Arc<Mutex<Vec<Vec<u8>>>>,
    _folder: tempfile::TempDir,
}

impl Relay {
    fn to(engine: &Utf8Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = Utf8PathBuf::from_path_buf(folder.path().join("relay.sock")).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (engine, record) = (engine.to_owned(), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (engine, record) = (engine.clone(), Arc::clone(&record));
                tokio::spawn(pass_on(client, engine, record));
            }
        });
        Self {
            socket,
            asked,
            _folder: folder,
        }
    }

    /// Every request: its first line, and its body as far as it is JSON.
    fn requests(&self) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter_map(|bytes| {
                let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
                let (head, body) = bytes.split_at(end + 4);
                let line = String::from_utf8_lossy(head).lines().next()?.to_owned();
                Some((line, serde_json::from_slice(body).unwrap_or(Value::Null)))
            })
            .collect()
    }
}

async fn pass_on(mut client: UnixStream, engine: Utf8PathBuf, record: Arc<Mutex<Vec<Vec<u8>>>>) {
    let Ok(mut server) = UnixStream::connect(&engine).await else {
        return;
    };
    let index = {
        let mut all = record.lock().unwrap();
        all.push(Vec::new());
        all.len() - 1
    };
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let out = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            let piece = buffer.get(..count).unwrap();
            record.lock().unwrap().get_mut(index).unwrap().extend(piece);
            if to_server.write_all(piece).await.is_err() {
                break;
            }
        }
        let _ = to_server.shutdown().await;
    };
    let back = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::join!(out, back);
}

fn random(bound: u64) -> u64 {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    u64::from_be_bytes(bytes) % bound
}

/// Something that might be taken for a field of an engine's request.
fn hostile() -> Value {
    let values = [
        json!("host"),
        json!(true),
        json!({"Privileged": true, "Binds": ["/:/host"]}),
        json!(["/var/run/docker.sock:/s"]),
        json!("print(1)\"},\"HostConfig\":{\"Privileged\":true"),
        json!(-1),
        json!(u64::MAX),
        json!("\u{0}\r\nPOST /containers/create HTTP/1.1\r\n\r\n"),
    ];
    values
        .get(usize::try_from(random(8)).unwrap())
        .unwrap()
        .clone()
}

/// A run as a hijacked api might ask for it: its own fields with odd values, and others beside them.
fn odd_request() -> Value {
    let mut request = json!({
        "request": "run",
        "call_id": spec("").call_id,
        "code": "print(1)",
        "timeout_ms": 5000,
        "output_cap": 1000,
    });
    let fields = request.as_object_mut().unwrap();
    for _ in 0..=random(3) {
        let names = [
            "code",
            "timeout_ms",
            "output_cap",
            "call_id",
            "image",
            "HostConfig",
            "privileged",
            "mounts",
            "network",
            "name",
            "request",
            "workspace",
        ];
        let name = names.get(usize::try_from(random(12)).unwrap()).unwrap();
        fields.insert((*name).to_owned(), hostile());
    }
    request
}

/// Sends a frame of the broker's protocol and reads until the broker has said all.
async fn send(socket: &Utf8Path, frame: &[u8]) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let length = u32::try_from(frame.len()).unwrap();
    // The broker may refuse before it has read everything.
    let _ = stream.write_all(&length.to_be_bytes()).await;
    let _ = stream.write_all(frame).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
}

/// The one thing that may differ from one create to the next.
fn without_deadline(mut body: Value) -> Value {
    let labels = body.get_mut("Labels").unwrap().as_object_mut().unwrap();
    assert!(labels.remove("kazma.sandbox.deadline").is_some());
    body
}

fn is_name(path: &str) -> bool {
    path.strip_prefix("kazma-sandbox-")
        .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
}

/// Whether a broker has any business asking this.
fn allowed(line: &str) -> bool {
    let Some((method, rest)) = line.split_once(' ') else {
        return false;
    };
    let path = rest.trim_end_matches(" HTTP/1.1");
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    // The first two questions come before a version is agreed on.
    let path = path.strip_prefix("/v1.41").unwrap_or(path);
    match (
        method,
        path.split('/').skip(1).collect::<Vec<_>>().as_slice(),
    ) {
        ("GET", ["version" | "info"] | ["images", _, "json"] | ["containers", "json"])
        | ("POST", ["containers", "create"]) => true,
        ("POST", ["containers", name, "attach" | "start" | "kill" | "wait"])
        | ("GET", ["containers", name, "json"])
        | ("DELETE", ["containers", name])
            if is_name(name) =>
        {
            true
        }
        // A stray, by the id under which the engine listed it with our label.
        ("DELETE", ["containers", id]) => {
            id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())
        }
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_of_the_broker_the_engine_is_asked_the_same() {
    let engine = Engine::shared();
    let relay = Relay::to(&engine.socket);
    let mut options = engine.options(EngineRuntime::Runc);
    options.socket = relay.socket.clone();
    let owner = options.owner.clone();
    let house = House::with(|broker| broker.tier = TierChoice::Docker(options)).await;
    for _ in 0..60 {
        let request = odd_request().to_string();
        send(&house.socket, request.as_bytes()).await;
    }
    for frame in [&b"\xff\xfe"[..], b"[]", b"{\"request\":\"run\"}", b""] {
        send(&house.socket, frame).await;
    }
    for code in [
        "print('\\x1b]0;x\\x07')",
        "import os; print(os.environ)",
        "x = '\u{202e}'",
    ] {
        house.run(code).await;
    }
    assert_eq!(text(&house.run("print(1)").await.stdout), "1\n");
    house.close().await;
    engine.until(&owner, 0).await;

    let requests = relay.requests();
    let mut bodies = Vec::new();
    for (line, body) in requests {
        assert!(allowed(&line), "{line}");
        if line.contains("/containers/create") {
            bodies.push(without_deadline(body));
        }
    }
    assert!(bodies.len() > 4, "{}", bodies.len());
    assert!(
        bodies.windows(2).all(|pair| pair.first() == pair.last()),
        "{bodies:#?}"
    );
}
