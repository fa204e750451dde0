//! The cases of `tests/cases`, each run through a fence just made.

#![cfg(test)]

use std::{fs, path::Path};

use kazma_fence::{Fence, Fenced, Source};
use serde_json::Value;

/// A fence's own markers, which a row names by these.
fn filled(text: &str, fence: &Fenced) -> String {
    let spaced: String = fence
        .close()
        .chars()
        .flat_map(|c| [c, '\u{200b}'])
        .collect();
    let mut short = fence.close().to_owned();
    short.pop();
    text.replace("{{OPEN}}", fence.open())
        .replace("{{CLOSE_WITH_ZWSP}}", &spaced)
        .replace("{{CLOSE_MINUS_LAST_CHAR}}", &short)
        .replace("{{CLOSE}}", fence.close())
        .replace("{{NONCE}}", fence.nonce())
}

fn strings(row: &Value, key: &str) -> Vec<String> {
    row.get(key)
        .and_then(Value::as_array)
        .map(|all| {
            all.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default()
}

/// What is wrong with the row; nothing if it is right.
fn wrong(row: &Value) -> Vec<String> {
    let fence = || Fence::new([0x5c; 16]);
    let empty = fence().wrap(Source::Web, "https://example.org/", "");
    let text = filled(row["text"].as_str().expect("a text"), &empty);
    let fenced = fence().wrap(Source::Web, "https://example.org/", &text);
    let mut faults = Vec::new();
    for gone in strings(row, "forbidden_after_fencing") {
        let gone = filled(&gone, &empty);
        if fenced.inner().contains(&gone) {
            faults.push(format!("{gone:?} is left"));
        }
    }
    for kept in strings(row, "must_survive") {
        let kept = filled(&kept, &empty);
        if !fenced.inner().contains(&kept) {
            faults.push(format!("{kept:?} is gone"));
        }
    }
    if row["kind"] == "benign" && row["whole"] == true && fenced.inner() != text {
        faults.push("it was changed".to_owned());
    }
    let whole = fenced.to_string();
    for marker in [fenced.open(), fenced.close()] {
        if whole.matches(marker).count() != 1 {
            faults.push(format!("{marker:?} stands in it more than once"));
        }
    }
    let twice = fence().wrap(Source::Web, "https://example.org/", fenced.inner());
    if twice.inner() != fenced.inner() {
        faults.push("fencing again changes it".to_owned());
    }
    if !faults.is_empty() {
        faults.push(format!("it became {:.300?}", fenced.inner()));
    }
    faults
}

/// Runs a file of rows.
fn run(file: &str, least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases")
        .join(file);
    let rows = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    assert!(rows.len() >= least, "{} rows", rows.len());
    let faults: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let faults = wrong(row);
            (!faults.is_empty()).then(|| format!("{}: {}", row["id"], faults.join("; ")))
        })
        .collect();
    assert!(
        faults.is_empty(),
        "{} of {} rows:\n{}",
        faults.len(),
        rows.len(),
        faults.join("\n")
    );
}

#[test]
fn the_shared_cases_come_out_right() {
    run("fence.jsonl", 93);
}

#[test]
fn more_cases_come_out_right() {
    run("fence-more.jsonl", 150);
}
