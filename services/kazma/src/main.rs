//! `kazma`: everything on one machine, and the operator's tool.

mod boot;
mod cli;
mod doctor;
mod metrics;
mod operator;
mod policy;
mod service;
mod up;

use std::process::ExitCode;

use clap::Parser;

/// Wrong usage (sysexits: `EX_USAGE`).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments = cli::Cli::parse();
    // Before any thread: taking inherited sockets reads and clears the environment.
    let result = match arguments.command {
        cli::Command::Service { service } => service::run(service),
        cli::Command::Up(options) => up::run(options),
        cli::Command::Policy { command } => policy::run(command),
        cli::Command::Fence(options) => policy::fence(&options),
        cli::Command::Doctor(options) => doctor::run(&options),
        cli::Command::Operator(command) => operator::run(command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            report(error.as_ref());
            if error.is::<cli::Usage>() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// What went wrong and why, on standard error, a cause a line.
fn report(error: &(dyn std::error::Error + 'static)) {
    use std::io::Write;
    let mut stderr = std::io::stderr().lock();
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(stderr, "kazma: {error}");
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = writeln!(stderr, "  because: {cause}");
        next = cause.source();
    }
}
