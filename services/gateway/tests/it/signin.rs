//! Signing in: links, the secret, the throttle, sessions.

use http::header;
use jiff::SignedDuration;
use kazma_domain::Role;
use serde_json::json;

use crate::house::{House, SECRET, Show, code, encoded, form, read, request, session};

#[tokio::test]
async fn a_link_is_good_once() {
    let house = House::open().await;
    let code = house.invite("Lea", Role::Approver).await;
    let got = house.enter(&code).await;
    assert_eq!(got.json()["person"]["name"], "Lea");
    assert_eq!(got.json()["person"]["role"], "approver");
    let lea = session(&got);
    assert_eq!(house.get("/api/auth/me", &lea).await.status, 200);
    let again = house.enter(&code).await;
    assert_eq!(
        (again.status.as_u16(), again.problem().field.as_deref()),
        (401, Some("secret"))
    );
}

#[tokio::test]
async fn a_link_is_good_for_five_minutes() {
    let house = House::open().await;
    let (in_time, late) = (
        house.invite("Lea", Role::Viewer).await,
        house.invite("Omar", Role::Viewer).await,
    );
    house.clock.pass(SignedDuration::from_secs(299));
    assert_eq!(house.enter(&in_time).await.status, 200);
    house.clock.pass(SignedDuration::from_secs(1));
    assert_eq!(house.enter(&late).await.status, 401);
}

#[tokio::test]
async fn two_who_show_one_link_at_once_are_one_session() {
    let house = House::open().await;
    let code = house.invite("Lea", Role::Viewer).await;
    let (one, two) = tokio::join!(house.enter(&code), house.enter(&code));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401]);
}

#[tokio::test]
async fn the_bearer_gets_a_new_link_and_a_session_does_not() {
    let house = House::open().await;
    let got = house
        .post("/api/auth/links", &House::operator(), json!({}))
        .await;
    assert_eq!(got.status, 201);
    let operator = session(
        &house
            .enter(&code(got.json()["login_url"].as_str().unwrap()))
            .await,
    );
    assert_eq!(
        house.get("/api/auth/me", &operator).await.json()["person"]["name"],
        "operator"
    );
    assert_eq!(
        house
            .post("/api/auth/links", &operator, json!({}))
            .await
            .status,
        403
    );
}

#[tokio::test]
async fn the_secret_is_the_operators() {
    let house = House::open().await;
    let got = house.enter(SECRET).await;
    assert_eq!(got.json()["person"]["role"], "admin");
    for wrong in [
        SECRET.to_uppercase(),
        format!("{SECRET} "),
        String::new(),
        "x".repeat(10_000),
    ] {
        assert_eq!(house.enter(&wrong).await.status, 401, "{wrong:.20}");
    }
}

#[tokio::test]
async fn the_cookie_is_closed_to_scripts_and_to_other_sites() {
    let house = House::open().await;
    let cookie = house.enter(SECRET).await.header("set-cookie").to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(
        pair.starts_with("kazma=") && pair.len() == "kazma=".len() + 43,
        "{pair}"
    );
    assert_eq!(
        attributes,
        "Path=/; HttpOnly; SameSite=Strict; Max-Age=1209600"
    );
    let plan = crate::house::Plan {
        public_url: Some("https://kazma.example".to_owned()),
        ..Default::default()
    };
    let cookie = House::with(plan)
        .await
        .enter(SECRET)
        .await
        .header("set-cookie")
        .to_owned();
    assert!(
        cookie.starts_with("__Host-kazma=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
}

#[tokio::test]
async fn with_tls_of_its_own_only_the_token_comes_in_plain() {
    let plan = || crate::house::Plan {
        public_url: Some("https://kazma.example".to_owned()),
        https: true,
        ..Default::default()
    };
    let mut house = House::with(plan()).await;
    let entered = house.enter(SECRET).await;
    let cookie = entered.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-kazma=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    // The house asks as localhost does: a browser keeps what it is told for every port of that name.
    assert!(!entered.headers.contains_key("strict-transport-security"));
    let named = http::Request::get("https://kazma.example/login").body(axum::body::Body::empty());
    let named = read(house.raw("192.0.2.7", named.unwrap()).await).await;
    assert_eq!(
        named.header("strict-transport-security"),
        "max-age=31536000"
    );

    house.secure = false;
    let refused = house.get("/login", &Show::Nothing).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(
        refused.body.contains("https://kazma.example"),
        "{}",
        refused.body
    );
    assert_eq!(house.enter(SECRET).await.status, 400);
    let by_cookie = house.get("/api/auth/me", &session(&entered)).await;
    assert_eq!(by_cookie.json()["type"], "/problems/https");
    let by_token = house.get("/api/threads", &House::operator()).await;
    assert_eq!(by_token.status, 200, "{}", by_token.body);
    assert!(!by_token.headers.contains_key("strict-transport-security"));
}

#[tokio::test]
async fn signing_in_anew_ends_the_session_before() {
    let house = House::open().await;
    let first = session(&house.enter(SECRET).await);
    let got = house
        .post("/api/auth/login", &first, json!({"secret": SECRET}))
        .await;
    let second = session(&got);
    assert_eq!(house.get("/api/auth/me", &first).await.status, 401);
    assert_eq!(house.get("/api/auth/me", &second).await.status, 200);
}

#[tokio::test]
async fn a_session_ends_by_itself_by_signing_out_and_by_its_owner() {
    let house = House::open().await;
    let leaves = session(&house.enter(SECRET).await);
    assert_eq!(
        house
            .post("/api/auth/logout", &leaves, json!({}))
            .await
            .status,
        204
    );
    assert_eq!(house.get("/api/auth/me", &leaves).await.status, 401);

    let (ended, other) = (
        session(&house.enter(SECRET).await),
        session(&house.enter(SECRET).await),
    );
    let sessions = house.get("/api/auth/sessions", &other).await.json();
    let id = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["current"] == false)
        .unwrap()["id"]
        .clone();
    let lea = house.person("Lea", Role::Admin).await;
    let path = format!("/api/auth/sessions/{}", id.as_str().unwrap());
    assert_eq!(
        house.delete(&path, &lea).await.status,
        404,
        "another person's session"
    );
    assert_eq!(house.delete(&path, &other).await.status, 204);
    assert_eq!(house.get("/api/auth/me", &ended).await.status, 401);

    house.clock.pass(SignedDuration::from_hours(14 * 24));
    assert_eq!(house.get("/api/auth/me", &other).await.status, 401);
}

#[tokio::test]
async fn a_removed_person_is_out_and_the_operator_stays() {
    let house = House::open().await;
    let lea = house.person("Lea", Role::Operator).await;
    let me = house.get("/api/auth/me", &lea).await.json()["person"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        house
            .delete(&format!("/api/users/{me}"), &House::operator())
            .await
            .status,
        204
    );
    assert_eq!(house.get("/api/auth/me", &lea).await.status, 401);
    let users = house.get("/api/users", &House::operator()).await.json();
    assert_eq!(users["users"].as_array().unwrap().len(), 1);
    let operator = users["users"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        house
            .delete(&format!("/api/users/{operator}"), &House::operator())
            .await
            .status,
        409
    );
}

#[tokio::test]
async fn ten_failures_of_a_peer_hold_it_back_and_a_restart_does_not_help() {
    let house = House::open().await;
    let texts: Vec<String> = {
        let mut texts = Vec::new();
        for _ in 0..10 {
            let got = house.enter("a guess").await;
            assert_eq!(got.status, 401);
            texts.push(got.problem().detail.unwrap());
        }
        texts
    };
    assert!(
        texts.windows(2).all(|pair| pair[0] == pair[1]),
        "one text for all failures"
    );
    let held = house.enter(SECRET).await;
    assert_eq!(held.status, 429, "even the right secret");
    let seconds: u64 = held.header("retry-after").parse().unwrap();
    assert!((1..=300).contains(&seconds), "{seconds}");
    let house = house.again().await;
    assert_eq!(house.enter(SECRET).await.status, 429);
    house.clock.pass(SignedDuration::from_secs(300));
    assert_eq!(house.enter(SECRET).await.status, 200);
}

#[tokio::test]
async fn a_link_of_ones_own_buys_no_more_guesses() {
    let house = House::open().await;
    let lea = house.person("Lea", Role::Viewer).await;
    let made = house
        .post("/api/auth/tokens", &lea, json!({"name": "script"}))
        .await;
    let script = Show::Bearer(made.json()["secret"].as_str().unwrap().to_owned());
    let mut statuses = Vec::new();
    for _ in 0..2 {
        for _ in 0..9 {
            statuses.push(house.enter("a guess").await.status.as_u16());
        }
        let link = house.post("/api/auth/links", &script, json!({})).await;
        assert_eq!(link.status, 201);
        let url = link.json()["login_url"].as_str().unwrap().to_owned();
        house.enter(url.split("token=").nth(1).unwrap()).await;
    }
    assert_eq!(statuses, [[401; 10].as_slice(), &[429; 8]].concat());
}

#[tokio::test]
async fn two_hundred_failures_of_all_hold_everybody_back() {
    let house = House::open().await;
    for n in 0..200 {
        let body = json!({"secret": "a guess"}).to_string();
        let request = request("POST", "/api/auth/login", &Show::Nothing)
            .header(header::CONTENT_TYPE, "application/json");
        let got = read(
            house
                .raw(
                    &format!("10.0.{}.1", n / 5),
                    request.body(body.into()).unwrap(),
                )
                .await,
        )
        .await;
        assert_eq!(got.status, 401, "{n}");
    }
    assert_eq!(house.enter(SECRET).await.status, 429);
}

#[tokio::test]
async fn failures_at_once_are_all_counted() {
    let house = House::open().await;
    let tries = (0..20).map(|_| house.enter("a guess"));
    let mut statuses: Vec<u16> = futures_util::future::join_all(tries)
        .await
        .iter()
        .map(|got| got.status.as_u16())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [[401; 10], [429; 10]].concat());
}

#[tokio::test]
async fn sessions_and_tokens_outlive_the_process() {
    let house = House::open().await;
    let lea = house.person("Lea", Role::Viewer).await;
    let made = house
        .post("/api/auth/tokens", &lea, json!({"name": "script"}))
        .await;
    assert_eq!(made.status, 201);
    let script = Show::Bearer(made.json()["secret"].as_str().unwrap().to_owned());
    let house = house.again().await;
    for show in [&lea, &script, &House::operator()] {
        assert_eq!(
            house.get("/api/auth/me", show).await.status,
            200,
            "{show:?}"
        );
    }
    let path = format!("/api/auth/tokens/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(house.delete(&path, &lea).await.status, 204);
    assert_eq!(house.get("/api/auth/me", &script).await.status, 401);
}

#[tokio::test]
async fn a_page_signs_in_by_form_and_leads_back() {
    let house = House::open().await;
    let got = house.get("/threads?skip=0", &Show::Nothing).await;
    assert_eq!(
        (got.status.as_u16(), got.header("location")),
        (303, "/login?next=/threads%3Fskip%3D0")
    );
    let page = house.get("/login?next=/threads", &Show::Nothing).await;
    assert!(
        page.body.contains(r#"name="return_to" value="/threads""#),
        "{}",
        page.body
    );

    let code = house.invite("Lea", Role::Viewer).await;
    let got = house
        .form("/login/link", &Show::Nothing, &[("token", &code)])
        .await;
    assert_eq!((got.status.as_u16(), got.header("location")), (303, "/"));
    assert!(got.header("set-cookie").starts_with("kazma="));
    let fields = [("secret", SECRET), ("return_to", "/threads")];
    let got = house.form("/login", &Show::Nothing, &fields).await;
    assert_eq!(
        (got.status.as_u16(), got.header("location")),
        (303, "/threads")
    );
    let fields = [("secret", SECRET), ("return_to", "//evil.example")];
    assert_eq!(
        house
            .form("/login", &Show::Nothing, &fields)
            .await
            .header("location"),
        "/"
    );

    let got = house
        .form("/login", &Show::Nothing, &[("secret", "<b>wrong")])
        .await;
    assert_eq!(got.status, 401);
    assert!(
        got.body.contains("not the secret") && !got.body.contains("<b>wrong"),
        "{}",
        got.body
    );
}

#[tokio::test]
async fn another_sites_page_signs_nobody_in() {
    let house = House::open().await;
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost:9091",
        "https://localhost:9090",
    ] {
        let body = encoded(&[("secret", SECRET)]);
        let mut request = form("/login", &Show::Nothing).body(body.into()).unwrap();
        request
            .headers_mut()
            .insert(header::ORIGIN, origin.parse().unwrap());
        let got = house.send(request).await;
        assert_eq!(got.status, 403, "{origin}");
        assert_eq!(got.header("set-cookie"), "");
    }
}
