//! Who may do what: every operation of the API by everybody. An operation that is not in the table fails.

use std::collections::BTreeMap;

use http::header;
use jiff::SignedDuration;
use kazma_domain::Role;
use serde_json::{Value, json};

use crate::{
    double::{gate_id, thread_id, turn_id},
    house::{House, SECRET, Show, encoded, form, read, request, session},
};

/// Who may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Everybody,
    Anyone,
    Decides,
    Chats,
    Administers,
}

impl Who {
    fn may(self, role: Role) -> bool {
        match self {
            Self::Everybody | Self::Anyone => true,
            Self::Decides => role.may_decide(),
            Self::Chats => role.may_chat(),
            Self::Administers => role.may_administer(),
        }
    }
}

/// The table of the API. Source: architecture, section 6.
const TABLE: [(&str, Who); 33] = [
    ("GET /api/threads", Who::Anyone),
    ("POST /api/threads", Who::Chats),
    ("GET /api/threads/{id}", Who::Anyone),
    ("POST /api/threads/{id}/messages", Who::Chats),
    ("POST /api/turns/{id}/abort", Who::Chats),
    ("GET /api/threads/{id}/events", Who::Anyone),
    ("GET /api/events", Who::Anyone),
    ("GET /api/gates", Who::Anyone),
    ("GET /api/gates/{id}", Who::Anyone),
    ("POST /api/gates/{id}/decision", Who::Decides),
    ("POST /api/gates/{id}/extend", Who::Decides),
    ("POST /api/approve/{thread_id}", Who::Decides),
    ("GET /api/pending-approvals", Who::Anyone),
    ("POST /api/swarm/tasks/{id}/approve", Who::Chats),
    ("POST /api/swarm/tasks/{id}/reject", Who::Chats),
    ("GET /api/users", Who::Administers),
    ("POST /api/users", Who::Administers),
    ("DELETE /api/users/{id}", Who::Administers),
    ("GET /api/auth/status", Who::Everybody),
    ("POST /api/auth/login", Who::Everybody),
    ("POST /api/auth/logout", Who::Anyone),
    ("GET /api/auth/me", Who::Anyone),
    ("POST /api/auth/links", Who::Anyone),
    ("GET /api/auth/sessions", Who::Anyone),
    ("DELETE /api/auth/sessions/{id}", Who::Anyone),
    ("GET /api/auth/tokens", Who::Anyone),
    ("POST /api/auth/tokens", Who::Anyone),
    ("DELETE /api/auth/tokens/{id}", Who::Anyone),
    ("GET /health/live", Who::Everybody),
    ("GET /health/ready", Who::Everybody),
    ("GET /health/details", Who::Anyone),
    ("GET /api/openapi.json", Who::Everybody),
    ("GET /assets/{name}", Who::Everybody),
];

/// The pages, which send strangers to the sign-in page.
const PAGES: [(&str, Who); 12] = [
    ("GET /", Who::Anyone),
    ("GET /chat", Who::Anyone),
    ("GET /threads", Who::Anyone),
    ("GET /threads/{id}", Who::Anyone),
    ("GET /approvals", Who::Anyone),
    ("GET /gates/{id}", Who::Anyone),
    ("POST /threads", Who::Chats),
    ("POST /threads/{id}/messages", Who::Chats),
    ("POST /turns/{id}/abort", Who::Chats),
    ("POST /gates/{id}/decision", Who::Decides),
    ("POST /gates/{id}/extend", Who::Decides),
    ("POST /ui/theme", Who::Anyone),
];

/// Not in the document: the document itself, and files.
const UNDOCUMENTED: [&str; 2] = ["GET /api/openapi.json", "GET /assets/{name}"];

/// Every operation of the OpenAPI document, as `METHOD /path`.
pub(crate) fn operations() -> Vec<String> {
    let document = serde_json::to_value(kazma_gateway::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete"] {
            if item.get(method).is_some() {
                all.push(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    all
}

/// The path of an operation with ids in it that exist in [`furnished`].
pub(crate) fn filled(path: &str) -> String {
    let path = path
        .replace("{thread_id}", &thread_id(1).to_string())
        .replace("{name}", "none.css");
    let id = match path.split('/').nth(2) {
        Some("threads") => thread_id(1).to_string(),
        Some("turns") => turn_id(1).to_string(),
        Some("gates") => gate_id(1).to_string(),
        Some("users") => "person_00000000000000000000000000000001".to_owned(),
        _ if path.starts_with("/threads") => thread_id(1).to_string(),
        _ if path.starts_with("/turns") => turn_id(1).to_string(),
        _ if path.starts_with("/gates") => gate_id(1).to_string(),
        _ if path.starts_with("/api/auth/sessions") => {
            "session_00000000000000000000000000000001".to_owned()
        }
        _ if path.starts_with("/api/auth/tokens") => {
            "00000000-0000-0000-0000-000000000001".to_owned()
        }
        _ => "task-1".to_owned(),
    };
    path.replace("{id}", &id)
}

/// A body that is right for an operation.
pub(crate) fn body(operation: &str, digest: &str) -> Value {
    match operation {
        "POST /api/threads/{id}/messages" => json!({"text": "hello"}),
        "POST /api/gates/{id}/decision" => json!({"decision": "deny", "args_digest": digest}),
        "POST /api/users" => json!({"name": "", "role": "viewer"}),
        "POST /api/auth/login" => json!({"secret": "a guess"}),
        "POST /api/auth/tokens" => json!({"name": ""}),
        _ => json!({}),
    }
}

async fn furnished() -> (House, String) {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    let digest = house.registry.ask(1, thread).args_digest.to_string();
    (house, digest)
}

/// Sends an operation's request and reads its status; streams are let go.
async fn status(house: &House, operation: &str, show: &Show, digest: &str) -> u16 {
    let (method, path) = operation.split_once(' ').unwrap();
    let mut builder = request(method, &filled(path), show);
    if method == "POST" {
        builder = builder.header(header::CONTENT_TYPE, "application/json");
    }
    let text = if method == "POST" {
        body(operation, digest).to_string()
    } else {
        String::new()
    };
    house
        .raw("127.0.0.1", builder.body(text.into()).unwrap())
        .await
        .status()
        .as_u16()
}

#[test]
fn every_operation_is_in_the_table() {
    let mut known: Vec<&str> = TABLE.iter().map(|(operation, _)| *operation).collect();
    known.retain(|operation| !UNDOCUMENTED.contains(operation));
    known.sort_unstable();
    let mut built = operations();
    built.sort_unstable();
    assert_eq!(
        built, known,
        "add the new operation to the table, with who may do it"
    );
}

#[tokio::test]
async fn each_operation_is_for_those_who_may() {
    let (house, digest) = furnished().await;
    let mut people = BTreeMap::new();
    for role in Role::ALL {
        people.insert(
            role.name(),
            (role, house.person(&format!("a {role}"), role).await),
        );
    }
    let expired = session(&house.enter(SECRET).await);
    let id = house.get("/api/auth/sessions", &expired).await.json()["sessions"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        house
            .delete(&format!("/api/auth/sessions/{id}"), &expired)
            .await
            .status,
        204
    );

    for (operation, who) in TABLE {
        for nobody in [
            Show::Nothing,
            expired.clone(),
            Show::Bearer("kazma_wrong".to_owned()),
        ] {
            let got = status(&house, operation, &nobody, &digest).await;
            if who == Who::Everybody {
                // A sign-in that fails is 401 by its own word.
                assert!(
                    got != 403 && (got != 401 || operation.ends_with("/login")),
                    "{operation} {nobody:?}: {got}"
                );
            } else {
                assert_eq!(got, 401, "{operation} {nobody:?}");
            }
        }
        for (name, (role, show)) in &mut people {
            let got = status(&house, operation, show, &digest).await;
            let expected_no = operation == "POST /api/auth/links";
            if who.may(*role) && !expected_no {
                assert!(
                    got != 403 && (got != 401 || operation.ends_with("/login")),
                    "{operation} as {name}: {got}"
                );
            } else {
                assert_eq!(got, 403, "{operation} as {name}");
            }
            if operation.ends_with("/logout") {
                // The session has ended, so this person signs in again by a new link.
                *show = house.person(&format!("{name} again"), *role).await;
            }
        }
    }
}

#[tokio::test]
async fn each_page_is_for_those_who_may() {
    let (house, digest) = furnished().await;
    for (operation, who) in PAGES {
        let (method, path) = operation.split_once(' ').unwrap();
        let send = async |show: &Show| {
            let csrf = if let Show::Cookie(_, csrf) = show {
                csrf.as_str()
            } else {
                ""
            };
            let fields = [
                ("csrf", csrf),
                ("text", "hi"),
                ("decision", "deny"),
                ("args_digest", &digest),
                ("theme", "dark"),
            ];
            let (builder, text) = if method == "POST" {
                (form(&filled(path), show), encoded(&fields))
            } else {
                (request("GET", &filled(path), show), String::new())
            };
            read(
                house
                    .raw("127.0.0.1", builder.body(text.into()).unwrap())
                    .await,
            )
            .await
        };
        let got = send(&Show::Nothing).await;
        assert_eq!(
            (
                got.status.as_u16(),
                got.header("location").starts_with("/login")
            ),
            (303, true),
            "{operation}"
        );
        for role in Role::ALL {
            let show = house
                .person(
                    &format!("{role} {}", operation.replace(['/', '{', '}'], "-")),
                    role,
                )
                .await;
            let got = send(&show).await;
            if who.may(role) {
                let fine = matches!(got.status.as_u16(), 200 | 409)
                    || got.status == 303 && !got.header("location").starts_with("/login");
                assert!(fine, "{operation} as {role}: {} {}", got.status, got.body);
            } else {
                assert_eq!(got.status, 403, "{operation} as {role}");
            }
        }
    }
}

#[tokio::test]
async fn parts_of_pages_say_401_and_lead_nowhere() {
    let (house, _) = furnished().await;
    for path in [
        "/ui/events",
        "/ui/count",
        &format!("/ui/gates/{}", gate_id(1)),
        &format!("/ui/threads/{}/messages", thread_id(1)),
    ] {
        assert_eq!(house.get(path, &Show::Nothing).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn a_session_may_not_outlive_its_time_by_asking() {
    let (house, _) = furnished().await;
    let lea = house.person("Lea", Role::Admin).await;
    house.clock.pass(SignedDuration::from_hours(14 * 24 - 1));
    assert_eq!(house.get("/api/threads", &lea).await.status, 200);
    house.clock.pass(SignedDuration::from_hours(1));
    assert_eq!(house.get("/api/threads", &lea).await.status, 401);
}
