//! An executor's place in the mesh.

use std::{net::SocketAddr, sync::Arc};

use kazma_domain::Service;
use kazma_launch::Member;
use kazma_mesh::{Enrolment, Identity, Listeners};
use kazma_runtime::BoxError;
use kazma_signing::VerifyingKey;

use crate::executor::MeshRegistry;

/// What an executor serves with once it is known in the mesh.
pub(super) struct Joined {
    pub(super) identity: Arc<Identity>,
    pub(super) registry: Arc<MeshRegistry>,
    /// What permits are signed with.
    pub(super) permit_key: VerifyingKey,
    /// Where it listens.
    pub(super) at: SocketAddr,
}

impl Joined {
    /// Enrols, or comes back.
    pub(super) async fn join(member: &Member, listeners: &Listeners) -> Result<Self, BoxError> {
        let Enrolment {
            identity,
            permit_key,
        } = member.enrol().await?;
        Ok(Self {
            registry: Arc::new(MeshRegistry(
                member.client(&identity, Service::GateRegistry)?,
            )),
            permit_key: VerifyingKey::from_base64(permit_key.trim())?,
            at: listeners.local_addr()?,
            identity,
        })
    }
}
