//! The agent as a process: what it may do, and its start.

use std::sync::Arc;

use camino::Utf8Path;
use kazma_domain::Service;
use kazma_launch::{Member, Peers, starts_nothing};
use kazma_mesh::{Enrolment, Listeners};
use kazma_runtime::{BoxError, Confinement, Connect};

use crate::{
    Deps, Options,
    clients::{MeshModel, MeshRegistry, MeshRunner},
    serve,
};

/// What the process may still do: it connects to the mesh alone, and to itself at `own`.
pub fn confinement(folder: &Utf8Path, peers: &Peers, own: &[u16]) -> Confinement {
    let Peers {
        registry,
        gateway,
        runner,
        egress,
        ..
    } = peers;
    let others = [registry, gateway, runner, egress];
    let ports = others.iter().map(|peer| peer.port());
    starts_nothing(
        folder,
        Vec::new(),
        None,
        Connect::Ports(ports.chain(own.iter().copied()).collect()),
    )
}

/// Starts the agent; it serves when this returns.
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start(member: &Member, listeners: Listeners) -> Result<(), BoxError> {
    let Enrolment { identity, .. } = member.enrol().await?;
    let at = listeners.local_addr()?;
    let deps = Deps {
        identity: identity.clone(),
        listener: listeners,
        clock: member.clock.clone(),
        entropy: member.entropy.clone(),
        registry: Arc::new(MeshRegistry(
            member.client(&identity, Service::GateRegistry)?,
        )),
        runner: Arc::new(MeshRunner(member.client(&identity, Service::RunnerApi)?)),
        egress: Arc::new(MeshRunner(member.client(&identity, Service::RunnerEgress)?)),
        model: Arc::new(MeshModel(member.client(&identity, Service::Gateway)?)),
        meters: member.meters.clone(),
    };
    let (options, life) = (Options::new(member.folder.clone()), member.life.clone());
    member.life.spawn_essential("agent", async move {
        serve(options, deps, life).await.map_err(Into::into)
    });
    member.answers(&identity, at).await
}
