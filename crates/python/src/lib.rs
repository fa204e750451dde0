//! The judge of Python code: what `python_exec` refuses before anybody is asked.
//!
//! It reads a real syntax tree and stops the snippet that writes `import os` or `exec(…)`. It is no jail: code made to
//! escape reaches everything through the interpreter's own objects, and the sandbox is what holds it.
//!
//! **Invariant:** pure; and whatever cannot be read is refused.

mod characters;
mod codecs;
mod depth;
mod encoding;
mod names;
mod runs;
mod scope;
mod text;
mod tree;

pub use names::is_store;

use ruff_python_parser::parse_module;
use ruff_source_file::LineIndex;
use ruff_text_size::TextSize;

/// The longest code, in bytes.
const LONGEST: usize = 256 * 1024;
/// Room for the deepest tree that passes [`depth::check`]: it is walked and taken down by recursion.
const STACK: usize = 256 * 1024 * 1024;

/// Why code is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Refusal {
    /// Counted from 1.
    pub line: usize,
    /// In plain words.
    pub reason: String,
}

/// What is refused at a place of the code.
#[derive(Debug)]
struct Finding {
    at: TextSize,
    reason: String,
}

/// Judges a whole program.
///
/// # Errors
///
/// The first thing in it that is refused.
pub fn judge(code: &str) -> Result<(), Refusal> {
    if code.len() > LONGEST {
        return Err(Refusal {
            line: 1,
            reason: format!("the code is longer than {LONGEST} bytes"),
        });
    }
    let findings = std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().stack_size(STACK);
        reading
            .spawn_scoped(scope, || read(code))
            .ok()
            .and_then(|reader| reader.join().ok())
    });
    // A reader that could not start or did not end says nothing of the code.
    let finding = findings.unwrap_or_else(|| {
        Some(Finding {
            at: TextSize::new(0),
            reason: "the code could not be read".to_owned(),
        })
    });
    match finding {
        None => Ok(()),
        Some(Finding { at, reason }) => Err(Refusal {
            line: LineIndex::from_source_text(code).line_index(at).get(),
            reason,
        }),
    }
}

fn read(code: &str) -> Option<Finding> {
    if let Some(finding) = encoding::check(code).or_else(|| depth::check(code)) {
        return Some(finding);
    }
    match parse_module(code) {
        Ok(parsed) => tree::check(parsed.syntax()),
        Err(error) => Some(Finding {
            at: error.location.start(),
            reason: format!("this is not Python: {}", error.error),
        }),
    }
}
