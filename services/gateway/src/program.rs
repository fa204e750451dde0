//! The gateway's program: it serves, says whether it is well, and is the operator's tool.

use std::{net::SocketAddr, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use kazma_domain::Service;
use kazma_gateway::member::{self, Edge, Endpoint, Settings, api_url};
use kazma_launch::{Contained, Health, Place, Usage, switch, write_public};
use kazma_mesh::Address;
use kazma_operator::Operator;
use kazma_runtime::{BoxError, SystemEntropy};
use secrecy::ExposeSecret as _;
use tokio::sync::watch;

/// The gateway: pages and the API for people, and the agent's way to a model.
#[derive(Debug, Parser)]
#[command(name = "kazma", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until a signal
    Serve(Box<Serve>),
    /// Say by the exit code whether it serves
    Health(Health),
    #[command(flatten)]
    Operator(Operator),
}

#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    contained: Contained,
    /// Where the pages and the API are served; a name is this container's own in one of its networks
    #[arg(
        long,
        env = "KAZMA_LISTEN",
        default_value = "0.0.0.0:9090",
        value_name = "HOST:PORT"
    )]
    listen: Address,
    #[command(flatten)]
    edge: Edge,
    #[command(flatten)]
    endpoint: Endpoint,
    /// Use the built-in scripted model: real in everything but the model
    #[arg(long, env = "KAZMA_DEMO", action = clap::ArgAction::Set, value_parser = switch, default_value = "0")]
    demo: bool,
}

/// Runs one command.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    match Cli::parse().command {
        Command::Serve(serve) => self::serve(*serve),
        Command::Health(health) => health.run(Service::Gateway),
        Command::Operator(command) => kazma_operator::run(command),
    }
}

fn serve(serve: Serve) -> Result<ExitCode, BoxError> {
    let Serve {
        contained,
        listen,
        edge,
        endpoint,
        demo,
    } = serve;
    if demo && edge.production {
        return Err(Usage(
            "KAZMA_DEMO is for trying out; unset it, or KAZMA_PRODUCTION".to_owned(),
        )
        .into());
    }
    let folder = contained.make_folder(Service::Gateway)?;
    let public = kazma_launch::listener("KAZMA_LISTEN", &listen)?;
    let (files, certificate) = edge.certificate()?.unzip();
    let settings = Settings {
        public_url: edge.public_url(),
        api_token: Place::token(&contained.data_dir, &SystemEntropy)?,
        secret: edge
            .secret()?
            .map(|secret| secret.expose_secret().to_owned()),
        services_file: Place::services_file(&contained.data_dir),
        trusted_proxies: edge.proxies()?,
        production: edge.production,
        model: (&endpoint.model(demo)?).into(),
        certificate: None,
    };
    tell_commands(&contained, public.local_addr()?)?;
    let confinement = settings.confinement(&folder, files.as_ref());
    let mesh = contained.mesh()?;
    let start = contained.start(Service::Gateway, confinement)?;
    kazma_launch::run(start, async |member| {
        let renewed = files.zip(certificate).map(|(files, certificate)| {
            files.warn();
            let (shown, renewed) = watch::channel(certificate);
            let stop = member.life.soft();
            member.life.spawn_essential("tls files", async move {
                files.follow(&shown, stop).await;
                Ok(())
            });
            renewed
        });
        member::start(&member, mesh, public, settings, renewed).await?;
        tracing::info!("serving; `kazma login-link` in this container prints a sign-in link");
        Ok(())
    })
}

/// Writes down where commands in this container find the gateway. Who supervises the services is not known here.
fn tell_commands(contained: &Contained, at: SocketAddr) -> Result<(), BoxError> {
    let file = Place::services_file(&contained.data_dir);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let text = serde_json::json!({ "api": api_url(at), "services": [] }).to_string();
    Ok(write_public(&file, &text)?)
}
