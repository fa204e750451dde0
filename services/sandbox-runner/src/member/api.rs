//! The api process.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use kazma_launch::{Member, Peers, Usage, starts_nothing, switch};
use kazma_mesh::Listeners;
use kazma_policy::argv::Profile;
use kazma_runtime::{BoxError, Confinement, Connect};
use serde::{Deserialize, Serialize};

use super::joined::Joined;
use crate::{
    api::{Deps, Options, serve},
    broker::BrokerClient,
};

/// Which programs `shell_exec` has.
#[derive(Debug, Clone, Copy, Args)]
pub struct Shell {
    /// Whether the archive programs are off in production
    #[arg(id = "shell_strict", long = "strict", env = "KAZMA_SHELL_STRICT", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub strict: Option<bool>,
    /// Whether mkdir, cp, mv and touch are there
    #[arg(id = "shell_allow_mutate", long = "allow-mutate", env = "KAZMA_SHELL_ALLOW_MUTATE", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub mutate: Option<bool>,
    /// Whether tar, gzip, zip and their like are there
    #[arg(id = "shell_allow_archive", long = "allow-archive", env = "KAZMA_SHELL_ALLOW_ARCHIVE", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub archive: Option<bool>,
    /// Programs outside of any sandbox: not in this version
    #[arg(id = "host_shell", long = "host-shell", env = "KAZMA_HOST_SHELL", action = clap::ArgAction::Set, value_parser = switch, hide = true)]
    pub host: Option<bool>,
}

impl Shell {
    /// The groups of programs that are there.
    pub fn profile(self, production: bool) -> Profile {
        Profile::new(production, self.strict, self.mutate, self.archive)
    }

    /// The same for a process that is to serve.
    ///
    /// # Errors
    ///
    /// Refuses programs outside of any sandbox.
    pub fn groups(self, production: bool) -> Result<Groups, Usage> {
        if self.host == Some(true) {
            return Err(Usage(
                "KAZMA_HOST_SHELL: programs outside of the sandbox are not in this version; unset it, shell_exec runs in \
                 the sandbox"
                    .into(),
            ));
        }
        let Profile {
            mutate,
            archive,
            dev,
        } = self.profile(production);
        Ok(Groups {
            mutate,
            archive,
            dev,
        })
    }
}

/// The groups of programs that `shell_exec` has beyond those that are always there.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Groups {
    /// `mkdir`, `cp`, `mv` and `touch`.
    pub mutate: bool,
    /// `tar`, `gzip`, `zip` and `unzip`.
    pub archive: bool,
    /// `ps` and `pgrep`.
    pub dev: bool,
}

/// What the api process is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The folder whose files tools may touch.
    pub workspace: Utf8PathBuf,
    /// Where the broker listens.
    pub broker: Utf8PathBuf,
    /// Which programs there are.
    pub shell: Groups,
}

impl Settings {
    /// What the process may still do: it connects to the registry, and to itself at `own`.
    pub fn confinement(&self, folder: &Utf8Path, peers: &Peers, own: &[u16]) -> Confinement {
        let mut ports = vec![peers.registry.port()];
        ports.extend(own);
        starts_nothing(
            folder,
            Vec::new(),
            Some(&self.workspace),
            Connect::Ports(ports),
        )
    }
}

/// Starts the api process; it serves when this returns.
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start(
    member: &Member,
    listeners: Listeners,
    settings: Settings,
) -> Result<(), BoxError> {
    begin(member, listeners, settings, false).await
}

/// The same beside a broker in a container of its own, which has the workspace to be read alone: the api leaves the
/// word there that the broker's canary needs ([`Options::leave_canary`]).
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start_apart(
    member: &Member,
    listeners: Listeners,
    settings: Settings,
) -> Result<(), BoxError> {
    begin(member, listeners, settings, true).await
}

async fn begin(
    member: &Member,
    listeners: Listeners,
    settings: Settings,
    leave_canary: bool,
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
        code: Arc::new(BrokerClient::new(settings.broker)),
        meters: member.meters.clone(),
        clock: member.clock.clone(),
        entropy: member.entropy.clone(),
    };
    let mut options = Options::new(settings.workspace);
    options.leave_canary = leave_canary;
    let Groups {
        mutate,
        archive,
        dev,
    } = settings.shell;
    options.shell = Profile {
        mutate,
        archive,
        dev,
    };
    let life = member.life.clone();
    member.life.spawn_essential("runner", async move {
        serve(options, deps, life).await.map_err(Into::into)
    });
    member.answers(&identity, at).await
}
