//! Pages and forms as a browser without scripts uses them, and as htmx does.

use axum::body::Body;
use http::header;
use kazma_domain::Role;
use kazma_wire::agent::EntryKind;

use crate::{
    double::{gate_id, output, thread_id},
    house::{Got, House, SECRET, Show, encoded, form, session},
};

async fn asked() -> (House, String) {
    let house = House::open().await;
    let thread = house
        .registry
        .thread(1, "run python: print(sum(range(10)))");
    let digest = house.registry.ask(1, thread).args_digest.to_string();
    (house, digest)
}

async fn by_htmx(house: &House, path: &str, show: &Show, fields: &[(&str, &str)]) -> Got {
    let Show::Cookie(_, csrf) = show else {
        panic!("a page has a session")
    };
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend(fields);
    let request = form(path, show).header("hx-request", "true");
    house
        .send(request.body(Body::from(encoded(&all))).unwrap())
        .await
}

#[tokio::test]
async fn a_message_begins_a_thread_once() {
    let house = House::open().await;
    let operator = session(&house.enter(SECRET).await);
    let page = house.get("/", &operator).await;
    assert_eq!(page.status, 200);
    let key = page
        .body
        .split_once("name=\"idempotency_key\" value=\"")
        .unwrap()
        .1
        .split_once('"')
        .unwrap()
        .0
        .to_owned();
    let fields = [("text", "hello"), ("idempotency_key", key.as_str())];
    let first = house.form("/threads", &operator, &fields).await;
    assert_eq!(first.status, 303);
    let again = house.form("/threads", &operator, &fields).await;
    assert_eq!(first.header("location"), again.header("location"));
    assert!(first.header("location").starts_with("/threads/thread_"));
    let said = house.registry.said.lock().unwrap();
    assert!(
        said.iter()
            .all(|said| said.idempotency_key.as_deref() == Some(&key) && said.text == "hello")
    );
}

#[tokio::test]
async fn a_thread_shows_words_results_and_cards() {
    let (house, _) = asked().await;
    house.registry.add(
        thread_id(1),
        3,
        EntryKind::Reply {
            text: "I will **count**.".to_owned(),
        },
    );
    let result = EntryKind::Result {
        call: kazma_domain::CallId::from_uuid(uuid::Uuid::from_u128(1)),
        tool: "python_exec".to_owned(),
        summary: "exit 0".to_owned(),
        ok: true,
        output: output("45\n"),
    };
    house.registry.add(thread_id(1), 4, result);
    let operator = session(&house.enter(SECRET).await);
    let page = house
        .get(&format!("/threads/{}", thread_id(1)), &operator)
        .await;
    assert_eq!(page.status, 200);
    for part in [
        "run python",
        "<strong>count</strong>",
        "45",
        "print(sum(range(10)))",
        "native · bubblewrap",
        "Code always asks.",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let part = house
        .get(&format!("/ui/threads/{}/messages", thread_id(1)), &operator)
        .await;
    assert!(!part.body.contains("<html") && part.body.contains("45"));
    let api = house
        .get(&format!("/api/threads/{}", thread_id(1)), &operator)
        .await
        .json();
    let roles: Vec<&str> = api["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "agent", "tool"]);
    assert_eq!(api["messages"][2]["text"], "45\n");
    assert_eq!(api["gates"][0]["gate_id"], gate_id(1).to_string());
    assert_eq!(api["turns"][0]["state"], "running");
}

#[tokio::test]
async fn a_decision_leads_back_and_the_second_person_reads_who_was_first() {
    let (house, digest) = asked().await;
    let (lea, omar) = (
        house.person("Lea", Role::Approver).await,
        house.person("Omar", Role::Approver).await,
    );
    let path = format!("/gates/{}/decision", gate_id(1));
    let inbox = house.get("/approvals", &lea).await;
    assert!(
        inbox.body.contains(&digest) && inbox.body.contains("Approve once"),
        "{}",
        inbox.body
    );
    let fields = [
        ("decision", "approve"),
        ("args_digest", &*digest),
        ("return_to", "/approvals"),
    ];
    let got = house.form(&path, &lea, &fields).await;
    assert_eq!(
        (got.status.as_u16(), got.header("location")),
        (303, "/approvals")
    );
    assert!(
        house
            .get("/approvals", &lea)
            .await
            .body
            .contains("Approved by you on the web")
    );

    let fields = [
        ("decision", "deny"),
        ("args_digest", &*digest),
        ("return_to", "/approvals"),
    ];
    let late = house.form(&path, &omar, &fields).await;
    assert_eq!(late.status, 409);
    assert!(
        late.body
            .contains("Lea was first. Your denial changed nothing."),
        "{}",
        late.body
    );
    assert!(late.body.contains("<html"));
    let late = by_htmx(&house, &path, &omar, &fields).await;
    assert!(
        late.body.contains("Lea was first") && !late.body.contains("<html"),
        "{}",
        late.body
    );
    assert_eq!(house.registry.decisions.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn htmx_gets_the_card_alone() {
    let (house, digest) = asked().await;
    let lea = house.person("Lea", Role::Approver).await;
    let fields = [
        ("decision", "deny"),
        ("args_digest", &*digest),
        ("reason", "wrong file"),
        ("place", "side"),
    ];
    let got = by_htmx(
        &house,
        &format!("/gates/{}/decision", gate_id(1)),
        &lea,
        &fields,
    )
    .await;
    assert_eq!(got.status, 200);
    assert!(
        got.body.contains(&format!("id=\"side-{}\"", gate_id(1)))
            && got.body.contains("wrong file"),
        "{}",
        got.body
    );
    let got = house
        .get(&format!("/ui/gates/{}?place=side", gate_id(1)), &lea)
        .await;
    assert!(got.body.contains("Denied by you"), "{}", got.body);
}

#[tokio::test]
async fn a_changed_card_is_shown_and_not_decided() {
    let (house, _) = asked().await;
    let lea = house.person("Lea", Role::Approver).await;
    let other = format!("sha256:{}", "0".repeat(64));
    let fields = [("decision", "approve"), ("args_digest", &*other)];
    let got = house
        .form(&format!("/gates/{}/decision", gate_id(1)), &lea, &fields)
        .await;
    assert_eq!(got.status, 409);
    assert!(
        got.body.contains("The card changed after you opened it"),
        "{}",
        got.body
    );
    assert!(house.registry.decisions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_viewer_reads_and_has_no_buttons() {
    let (house, _) = asked().await;
    let omar = house.person("Omar", Role::Viewer).await;
    let page = house.get(&format!("/gates/{}", gate_id(1)), &omar).await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("name=\"decision\""), "{}", page.body);
    assert!(!house.get("/chat", &omar).await.body.contains("<textarea"));
}

#[tokio::test]
async fn what_is_not_there_is_a_page_for_people_and_a_problem_for_programs() {
    let house = House::open().await;
    let operator = session(&house.enter(SECRET).await);
    let path = format!("/threads/{}", thread_id(9));
    let request = crate::house::request("GET", &path, &operator)
        .header(header::ACCEPT, "text/html,*/*;q=0.8");
    let page = house.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, 404);
    assert!(
        page.body.contains("<html")
            && page.body.contains("There is nothing here")
            && page.body.contains("operator")
    );
    let problem = house.get(&path, &operator).await;
    assert!(problem.problem().is("not-found"));
}

#[tokio::test]
async fn the_theme_is_remembered_by_the_browser() {
    let house = House::open().await;
    let operator = session(&house.enter(SECRET).await);
    let got = house
        .form(
            "/ui/theme",
            &operator,
            &[("theme", "dark"), ("return_to", "/threads")],
        )
        .await;
    assert_eq!(
        (got.status.as_u16(), got.header("location")),
        (303, "/threads")
    );
    assert!(got.header("set-cookie").starts_with("kazma-theme=dark; "));
    let Show::Cookie(cookie, csrf) = &operator else {
        unreachable!()
    };
    let dark = Show::Cookie(format!("{cookie}; kazma-theme=dark"), csrf.clone());
    assert!(
        house
            .get("/threads", &dark)
            .await
            .body
            .contains("data-theme=\"dark\"")
    );
}

#[tokio::test]
async fn signing_out_clears_the_cookie() {
    let house = House::open().await;
    let operator = session(&house.enter(SECRET).await);
    let got = house.form("/logout", &operator, &[]).await;
    assert_eq!(
        (got.status.as_u16(), got.header("location")),
        (303, "/login")
    );
    assert!(got.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(house.get("/approvals", &operator).await.status, 303);
}
