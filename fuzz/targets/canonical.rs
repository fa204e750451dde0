//! Canonical JSON and the digests of plans: one value has one form, however it was written.

#![no_main]

use kazma_domain::{Digest, Plan, canonical::canonical_json};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// The same value with its members written in the opposite order.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{} : {}", Value::from(name.as_str()), backwards(value)))
                .collect();
            format!("{{ {} }}", members.join(" ,\n"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(backwards).collect();
            format!("[{}]", items.join(" , "))
        }
        other => other.to_string(),
    }
}

fuzz_target!(|text: &str| {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let Ok(once) = canonical_json(&value) else {
        return;
    };
    let again: Value = serde_json::from_slice(&once).expect("canonical JSON is JSON");
    assert_eq!(canonical_json(&again).ok(), Some(once.clone()));
    let other: Value = serde_json::from_str(&backwards(&value)).expect("it is written as JSON");
    assert_eq!(canonical_json(&other).ok(), Some(once));
    // What differs is named differently.
    let grown = Value::Object(Map::from_iter([("more".to_owned(), value.clone())]));
    assert_ne!(Digest::of(&grown).ok(), Digest::of(&value).ok());
    if let Ok(plan) = serde_json::from_value::<Plan>(value) {
        let digest = plan.digest().expect("a plan that was read has a digest");
        let written = serde_json::to_string(&plan).expect("a plan can be written");
        let read: Plan = serde_json::from_str(&written).expect("and read");
        assert_eq!(read.digest().ok(), Some(digest));
    }
});
