//! What can be laid over compose.yaml.

use std::time::Duration;

use serde_json::Value;

use super::{
    Clone, approved, asked,
    namespace::{block_on, within},
    story,
};
use crate::stack::PATIENCE;

#[test]
fn with_gvisor_the_card_says_so_and_the_story_is_the_same() {
    let clone = Clone::fresh(&["runsc"]);
    clone.up();
    clone.people(async |api| {
        let (thread, card) = asked(&api).await;
        assert!(card.to_string().contains("runsc"), "{card}");
        let reply = approved(&api, &thread, &card).await;
        assert!(reply.contains("42"), "{reply}");
    });
}

const PROMETHEUS: &str = "http://127.0.0.1:9091/api/v1";

#[test]
fn with_postgresql_the_story_and_a_card_that_outlives_both() {
    let clone = Clone::fresh(&["postgres"]);
    clone.others();
    clone.up();
    let (thread, card) = clone.people(async |api| {
        assert!(story(&api).await.contains("45"));
        asked(&api).await
    });
    clone.compose(&["restart", "database", "gate-registry"]);
    clone.up();
    let reply = clone.people(async |api| approved(&api, &thread, &card).await);
    assert!(reply.contains("42"), "{reply}");
    // The state is there and not in a file.
    let psql = [
        "exec",
        "--no-TTY",
        "database",
        "psql",
        "--username",
        "kazma",
        "--tuples-only",
    ];
    let query = [
        "--no-align",
        "--command",
        "select count(*) from registry.calls",
    ];
    assert_eq!(clone.compose(&[psql.as_slice(), &query].concat()), "2");
    // The password is in no container's settings.
    for service in ["database", "gate-registry"] {
        let told = clone.inspect(&clone.container(service)).to_string();
        assert!(!told.contains("postgres://"), "{told}");
    }
}

#[test]
fn prometheus_sees_every_service_and_an_alert_reaches_alertmanager() {
    let clone = Clone::fresh(&["monitoring"]);
    // As delivered, but that a card has waited too long after a second.
    let rules = clone
        .folder
        .path()
        .join("deploy/prometheus/kazma.rules.yml");
    let text = std::fs::read_to_string(&rules).unwrap();
    let waits = "kazma_gates_oldest_pending_seconds) > 900";
    assert_eq!(text.matches(waits).count(), 1);
    std::fs::write(rules, text.replace(waits, &waits.replace("900", "1"))).unwrap();
    clone.others();
    // Grafana is in no Debian package, so its image is not to be had here.
    clone.up_and(&["prometheus", "alertmanager"]);
    clone.people(async |api| asked(&api).await);
    within(&clone.network, || {
        block_on(async {
            until(&format!("{PROMETHEUS}/query?query=up"), |answer| {
                let all = answer["data"]["result"].as_array().unwrap();
                // Five services, Alertmanager, and Prometheus itself.
                all.len() == 7 && all.iter().all(|one| one["value"][1] == "1")
            })
            .await;
            until(&format!("{PROMETHEUS}/alerts"), |answer| {
                let all = answer["data"]["alerts"].as_array().unwrap().iter();
                let waits = "KazmaCardWaits";
                all.filter(|one| one["state"] == "firing")
                    .any(|one| one["labels"]["alertname"] == waits)
            })
            .await;
        });
    });
    // Alertmanager has no published port: it is asked from inside.
    let told = clone.inspect(&clone.container("alertmanager"));
    let inside = format!("/proc/{}/ns/net", told["State"]["Pid"]);
    within(inside.as_ref(), || {
        block_on(async {
            until("http://127.0.0.1:9093/api/v2/alerts", |answer| {
                let all = answer.as_array().unwrap().iter();
                let waits = "KazmaCardWaits";
                all.filter(|one| one["status"]["state"] == "active")
                    .any(|one| one["labels"]["alertname"] == waits)
            })
            .await;
        });
    });
}

/// Asks until the answer is what is waited for: Prometheus looks every 15 seconds.
async fn until(url: &str, done: impl Fn(&Value) -> bool) {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let deadline = tokio::time::Instant::now() + 4 * PATIENCE;
    loop {
        let text = client.get(url).send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&text).expect(&text);
        if done(&answer) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer:#}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
