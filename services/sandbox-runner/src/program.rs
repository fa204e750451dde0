//! The runner's program: it serves as one of its three processes, and says whether that is well.

use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand};
use kazma_domain::Service;
use kazma_launch::{Contained, Health, Usage, checked, switch};
use kazma_runtime::{BoxError, SystemEntropy};
use kazma_sandbox_runner::{
    broker::BrokerClient,
    member::{
        Engine, Sandbox, Tier,
        api::{self, Shell},
        broker,
        egress::{self, Search},
    },
};

/// The sandbox runner: it plans, and runs what a permit allows.
#[derive(Debug, Parser)]
#[command(name = "kazma", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until a signal
    Serve {
        #[command(subcommand)]
        process: Process,
    },
    /// Say by the exit code whether a process serves
    Health {
        #[command(subcommand)]
        process: Well,
    },
}

#[derive(Debug, Subcommand)]
enum Process {
    /// Has the workspace: plans and runs calls
    Api(Box<Api>),
    /// Has the engine: makes sandboxes
    Broker(Box<Broker>),
    /// Has the internet: fetches and searches
    Egress(Box<Egress>),
}

#[derive(Debug, Subcommand)]
enum Well {
    /// The api process
    Api(Box<Health>),
    /// The broker
    Broker(Socket),
    /// The egress process
    Egress(Box<Health>),
}

#[derive(Debug, Args)]
struct Api {
    #[command(flatten)]
    contained: Contained,
    #[command(flatten)]
    workspace: Workspace,
    #[command(flatten)]
    broker: Socket,
    #[command(flatten)]
    shell: Shell,
    /// Strict posture
    #[arg(long, env = "KAZMA_PRODUCTION", action = clap::ArgAction::Set, value_parser = switch, default_value = "0", hide = true)]
    production: bool,
}

#[derive(Debug, Args)]
struct Broker {
    #[command(flatten)]
    contained: Contained,
    #[command(flatten)]
    workspace: Workspace,
    #[command(flatten)]
    socket: Socket,
    /// The user that the api process runs as: it alone may connect
    #[arg(long, env = "KAZMA_BROKER_ALLOWED_UID", value_name = "UID")]
    allowed_uid: u32,
    #[command(flatten)]
    engine: Engine,
}

#[derive(Debug, Args)]
struct Egress {
    #[command(flatten)]
    contained: Contained,
    #[command(flatten)]
    search: Search,
}

#[derive(Debug, Args)]
struct Workspace {
    /// The folder that tools may see
    #[arg(
        long,
        env = "KAZMA_WORKSPACE",
        default_value = "/workspace",
        value_name = "DIR"
    )]
    workspace: Utf8PathBuf,
}

#[derive(Debug, Args)]
struct Socket {
    /// Where the broker listens
    #[arg(
        id = "broker_socket",
        long = "broker-socket",
        env = "KAZMA_BROKER_SOCKET",
        default_value = "/run/kazma/broker/broker.sock",
        value_name = "FILE"
    )]
    path: Utf8PathBuf,
}

/// Runs one command.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    match Cli::parse().command {
        Command::Serve { process } => match process {
            Process::Api(told) => api(*told),
            Process::Broker(told) => broker(*told),
            Process::Egress(told) => egress(*told),
        },
        Command::Health { process } => match process {
            Well::Api(health) => health.run(Service::RunnerApi),
            Well::Egress(health) => health.run(Service::RunnerEgress),
            Well::Broker(socket) => checked(async move {
                BrokerClient::new(socket.path).status().await?;
                Ok(())
            }),
        },
    }
}

fn api(told: Api) -> Result<ExitCode, BoxError> {
    let contained = told.contained;
    let settings = api::Settings {
        workspace: told.workspace.workspace,
        broker: told.broker.path,
        shell: told.shell.groups(told.production)?,
    };
    let folder = contained.make_folder(Service::RunnerApi)?;
    let confinement = settings.confinement(&folder, &contained.peers()?, &contained.mesh_ports());
    let listeners = contained.mesh()?;
    let start = contained.start(Service::RunnerApi, confinement)?;
    kazma_launch::run(start, async |member| {
        api::start_apart(&member, listeners, settings).await?;
        tracing::info!("serving");
        Ok(())
    })
}

fn broker(told: Broker) -> Result<ExitCode, BoxError> {
    let contained = told.contained;
    // Jails need what a container without rights does not have, so there is no other tier here.
    let tier = Sandbox::Docker.tier(told.engine)?;
    if let Tier::Docker(containers) = &tier
        && !containers.sockets.iter().any(|socket| socket.exists())
    {
        let sockets: Vec<&str> = containers.sockets.iter().map(|at| at.as_str()).collect();
        let sockets = sockets.join(", ");
        return Err(Usage(format!(
            "DOCKER_HOST: no engine's socket at {sockets}; mount it into this container, and into no other"
        ))
        .into());
    }
    let folder = contained.make_folder(Service::RunnerBroker)?;
    let settings = broker::Settings {
        workspace: told.workspace.workspace,
        allowed_uid: told.allowed_uid,
        tier,
        owner: broker::kept_owner(&folder, &SystemEntropy)?,
    };
    let socket = told.socket.path;
    let start = contained.start(Service::RunnerBroker, broker::Settings::confinement())?;
    kazma_launch::run(start, async |member| {
        broker::start(&member, None, &socket, settings)?;
        tracing::info!("serving");
        Ok(())
    })
}

fn egress(told: Egress) -> Result<ExitCode, BoxError> {
    let contained = told.contained;
    let settings = egress::Settings {
        search: told.search.origin()?,
    };
    let folder = contained.make_folder(Service::RunnerEgress)?;
    let confinement = settings.confinement(&folder, &contained.peers()?, &contained.mesh_ports());
    let listeners = contained.mesh()?;
    let start = contained.start(Service::RunnerEgress, confinement)?;
    kazma_launch::run(start, async |member| {
        egress::start(&member, listeners, settings).await?;
        tracing::info!("serving");
        Ok(())
    })
}
