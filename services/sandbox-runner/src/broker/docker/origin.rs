//! Where the workspace comes from, as the engine finds it.
//!
//! An engine mounts folders of its own machine. A broker that runs on that machine names its workspace by its own
//! path. One that runs in a container of the engine has the workspace from a volume or from a folder elsewhere, and
//! asks the engine which that is.
//!
//! **Invariant:** what comes out of here was said by the operator or by the engine, or is the broker's own path on
//! the engine's own machine. It is never guessed. Whether it *is* the workspace is not believed either: each
//! container says on which folder it stands (device and inode), and the canary brings a word out of it.

mod here;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use super::{EngineOptions, engine::Engine, error::EngineError, facts, settings::WORKSPACE_SOURCE};
use crate::broker::{canary::NotReady, options::unfit};

use here::Here;

/// A container as the engine describes it (moby, `GET /containers/{id}/json`), as far as that says what is mounted
/// in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Described {
    id: String,
    #[serde(default)]
    mounts: Vec<Mount>,
    #[serde(default)]
    host_config: Wanted,
}

/// One thing that is mounted in it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Mount {
    #[serde(rename = "Type")]
    kind: String,
    name: String,
    /// On the engine's machine.
    source: String,
    destination: String,
    driver: String,
    #[serde(rename = "RW")]
    writable: bool,
    /// Podman says here that only a part of a volume is mounted.
    sub_path: String,
}

/// What was asked for when it was created.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Wanted {
    mounts: Option<Vec<WantedMount>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct WantedMount {
    target: String,
    volume_options: Option<VolumeOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct VolumeOptions {
    /// Docker says here, and here alone, that only a part of a volume is mounted.
    subpath: String,
}

/// Why the place is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Doubt {
    #[error("the broker cannot look around itself: {0}")]
    Blind(String),
    #[error(
        "the container engine at {0} runs outside of the broker's container and does not know that container, so \
         it is not known where the engine finds the workspace"
    )]
    Stranger(Utf8PathBuf),
    #[error(
        "the engine's container {id} cannot be the broker's: {place} is mounted differently there, so it is not known \
         where the engine finds the workspace"
    )]
    Other { id: String, place: String },
    #[error("the workspace {0} lies in the broker's own container, where no sandbox can reach it")]
    Inside(Utf8PathBuf),
    #[error("the workspace lies on a mount at {0} that the engine does not know of")]
    Unlisted(Utf8PathBuf),
    #[error("the workspace is a mount of the kind {0:?}, which no other container can have")]
    Kind(String),
    #[error("the workspace lies on the volume {name}, whose driver is {driver:?}")]
    Driver { name: String, driver: String },
    #[error("only the part {0} of a volume is mounted as the workspace")]
    Part(String),
    #[error("the engine says that the workspace comes from {path:?}, which {problem}")]
    Path { path: String, problem: &'static str },
}

impl Doubt {
    fn fix(&self) -> String {
        match self {
            Self::Blind(_) => "Mount /proc in the broker's container.".to_owned(),
            Self::Stranger(_) | Self::Other { .. } => format!(
                "Give the broker the socket of the engine that runs it, or name the workspace's folder on the \
                 engine's machine by {WORKSPACE_SOURCE}."
            ),
            Self::Inside(_) => {
                "Mount a volume or a folder there, the same as in the runner's api.".to_owned()
            }
            Self::Unlisted(_)
            | Self::Kind(_)
            | Self::Driver { .. }
            | Self::Part(_)
            | Self::Path { .. } => {
                format!(
                    "Mount a whole volume of the driver local or a folder as the workspace, or name its folder on the \
                     engine's machine by {WORKSPACE_SOURCE}."
                )
            }
        }
    }
}

impl From<Doubt> for NotReady {
    fn from(doubt: Doubt) -> Self {
        Self::new(doubt.to_string(), doubt.fix())
    }
}

/// The workspace's folder on the engine's machine.
pub(super) async fn find(
    engine: &Engine,
    settings: &EngineOptions,
    workspace: &Utf8Path,
) -> Result<Utf8PathBuf, NotReady> {
    if let Some(named) = &settings.workspace_source {
        return Ok(named.components().collect());
    }
    let explain = |error: EngineError| facts::explain(&error, &settings.image);
    let here = Here::look().map_err(|error| Doubt::Blind(error.to_string()))?;
    let beside = engine.is_beside_us().await.map_err(explain)?;
    // A machine may be called anything; in a container with nothing else to go by, the name is worth a question.
    let named = here
        .short_id
        .iter()
        .filter(|_| !beside && here.ids.is_empty());
    let mut other = None;
    for id in here.ids.iter().chain(named) {
        match engine.describe(id).await {
            Ok(found) if found.id.starts_with(id) => match found.is_ours(&here, resolved) {
                Ok(()) => return Ok(found.source_of(workspace, &here, resolved)?),
                Err(doubt) => other = Some(doubt),
            },
            // An engine further out, or one that runs with us in a container of another.
            Ok(_) | Err(EngineError::Missing { .. }) => {}
            Err(error) => return Err(explain(error)),
        }
    }
    match other {
        Some(doubt) => Err(doubt.into()),
        None if beside => Ok(workspace.to_owned()),
        None => Err(Doubt::Stranger(settings.socket.clone()).into()),
    }
}

/// A path without links, as the kernel lists mounts. `/var/run` is often a link to `/run`.
fn resolved(path: &str) -> Utf8PathBuf {
    let path = Utf8Path::new(path);
    path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned())
}

impl Described {
    /// Whether all that the engine mounted in this container is there. A name can be shared, and so can the files
    /// by which a container is found: those of one whose network another shares are in both.
    fn is_ours(&self, here: &Here, resolve: impl Fn(&str) -> Utf8PathBuf) -> Result<(), Doubt> {
        let differs = |mount: &&Mount| {
            let at = here.at(&resolve(&mount.destination));
            at.is_none_or(|at| !mount.writable && !at.read_only)
        };
        match self.mounts.iter().find(differs) {
            None => Ok(()),
            Some(mount) => Err(Doubt::Other {
                id: self.id.chars().take(12).collect(),
                place: mount.destination.clone(),
            }),
        }
    }

    /// Where the workspace of this container, which is ours, comes from.
    fn source_of(
        &self,
        workspace: &Utf8Path,
        here: &Here,
        resolve: impl Fn(&str) -> Utf8PathBuf,
    ) -> Result<Utf8PathBuf, Doubt> {
        let place = match here.under(workspace) {
            Some(mount) if mount.place != "/" => &mount.place,
            _ => return Err(Doubt::Inside(workspace.to_owned())),
        };
        let listed = |mount: &&Mount| resolve(&mount.destination) == *place;
        let Some(mount) = self.mounts.iter().rfind(listed) else {
            return Err(Doubt::Unlisted(place.clone()));
        };
        match (mount.kind.as_str(), mount.driver.as_str()) {
            ("bind", _) | ("volume", "local") => {}
            ("volume", driver) => {
                let (name, driver) = (mount.name.clone(), driver.to_owned());
                return Err(Doubt::Driver { name, driver });
            }
            (other, _) => return Err(Doubt::Kind(other.to_owned())),
        }
        if let Some(part) = self.part(mount) {
            return Err(Doubt::Part(part.to_owned()));
        }
        let source = Utf8Path::new(&mount.source);
        let source = match workspace.strip_prefix(place) {
            Ok(rest) => source.join(rest).components().collect(),
            Err(_) => source.to_owned(),
        };
        match unfit(&source) {
            None => Ok(source),
            Some(problem) => Err(Doubt::Path {
                path: source.into_string(),
                problem,
            }),
        }
    }

    /// The part of a volume that is mounted, where it is not the whole.
    fn part<'a>(&'a self, mount: &'a Mount) -> Option<&'a str> {
        let wanted = self.host_config.mounts.iter().flatten();
        let asked = wanted
            .filter(|wanted| wanted.target == mount.destination)
            .filter_map(|wanted| Some(wanted.volume_options.as_ref()?.subpath.as_str()));
        asked
            .chain([mount.sub_path.as_str()])
            .find(|part| !part.is_empty())
    }
}

#[cfg(test)]
mod tests;
