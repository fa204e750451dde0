//! A service's place in the mesh, and what every service has.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use kazma_domain::{Clock, Entropy, Service};
use kazma_mesh::{Address, Client, Enrolment, Expiry, Identity, JoinToken, MeshError};
use kazma_metrics::Meters;
use kazma_runtime::{BoxError, Lifecycle};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Between two attempts to join.
const PAUSE: Duration = Duration::from_millis(250);
/// After so many attempts it is said that the registry is waited for.
const QUIET: u32 = 20;

/// Where the services are called.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peers {
    /// The gate registry.
    pub registry: Address,
    /// The gateway's side of the mesh.
    pub gateway: Address,
    /// The runner's api.
    pub runner: Address,
    /// The runner's egress.
    pub egress: Address,
    /// The agent.
    pub agent: Address,
}

impl Peers {
    /// Where `service` is called. The broker, which is not in the mesh, is asked for nowhere.
    pub const fn of(&self, service: Service) -> Option<&Address> {
        match service {
            Service::GateRegistry => Some(&self.registry),
            Service::Gateway => Some(&self.gateway),
            Service::RunnerApi => Some(&self.runner),
            Service::RunnerEgress => Some(&self.egress),
            Service::Agent => Some(&self.agent),
            Service::RunnerBroker => None,
        }
    }
}

/// How a service gets its first certificate.
#[derive(Debug, Clone)]
pub enum Invitation {
    /// It holds the CA, or stands outside of the mesh.
    None,
    /// By this token.
    Token(SecretString),
    /// By the token that the registry writes into this file, which may come later.
    File(Utf8PathBuf),
}

impl Invitation {
    fn token(&self) -> Result<Option<JoinToken>, BoxError> {
        Ok(match self {
            Self::None => None,
            Self::Token(token) => Some(JoinToken::parse(token.expose_secret())?),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => JoinToken::parse(text.trim()).ok(),
                Err(_) => None,
            },
        })
    }
}

/// What every service has.
#[derive(Debug)]
pub struct Member {
    /// Which service this is.
    pub service: Service,
    /// Its own folder.
    pub folder: Utf8PathBuf,
    /// How it gets its first certificate.
    pub invitation: Invitation,
    /// Where the others are.
    pub peers: Peers,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What it counts.
    pub meters: Meters,
    /// What its supervisor said last, beyond the first line. Only one that stops by its input has such.
    pub said: watch::Receiver<Option<SecretString>>,
    /// Its tasks and their end.
    pub life: Lifecycle,
}

impl Member {
    /// Joins the mesh, and stays in it. A registry that is not there yet is waited for.
    ///
    /// # Errors
    ///
    /// Says why the service cannot join, or that it was asked to end before.
    pub async fn enrol(&self) -> Result<Enrolment, BoxError> {
        let enrolment = self.join().await?;
        self.show_expiry(&enrolment.identity)?;
        let (identity, clock) = (enrolment.identity.clone(), self.clock.clone());
        let (keys, registry) = (self.keys(), self.peers.registry.clone());
        let stop = self.life.soft();
        self.life.spawn_essential("certificate", async move {
            kazma_mesh::keep_fresh(&keys, identity, registry, clock, stop)
                .await
                .map_err(Into::into)
        });
        Ok(enrolment)
    }

    async fn join(&self) -> Result<Enrolment, BoxError> {
        let keys = self.keys();
        let registry = &self.peers.registry;
        let soft = self.life.soft();
        for attempt in 0_u32.. {
            let token = self.invitation.token()?;
            let clock = self.clock.as_ref();
            let error = match kazma_mesh::enrol(
                &keys,
                self.service,
                registry.clone(),
                token.as_ref(),
                clock,
            )
            .await
            {
                Ok(enrolment) => return Ok(enrolment),
                Err(error) if self.may_come(&error) => error,
                Err(error) => return Err(error.into()),
            };
            if attempt % QUIET == QUIET - 1 {
                let why = error.to_string();
                tracing::warn!(%registry, why, "the registry is waited for");
            }
            tokio::select! {
                () = soft.cancelled() => break,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        Err("stopped before it joined".into())
    }

    /// Whether a later attempt may fare better.
    fn may_come(&self, error: &MeshError) -> bool {
        match error {
            MeshError::Enrol(call) if call.is_transient() => true,
            // The registry writes a new token at each of its starts.
            MeshError::Enrol(_) | MeshError::NoToken => {
                matches!(self.invitation, Invitation::File(_))
            }
            _ => false,
        }
    }

    /// The folder of its keys.
    pub fn keys(&self) -> Utf8PathBuf {
        self.folder.join("keys")
    }

    /// Shows until when its certificate holds.
    ///
    /// # Errors
    ///
    /// Where the metric's name is taken.
    pub fn show_expiry(&self, identity: &Arc<Identity>) -> Result<(), BoxError> {
        let (identity, clock) = (identity.clone(), self.clock.clone());
        Expiry::new(&self.meters)?.follow(&self.meters, identity, clock);
        Ok(())
    }

    /// A client of another service.
    ///
    /// # Errors
    ///
    /// Says why TLS could not be set up; refuses the broker, which is not in the mesh.
    pub fn client(&self, identity: &Arc<Identity>, to: Service) -> Result<Client, BoxError> {
        let at = self
            .peers
            .of(to)
            .ok_or_else(|| format!("{to} is not in the mesh"))?;
        Ok(Client::new(identity, to, at.clone())?)
    }

    /// Waits until this service answers on the mesh, as others would ask it.
    ///
    /// # Errors
    ///
    /// Where it is asked to end before.
    pub async fn answers(&self, identity: &Arc<Identity>, at: SocketAddr) -> Result<(), BoxError> {
        let own = Client::new(identity, self.service, at)?;
        let soft = self.life.soft();
        while own.get::<Health>("/v1/health").await.is_err() {
            tokio::select! {
                () = soft.cancelled() => return Err("stopped before it served".into()),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
        Ok(())
    }
}

/// Whatever a service says of its health.
#[derive(Deserialize)]
struct Health {}
