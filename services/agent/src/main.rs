//! The agent in a container of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kazma_agent::member;
use kazma_domain::Service;
use kazma_launch::{Contained, Health};
use kazma_runtime::BoxError;

/// The agent: takes a person's message to a model, and what the model wants to the executors.
#[derive(Debug, Parser)]
#[command(name = "kazma", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until a signal
    Serve(Contained),
    /// Say by the exit code whether it serves
    Health(Health),
}

fn main() -> ExitCode {
    kazma_launch::outcome(match Cli::parse().command {
        Command::Serve(contained) => serve(&contained),
        Command::Health(health) => health.run(Service::Agent),
    })
}

fn serve(contained: &Contained) -> Result<ExitCode, BoxError> {
    let folder = contained.make_folder(Service::Agent)?;
    let confinement = member::confinement(&folder, &contained.peers()?, &contained.mesh_ports());
    let listeners = contained.mesh()?;
    let start = contained.start(Service::Agent, confinement)?;
    kazma_launch::run(start, async |member| {
        member::start(&member, listeners).await?;
        tracing::info!("serving");
        Ok(())
    })
}
