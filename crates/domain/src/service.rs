//! The services of the mesh and their identities.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A service of the mesh. Its identity is the SPIFFE URI in its certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Faces people.
    Gateway,
    /// Thinks; holds no secret.
    Agent,
    /// Decides; the only signer.
    GateRegistry,
    /// Plans and runs permitted calls.
    RunnerApi,
    /// Starts sandboxes.
    RunnerBroker,
    /// Reaches the internet.
    RunnerEgress,
}

impl Service {
    /// Every service, in the order they start.
    pub const ALL: [Self; 6] = [
        Self::GateRegistry,
        Self::RunnerBroker,
        Self::RunnerEgress,
        Self::RunnerApi,
        Self::Agent,
        Self::Gateway,
    ];

    /// The name in certificates, folders, logs and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Agent => "agent",
            Self::GateRegistry => "gate-registry",
            Self::RunnerApi => "runner-api",
            Self::RunnerBroker => "runner-broker",
            Self::RunnerEgress => "runner-egress",
        }
    }

    /// The SPIFFE URI of this service: `spiffe://kazma/<name>`.
    pub fn spiffe(self) -> String {
        format!("spiffe://kazma/{}", self.name())
    }

    /// The host name in this service's certificate, which clients of the mesh verify.
    pub fn host(self) -> String {
        format!("{}.kazma.internal", self.name())
    }

    /// The service that a SPIFFE URI names, if it is one of ours.
    pub fn from_spiffe(uri: &str) -> Option<Self> {
        uri.strip_prefix("spiffe://kazma/")?.parse().ok()
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no service of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no service of the mesh has this name")]
pub struct UnknownService;

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Self, UnknownService> {
        Self::ALL
            .into_iter()
            .find(|s| s.name() == name)
            .ok_or(UnknownService)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identity_reads_back_and_no_other_trust_domain_does() {
        for service in Service::ALL {
            assert_eq!(Service::from_spiffe(&service.spiffe()), Some(service));
        }
        assert_eq!(Service::from_spiffe("spiffe://elsewhere/gateway"), None);
        assert_eq!(Service::from_spiffe("spiffe://kazma/gateway/x"), None);
    }
}
