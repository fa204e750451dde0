//! The gate registry in a container of its own.

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    kazma_launch::outcome(program::run())
}
