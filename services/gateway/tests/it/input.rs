//! Bad input on every route names the field. Driven by the OpenAPI document: an operation that is not in the table fails.

use http::header;
use serde_json::{Value, json};

use crate::{
    double::{gate_id, thread_id},
    house::{House, read, request},
    roles::{filled, operations},
};

/// How a request is wrong.
enum Bad {
    /// The path; the field is the path's parameter.
    Path(&'static str, &'static str),
    /// The query.
    Query(&'static str, u16, &'static str),
    /// The JSON body.
    Body(Value, u16, &'static str),
    /// The text of a body.
    Text(&'static str, u16, &'static str),
    /// A header.
    Header(&'static str, &'static str, u16, &'static str),
    /// There is nothing to get wrong.
    Nothing,
}

fn digest() -> String {
    format!("sha256:{}", "0".repeat(64))
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn table() -> Vec<(&'static str, Vec<Bad>)> {
    use Bad::{Body, Header, Nothing, Path, Query, Text};
    let no_thread = || Path("/api/threads/gate_00000000000000000000000000000001", "id");
    vec![
        ("GET /api/threads", vec![Nothing]),
        ("POST /api/threads", vec![Nothing]),
        ("GET /api/threads/{id}", vec![no_thread()]),
        (
            "POST /api/threads/{id}/messages",
            vec![
                Path("/api/threads/x/messages", "id"),
                Body(json!({}), 422, "text"),
                Body(json!({"text": 7}), 422, "text"),
                Body(json!({"text": "  \n"}), 422, "text"),
                Body(json!({"text": long(64 * 1024 + 1)}), 413, "text"),
                Body(json!({"text": "a", "txt": "b"}), 422, "txt"),
                Body(json!({"text": "a", "wait": "an hour"}), 422, "wait"),
                Body(
                    json!({"text": "a", "idempotency_key": ""}),
                    422,
                    "idempotency_key",
                ),
                Body(
                    json!({"text": "a", "idempotency_key": long(201)}),
                    422,
                    "idempotency_key",
                ),
                Body(json!([]), 422, "body"),
                Text("{", 400, "body"),
                Text("{\"text\":\"a\"} x", 400, "body"),
            ],
        ),
        (
            "POST /api/turns/{id}/abort",
            vec![Path("/api/turns/x/abort", "id")],
        ),
        (
            "GET /api/threads/{id}/events",
            vec![
                Path("/api/threads/x/events", "id"),
                Query("after=x", 422, "after"),
                Query("after=-1", 422, "after"),
                Query("since=1", 422, "since"),
                Header("last-event-id", "x", 422, "Last-Event-ID"),
            ],
        ),
        (
            "GET /api/events",
            vec![
                Query("after=x", 422, "after"),
                Header("last-event-id", "x", 422, "Last-Event-ID"),
                Header("last-event-id", "-1", 422, "Last-Event-ID"),
            ],
        ),
        (
            "GET /api/gates",
            vec![
                Query("state=open", 422, "state"),
                Query("limit=0", 422, "limit"),
                Query("limit=1001", 422, "limit"),
                Query("limit=x", 422, "limit"),
                Query("states=pending", 422, "states"),
            ],
        ),
        ("GET /api/gates/{id}", vec![Path("/api/gates/x", "id")]),
        (
            "POST /api/gates/{id}/extend",
            vec![Path("/api/gates/x/extend", "id")],
        ),
        (
            "POST /api/gates/{id}/decision",
            vec![
                Path("/api/gates/x/decision", "id"),
                Body(json!({"decision": "approve"}), 422, "args_digest"),
                Body(json!({"args_digest": digest()}), 422, "decision"),
                Body(
                    json!({"decision": "maybe", "args_digest": digest()}),
                    422,
                    "decision",
                ),
                Body(
                    json!({"decision": "approve", "args_digest": "sha256:00"}),
                    422,
                    "args_digest",
                ),
                Body(
                    json!({"decision": "approve", "args_digest": digest(), "scope": "tool"}),
                    422,
                    "scope",
                ),
                Body(
                    json!({"decision": "approve", "args_digest": digest(), "scope": 1}),
                    422,
                    "scope",
                ),
                Body(
                    json!({"decision": "deny", "args_digest": digest(), "reason": long(2001)}),
                    422,
                    "reason",
                ),
                Body(
                    json!({"decision": "deny", "args_digest": digest(), "option": "a"}),
                    422,
                    "option",
                ),
                Body(
                    json!({"decision": "deny", "args_digest": digest(), "actor": "a"}),
                    422,
                    "actor",
                ),
                Text("approve", 400, "body"),
            ],
        ),
        (
            "POST /api/approve/{thread_id}",
            vec![
                Path("/api/approve/x", "thread_id"),
                Body(json!({"action": "yes"}), 422, "action"),
                Body(json!({"gate_id": "x"}), 422, "gate_id"),
                Body(json!({"interrupt_id": "x"}), 422, "interrupt_id"),
                Body(json!({"args_digest": "x"}), 422, "args_digest"),
                Text("{", 400, "body"),
            ],
        ),
        ("GET /api/pending-approvals", vec![Nothing]),
        (
            "POST /api/swarm/tasks/{id}/approve",
            vec![Path("/api/swarm/tasks/x/approve", "id")],
        ),
        (
            "POST /api/swarm/tasks/{id}/reject",
            vec![Path("/api/swarm/tasks/x/reject", "id")],
        ),
        ("GET /api/users", vec![Nothing]),
        (
            "POST /api/users",
            vec![
                Body(json!({"role": "viewer"}), 422, "name"),
                Body(json!({"name": "Lea"}), 422, "role"),
                Body(json!({"name": "Lea", "role": "root"}), 422, "role"),
                Body(json!({"name": "", "role": "viewer"}), 422, "name"),
                Body(json!({"name": "you", "role": "viewer"}), 422, "name"),
                Body(
                    json!({"name": "Le\u{200B}a", "role": "viewer"}),
                    422,
                    "name",
                ),
                Body(json!({"name": "OPERATOR", "role": "viewer"}), 409, "name"),
                Body(
                    json!({"name": "Lea", "role": "viewer", "id": "x"}),
                    422,
                    "id",
                ),
            ],
        ),
        ("DELETE /api/users/{id}", vec![Path("/api/users/x", "id")]),
        ("GET /api/auth/status", vec![Nothing]),
        (
            "POST /api/auth/login",
            vec![
                Body(json!({}), 422, "secret"),
                Body(json!({"secret": 1}), 422, "secret"),
                Body(json!({"secret": "a guess"}), 401, "secret"),
                Body(json!({"secret": "a", "name": "b"}), 422, "name"),
            ],
        ),
        ("POST /api/auth/logout", vec![Nothing]),
        ("GET /api/auth/me", vec![Nothing]),
        ("POST /api/auth/links", vec![Nothing]),
        ("GET /api/auth/sessions", vec![Nothing]),
        (
            "DELETE /api/auth/sessions/{id}",
            vec![Path("/api/auth/sessions/x", "id")],
        ),
        ("GET /api/auth/tokens", vec![Nothing]),
        (
            "POST /api/auth/tokens",
            vec![
                Body(json!({}), 422, "name"),
                Body(json!({"name": "<x>"}), 422, "name"),
                Body(json!({"name": "x", "expires_days": 0}), 422, "expires_days"),
                Body(
                    json!({"name": "x", "expires_days": 4000}),
                    422,
                    "expires_days",
                ),
                Body(
                    json!({"name": "x", "expires_days": -1}),
                    422,
                    "expires_days",
                ),
                Body(json!({"name": "x", "days": 1}), 422, "days"),
            ],
        ),
        (
            "DELETE /api/auth/tokens/{id}",
            vec![Path("/api/auth/tokens/x", "id")],
        ),
        ("GET /health/live", vec![Nothing]),
        ("GET /health/ready", vec![Nothing]),
        ("GET /health/details", vec![Nothing]),
    ]
}

#[test]
fn every_operation_has_bad_input() {
    let mut known: Vec<String> = table()
        .into_iter()
        .map(|(operation, _)| operation.to_owned())
        .collect();
    known.sort_unstable();
    let mut built = operations();
    built.sort_unstable();
    assert_eq!(
        built, known,
        "add the new operation to the table, with what can be wrong about it"
    );
}

#[tokio::test]
async fn bad_input_names_the_field() {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    house.registry.ask(1, thread);
    let operator = House::operator();
    for (operation, bads) in table() {
        let (method, path) = operation.split_once(' ').unwrap();
        let path = filled(path);
        for bad in bads {
            let json = |path: &str| {
                request(method, path, &operator).header(header::CONTENT_TYPE, "application/json")
            };
            let (request, status, field) = match bad {
                Bad::Nothing => continue,
                Bad::Path(path, field) => (json(path).body("{}".into()), 404, field),
                Bad::Query(query, status, field) => (
                    request(method, &format!("{path}?{query}"), &operator).body("".into()),
                    status,
                    field,
                ),
                Bad::Body(body, status, field) => {
                    (json(&path).body(body.to_string().into()), status, field)
                }
                Bad::Text(text, status, field) => (json(&path).body(text.into()), status, field),
                Bad::Header(name, value, status, field) => (
                    request(method, &path, &operator)
                        .header(name, value)
                        .body("".into()),
                    status,
                    field,
                ),
            };
            let request = request.unwrap();
            let asked = format!("{operation} {}", request.uri());
            let got = read(house.raw("127.0.0.1", request).await).await;
            assert_eq!(got.status.as_u16(), status, "{asked}: {}", got.body);
            let problem = got.problem();
            assert_eq!(
                problem.field.as_deref(),
                Some(field),
                "{asked}: {problem:?}"
            );
            assert_eq!(problem.status, status, "{asked}");
            assert!(
                problem.detail.is_some() && problem.instance.is_some(),
                "{asked}: {problem:?}"
            );
        }
    }
    assert!(house.registry.decisions.lock().unwrap().is_empty());
    assert!(house.registry.said.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_that_is_no_json_is_415_and_one_that_is_too_large_413() {
    let house = House::open().await;
    house.registry.thread(1, "hello");
    for (operation, bads) in table() {
        if !bads.iter().any(|bad| matches!(bad, Bad::Body(..))) {
            continue;
        }
        let (method, path) = operation.split_once(' ').unwrap();
        let path = filled(path);
        for media in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            let request =
                request(method, &path, &House::operator()).header(header::CONTENT_TYPE, media);
            let got = house.send(request.body("{}".into()).unwrap()).await;
            assert_eq!(
                (got.status.as_u16(), got.problem().field.as_deref()),
                (415, Some("Content-Type")),
                "{operation}"
            );
        }
        let request = request(method, &path, &House::operator())
            .header(header::CONTENT_TYPE, "application/json");
        let got = house
            .send(request.body(" ".repeat(1024 * 1024 + 1).into()).unwrap())
            .await;
        assert_eq!(
            (got.status.as_u16(), got.problem().field.as_deref()),
            (413, Some("body")),
            "{operation}"
        );
    }
}

#[tokio::test]
async fn a_method_that_is_not_there_is_405() {
    let house = House::open().await;
    for operation in operations() {
        let (_, path) = operation.split_once(' ').unwrap();
        for method in ["PUT", "PATCH", "TRACE"] {
            let got = house
                .send(
                    request(method, &filled(path), &House::operator())
                        .body("".into())
                        .unwrap(),
                )
                .await;
            assert_eq!(got.status, 405, "{method} {path}");
            assert!(got.problem().is("method"));
            assert_ne!(got.header("allow"), "", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_form_of_a_page_names_the_field_too() {
    let house = House::open().await;
    house.registry.thread(1, "hello");
    house.registry.ask(1, thread_id(1));
    let operator = crate::house::session(&house.enter(crate::house::SECRET).await);
    let decision = format!("/gates/{}/decision", gate_id(1));
    let digest = digest();
    for (path, fields, status, field) in [
        ("/threads".to_owned(), vec![("text", " ")], 422, "text"),
        ("/threads".to_owned(), vec![], 422, "text"),
        (
            format!("/threads/{}/messages", thread_id(1)),
            vec![("text", "")],
            422,
            "text",
        ),
        (
            decision.clone(),
            vec![("decision", "approve")],
            422,
            "args_digest",
        ),
        (
            decision.clone(),
            vec![("decision", "yes"), ("args_digest", &digest)],
            422,
            "decision",
        ),
        (decision, vec![("args_digest", &digest)], 422, "decision"),
        (
            "/ui/theme".to_owned(),
            vec![("theme", "pink")],
            422,
            "theme",
        ),
    ] {
        let got = house.form(&path, &operator, &fields).await;
        assert_eq!(got.status.as_u16(), status, "{path} {fields:?}");
        assert!(got.header("content-type").starts_with("text/html"));
        assert!(got.body.contains(field), "{path} {fields:?}: {}", got.body);
    }
}
