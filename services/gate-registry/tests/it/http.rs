use std::sync::Arc;

use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use kazma_domain::Service;
use kazma_gate_registry::router;
use kazma_mesh::Peer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::house::{House, ada, filing};

async fn call(
    house: &House,
    by: Option<Service>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let mut request = Request::builder().method(method).uri(path);
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let mut request = request.body(body).unwrap();
    request
        .extensions_mut()
        .insert(ConnectInfo(Peer { service: by }));
    let answer = router(Arc::clone(&house.registry))
        .oneshot(request)
        .await
        .unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

/// Every route with the services that may call it.
fn routes() -> Vec<(Method, &'static str, Vec<Service>)> {
    use Service::{Agent, Gateway, RunnerApi, RunnerEgress};
    let agent = || vec![Agent];
    let gateway = || vec![Gateway];
    let executors = || vec![RunnerApi, RunnerEgress, Gateway];
    vec![
        (Method::GET, "/v1/turns", agent()),
        (
            Method::GET,
            "/v1/turns/turn_00000000000070008000000000000001/calls",
            agent(),
        ),
        (
            Method::POST,
            "/v1/turns/turn_00000000000070008000000000000001/progress",
            agent(),
        ),
        (
            Method::POST,
            "/v1/turns/turn_00000000000070008000000000000001/finish",
            agent(),
        ),
        (
            Method::GET,
            "/v1/threads/thread_00000000000070008000000000000001/ledger",
            agent(),
        ),
        (Method::POST, "/v1/calls/unroutable", agent()),
        (Method::POST, "/v1/calls", executors()),
        (Method::GET, "/v1/work", executors()),
        (Method::GET, "/v1/claims", executors()),
        (Method::POST, "/v1/claims/report", executors()),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/permit",
            executors(),
        ),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/output",
            executors(),
        ),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/settle",
            executors(),
        ),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/replan",
            executors(),
        ),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/withdraw",
            executors(),
        ),
        (
            Method::POST,
            "/v1/calls/call_00000000000070008000000000000001/lose",
            executors(),
        ),
        (Method::POST, "/v1/permits/redeem", executors()),
        (Method::GET, "/v1/threads", gateway()),
        (Method::POST, "/v1/threads", gateway()),
        (
            Method::GET,
            "/v1/threads/thread_00000000000070008000000000000001",
            gateway(),
        ),
        (
            Method::POST,
            "/v1/threads/thread_00000000000070008000000000000001/messages",
            gateway(),
        ),
        (Method::GET, "/v1/gates", gateway()),
        (
            Method::GET,
            "/v1/gates/gate_00000000000070008000000000000001",
            gateway(),
        ),
        (
            Method::POST,
            "/v1/gates/gate_00000000000070008000000000000001/decision",
            gateway(),
        ),
        (
            Method::POST,
            "/v1/gates/gate_00000000000070008000000000000001/extend",
            gateway(),
        ),
        (
            Method::POST,
            "/v1/turns/turn_00000000000070008000000000000001/abort",
            gateway(),
        ),
        (Method::GET, "/v1/events", gateway()),
    ]
}

#[tokio::test]
async fn every_route_refuses_who_may_not_call_it() {
    let house = House::new().await;
    for (method, path, allowed) in routes() {
        for service in Service::ALL {
            if allowed.contains(&service) {
                continue;
            }
            let (status, problem) = call(&house, Some(service), method.clone(), path, None).await;
            assert_eq!(
                status,
                StatusCode::FORBIDDEN,
                "{method} {path} by {service}"
            );
            assert_eq!(problem["type"], "/problems/wrong-service");
        }
        let (status, _) = call(&house, None, method.clone(), path, None).await;
        assert_eq!(
            status,
            StatusCode::UNAUTHORIZED,
            "{method} {path} by nobody"
        );
    }
}

#[tokio::test]
async fn bad_input_on_every_route_names_the_field() {
    let house = House::new().await;
    for (method, path, allowed) in routes() {
        let by = Some(allowed[0]);
        if method == Method::POST {
            let body = Some(json!({"no_such_field": 1}));
            let (status, problem) = call(&house, by, method.clone(), path, body).await;
            assert_eq!(
                status,
                StatusCode::UNPROCESSABLE_ENTITY,
                "{path}: {problem}"
            );
            assert!(problem["field"].is_string(), "{path}: {problem}");
        } else if path != "/v1/threads" && path != "/v1/claims" && !path.contains("_0000") {
            let path = format!("{path}?after=soon&state=7&limit=many");
            let (status, problem) = call(&house, by, method.clone(), &path, None).await;
            assert!(status.is_client_error(), "{path}: {status} {problem}");
            assert!(problem["field"].is_string(), "{path}: {problem}");
        }
        if let Some((start, _)) = path.split_once("_0000") {
            let end = path.rsplit('/').next().filter(|end| !end.contains('_'));
            let path = format!("{start}_x/{}", end.unwrap_or_default());
            let path = path.trim_end_matches('/');
            let body = (method == Method::POST).then(|| json!({}));
            let (status, _) = call(&house, by, method.clone(), path, body).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        }
    }
}

/// Sends bytes as they are.
async fn send(
    house: &House,
    by: Service,
    method: Method,
    path: &str,
    media: &str,
    body: Vec<u8>,
) -> (u16, Value) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Body::from(body))
        .unwrap();
    let peer = Peer { service: Some(by) };
    request.extensions_mut().insert(ConnectInfo(peer));
    let answer = router(Arc::clone(&house.registry))
        .oneshot(request)
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

#[tokio::test]
async fn every_route_refuses_what_it_does_not_take() {
    let house = House::new().await;
    let large = vec![b' '; 33 * 1024 * 1024];
    for (method, path, allowed) in routes() {
        let by = allowed[0];
        let (status, problem) =
            send(&house, by, Method::PATCH, path, "application/json", vec![]).await;
        assert_eq!(
            (status, &problem["type"]),
            (405, &json!("/problems/method")),
            "{path}"
        );
        if method != Method::POST {
            continue;
        }
        for (media, body, expected) in [
            ("text/plain", b"{}".to_vec(), 415),
            ("application/x-www-form-urlencoded", b"a=b".to_vec(), 415),
            ("application/json", b"{".to_vec(), 400),
            ("application/json", b"\xff\xfe{}".to_vec(), 400),
            ("application/json", large.clone(), 413),
        ] {
            let (status, problem) = send(&house, by, Method::POST, path, media, body).await;
            assert_eq!(status, expected, "{path} {media}: {problem}");
            assert!(problem["type"].is_string(), "{path} {media}: {problem}");
        }
    }
}

#[tokio::test]
async fn a_call_goes_all_the_way_by_http() {
    let house = House::new().await;
    let (gateway, agent, runner) = (
        Some(Service::Gateway),
        Some(Service::Agent),
        Some(Service::RunnerApi),
    );
    let actor = json!(ada());
    let body = json!({"actor": actor});
    let (status, made) = call(&house, gateway, Method::POST, "/v1/threads", Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let thread = made["thread"].as_str().unwrap().to_owned();
    let body = json!({"actor": actor, "surface": "web", "text": "go", "idempotency_key": null});
    let path = format!("/v1/threads/{thread}/messages");
    let (_, opened) = call(&house, gateway, Method::POST, &path, Some(body)).await;
    let turn = opened["turn"].as_str().unwrap().to_owned();

    let (_, live) = call(
        &house,
        agent,
        Method::GET,
        "/v1/turns?after=0&wait_ms=0",
        None,
    )
    .await;
    assert_eq!(live["items"][0]["turn"], turn.as_str());
    let at = (thread.parse().unwrap(), turn.parse().unwrap());
    let body = json!(filing(at, 0, "python_exec", json!({"code": "print(45)"})));
    let (status, filed) = call(&house, runner, Method::POST, "/v1/calls", Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{filed}");
    let id = filed["call"]["id"].as_str().unwrap().to_owned();

    let (_, gates) = call(
        &house,
        gateway,
        Method::GET,
        "/v1/gates?state=pending&limit=10",
        None,
    )
    .await;
    let gate = gates[0]["gate"].as_str().unwrap().to_owned();
    let body = json!({"actor": actor, "surface": "web", "decision": "approve",
        "card": gates[0]["args_digest"], "electorate": 1, "reason": null});
    let path = format!("/v1/gates/{gate}/decision");
    let (status, decided) = call(&house, gateway, Method::POST, &path, Some(body)).await;
    assert_eq!(
        (status, &decided["settled"]),
        (StatusCode::OK, &json!(true))
    );

    let path = format!("/v1/calls/{id}/permit");
    let (_, permit) = call(&house, runner, Method::POST, &path, Some(json!({}))).await;
    let body = json!({"permit": permit, "attempt": house.id::<kazma_domain::id::AttemptKind>()});
    let (status, _) = call(
        &house,
        runner,
        Method::POST,
        "/v1/permits/redeem",
        Some(body),
    )
    .await;
    assert_eq!(status, StatusCode::OK);
    let body = json!(crate::house::ending("45"));
    let path = format!("/v1/calls/{id}/settle");
    let (status, _) = call(&house, runner, Method::POST, &path, Some(body)).await;
    assert_eq!(status, StatusCode::NO_CONTENT);

    let path = format!("/v1/turns/{turn}/calls?after=0");
    let (_, calls) = call(&house, agent, Method::GET, &path, None).await;
    assert_eq!(calls["items"][0]["output"]["text"], "45");
    let path = format!("/v1/threads/{thread}/ledger?after=0");
    let (_, ledger) = call(&house, agent, Method::GET, &path, None).await;
    assert_eq!(ledger["items"][1]["kind"]["kind"], "result");
    let body = json!({"state": "done", "text": "It is 45."});
    let path = format!("/v1/turns/{turn}/finish");
    let (status, _) = call(&house, agent, Method::POST, &path, Some(body)).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let path = format!("/v1/threads/{thread}");
    let (_, view) = call(&house, gateway, Method::GET, &path, None).await;
    assert_eq!(view["turns"][0]["state"], "done");
    assert_eq!(view["gates"][0]["state"], "settled");
}

#[tokio::test]
async fn the_late_decision_is_a_conflict_that_names_who_was_first() {
    let house = House::new().await;
    let at = house.turn().await;
    let filed = house.python(at, 0, "print(1)").await;
    house.approve(&filed).await;
    let gate = house.registry.gate(filed.call.gate.unwrap()).await.unwrap();
    let body = json!({"actor": crate::house::bo(), "surface": "web", "decision": "deny",
        "card": gate.args_digest, "electorate": 1, "reason": null});
    let path = format!("/v1/gates/{}/decision", gate.gate);
    let (status, problem) = call(
        &house,
        Some(Service::Gateway),
        Method::POST,
        &path,
        Some(body),
    )
    .await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(problem["type"], "/problems/gate-decided");
    assert_eq!(problem["decision"], "approve");
    assert_eq!(problem["decided_by"], "Ada");
    assert_eq!(problem["surface"], "web");
    assert!(problem["decided_at"].is_string());
}

#[tokio::test]
async fn health_is_told_to_anybody_and_nothing_else_is() {
    let house = House::new().await;
    let (status, body) = call(&house, None, Method::GET, "/v1/health", None).await;
    assert_eq!((status, body), (StatusCode::OK, json!({"status": "ok"})));
    let (status, _) = call(&house, None, Method::GET, "/v1/nothing", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = call(&house, None, Method::DELETE, "/v1/health", None).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
