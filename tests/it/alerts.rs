//! The alerts: each has a runbook, is about metrics that there are, and one of them fires in a real Prometheus.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    clocks::{Clocks, HOUR},
    metrics::listeners,
    stack::{PATIENCE, command},
};

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The words that stand behind `before` on lines of their own.
fn words_behind(before: &str, text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix(before))
        .map(str::to_owned)
        .collect()
}

/// The names of metrics anywhere in `text`.
fn asked_for(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("kazma_"))
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned())
        .collect()
}

fn passes(program: &str, arguments: &[&str]) {
    let mut tool = command(program);
    let done = tool.args(arguments).current_dir(root()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn rules_and_examples_are_what_their_tools_take() {
    passes(
        "promtool",
        &["check", "rules", "deploy/prometheus/kazma.rules.yml"],
    );
    passes(
        "promtool",
        &["test", "rules", "deploy/prometheus/kazma.rules.test.yml"],
    );
    passes(
        "promtool",
        &["check", "config", "deploy/prometheus/prometheus.yml"],
    );
    passes(
        "amtool",
        &["check-config", "deploy/alertmanager/alertmanager.yml"],
    );
}

#[test]
fn each_alert_has_its_test_and_its_runbook() {
    let rules = text("deploy/prometheus/kazma.rules.yml");
    let alerts = words_behind("- alert: ", &rules);
    assert!(alerts.len() >= 14, "{alerts:?}");
    let tests = text("deploy/prometheus/kazma.rules.test.yml");
    assert_eq!(alerts, words_behind("alertname: ", &tests));
    let operations = text("docs/operations.md");
    let runbooks: BTreeSet<_> = words_behind("### ", &operations);
    assert_eq!(alerts, runbooks);
    let named = words_behind("runbook: docs/operations.md#", &rules);
    let anchors: BTreeSet<String> = alerts.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(named, anchors);
}

#[test]
fn alerts_and_panels_ask_for_metrics_that_there_are() {
    let known: BTreeSet<String> = text("docs/metrics.md")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    for file in [
        "deploy/prometheus/kazma.rules.yml",
        "deploy/grafana/kazma.json",
    ] {
        let asked = asked_for(&text(file));
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
        assert!(asked.len() > 8, "{file}");
    }
}

/// A real Prometheus with the rules as they are, which looks every second.
struct Prometheus {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(targets: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [root().join("deploy/prometheus/kazma.rules.yml")],
            "scrape_configs": [{"job_name": "kazma", "static_configs": [{"targets": targets}]}],
        });
        // JSON is YAML.
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config.to_string()).unwrap();
        let mut process = command("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = log
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, rest) = line.split_once("msg=\"Listening on\" address=")?;
                Some(rest.trim().to_owned())
            })
            .unwrap();
        std::thread::spawn(move || log.for_each(drop));
        Self {
            process,
            address,
            _folder: folder,
        }
    }

    async fn ask(&self, what: &str) -> Option<Value> {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}/api/v1/{what}", self.address);
        client.get(url).send().await.ok()?.json().await.ok()
    }

    /// Waits until the card that waits has been looked at.
    async fn until_scraped(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask("query?query=kazma_gates_pending").await;
            let value = answer
                .as_ref()
                .map(|answer| &answer["data"]["result"][0]["value"][1]);
            if value.is_some_and(|value| value == "1") {
                return;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The labels of what fires under this name.
    async fn firing(&self, name: &str) -> Option<Value> {
        let answer = self.ask("alerts").await?;
        answer["data"]["alerts"]
            .as_array()?
            .iter()
            .find(|alert| alert["labels"]["alertname"] == name && alert["state"] == "firing")
            .map(|alert| alert["labels"].clone())
    }

    async fn until_firing(&self, name: &str, wanted: bool) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let firing = self.firing(name).await;
            if firing.is_some() == wanted {
                return firing;
            }
            assert!(Instant::now() < deadline, "{name}: {firing:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_nobody_answers_is_an_alert_until_somebody_does() {
    let mut clocks = Clocks::start();
    let targets: Vec<String> = listeners(&clocks.stack).into_values().collect();
    let prometheus = Prometheus::start(&targets);
    let (waiting, card) = clocks.ask("waits.txt").await;
    // It has looked, and a card that came just now is nobody's trouble.
    prometheus.until_scraped().await;
    assert_eq!(prometheus.firing("KazmaCardWaits").await, None);
    clocks.turn(Some("gate-registry"), HOUR);
    let fires = prometheus
        .until_firing("KazmaCardWaits", true)
        .await
        .unwrap();
    assert_eq!(fires["severity"], "page");
    clocks.approve(waiting, &card).await;
    prometheus.until_firing("KazmaCardWaits", false).await;
    clocks.stack.end().await;
}
