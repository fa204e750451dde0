use axum::{Router, body::Body, extract::ConnectInfo};
use http_body_util::BodyExt as _;
use kazma_domain::Service;
use kazma_mesh::Peer;
use kazma_wire::{executor::Proposal, runner::RunnerStatus};
use tower::ServiceExt as _;

use super::*;
use crate::api::routes;

impl House {
    fn app(&self) -> Router {
        routes::routes(self.executor.clone())
    }

    async fn ask(
        &self,
        who: Option<Service>,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        request
            .extensions_mut()
            .insert(ConnectInfo(Peer { service: who }));
        let answer = self.app().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    async fn name(&self, tool: &str, arguments: Value) -> (u16, Value) {
        let body = json!({
            "thread": "thread_0192f0c4000070008000000000000001",
            "turn": "turn_0192f0c4000070008000000000000002",
            "index": 0,
            "tool": tool,
            "arguments": arguments,
        });
        self.ask(Some(Service::Agent), "POST", "/v1/plans", body)
            .await
    }

    /// The rule by which the last filed call was refused; none if it was planned.
    fn refused_by(&self) -> Option<String> {
        self.registry.with(
            |inner| match &inner.filed.last().expect("nothing was filed").proposal {
                Proposal::Plan(_) => None,
                Proposal::Refuse { rule, reason } => {
                    assert!(reason.ends_with('.'), "{reason}");
                    Some(rule.clone())
                }
            },
        )
    }
}

#[tokio::test(start_paused = true)]
async fn each_route_takes_its_callers_alone() {
    let house = House::new();
    for (method, path, allowed) in [
        ("POST", "/v1/plans", &[Service::Agent][..]),
        ("GET", "/v1/status", &[Service::Gateway, Service::Agent]),
        ("GET", "/v1/health", &Service::ALL),
    ] {
        assert_eq!(
            house.ask(None, method, path, json!({})).await.0,
            401,
            "{path}"
        );
        for service in Service::ALL {
            let (status, _) = house.ask(Some(service), method, path, json!({})).await;
            assert_eq!(
                status != 403,
                allowed.contains(&service),
                "{service} {path}: {status}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_field_is_named() {
    let house = House::new();
    let (status, problem) = house
        .ask(Some(Service::Agent), "POST", "/v1/plans", json!({}))
        .await;
    assert_eq!((status, &problem["field"]), (422, &json!("thread")));
    let (status, problem) = house
        .name("python_exec", json!({"code": "x", "cwd": "/"}))
        .await;
    assert_eq!((status, &problem["field"]), (422, &json!("arguments.cwd")));
    let (status, problem) = house.name("code_exec", json!({"code": "1"})).await;
    assert_eq!((status, &problem["field"]), (422, &json!("tool")));
    house.registry.with(|inner| assert!(inner.filed.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_named_call_is_planned_filed_and_not_run() {
    let house = House::new();
    let (status, planned) = house.name("python_exec", json!({"code": "print(1)"})).await;
    assert_eq!(status, 200);
    assert_eq!(planned["call"]["principal"], json!("agent"));
    assert_eq!(house.refused_by(), None);
    house.idle().await;
    assert_eq!(house.python.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_run_at_once_does() {
    let house = House::new();
    house.registry.with(|inner| inner.approve_at_once = true);
    house.name("python_exec", json!({"code": "print(1)"})).await;
    house.idle().await;
    assert_eq!(house.python.runs(), 1);
    house
        .registry
        .with(|inner| assert_eq!(inner.log, ["redeem", "settle"]));
}

#[tokio::test(start_paused = true)]
async fn what_will_not_be_done_is_filed_with_its_reason() {
    let house = House::new();
    std::os::unix::fs::symlink("/etc/passwd", house.file("link")).unwrap();
    std::fs::write(house.file("a"), "x").unwrap();
    std::fs::hard_link(house.file("a"), house.file("b")).unwrap();
    // Every byte of it takes six in a plan.
    std::fs::write(house.file("odd"), "\u{1}".repeat(1024 * 1024)).unwrap();
    let long = "x".repeat(200_000);
    for (tool, arguments, rule) in [
        ("python_exec", json!({"code": " \n"}), "code-empty"),
        ("python_exec", json!({"code": long}), "code-long"),
        ("python_exec", json!({"code": "a\0b"}), "code-nul"),
        (
            "python_exec",
            json!({"code": "print(1)\nimport os"}),
            "code-refused",
        ),
        ("python_exec", json!({"code": "def f(:"}), "code-refused"),
        ("file_read", json!({"path": "/etc/passwd"}), "path-outside"),
        ("file_read", json!({"path": "../x"}), "path-parent"),
        ("file_read", json!({"path": "link"}), "path-symlink"),
        ("file_read", json!({"path": "b"}), "path-hard-link"),
        ("file_read", json!({"path": "gone"}), "file-missing"),
        ("file_read", json!({"path": ""}), "path-empty"),
        (
            "file_write",
            json!({"path": "x/.git/config", "content": ""}),
            "path-git",
        ),
        (
            "file_write",
            json!({"path": "x", "content": "a\0"}),
            "content-binary",
        ),
        (
            "file_write",
            json!({"path": "odd", "content": ""}),
            "plan-too-big",
        ),
        ("file_list", json!({"pattern": "a/*"}), "pattern"),
    ] {
        let (status, _) = house.name(tool, arguments).await;
        assert_eq!(status, 200, "{rule}");
        assert_eq!(house.refused_by().as_deref(), Some(rule));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_sandbox_code_is_denied_with_the_reason_and_files_still_work() {
    let house = House::new();
    house.python.trouble("bwrap is missing.");
    house.name("python_exec", json!({"code": "print(1)"})).await;
    assert_eq!(house.refused_by().as_deref(), Some("runner-not-ready"));
    let (_, status) = house
        .ask(Some(Service::Gateway), "GET", "/v1/status", json!({}))
        .await;
    let status: RunnerStatus = serde_json::from_value(status).unwrap();
    assert_eq!(
        (status.ready, status.reason.as_str()),
        (false, "bwrap is missing.")
    );
    house.name("file_list", json!({})).await;
    assert_eq!(house.refused_by(), None);

    house.python.with(|inner| inner.unreachable = true);
    house.name("python_exec", json!({"code": "print(1)"})).await;
    assert_eq!(house.refused_by().as_deref(), Some("runner-not-ready"));
    let (code, status) = house
        .ask(Some(Service::Gateway), "GET", "/v1/status", json!({}))
        .await;
    assert_eq!((code, &status["ready"]), (200, &json!(false)));
}
