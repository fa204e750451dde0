//! The judge of SQL: it answers whatever it is given, and names a line that is there; a statement that passes does not
//! pass any more with a second one behind it, or with a value too many.

#![no_main]

use kazma_policy::sql::{Parameter, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|query: &str| {
    match judge(query, &[]) {
        Ok(()) => {
            // What is behind an open comment is a part of it.
            if !query.contains("/*") {
                let more = format!("{query}\n;DELETE FROM t");
                assert!(judge(&more, &[]).is_err(), "{more:?} passes");
            }
            assert!(judge(query, &[Parameter::Null]).is_err(), "{query:?} takes a value");
        }
        Err(refusal) => {
            if let Some(at) = refusal.at {
                let lines = query.split(['\n', '\r']).count() as u64;
                assert!((1..=lines + 1).contains(&at.line), "{refusal}");
            }
            assert!(!refusal.reason.is_empty() && !refusal.to_string().contains('\n'));
        }
    }
});
