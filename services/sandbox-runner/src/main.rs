//! The sandbox runner in containers of its own: three processes of one image.

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    kazma_launch::outcome(program::run())
}
