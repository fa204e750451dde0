//! The broker as a process.

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::{Digest, Entropy};
use kazma_launch::{Member, random_text, write_private};
use kazma_runtime::{BoxError, Confinement};
use serde::{Deserialize, Serialize};

use super::{Containers, Tier};
use crate::broker::{
    BrokerOptions, EngineOptions, EngineRuntime, SANDBOX_IMAGE, TierChoice, serve,
};

/// Characters of an owner's label.
const OWNER_LEN: usize = 16;

/// What the broker's process is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The folder that code may see.
    pub workspace: Utf8PathBuf,
    /// The user that may connect, beside its own.
    pub allowed_uid: u32,
    /// What runs code.
    pub tier: Tier,
    /// Whose the containers are: one word for each installation of an engine, over every start.
    pub owner: String,
}

impl Settings {
    /// What the process may still do.
    pub const fn confinement() -> Confinement {
        Confinement::StartsSandboxes
    }
}

/// The owner of an installation whose data folder nobody else on this machine can have.
pub fn owner_by_folder(folder: &Utf8Path) -> String {
    let digest = Digest::of_bytes(folder.as_str().as_bytes()).to_string();
    let digits = digest.chars().rev().filter(char::is_ascii_hexdigit);
    digits.take(OWNER_LEN).collect()
}

/// The owner of an installation in containers, where all data folders have the same path: made on the first
/// start, and kept in `folder`.
///
/// # Errors
///
/// Says what the operating system says.
pub fn kept_owner(folder: &Utf8Path, entropy: &dyn Entropy) -> std::io::Result<String> {
    let path = folder.join("owner");
    match std::fs::read_to_string(&path) {
        Ok(owner) if owner.len() == OWNER_LEN => return Ok(owner),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let owner = owner_by_folder(random_text(entropy).as_str().into());
    write_private(&path, &owner)?;
    Ok(owner)
}

/// Starts the broker on `listener`, or at `socket` where there is none.
///
/// # Errors
///
/// Says which setting cannot be.
pub fn start(
    member: &Member,
    listener: Option<std::os::unix::net::UnixListener>,
    socket: &Utf8Path,
    settings: Settings,
) -> Result<(), BoxError> {
    let mut options = BrokerOptions::new(socket, settings.workspace);
    options.tier = choice(settings.tier, &settings.owner);
    options.allowed_uids = vec![settings.allowed_uid, rustix::process::geteuid().as_raw()];
    let listener = match listener {
        Some(listener) => {
            listener.set_nonblocking(true)?;
            Some(tokio::net::UnixListener::from_std(listener)?)
        }
        None => None,
    };
    let (entropy, soft) = (member.entropy.clone(), member.life.soft());
    member.life.spawn_essential("broker", async move {
        serve(options, listener, entropy, soft)
            .await
            .map_err(Into::into)
    });
    Ok(())
}

fn choice(tier: Tier, owner: &str) -> TierChoice {
    match tier {
        Tier::Native => TierChoice::Native,
        Tier::Auto(from) => TierChoice::Auto(engines(&from, owner)),
        Tier::Docker(from) => {
            let mut all = engines(&from, owner);
            let there = all.iter().position(|engine| engine.socket.exists());
            TierChoice::Docker(all.swap_remove(there.unwrap_or(0)))
        }
    }
}

fn engines(from: &Containers, owner: &str) -> Vec<EngineOptions> {
    let image = from.image.clone();
    let image = image.unwrap_or_else(|| SANDBOX_IMAGE.to_owned());
    let runtime = EngineRuntime::from(from.runtime);
    let engine = |socket: Utf8PathBuf| {
        let mut options = EngineOptions::new(socket, owner.to_owned());
        options.image.clone_from(&image);
        options.runtime = runtime;
        options.workspace_source.clone_from(&from.workspace_source);
        options
    };
    from.sockets.iter().cloned().map(engine).collect()
}

#[cfg(test)]
mod tests {
    use kazma_runtime::SystemEntropy;

    use super::*;

    #[test]
    fn an_owner_stays_over_starts_and_is_nobody_else_s() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let owner = |n: usize| {
            let folder: &Utf8Path = folders[n].path().try_into().unwrap();
            kept_owner(folder, &SystemEntropy).unwrap()
        };
        assert_eq!(owner(0), owner(0));
        assert_ne!(owner(0), owner(1));
        assert_eq!(owner(0).len(), OWNER_LEN);
    }
}
