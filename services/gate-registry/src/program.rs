//! The registry's program: it serves, says whether it is well, and checks its record.

use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;
use kazma_domain::{Clock as _, Digest, Service, clock::after};
use kazma_gate_registry::{
    audit,
    member::{self, Approval, Invitation, Settings, Store},
};
use kazma_launch::{Contained, Health, Usage, random_text, write_public};
use kazma_runtime::{BoxError, SystemClock, SystemEntropy};
use secrecy::{ExposeSecret as _, SecretString};

/// Who joins the mesh by a token.
const JOINING: [Service; 4] = [
    Service::Gateway,
    Service::Agent,
    Service::RunnerApi,
    Service::RunnerEgress,
];
/// How long a token is good: as long as images may take to be there, and no longer.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// The gate registry: it decides, it signs, and it remembers.
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
    /// The record of all that happened
    Audit {
        #[command(subcommand)]
        command: audit::Audit,
    },
}

#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    contained: Contained,
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    approval: Approval,
    /// The folder in which each service has a folder of its name for its join token
    #[arg(
        long,
        env = "KAZMA_JOIN_DIR",
        default_value = "/run/kazma/join",
        value_name = "DIR"
    )]
    join_dir: Utf8PathBuf,
}

/// Runs one command.
pub(crate) fn run() -> Result<ExitCode, BoxError> {
    match Cli::parse().command {
        Command::Serve(serve) => self::serve(*serve),
        Command::Health(health) => health.run(Service::GateRegistry),
        Command::Audit { command } => audit::run(command),
    }
}

fn serve(serve: Serve) -> Result<ExitCode, BoxError> {
    let secrets = JOINING.map(|service| (service, SecretString::from(random_text(&SystemEntropy))));
    let expires_at = after(SystemClock.now(), TOKEN_LIFE);
    let settings = Settings {
        invitations: secrets
            .iter()
            .map(|(service, secret)| Invitation {
                service: *service,
                digest: Digest::of_bytes(secret.expose_secret().as_bytes()),
                expires_at,
            })
            .collect(),
        approval_timeout: serve.approval.seconds,
        database: serve.store.url()?.map(|url| url.expose_secret().to_owned()),
    };
    let contained = serve.contained;
    let folder = contained.make_folder(Service::GateRegistry)?;
    let confinement = settings.confinement(&folder, &contained.mesh_ports(), Some(&serve.join_dir));
    let listeners = contained.mesh()?;
    let start = contained.start(Service::GateRegistry, confinement)?;
    kazma_launch::run(start, async |member| {
        let ca = member::start(&member, listeners, settings).await?;
        for (service, secret) in &secrets {
            invite(&serve.join_dir, *service, ca, secret)?;
        }
        tracing::info!("serving");
        Ok(())
    })
}

/// Leaves a token where the one service that it lets in, and nobody else, has the folder mounted.
fn invite(
    folder: &Utf8Path,
    service: Service,
    ca: Digest,
    secret: &SecretString,
) -> Result<(), Usage> {
    let file = folder.join(service.name()).join("token");
    let token = format!("{ca}.{}", secret.expose_secret());
    write_public(&file, &token).map_err(|error| {
        Usage(format!(
            "KAZMA_JOIN_DIR: {file} cannot be written: {error}; give {service} a volume there that this user may write"
        ))
    })
}
