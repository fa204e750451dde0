//! What a snippet tries in order to get out, and what that does to the machine outside: with jails, with
//! containers by runc, with containers by gVisor, with Podman's.
//!
//! `attempts.py` runs inside. After each group of attempts [`Scene::unharmed`] looks at everything outside that
//! any of them was after. What each attempt came to stands in `docs/sandbox.md`; a run that comes to something
//! else fails, so the table there is what was seen.

mod scene;

use std::collections::BTreeMap;

use kazma_sandbox_runner::broker::{EngineRuntime, Outcome, RunEvent};

use self::scene::Scene;
use crate::{
    engine::Engine,
    house::{House, spec, text},
};

const ATTEMPTS: &str = include_str!("attempts.py");
const TABLE: &str = include_str!("../../../../../docs/sandbox.md");
const GROUPS: [&str; 17] = [
    "network",
    "files",
    "mounts",
    "namespaces",
    "kernel files",
    "processes",
    "rights",
    "devices",
    "calls",
    "exhaustion",
    "processes bomb",
    "memory bomb",
    "flood",
    "staying",
    "signals",
    "sight",
    "",
];

/// What an attempt came to, in the words of the table.
fn word(got: Option<&str>) -> &'static str {
    match got {
        None => "ends its sandbox",
        Some("") => "stopped",
        Some(_) => "possible",
    }
}

/// The titles of a group, in order.
fn titles(group: &str) -> Vec<String> {
    let direct = format!("@attempt(\"{group}\", \"");
    let mut found: Vec<String> = ATTEMPTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&direct)?.strip_suffix("\")"))
        .map(str::to_owned)
        .collect();
    // Some are made from a list.
    for (of, prefix, from) in [
        ("kernel files", "writing ", "# -- /proc and /sys"),
        ("calls", "", "# -- calls to the kernel that nobody needs"),
    ] {
        if group == of {
            let list = ATTEMPTS.split_once(from).unwrap().1;
            let list = list.split_once("\n):").unwrap().0;
            let rows = list.lines().filter_map(|line| {
                let title = line.strip_prefix("    (\"")?.split_once('"')?.0;
                Some(format!("{prefix}{title}"))
            });
            found.splice(0..0, rows);
        }
    }
    found
}

/// Runs everything in a house, and gives what each attempt came to.
async fn tried(house: &House) -> BTreeMap<String, (String, String)> {
    let scene = Scene::set(&house.workspace);
    // Another sandbox of the same broker lives through all of it.
    let other = spec("import time; print('on', flush=True); time.sleep(1000)");
    let others_call = other.call_id;
    let mut neighbour = house
        .client
        .run(kazma_sandbox_runner::broker::RunSpec {
            timeout: kazma_sandbox_runner::broker::TIMEOUT_MAX,
            ..other
        })
        .await
        .unwrap();
    assert!(matches!(neighbour.next().await, Some(RunEvent::Chunk(_))));
    let mut results = BTreeMap::new();
    for group in GROUPS.into_iter().filter(|group| !group.is_empty()) {
        let code = format!(
            "{ATTEMPTS}\nrun({group:?}, json.loads({:?}))",
            scene.facts().to_string()
        );
        let run = house
            .run_with(&code, |spec| {
                spec.timeout = std::time::Duration::from_mins(2);
                spec.output_cap = 1 << 20;
            })
            .await;
        scene.unharmed(group, &run).await;
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        for title in titles(group) {
            let got = said
                .lines()
                .find_map(|line| line.strip_prefix(&title)?.strip_prefix('\t'));
            if got.is_none() && group != "flood" {
                assert!(
                    !matches!(run.finished.outcome, Outcome::Exited { .. }),
                    "{group}, {title}: {:?}\n{said}\n{}",
                    run.finished,
                    text(&run.stderr)
                );
            }
            // A flood covers what is said after it.
            let got = if group == "flood" { Some("") } else { got };
            let told = got.unwrap_or_default().to_owned();
            results.insert(title, (word(got).to_owned(), told));
        }
    }
    assert!(
        house.client.cancel(others_call).await.unwrap(),
        "the neighbour did not live"
    );
    assert_eq!(
        neighbour.collect().await.finished.outcome,
        Outcome::Cancelled
    );
    results
}

/// Compares with the table's column.
fn compare(column: usize, results: &BTreeMap<String, (String, String)>) {
    let mut wrong = Vec::new();
    let mut rows = 0;
    for group in GROUPS {
        for title in titles(group) {
            let (now, got) = &results[&title];
            let row = TABLE
                .lines()
                .find(|line| line.starts_with(&format!("| {title} |")));
            let cell = row
                .and_then(|row| row.split('|').nth(column + 2))
                .map(str::trim);
            rows += 1;
            // What a machine shows of itself, and by what it holds limits, differs from one to the next.
            let may_be_better = matches!(group, "sight" | "exhaustion") && now == "stopped";
            if cell != Some(now) && !may_be_better {
                wrong.push(format!(
                    "| {title} | {now} | the table has {cell:?} | {got}"
                ));
            }
        }
    }
    assert!(rows >= 60, "only {rows} attempts");
    assert!(wrong.is_empty(), "docs/sandbox.md:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_a_jail() {
    let house = House::open().await;
    let results = tried(&house).await;
    house.close().await;
    compare(0, &results);
}

async fn out_of_a_container(runtime: EngineRuntime, column: usize) {
    out_of_a_container_of(Engine::shared(), runtime, column).await;
}

async fn out_of_a_container_of(engine: Engine, runtime: EngineRuntime, column: usize) {
    let (house, owner) = engine.house(runtime, |_| {}).await;
    let results = tried(&house).await;
    house.close().await;
    engine.until(&owner, 0).await;
    compare(column, &results);
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_a_container_by_runc_docker() {
    out_of_a_container(EngineRuntime::Runc, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_a_container_by_gvisor_docker() {
    out_of_a_container(EngineRuntime::Runsc, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_a_container_of_podmans_docker() {
    out_of_a_container_of(Engine::podman(), EngineRuntime::Runc, 3).await;
}
