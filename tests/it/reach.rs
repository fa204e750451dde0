//! What the agent's certificate opens, and what none opens: every route of the mesh, none forgotten.
//!
//! The table below is the expectation. A route in the sources that is not in it fails, and so does one in
//! it that is no longer in the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Service};
use kazma_mesh::{CallError, Client};
use kazma_runtime::SystemClock;
use serde_json::{Value, json};

use crate::stack::{Process, Stack, port};

/// Who may call a route, as far as the agent is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Anyone, also without a certificate.
    All,
    /// Every service of the mesh, or a set that the agent is of.
    Agent,
    /// Others, and not the agent.
    Others,
}

/// Every route that listens on the mesh.
const ROUTES: [(Service, &str, &str, Open); 39] = {
    use Open::{Agent, All, Others};
    use Service::{
        Agent as AgentItself, GateRegistry as Registry, Gateway, RunnerApi, RunnerEgress,
    };
    [
        (Registry, "GET", "/v1/health", All),
        (Registry, "POST", "/v1/mesh/join", All),
        (Registry, "POST", "/v1/mesh/renew", All),
        // What the agent lives on.
        (Registry, "GET", "/v1/turns", Agent),
        (Registry, "GET", "/v1/turns/{id}/calls", Agent),
        (Registry, "POST", "/v1/turns/{id}/progress", Agent),
        (Registry, "POST", "/v1/turns/{id}/finish", Agent),
        (Registry, "GET", "/v1/threads/{id}/ledger", Agent),
        (Registry, "POST", "/v1/calls/unroutable", Agent),
        // What makes a call happen.
        (Registry, "POST", "/v1/calls", Others),
        (Registry, "GET", "/v1/work", Others),
        (Registry, "GET", "/v1/claims", Others),
        (Registry, "POST", "/v1/claims/report", Others),
        (Registry, "POST", "/v1/calls/{id}/permit", Others),
        (Registry, "POST", "/v1/calls/{id}/output", Others),
        (Registry, "POST", "/v1/calls/{id}/settle", Others),
        (Registry, "POST", "/v1/calls/{id}/replan", Others),
        (Registry, "POST", "/v1/calls/{id}/withdraw", Others),
        (Registry, "POST", "/v1/calls/{id}/lose", Others),
        (Registry, "POST", "/v1/permits/redeem", Others),
        // What people say and see.
        (Registry, "GET", "/v1/threads", Others),
        (Registry, "POST", "/v1/threads", Others),
        (Registry, "GET", "/v1/threads/{id}", Others),
        (Registry, "POST", "/v1/threads/{id}/messages", Others),
        (Registry, "GET", "/v1/gates", Others),
        (Registry, "GET", "/v1/gates/{id}", Others),
        (Registry, "POST", "/v1/gates/{id}/decision", Others),
        (Registry, "POST", "/v1/gates/{id}/extend", Others),
        (Registry, "POST", "/v1/turns/{id}/abort", Others),
        (Registry, "GET", "/v1/events", Others),
        (RunnerApi, "POST", "/v1/plans", Agent),
        (RunnerApi, "GET", "/v1/status", Agent),
        (RunnerEgress, "POST", "/v1/plans", Agent),
        (RunnerEgress, "GET", "/v1/health", Agent),
        (AgentItself, "GET", "/v1/health", Agent),
        (RunnerApi, "GET", "/v1/health", Agent),
        (Gateway, "GET", "/v1/model", Agent),
        (Gateway, "POST", "/v1/model/chat", Agent),
        (Gateway, "GET", "/v1/health", Agent),
    ]
};

/// The folders in which routes of the mesh are written.
const SOURCES: [&str; 4] = ["gate-registry", "sandbox-runner", "agent", "gateway"];

/// Whose routes a source file of one of these has, by its path beneath `src`.
fn owner(folder: &str, file: &Path) -> Service {
    let egress = file.starts_with("egress");
    match folder {
        "gate-registry" => Service::GateRegistry,
        "sandbox-runner" if egress => Service::RunnerEgress,
        "sandbox-runner" => Service::RunnerApi,
        "agent" => Service::Agent,
        _ => Service::Gateway,
    }
}

type Route = (Service, String, String);

/// The routes of the mesh as the sources have them. The gateway's others are for people.
fn written() -> BTreeSet<Route> {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../services");
    let mut routes = BTreeSet::new();
    for folder in SOURCES {
        let mut files = Vec::new();
        let root = services.join(folder).join("src");
        sources(&root, &mut files);
        assert!(!files.is_empty(), "{folder}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests have routers of their own.
            let text = text.split("#[cfg(test)]").next().unwrap();
            for (method, path) in routes_in(text) {
                if folder != "gateway" || path.starts_with("/v1/") {
                    let within = file.strip_prefix(&root).unwrap();
                    routes.insert((owner(folder, within), method, path));
                }
            }
        }
    }
    routes
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
}

/// Method and path of each `.route("PATH", METHODS)`.
fn routes_in(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(".route(") {
        let rest = text[at + ".route(".len()..].trim_start();
        let rest = rest
            .strip_prefix('"')
            .unwrap_or_else(|| panic!("a path that is not written out: {rest:.60}"));
        let (path, rest) = rest.split_once('"').unwrap();
        let mut depth = 1;
        let end = rest.find(|c| {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        let methods = &rest[..end.unwrap()];
        let before = found.len();
        for method in [
            "get", "post", "put", "patch", "delete", "any", "head", "options",
        ] {
            if methods.contains(&format!(" {method}(")) || methods.contains(&format!(".{method}("))
            {
                found.push((method.to_uppercase(), path.to_owned()));
            }
        }
        assert!(
            found.len() > before,
            "{path}: no method is seen in {methods}"
        );
    }
    for unseen in [".route_service(", ".nest(", ".nest_service("] {
        assert!(
            !text.contains(unseen),
            "{unseen} hides routes from this test"
        );
    }
    found
}

#[test]
fn no_route_of_the_mesh_is_forgotten() {
    let expected: BTreeSet<Route> = ROUTES
        .iter()
        .map(|(service, method, path, _)| (*service, (*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(expected.len(), ROUTES.len());
    assert_eq!(written(), expected);
}

/// Where each service listens on the mesh, by the sockets that its process holds.
fn listening(stack: &Stack) -> BTreeMap<Service, SocketAddr> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    // Columns: number, local address, remote address, state (0A listens), ..., inode.
    let ports: BTreeMap<String, u16> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields[3] == "0A")
        .map(|fields| {
            let (_, port) = fields[1].split_once(':').unwrap();
            (fields[9].to_owned(), u16::from_str_radix(port, 16).unwrap())
        })
        .collect();
    let of = |process: &Process| {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", process.pid)).unwrap();
        let links = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links
            .filter_map(|link| {
                let link = link.to_str()?;
                let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
                ports.get(inode).copied()
            })
            .find(|found| *found != port(&stack.ready))
    };
    Service::ALL
        .into_iter()
        .filter_map(|service| {
            let at = of(&stack.service(service.name()))?;
            Some((service, ([127, 0, 0, 1], at).into()))
        })
        .collect()
}

/// What the other side answers, as a status.
async fn status_of(client: &Client, method: &str, path: &str) -> u16 {
    let answer = match method {
        "GET" => client.get::<Value>(path).await,
        _ => client.post::<Value, Value>(path, &json!({})).await,
    };
    match answer {
        Ok(_) => 200,
        Err(error) => match error.problem() {
            Some(problem) => problem.status,
            // It answered, and not with JSON.
            None if matches!(error, CallError::Malformed { .. }) => 200,
            None => panic!("{method} {path}: {error}"),
        },
    }
}

/// When today's leaves have run out, so that only the registry can help.
#[derive(Debug)]
struct Tomorrow;

impl Clock for Tomorrow {
    fn now(&self) -> Timestamp {
        SystemClock.now() + SignedDuration::from_hours(25)
    }
}

/// A thread that has a card waiting, and the ids that paths are filled with.
struct Ids {
    thread: String,
    turn: String,
    gate: String,
    call: String,
}

impl Ids {
    async fn of(stack: &Stack) -> Self {
        let thread = stack.api.say("write hers.txt: x").await.unwrap();
        let card = stack.api.card(&thread).await.unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            turn: text(&card["turn_id"]),
            gate: text(&card["gate_id"]),
            call: text(&card["calls"][0]["call_id"]),
            thread,
        }
    }

    fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(2) {
            Some("turns") => &self.turn,
            Some("gates") => &self.gate,
            Some("calls") => &self.call,
            _ => &self.thread,
        };
        path.replace("{id}", id)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_s_certificate_opens_the_agent_s_routes_alone() {
    let stack = Stack::start();
    let at = listening(&stack);
    // The broker has no place on the mesh at all.
    assert_eq!(at.len(), 5, "{at:?}");
    assert!(!at.contains_key(&Service::RunnerBroker));
    let ids = Ids::of(&stack).await;

    // As whoever has taken the agent's process over: with its keys, in a folder of his own.
    let stolen = tempfile::tempdir_in("/tmp").unwrap();
    for entry in fs::read_dir(stack.folder().join("agent/keys")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), stolen.path().join(entry.file_name())).unwrap();
    }
    let keys = Utf8Path::from_path(stolen.path()).unwrap();
    let registry = at[&Service::GateRegistry];
    let enrolment = kazma_mesh::enrol(keys, Service::Agent, registry, None, &SystemClock)
        .await
        .unwrap();
    let client = |to: Service| Client::new(&enrolment.identity, to, at[&to]).unwrap();

    let mut wrong = Vec::new();
    for (service, method, path, open) in ROUTES {
        let status = status_of(&client(service), method, &ids.fill(path)).await;
        let right = match open {
            // Bad words get another answer than a closed door: 200, 4xx of other kinds.
            Open::All if path.starts_with("/v1/mesh/") => !matches!(status, 404 | 405 | 500..),
            Open::All | Open::Agent => !matches!(status, 401 | 403 | 404 | 405 | 500..),
            Open::Others => status == 403,
        };
        if !right {
            wrong.push(format!("{service} {method} {path}: {status}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    // Its key renews its own name, and no other's.
    let as_service = async |name| kazma_mesh::enrol(keys, name, registry, None, &Tomorrow).await;
    assert!(as_service(Service::Gateway).await.is_err());
    assert!(as_service(Service::RunnerApi).await.is_err());
    assert!(as_service(Service::Agent).await.is_ok());

    // Nothing of that has moved the card.
    let path = format!("/api/gates/{}", ids.gate);
    assert_eq!(stack.api.get(&path).await.unwrap().body["state"], "pending");
    assert!(!stack.folder().join("workspace/hers.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_the_mesh_is_closed() {
    kazma_mesh::install_crypto_provider();
    let stack = Stack::start();
    let at = listening(&stack);
    let ids = Ids::of(&stack).await;
    let mut wrong = Vec::new();
    for (service, method, path, open) in ROUTES {
        // The other side's certificate is of no interest here.
        let client = reqwest::Client::builder()
            .no_proxy()
            .danger_accept_invalid_certs(true)
            .http2_prior_knowledge()
            .resolve(&service.host(), at[&service])
            .build()
            .unwrap();
        let url = format!(
            "https://{}:{}{}",
            service.host(),
            at[&service].port(),
            ids.fill(path)
        );
        let request = match method {
            "GET" => client.get(url),
            _ => client.post(url).json(&json!({})),
        };
        let status = request.send().await.unwrap().status().as_u16();
        let right = match open {
            Open::All => !matches!(status, 401 | 403 | 404 | 405 | 500..),
            Open::Agent | Open::Others => status == 401,
        };
        if !right {
            wrong.push(format!("{service} {method} {path}: {status}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_the_public_api_is_closed() {
    kazma_mesh::install_crypto_provider();
    let stack = Stack::start();
    let document = stack.api.get("/api/openapi.json").await.unwrap().body;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut open = BTreeSet::new();
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let url = stack.url(&path.replace("{id}", "x").replace("{thread_id}", "x"));
            let method: reqwest::Method = method.to_uppercase().parse().unwrap();
            let request = client.request(method.clone(), url).json(&json!({}));
            let status = request.send().await.unwrap().status().as_u16();
            tried += 1;
            if status != 401 {
                open.insert(format!("{method} {path}"));
            }
        }
    }
    assert!(tried > 20, "{tried}");
    let expected = [
        "GET /api/auth/status",
        "GET /health/live",
        "GET /health/ready",
        "POST /api/auth/login",
    ];
    assert_eq!(open, BTreeSet::from(expected.map(str::to_owned)));
}
