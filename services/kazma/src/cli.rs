//! The command line.

use std::net::SocketAddr;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Parser, Subcommand, ValueEnum};
use kazma_domain::{Role, Service};
use kazma_gate_registry::{SERVER_SCHEMA, Server};
use secrecy::{ExposeSecret as _, SecretString};

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

/// Which programs `shell_exec` has.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Shell {
    /// Whether the archive programs are off in production
    #[arg(id = "shell_strict", long = "strict", env = "KAZMA_SHELL_STRICT", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub(crate) strict: Option<bool>,
    /// Whether mkdir, cp, mv and touch are there
    #[arg(id = "shell_allow_mutate", long = "allow-mutate", env = "KAZMA_SHELL_ALLOW_MUTATE", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub(crate) mutate: Option<bool>,
    /// Whether tar, gzip, zip and their like are there
    #[arg(id = "shell_allow_archive", long = "allow-archive", env = "KAZMA_SHELL_ALLOW_ARCHIVE", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub(crate) archive: Option<bool>,
    /// Programs outside of any sandbox: not in this version
    #[arg(id = "host_shell", long = "host-shell", env = "KAZMA_HOST_SHELL", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub(crate) host: Option<bool>,
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
    /// How long a card waits for an answer, in seconds: 60 to 2592000 (30 days)
    #[arg(
        long,
        env = "KAZMA_APPROVAL_TIMEOUT_SECONDS",
        default_value_t = 86_400,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(60..=2_592_000)
    )]
    pub(crate) approval_timeout: u32,
    /// The shared operator secret; any other address than loopback needs it
    #[arg(long, env = "KAZMA_SECRET", hide_env_values = true, hide = true)]
    pub(crate) secret: Option<SecretString>,
    /// The address that people type, if it is another, such as `https://kazma.example`
    #[arg(long, env = "KAZMA_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Reverse proxies whose forwarded headers are believed: addresses and CIDRs, with commas
    #[arg(
        long,
        env = "KAZMA_TRUSTED_PROXIES",
        value_name = "LIST",
        default_value = ""
    )]
    pub(crate) trusted_proxies: String,
    /// A SearXNG for web searches, such as `http://search.lan:8080`; it may be on this network
    #[arg(long, env = "KAZMA_SEARXNG_URL", value_name = "URL")]
    pub(crate) searxng_url: Option<String>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Strict posture
    #[arg(long, env = "KAZMA_PRODUCTION", action = clap::ArgAction::Set, value_parser = switch, default_value = "0", hide = true)]
    pub(crate) production: bool,
    #[command(flatten)]
    pub(crate) shell: Shell,
    #[command(flatten)]
    pub(crate) model: Model,
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

/// Which container engine, and what containers are made of.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// Whether code runs in containers: auto, 1 or 0
    #[arg(
        long = "code-exec-docker",
        env = "KAZMA_CODE_EXEC_DOCKER",
        value_name = "WISH",
        hide = true
    )]
    pub(crate) docker: Option<String>,
    /// The image that sandboxes are made from; `scripts/images` makes the default
    #[arg(
        long = "sandbox-image",
        env = "KAZMA_CODE_EXEC_IMAGE",
        value_name = "IMAGE"
    )]
    pub(crate) image: Option<String>,
    /// What makes the boundary of a container
    #[arg(long = "sandbox-runtime", env = "KAZMA_CODE_EXEC_RUNTIME", value_enum, default_value_t = Runtime::Runc)]
    pub(crate) runtime: Runtime,
    /// The engine's socket
    #[arg(long = "docker-host", env = "DOCKER_HOST", value_name = "unix:///PATH")]
    pub(crate) host: Option<String>,
}

/// What makes the boundary of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// Namespaces of this machine's kernel.
    Runc,
    /// gVisor.
    Runsc,
    /// A virtual machine; accepted, and untested.
    Kata,
}

impl Runtime {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Runc => "runc",
            Self::Runsc => "runsc",
            Self::Kata => "kata",
        }
    }
}

/// Where a real model is.
#[derive(Debug, Args)]
pub(crate) struct Model {
    /// Any OpenAI-compatible endpoint, such as `http://localhost:11434/v1`
    #[arg(
        long = "model-base-url",
        env = "KAZMA_MODEL_BASE_URL",
        value_name = "URL"
    )]
    pub(crate) base_url: Option<String>,
    /// The model's name there
    #[arg(long = "model", env = "KAZMA_MODEL", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The key, if the endpoint wants one
    #[arg(
        long = "model-api-key",
        env = "KAZMA_MODEL_API_KEY",
        hide_env_values = true,
        hide = true
    )]
    pub(crate) api_key: Option<SecretString>,
    /// A file that holds the key
    #[arg(
        long = "model-api-key-file",
        env = "KAZMA_MODEL_API_KEY_FILE",
        value_name = "FILE"
    )]
    pub(crate) api_key_file: Option<Utf8PathBuf>,
}

/// Where the registry's database is, if it is not in the data folder.
#[derive(Debug, Clone, Args)]
pub(crate) struct Store {
    /// A PostgreSQL server, such as `postgres://kazma:PASSWORD@db.lan/kazma`
    #[arg(
        id = "registry_database_url",
        long = "registry-database-url",
        env = "KAZMA_REGISTRY_DATABASE_URL",
        hide_env_values = true,
        hide = true
    )]
    pub(crate) url: Option<SecretString>,
    /// A file that holds the URL of a PostgreSQL server for the registry
    #[arg(
        id = "registry_database_url_file",
        long = "registry-database-url-file",
        env = "KAZMA_REGISTRY_DATABASE_URL_FILE",
        value_name = "FILE"
    )]
    pub(crate) url_file: Option<Utf8PathBuf>,
}

impl Store {
    /// The URL; none where none is set.
    pub(crate) fn url(self) -> Result<Option<SecretString>, Usage> {
        secret(
            self.url,
            self.url_file.as_deref(),
            "KAZMA_REGISTRY_DATABASE_URL",
        )
    }

    /// The server; none where none is set.
    pub(crate) fn server(self) -> Result<Option<Server>, Usage> {
        self.url()?.map(|url| server(&url)).transpose()
    }
}

/// The registry's server.
pub(crate) fn server(url: &SecretString) -> Result<Server, Usage> {
    Server::new(url, SERVER_SCHEMA)
        .map_err(|error| Usage(format!("KAZMA_REGISTRY_DATABASE_URL: {error}")))
}

/// A secret that is set by the variable `name`, or in a file that `name_FILE` names.
pub(crate) fn secret(
    text: Option<SecretString>,
    file: Option<&Utf8Path>,
    name: &str,
) -> Result<Option<SecretString>, Usage> {
    match (text, file) {
        (Some(_), Some(_)) => Err(Usage(format!(
            "{name} and {name}_FILE are both set; keep one"
        ))),
        (Some(text), None) => Ok(Some(text).filter(|text| !text.expose_secret().is_empty())),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("{name}_FILE: {file}: {error}")))?;
            Ok(Some(SecretString::from(text.trim().to_owned())))
        }
        (None, None) => Ok(None),
    }
}

/// The data folder, which every command needs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// The data folder [default: /var/lib/kazma as root, else ~/.local/share/kazma]
    #[arg(long, env = "KAZMA_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<Utf8PathBuf>,
}

/// What runs code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sandbox {
    /// The strongest that is there.
    Auto,
    /// Sibling containers.
    Docker,
    /// Namespaces and seccomp by bubblewrap.
    Native,
    /// Pods.
    Kubernetes,
    /// Virtual machines of E2B.
    E2b,
    /// No isolation.
    Local,
}

/// The operator's commands. They speak to the running gateway.
#[derive(Debug, Subcommand)]
pub(crate) enum Operator {
    /// Print a new one-time sign-in link
    LoginLink(Place),
    /// The people who may sign in
    Users {
        #[command(subcommand)]
        command: Users,
    },
    /// The cards, with the terminal as a surface
    Gates {
        #[command(subcommand)]
        command: Gates,
    },
    /// The record of all that happened
    Audit {
        #[command(subcommand)]
        command: Audit,
    },
}

/// `kazma users`.
#[derive(Debug, Subcommand)]
pub(crate) enum Users {
    /// Add a person and print their one-time sign-in link
    Add {
        /// The name others see
        name: String,
        /// viewer, approver, operator or admin
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        place: Place,
    },
    /// List them
    List {
        #[command(flatten)]
        place: Place,
    },
}

/// `kazma gates`.
#[derive(Debug, Subcommand)]
pub(crate) enum Gates {
    /// List the cards that wait
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Show a whole card
    Show {
        /// The gate's id
        id: String,
        #[command(flatten)]
        place: Place,
    },
    /// Show a whole card and ask
    Approve {
        /// The gate's id
        id: String,
        #[command(flatten)]
        place: Place,
    },
    /// Deny a card
    Deny {
        /// The gate's id
        id: String,
        /// Why, for the agent and the record
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// `kazma audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Check the whole chain
    Verify {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        store: Store,
    },
}

/// A flag or setting that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Reads the nonce of a fence.
fn nonce(text: &str) -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| "use 32 hexadecimal digits".to_owned())?;
    Ok(bytes)
}

/// Reads a switch as the reference system does: `1/true/on/yes` and `0/false/off/no`.
fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "" | "0" | "false" | "off" | "no" => Ok(false),
        _ => Err("use 1 or 0".to_owned()),
    }
}
