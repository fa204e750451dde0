//! What a running stack shows of itself, over the listeners that an operator's Prometheus would ask.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use serde_json::Value;

use crate::stack::{PATIENCE, Stack};

/// Where each service shows its metrics, as the supervisor writes it.
pub(crate) fn listeners(stack: &Stack) -> BTreeMap<String, String> {
    let text = fs::read_to_string(stack.folder().join("run/services.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let services = file["services"].as_array().unwrap();
    services
        .iter()
        .filter_map(|one| {
            let at = one["metrics"].as_str()?.to_owned();
            Some((one["name"].as_str().unwrap().to_owned(), at))
        })
        .collect()
}

pub(crate) async fn scrape(at: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client
        .get(format!("http://{at}/metrics"))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}

/// The value of one series; none where it is not shown.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().unwrap())
}

/// Scrapes `at` until `series` is `expected`.
async fn until_shown(at: &str, series: &str, expected: f64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = scrape(at).await;
        let shown = value(&text, series);
        if shown == Some(expected) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{series} is {shown:?} and not {expected} in\n{text}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The families that docs/metrics.md lists: name to kind.
fn documented() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap().trim_end_matches('`');
        (name.to_owned(), cells.next().unwrap().to_owned())
    })
    .collect()
}

#[tokio::test]
async fn every_service_but_the_broker_shows_what_happened_and_nothing_undocumented() {
    let stack = Stack::start();
    let api = &stack.api;
    let ran = api.say("run python: print(6 * 7)").await.unwrap();
    let card = api.card(&ran).await.unwrap();
    assert_eq!(api.decide(&card, "approve").await.unwrap().status, 200);
    api.ended(&ran).await.unwrap();
    let waits = api.say("write plain-words.txt: yet more").await.unwrap();
    api.card(&waits).await.unwrap();

    let at = listeners(&stack);
    let names: Vec<&str> = at.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "agent",
            "gate-registry",
            "gateway",
            "runner-api",
            "runner-egress"
        ]
    );
    let registry = at["gate-registry"].as_str();
    for (series, expected) in [
        ("kazma_gates_pending", 1.0),
        (r#"kazma_calls_live{state="pending"}"#, 1.0),
        (r#"kazma_turns_live{state="parked"}"#, 1.0),
        (
            r#"kazma_calls_filed_total{decision="ask",rule="tier-danger",tier="danger"}"#,
            2.0,
        ),
        (
            r#"kazma_gate_decisions_total{decision="approve",surface="api",tier="danger"}"#,
            1.0,
        ),
        (
            r#"kazma_calls_ended_total{state="settled_ok",tier="danger"}"#,
            1.0,
        ),
        (
            r#"kazma_calls_ended_total{state="orphaned",tier="danger"}"#,
            0.0,
        ),
        (r#"kazma_queue_bound{queue="store_writer"}"#, 1024.0),
    ] {
        until_shown(registry, series, expected).await;
    }
    until_shown(&at["agent"], "kazma_agent_turns_open", 1.0).await;
    until_shown(&at["runner-api"], "kazma_sandbox_ready", 1.0).await;
    until_shown(
        &at["runner-api"],
        r#"kazma_sandboxes{state="running"}"#,
        0.0,
    )
    .await;
    let route = r#"kazma_http_requests_total{class="2xx",listener="public",method="POST",route="/api/gates/{id}/decision"}"#;
    until_shown(&at["gateway"], route, 1.0).await;

    let documented = documented();
    for (service, at) in &at {
        let text = scrape(at).await;
        let left = value(&text, "kazma_certificate_expiry_seconds").unwrap();
        assert!((0.0..=90_000.0).contains(&left), "{service}: {left}");
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for family in families {
            let (name, kind) = family.split_once(' ').unwrap();
            assert_eq!(
                documented.get(name).map(String::as_str),
                Some(kind),
                "{service} shows {name}, which docs/metrics.md does not list so"
            );
        }
        // No words of a thread, no paths, no ids, no names of people.
        for never in [
            "plain-words",
            "yet more",
            "6 * 7",
            "thread_",
            "call_0",
            "operator",
        ] {
            assert!(!text.contains(never), "{service} shows {never:?}:\n{text}");
        }
    }
}

#[tokio::test]
async fn an_operator_says_where_metrics_are_shown_or_that_they_are_not() {
    let off = Stack::start_with(&["--metrics-listen", "off"]);
    assert!(listeners(&off).is_empty());
    let elsewhere = Stack::start_with(&["--metrics-listen", "127.0.0.2:0"]);
    let at = listeners(&elsewhere);
    assert_eq!(at.len(), 5);
    for at in at.values() {
        assert!(at.starts_with("127.0.0.2:"), "{at}");
        assert!(scrape(at).await.contains("kazma_build_info"));
    }
}
