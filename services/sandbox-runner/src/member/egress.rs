//! The egress process.

use std::sync::Arc;

use camino::Utf8Path;
use clap::Args;
use kazma_launch::{Member, Peers, Usage, starts_nothing};
use kazma_mesh::Listeners;
use kazma_netguard::{Client, Judge, Limits, Origin, SystemResolver};
use kazma_runtime::{BoxError, Confinement, Connect};
use serde::{Deserialize, Serialize};

use super::joined::Joined;
use crate::egress::{Deps, Options, serve};

/// Ports of the internet; names are asked over TCP where an answer is long.
const WEB: [u16; 3] = [80, 443, 53];

/// What the operator decides about searches.
#[derive(Debug, Args)]
pub struct Search {
    /// A SearXNG for web searches, such as `http://search.lan:8080`; it may be on this network
    #[arg(long, env = "KAZMA_SEARXNG_URL", value_name = "URL")]
    searxng_url: Option<String>,
}

impl Search {
    /// The search service's origin, with the base path it answers beneath.
    ///
    /// # Errors
    ///
    /// Refuses what is no such address.
    pub fn origin(&self) -> Result<Option<Origin>, Usage> {
        let set = self.searxng_url.as_deref().map(str::trim);
        set.filter(|url| !url.is_empty())
            .map(|url| {
                Origin::read(url).map_err(|error| Usage(format!("KAZMA_SEARXNG_URL: {error}")))
            })
            .transpose()
    }
}

/// What the egress process is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Where searches go.
    pub search: Option<Origin>,
}

impl Settings {
    /// What the process may still do: it connects to the internet and the registry, and to itself at `own`.
    pub fn confinement(&self, folder: &Utf8Path, peers: &Peers, own: &[u16]) -> Confinement {
        let mut ports = vec![peers.registry.port()];
        ports.extend(own);
        ports.extend(WEB);
        ports.extend(self.search.as_ref().map(Origin::port));
        starts_nothing(folder, Vec::new(), None, Connect::Ports(ports))
    }
}

/// Starts the egress process; it serves when this returns.
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start(
    member: &Member,
    listeners: Listeners,
    settings: Settings,
) -> Result<(), BoxError> {
    let Joined {
        identity,
        registry,
        permit_key,
        at,
    } = Joined::join(member, &listeners).await?;
    let deps = Deps {
        identity: identity.clone(),
        listener: listeners,
        registry,
        permit_key,
        client: Client::new(
            Judge::default(),
            Limits::default(),
            Arc::new(SystemResolver),
        ),
        clock: member.clock.clone(),
        entropy: member.entropy.clone(),
        meters: member.meters.clone(),
    };
    let options = Options {
        search: settings.search,
        ..Options::default()
    };
    let life = member.life.clone();
    member.life.spawn_essential("egress", async move {
        serve(options, deps, life).await.map_err(Into::into)
    });
    member.answers(&identity, at).await
}
