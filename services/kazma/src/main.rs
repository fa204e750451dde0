//! `kazma`: everything on one machine, and the operator's tool.

mod boot;
mod cli;
mod doctor;
mod metrics;
mod policy;
mod service;
mod up;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::Cli::parse();
    // Before any thread: taking inherited sockets reads and clears the environment.
    kazma_launch::outcome(match arguments.command {
        cli::Command::Service { service } => service::run(service),
        cli::Command::Up(options) => up::run(options),
        cli::Command::Policy { command } => policy::run(command),
        cli::Command::Fence(options) => policy::fence(&options),
        cli::Command::Doctor(options) => doctor::run(&options),
        cli::Command::Operator(command) => kazma_operator::run(command),
        cli::Command::Audit { command } => kazma_gate_registry::audit::run(command),
    })
}
