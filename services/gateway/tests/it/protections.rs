//! What stands between the network and the handlers.

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::body::Body;
use http::{HeaderValue, Request, header};
use kazma_domain::Role;
use serde_json::json;

use crate::{
    double::{gate_id, thread_id},
    house::{House, ORIGIN, Plan, SECRET, Show, TOKEN, encoded, form, read, request, session},
};

#[tokio::test]
async fn another_host_is_not_served_for_reads_either() {
    let house = House::open().await;
    for host in [
        "evil.example",
        "evil.example:9090",
        "localhost",
        "localhost:80",
        "192.168.1.9:9090",
        "",
    ] {
        for path in [
            "/",
            "/api/gates",
            "/health/live",
            "/login",
            "/nothing",
            "/assets/x.css",
        ] {
            let mut request = request("GET", path, &House::operator())
                .body(Body::empty())
                .unwrap();
            request
                .headers_mut()
                .insert(header::HOST, HeaderValue::from_str(host).unwrap());
            request.headers_mut().insert(
                header::ORIGIN,
                HeaderValue::from_str(&format!("http://{host}")).unwrap(),
            );
            let got = house.send(request).await;
            assert_eq!(
                (got.status.as_u16(), got.problem().field.as_deref()),
                (421, Some("Host")),
                "{host} {path}"
            );
        }
    }
    let twice = request("GET", "/health/live", &Show::Nothing).header(header::HOST, "evil.example");
    assert_eq!(
        house.send(twice.body(Body::empty()).unwrap()).await.status,
        421
    );
    let absolute =
        Request::get("http://evil.example/health/live").header(header::HOST, "localhost:9090");
    assert_eq!(
        house
            .send(absolute.body(Body::empty()).unwrap())
            .await
            .status,
        421
    );
    let none = Request::get("/health/live").body(Body::empty()).unwrap();
    assert_eq!(house.send(none).await.status, 421);
}

#[tokio::test]
async fn a_cookie_changes_nothing_from_elsewhere() {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    house.registry.ask(1, thread);
    let Show::Cookie(cookie, csrf) = session(&house.enter(SECRET).await) else {
        unreachable!()
    };
    let other = session(&house.enter(SECRET).await);
    let Show::Cookie(_, others) = &other else {
        unreachable!()
    };
    let send = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost:9090")
            .header(header::COOKIE, &cookie)
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        house
            .send(request.body("{}".into()).unwrap())
            .await
            .status
            .as_u16()
    };
    let mutations: Vec<(&str, String)> = crate::roles::operations()
        .iter()
        .filter(|operation| !operation.starts_with("GET ") && !operation.ends_with("/login"))
        .map(|operation| operation.split_once(' ').unwrap())
        .map(|(method, path)| {
            (
                if method == "POST" { "POST" } else { "DELETE" },
                crate::roles::filled(path),
            )
        })
        .collect();
    assert!(mutations.len() > 10);
    for (method, path) in &mutations {
        for foreign in [
            &[][..],
            &[("origin", "http://evil.example")],
            &[("origin", "null")],
            &[("origin", "http://localhost:9091")],
            &[("origin", "https://localhost:9090")],
            &[
                ("origin", "http://evil.example"),
                ("x-csrf-token", csrf.as_str()),
            ],
            &[("x-csrf-token", "wrong")],
            &[("x-csrf-token", others.as_str())],
            &[("origin", ORIGIN), ("x-csrf-token", "wrong")],
            &[("origin", ORIGIN), ("sec-fetch-site", "same-site")],
            &[
                ("x-csrf-token", csrf.as_str()),
                ("sec-fetch-site", "cross-site"),
            ],
        ] {
            assert_eq!(
                send(method, path, foreign).await,
                403,
                "{method} {path} {foreign:?}"
            );
        }
    }
    for own in [
        &[("origin", ORIGIN)][..],
        &[("x-csrf-token", csrf.as_str())],
        &[
            ("origin", ORIGIN),
            ("x-csrf-token", csrf.as_str()),
            ("sec-fetch-site", "same-origin"),
        ],
    ] {
        assert_eq!(send("POST", "/api/threads", own).await, 201, "{own:?}");
    }
    // A bearer says itself who it is: no page of another site can make a browser send it.
    let request = request("POST", "/api/threads", &House::operator())
        .header(header::ORIGIN, "http://evil.example");
    assert_eq!(
        house
            .send(request.body(Body::empty()).unwrap())
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn a_form_without_the_sessions_token_does_nothing() {
    let house = House::open().await;
    let thread = house.registry.thread(1, "hello");
    let digest = house.registry.ask(1, thread).args_digest.to_string();
    let lea = session(&house.enter(SECRET).await);
    let Show::Cookie(_, others) = session(&house.enter(SECRET).await) else {
        unreachable!()
    };
    for path in [
        format!("/gates/{}/decision", gate_id(1)),
        "/threads".to_owned(),
        format!("/threads/{}/messages", thread_id(1)),
        "/ui/theme".to_owned(),
        "/logout".to_owned(),
    ] {
        for csrf in ["", "wrong", &others] {
            let fields = [
                ("csrf", csrf),
                ("text", "a"),
                ("decision", "approve"),
                ("args_digest", &digest),
                ("theme", "dark"),
            ];
            let got = house
                .send(form(&path, &lea).body(encoded(&fields).into()).unwrap())
                .await;
            assert_eq!(got.status, 403, "{path} {csrf}");
        }
    }
    assert!(house.registry.decisions.lock().unwrap().is_empty());
    assert!(house.registry.said.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_answer_carries_its_headers() {
    let house = House::open().await;
    let lea = house.person("Lea", Role::Viewer).await;
    let mut nonces = Vec::new();
    for path in [
        "/login",
        "/chat",
        "/nothing",
        "/api/gates",
        "/api/nothing",
        "/health/live",
    ] {
        let show = if path == "/login" {
            &Show::Nothing
        } else {
            &lea
        };
        let request = request("GET", path, show).header(header::ACCEPT, "text/html");
        let got = house.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(got.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(
            got.header("cross-origin-opener-policy"),
            "same-origin",
            "{path}"
        );
        assert_eq!(got.header("cache-control"), "no-store", "{path}");
        assert!(
            got.header("permissions-policy").contains("camera=()"),
            "{path}"
        );
        let policy = got.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let html = got.header("content-type").starts_with("text/html");
        assert_eq!(
            html,
            !path.starts_with("/api") && !path.starts_with("/health"),
            "{path}"
        );
        if html {
            assert!(
                policy.contains("require-trusted-types-for 'script'"),
                "{policy}"
            );
            assert!(!policy.contains("unsafe"), "{policy}");
            let nonce = policy
                .split_once("'nonce-")
                .unwrap()
                .1
                .split_once('\'')
                .unwrap()
                .0
                .to_owned();
            assert_eq!(nonce.len(), 22);
            assert!(got.body.contains(&format!("nonce=\"{nonce}\"")), "{path}");
            nonces.push(nonce);
        }
    }
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 3, "one of its own for each answer");
}

#[tokio::test]
async fn assets_are_for_ever_and_nothing_else_is() {
    let house = House::open().await;
    for asset in kazma_gateway::pages::assets() {
        let got = house.get(asset.url, &Show::Nothing).await;
        assert_eq!(
            (got.status.as_u16(), got.header("content-type")),
            (200, asset.content_type)
        );
        assert_eq!(
            got.header("cache-control"),
            "public, max-age=31536000, immutable"
        );
    }
    let got = house
        .get("/assets/app-0000000000000000.css", &Show::Nothing)
        .await;
    assert_eq!(
        (got.status.as_u16(), got.header("cache-control")),
        (404, "no-store")
    );
}

#[tokio::test]
async fn another_spelling_of_a_path_is_not_there() {
    let house = House::open().await;
    for path in [
        "//api/gates",
        "/api//gates",
        "/api/./gates",
        "/api/../api/gates",
        "/%61pi/gates",
        "/api/gates%2f",
        "/api%2fgates",
        "/API/gates",
        "/api/gates/",
        "/api/gates/..%2f",
        "/api/%2e%2e/gates",
        "/api/gates%00",
        "/api/gates;x",
        "/health/details/",
        "//health/details",
    ] {
        for show in [Show::Nothing, House::operator()] {
            assert_eq!(house.get(path, &show).await.status, 404, "{path}");
        }
    }
}

#[tokio::test]
async fn an_undeclared_proxy_is_seen_said_and_not_believed() {
    let house = House::open().await;
    let status = house.get("/api/auth/status", &Show::Nothing).await.json();
    assert_eq!(status["authenticated"], false);
    assert_eq!(
        (&status["proxy"]["state"], &status["proxy"]["hint"]),
        (&json!("direct"), &json!(""))
    );
    for n in 0..10 {
        let request = request("POST", "/api/auth/login", &Show::Nothing)
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-forwarded-for", format!("8.8.8.{n}"));
        assert_eq!(
            house
                .send(request.body(r#"{"secret":"a guess"}"#.into()).unwrap())
                .await
                .status,
            401
        );
    }
    // All ten were the proxy's: writing another address into a header gives no new tries.
    assert_eq!(house.enter(SECRET).await.status, 429);
    let status = house
        .get("/api/auth/status", &House::operator())
        .await
        .json();
    assert_eq!(
        (&status["proxy"]["state"], &status["role"]),
        (&json!("undeclared_proxy"), &json!("admin"))
    );
    assert!(
        status["proxy"]["hint"]
            .as_str()
            .unwrap()
            .contains("KAZMA_TRUSTED_PROXIES")
    );
    assert_eq!(house.get("/api/gates", &Show::Nothing).await.status, 401);
}

#[tokio::test]
async fn a_declared_proxy_is_believed() {
    let plan = Plan {
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..Plan::default()
    };
    let house = House::with(plan).await;
    for n in 0..20 {
        let request = request("POST", "/api/auth/login", &Show::Nothing)
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-forwarded-for", format!("8.8.8.{n}"));
        assert_eq!(
            house
                .send(request.body(r#"{"secret":"a guess"}"#.into()).unwrap())
                .await
                .status,
            401
        );
    }
    let status = house.get("/api/auth/status", &Show::Nothing).await.json();
    assert_eq!(status["proxy"]["state"], "declared");
}

#[tokio::test]
async fn two_hundred_requests_pass_and_a_flood_does_not() {
    let house = House::open().await;
    let lea = house.person("Lea", Role::Viewer).await;
    let mut held = None;
    for n in 0..20_000 {
        let got = house.get("/api/auth/me", &House::operator()).await;
        if got.status == 429 {
            held = Some((n, got));
            break;
        }
        assert_eq!(got.status, 200);
    }
    let (passed, got) = held.expect("a flood is held back");
    assert!(passed >= 200, "{passed}");
    assert!(got.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(
        house.get("/api/auth/me", &lea).await.status,
        200,
        "another credential"
    );
}

/// What was logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("trace")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let house = House::open().await;
    let code = house.invite("Lea", Role::Admin).await;
    let lea = session(&house.enter(&code).await);
    let Show::Cookie(cookie, csrf) = &lea else {
        unreachable!()
    };
    let made = house
        .post("/api/auth/tokens", &lea, json!({"name": "script"}))
        .await
        .json();
    house.enter("a wrong guess").await;
    house
        .form("/login", &Show::Nothing, &[("secret", SECRET)])
        .await;
    house
        .form(
            "/login/link",
            &Show::Nothing,
            &[("token", "another wrong guess")],
        )
        .await;
    read(
        house
            .raw(
                "127.0.0.1",
                request("GET", "/api/gates?state=hidden-in-query", &lea)
                    .body(Body::empty())
                    .unwrap(),
            )
            .await,
    )
    .await;
    house
        .registry
        .away
        .store(true, std::sync::atomic::Ordering::SeqCst);
    house.get("/api/gates", &lea).await;
    house.get("/approvals", &lea).await;

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("signed in") && text.contains("a sign-in failed"),
        "the log is not the one: {text}"
    );
    let token = made["secret"].as_str().unwrap();
    let session = cookie.split_once('=').unwrap().1;
    for secret in [
        TOKEN,
        SECRET,
        &code,
        session,
        csrf,
        token,
        "a wrong guess",
        "another wrong guess",
    ] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}
