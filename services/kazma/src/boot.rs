//! What the supervisor tells a service at its start: one JSON line on its standard input, which then
//! stays open. Its end is the sign to stop, so that no service outlives its supervisor.

use std::net::SocketAddr;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kazma_domain::{Digest, Service};
use kazma_gate_registry::Server;
use kazma_netguard::Origin;
use kazma_runtime::{Confinement, Connect};
use serde::{Deserialize, Serialize};

use crate::cli;

/// The port of name servers, which are asked over TCP where an answer is long.
const NAMES: u16 = 53;
/// Ports of the internet.
const WEB: [u16; 3] = [80, 443, NAMES];

/// What one service is told. Secrets travel here, never in arguments or the environment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Boot {
    /// The service's own folder.
    pub(crate) folder: Utf8PathBuf,
    /// Which log lines to write.
    pub(crate) log: Option<String>,
    /// How to get a first certificate; the registry needs none.
    pub(crate) token: Option<String>,
    /// Which of its sockets shows metrics; none for none.
    #[serde(default)]
    pub(crate) metrics: Option<usize>,
    /// Where the others are.
    pub(crate) peers: Peers,
    /// What else this one needs.
    pub(crate) role: Role,
}

impl Boot {
    /// What this service's process needs, and nothing beyond.
    pub(crate) fn needs(&self) -> Confinement {
        let nothing = |read: Vec<Utf8PathBuf>, more: Option<&Utf8PathBuf>, connect| {
            Confinement::StartsNothing {
                read,
                write: std::iter::once(&self.folder)
                    .chain(more)
                    .cloned()
                    .chain(faults())
                    .collect(),
                connect,
            }
        };
        let mesh = |to: &[SocketAddr]| Connect::Ports(to.iter().map(SocketAddr::port).collect());
        let Peers {
            registry,
            gateway,
            runner,
            egress,
            agent,
        } = self.peers;
        // Each asks itself once whether it serves.
        match &self.role {
            Role::RunnerBroker { .. } => Confinement::StartsSandboxes,
            Role::GateRegistry { database, .. } => {
                let server = database
                    .as_ref()
                    .and_then(|url| cli::server(&url.clone().into()).ok());
                let mut ports = vec![registry.port()];
                // A server elsewhere has a name to be found first.
                ports.extend(
                    server
                        .as_ref()
                        .and_then(Server::port)
                        .into_iter()
                        .flat_map(|port| [port, NAMES]),
                );
                let certificates = server.map(|server| server.files().to_vec());
                nothing(
                    certificates.unwrap_or_default(),
                    None,
                    Connect::Ports(ports),
                )
            }
            Role::RunnerApi { workspace, .. } => {
                nothing(Vec::new(), Some(workspace), mesh(&[runner, registry]))
            }
            Role::Agent => nothing(
                Vec::new(),
                None,
                mesh(&[agent, registry, gateway, runner, egress]),
            ),
            Role::RunnerEgress { search } => {
                let mut ports = vec![egress.port(), registry.port()];
                ports.extend(WEB);
                ports.extend(search.as_ref().map(Origin::port));
                nothing(Vec::new(), None, Connect::Ports(ports))
            }
            Role::Gateway(options) => {
                let run = options.services_file.parent().map(ToOwned::to_owned);
                nothing(run.into_iter().collect(), None, Connect::Anywhere)
            }
        }
    }
}

/// The folder through which a test says where to die.
#[cfg(feature = "faults")]
#[expect(
    clippy::disallowed_methods,
    reason = "a test says so by the environment"
)]
fn faults() -> Option<Utf8PathBuf> {
    std::env::var(kazma_faults::FOLDER)
        .ok()
        .map(Utf8PathBuf::from)
}

#[cfg(not(feature = "faults"))]
const fn faults() -> Option<Utf8PathBuf> {
    None
}

/// Where the services listen.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Peers {
    pub(crate) registry: SocketAddr,
    pub(crate) gateway: SocketAddr,
    pub(crate) runner: SocketAddr,
    pub(crate) egress: SocketAddr,
    pub(crate) agent: SocketAddr,
}

/// What one service needs that no other does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    GateRegistry {
        invitations: Vec<Invitation>,
        /// Seconds that a card waits for an answer.
        approval_timeout: u32,
        /// The URL of the server that has the database; none for a file.
        #[serde(default)]
        database: Option<String>,
    },
    RunnerBroker {
        workspace: Utf8PathBuf,
        allowed_uid: u32,
        jail_uid: Option<u32>,
        tier: Tier,
    },
    RunnerEgress {
        /// Where searches go.
        search: Option<Origin>,
    },
    RunnerApi {
        workspace: Utf8PathBuf,
        broker: Utf8PathBuf,
        shell: Shell,
    },
    Agent,
    Gateway(Box<Gateway>),
}

/// The groups of programs that `shell_exec` has beyond those that are always there.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Shell {
    /// `mkdir`, `cp`, `mv` and `touch`.
    pub(crate) mutate: bool,
    /// `tar`, `gzip`, `zip` and `unzip`.
    pub(crate) archive: bool,
    /// `ps` and `pgrep`.
    pub(crate) dev: bool,
}

/// Which tier runs code.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tier {
    /// Jails.
    Native,
    /// Containers, or nothing.
    Docker(Containers),
    /// Containers where they can be had at the start, else jails.
    Auto(Containers),
}

/// Where containers come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Containers {
    /// Where an engine may listen, in this order.
    pub(crate) sockets: Vec<Utf8PathBuf>,
    /// The image, if it is another than the usual one.
    pub(crate) image: Option<String>,
    /// `runc`, `runsc` or `kata`.
    pub(crate) runtime: String,
}

/// What the gateway needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Gateway {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) api_token: String,
    pub(crate) secret: Option<String>,
    pub(crate) services_file: Utf8PathBuf,
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) production: bool,
    pub(crate) model: Model,
}

/// Which model the gateway speaks to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Model {
    /// None is set: the pages say so.
    None,
    /// The scripted one.
    Demo,
    /// An OpenAI-compatible endpoint.
    OpenAi {
        base_url: String,
        name: String,
        api_key: Option<String>,
    },
}

/// A join token as the registry knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Invitation {
    pub(crate) service: Service,
    /// The digest of the secret's text.
    pub(crate) digest: Digest,
    pub(crate) expires_at: Timestamp,
}

/// The line a service writes on its standard output once it serves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The digest of the CA, from the registry alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<Digest>,
}

#[cfg(test)]
mod tests;
