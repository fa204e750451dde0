//! What the supervisor tells a service at its start: one JSON line on its standard input, which then
//! stays open. Its end is the sign to stop, so that no service outlives its supervisor.

use camino::Utf8PathBuf;
use kazma_domain::{Digest, Service};
use kazma_launch::Peers;
use kazma_mesh::Address;
use kazma_mesh::https::Pem;
use kazma_runtime::Confinement;
use kazma_sandbox_runner::member::{api, broker, egress};
use serde::{Deserialize, Serialize};

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

/// What a running service is told by a further line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Said {
    /// The gateway: the certificate was renewed.
    Certificate(Pem),
}

/// What one service needs that no other does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    GateRegistry(kazma_gate_registry::member::Settings),
    RunnerBroker(broker::Settings),
    RunnerEgress(egress::Settings),
    RunnerApi(api::Settings),
    Agent,
    Gateway(Box<kazma_gateway::member::Settings>),
}

impl Boot {
    /// What this service's process needs, and nothing beyond.
    pub(crate) fn needs(&self) -> Confinement {
        let (folder, peers) = (&self.folder, &self.peers);
        // Each asks itself once whether it serves.
        let own = |service: Service| peers.of(service).map(Address::port);
        let own = |service: Service| own(service).into_iter().collect::<Vec<_>>();
        match &self.role {
            Role::RunnerBroker(_) => broker::Settings::confinement(),
            Role::GateRegistry(settings) => {
                settings.confinement(folder, &own(Service::GateRegistry), None)
            }
            Role::RunnerApi(settings) => {
                settings.confinement(folder, peers, &own(Service::RunnerApi))
            }
            Role::RunnerEgress(settings) => {
                settings.confinement(folder, peers, &own(Service::RunnerEgress))
            }
            Role::Agent => kazma_agent::member::confinement(folder, peers, &own(Service::Agent)),
            Role::Gateway(settings) => settings.confinement(folder, None),
        }
    }
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
