//! The cases of `tests/cases` through the judge, and that no special address passes in any spelling.

#![cfg(test)]

mod spellings;

use std::{fs, path::Path};

use kazma_netguard::{Judge, Row};
use serde_json::Value;

/// Runs a file of rows.
fn run(file: &str, least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases")
        .join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let judge = Judge::default();
    let mut count = 0;
    let mut faults = Vec::new();
    for line in text.lines() {
        count += 1;
        let value: Value = serde_json::from_str(line).expect("a row");
        let row: Row = serde_json::from_value(value.clone()).expect("a row");
        let judged = judge.row(&row);
        let expected = value["expect"].as_str().expect("what is expected");
        let decided = if judged.is_ok() { "allow" } else { "deny" };
        if decided != expected {
            faults.push(format!("{}: {} {judged:?}", value["id"], value["url"]));
        }
    }
    assert!(count >= least, "{count} rows");
    assert!(
        faults.is_empty(),
        "{} of {count} rows:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn the_shared_cases_come_out_right() {
    run("ssrf.jsonl", 133);
}

#[test]
fn more_cases_come_out_right() {
    run("ssrf-more.jsonl", 150);
}
