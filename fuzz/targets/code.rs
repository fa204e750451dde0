//! The judge of Python code: it answers whatever it is given, and names a line that is there; code that passes
//! does not pass any more with an import behind it that is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|code: &str| {
    match kazma_python::judge(code) {
        Ok(()) => {
            let more = format!("{code}\nimport os\n");
            assert!(kazma_python::judge(&more).is_err(), "{more:?} passes");
        }
        Err(refusal) => {
            // Python ends lines by both characters, and by both together.
            let lines = code.split(['\n', '\r']).count();
            assert!((1..=lines + 1).contains(&refusal.line), "{refusal}");
            assert!(!refusal.reason.is_empty());
        }
    }
});
