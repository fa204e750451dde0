//! The command line.

use std::net::SocketAddr;

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kazma_domain::Service;
use kazma_gate_registry::{
    audit::Audit,
    member::{Approval, Store},
};
use kazma_gateway::member::{Edge, Endpoint};
use kazma_launch::Place;
use kazma_operator::Operator;
use kazma_sandbox_runner::member::{Engine, Sandbox, api::Shell, egress::Search};

use crate::metrics::Wanted;

/// Where pages are served unless said otherwise.
const LISTEN: &str = "127.0.0.1:9090";

/// A self-hosted AI agent that does nothing dangerous unless a person said yes to exactly that call.
#[derive(Debug, Parser)]
#[command(name = "kazma", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything on this machine and keep it running
    Up(Box<Up>),
    /// One service of `kazma up`; it is started by it and not by hand
    #[command(hide = true)]
    Service {
        /// Which
        service: Service,
    },
    /// Say what this machine can hold and what it cannot, and what to do about it
    Doctor(Doctor),
    /// The judges, alone: they need no running stack and no data folder
    Policy {
        #[command(subcommand)]
        command: Policy,
    },
    /// Fence texts as they are fenced for the model
    Fence(FenceTexts),
    #[command(flatten)]
    Operator(Operator),
    /// The record of all that happened
    Audit {
        #[command(subcommand)]
        command: Audit,
    },
}

/// `kazma policy`: each judge reads JSON Lines and answers one line for each.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Judge argument lists as `shell_exec` does
    Argv(PolicyArgv),
    /// Judge URLs as every fetch from the internet does
    Url(Batch),
    /// Judge Python code as `python_exec` does
    Code(Batch),
    /// Judge SQL as `sqlite_query` does
    Sql(Batch),
}

/// That rows come on standard input.
#[derive(Debug, Args)]
pub(crate) struct Batch {
    /// Read JSON Lines on standard input, answer one line for each
    #[arg(long, required = true)]
    pub(crate) batch: bool,
}

/// The flags of `kazma fence`.
#[derive(Debug, Args)]
pub(crate) struct FenceTexts {
    #[command(flatten)]
    pub(crate) batch: Batch,
    /// The nonce of every fence, 32 hexadecimal digits: for tests alone
    #[arg(long, value_name = "HEX", value_parser = nonce)]
    pub(crate) nonce: Option<[u8; 16]>,
}

/// The flags of `kazma policy argv`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgv {
    #[command(flatten)]
    pub(crate) batch: Batch,
    /// The workspace that paths must stay beneath [default: the current folder]
    #[arg(long, env = "KAZMA_WORKSPACE", value_name = "DIR")]
    pub(crate) workspace: Option<Utf8PathBuf>,
    /// Which programs are there
    #[arg(long, value_enum, default_value_t = Profile::Default)]
    pub(crate) profile: Profile,
    #[command(flatten)]
    pub(crate) shell: Shell,
}

/// A posture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// One person's own machine.
    Default,
    /// The strict posture of `KAZMA_PRODUCTION`.
    Production,
}

/// The flags of `kazma up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Where the pages and the API are served; port 0 takes a free one
    #[arg(
        long,
        env = "KAZMA_LISTEN",
        default_value = LISTEN,
        value_name = "ADDR:PORT"
    )]
    pub(crate) listen: SocketAddr,
    /// Use the built-in scripted model: real in everything but the model
    #[arg(long)]
    pub(crate) demo: bool,
    /// What runs code
    #[arg(long, value_enum, default_value_t = Sandbox::Auto, env = "KAZMA_SANDBOX")]
    pub(crate) sandbox: Sandbox,
    #[command(flatten)]
    pub(crate) engine: Engine,
    /// Print one JSON line when ready
    #[arg(long)]
    pub(crate) json: bool,
    /// The folder that tools may see (default: `workspace` in the data folder)
    #[arg(long, env = "KAZMA_WORKSPACE", value_name = "DIR")]
    pub(crate) workspace: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub(crate) approval: Approval,
    #[command(flatten)]
    pub(crate) edge: Edge,
    #[command(flatten)]
    pub(crate) search: Search,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) shell: Shell,
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,
    /// Where the services show metrics: the first at ADDR:PORT, each further one a port above; port 0
    /// takes free ones, `off` shows none
    #[arg(
        long,
        env = "KAZMA_METRICS_LISTEN",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:0"
    )]
    pub(crate) metrics_listen: Wanted,
    /// Which log lines to write, such as `info` or `kazma_agent=debug`
    #[arg(long, env = "KAZMA_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// The flags of `kazma doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Where the pages are or would be served
    #[arg(long, env = "KAZMA_LISTEN", default_value = LISTEN, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) engine: Engine,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the nonce of a fence.
fn nonce(text: &str) -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| "use 32 hexadecimal digits".to_owned())?;
    Ok(bytes)
}
