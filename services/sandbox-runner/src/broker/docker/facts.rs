//! What kind of engine answers, and whether it holds what a sandbox must be held to.

use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum, SystemVersion};
use camino::Utf8Path;

use super::{
    EngineRuntime,
    error::{EngineError, Step},
    settings::WORKSPACE_SOURCE,
};
use crate::{
    broker::canary::NotReady,
    jail::{EnforcedBy, Enforcement},
};

/// The oldest API that knows every field of the template (Docker 20.10).
pub(super) const OLDEST_API: (u32, u32) = (1, 41);
/// The newest API whose meaning of these fields was looked at.
pub(super) const NEWEST_API: (u32, u32) = (1, 50);

/// Which control groups the engine makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    One,
    Two,
}

/// Whose engine it is. Podman speaks Docker's API and understands less of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineKind {
    Docker,
    Podman,
}

impl EngineKind {
    /// Whether a temporary folder of its containers can be limited in files too. Podman refuses the option
    /// `nr_inodes`; there the memory limit is what ends a flood of files.
    pub(super) const fn counts_files(self) -> bool {
        matches!(self, Self::Docker)
    }

    /// Places that the engine makes writable in a container that is to be read alone, unless something is
    /// mounted over them: Podman adds these temporary folders, and shared memory whatever it is told of IPC.
    pub(super) const fn covered(self) -> &'static [&'static str] {
        match self {
            Self::Docker => &[],
            Self::Podman => &["/dev/shm", "/run", "/var/tmp"],
        }
    }
}

/// What an engine says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `Docker Engine 20.10.24` and the like, for people.
    pub(super) name: String,
    pub(super) kind: EngineKind,
    /// The API that is spoken with it.
    pub(super) api: (u32, u32),
    pub(super) cgroups: CgroupVersion,
    pub(super) rootless: bool,
    /// The engine's own name for the wanted runtime.
    pub(super) runtime: String,
    /// Where it keeps volumes and all else that is its own.
    pub(super) root: String,
}

impl Facts {
    /// Judges what the engine says. Where it does not say, that counts as no.
    pub(super) fn judge(
        version: &SystemVersion,
        info: &SystemInfo,
        runtime: EngineRuntime,
    ) -> Result<Self, NotReady> {
        let (kind, name) = identity(version);
        let api = spoken(version, &name)?;
        if version.os.as_deref().is_some_and(|os| os != "linux") {
            return Err(NotReady::new(
                format!("{name} does not run Linux containers"),
                "Use an engine that does.",
            ));
        }
        let options = info.security_options.as_deref().unwrap_or_default();
        let facts = Self {
            kind,
            api,
            cgroups: match info.cgroup_version {
                Some(SystemInfoCgroupVersionEnum::_2) => CgroupVersion::Two,
                _ => CgroupVersion::One,
            },
            rootless: options
                .iter()
                .any(|option| option.contains("name=rootless")),
            runtime: known_runtime(info, runtime, &name)?,
            root: info.docker_root_dir.clone().unwrap_or_default(),
            name,
        };
        facts.holds(info)?;
        let filtered = options
            .iter()
            .any(|option| option.contains("name=seccomp") && !option.contains("unconfined"));
        if !filtered {
            return Err(NotReady::new(
                format!(
                    "{} runs containers without a system call filter",
                    facts.name
                ),
                "Start the engine without `--seccomp-profile=unconfined`, on a kernel with seccomp.",
            ));
        }
        Ok(facts)
    }

    fn holds(&self, info: &SystemInfo) -> Result<(), NotReady> {
        // The second kind of groups always counts swap, and engines do not always say so.
        let swap = info.swap_limit == Some(true) || self.cgroups == CgroupVersion::Two;
        let missing: Vec<_> = [
            (info.memory_limit == Some(true), "memory"),
            (swap, "swap"),
            (info.pids_limit == Some(true), "processes"),
            (info.cpu_cfs_quota == Some(true), "CPU"),
        ]
        .into_iter()
        .filter_map(|(held, what)| (!held).then_some(what))
        .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let fix = match (self.rootless, self.cgroups) {
            (true, CgroupVersion::One) => {
                "A rootless engine holds limits only with cgroup v2: boot with \
                 systemd.unified_cgroup_hierarchy=1, or use an engine that root runs."
            }
            (true, CgroupVersion::Two) => {
                "Delegate the controllers to the engine's user (systemd: Delegate=cpu cpuset memory pids \
                 for user@.service)."
            }
            (false, _) => {
                "Give the engine all of these control groups (kernel: cgroup_enable=memory swapaccount=1)."
            }
        };
        Err(NotReady::new(
            format!("{} does not limit {}", self.name, missing.join(", ")),
            fix,
        ))
    }

    /// Whether the engine itself says how what is mounted at a folder later shows in its containers. Docker does for
    /// what lies beneath its own folder, as volumes do, and for what that lies beneath: there it refuses any word on
    /// it but the two that let mounts of the machine through, and takes a private mount where it has to (moby,
    /// `validateBindDaemonRoot`).
    pub(super) fn spreads_itself(&self, source: &Utf8Path) -> bool {
        let related = |one: &str, other: &str| !other.is_empty() && one.starts_with(other);
        self.kind == EngineKind::Docker
            && (related(source.as_str(), &self.root) || related(&self.root, source.as_str()))
    }

    /// What holds each limit, with one line for the card.
    pub(super) fn enforcement(&self, runtime: EngineRuntime) -> Enforcement {
        let groups = match self.cgroups {
            CgroupVersion::One => EnforcedBy::CgroupV1,
            CgroupVersion::Two => EnforcedBy::CgroupV2,
        };
        let kernel = match runtime {
            EngineRuntime::Runc => "shares your kernel",
            EngineRuntime::Runsc => "gVisor's own kernel",
            EngineRuntime::Kata => "a virtual machine's own kernel",
        };
        let rootless = if self.rootless {
            ", rootless engine"
        } else {
            ""
        };
        Enforcement {
            memory: groups,
            pids: groups,
            cpu: groups,
            noexec: EnforcedBy::Mount,
            seccomp: EnforcedBy::Filter,
            network: EnforcedBy::NamespaceAndFilter,
            summary: format!("container, no network, {kernel}{rootless}; limits held by cgroups"),
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            name: "the engine".to_owned(),
            kind: EngineKind::Docker,
            api: OLDEST_API,
            cgroups: CgroupVersion::One,
            rootless: false,
            runtime: String::new(),
            root: String::new(),
        }
    }
}

fn identity(version: &SystemVersion) -> (EngineKind, String) {
    let components = version.components.as_deref().unwrap_or_default();
    let podman = components.iter().find(|part| part.name.contains("Podman"));
    match (podman, &version.version) {
        (Some(part), _) => (EngineKind::Podman, format!("Podman {}", part.version)),
        (None, Some(version)) => (EngineKind::Docker, format!("Docker Engine {version}")),
        (None, None) => (EngineKind::Docker, "an engine of unknown kind".to_owned()),
    }
}

/// The newest API that both sides know.
fn spoken(version: &SystemVersion, name: &str) -> Result<(u32, u32), NotReady> {
    let parse = |text: &Option<String>| {
        let (major, minor) = text.as_deref()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let newest: (u32, u32) = parse(&version.api_version).unwrap_or((0, 0));
    let oldest: (u32, u32) = parse(&version.min_api_version).unwrap_or((0, 0));
    if newest < OLDEST_API {
        return Err(NotReady::new(
            format!(
                "{name} speaks API {}.{}, which is too old",
                newest.0, newest.1
            ),
            "Use Docker 20.10 or newer, or Podman 4 or newer.",
        ));
    }
    if oldest > NEWEST_API {
        return Err(NotReady::new(
            format!("{name} no longer speaks any API that this version of Kazma knows"),
            "Use a newer Kazma.",
        ));
    }
    Ok(newest.min(NEWEST_API))
}

fn known_runtime(info: &SystemInfo, wanted: EngineRuntime, name: &str) -> Result<String, NotReady> {
    let has = |known: &&&str| {
        info.runtimes
            .as_ref()
            .is_some_and(|runtimes| runtimes.contains_key(**known))
    };
    match wanted.known_as().iter().find(has) {
        Some(known) => Ok((*known).to_owned()),
        None => Err(NotReady::new(
            format!("{name} has no runtime {}", wanted.name()),
            format!(
                "Install it and add it to the engine (daemon.json: \"runtimes\": {{\"{}\": …}}), or choose \
                 another.",
                wanted.name()
            ),
        )),
    }
}

/// A failed question at the start in plain words.
pub(super) fn explain(error: &EngineError, image: &str) -> NotReady {
    let fix = match error {
        EngineError::Unreachable { said, .. } if said.contains("ermission") => {
            "Let the user that runs Kazma use the engine's socket, or use the native tier."
                .to_owned()
        }
        EngineError::Unreachable { .. } => {
            "Start the engine, or name its socket by DOCKER_HOST.".to_owned()
        }
        EngineError::Missing { what } if what.contains("image") => {
            format!("Make the image {image} with scripts/images, or name another.")
        }
        EngineError::Refused {
            step: Step::Start,
            said,
        } if said.contains("no such file") => not_our_image(image),
        EngineError::LockDown(_) => not_our_image(image),
        EngineError::Refused { said, .. } if said.contains("bind source path") => {
            format!(
                "Create the workspace where the engine runs, at the same path, or name its folder there by \
                 {WORKSPACE_SOURCE}."
            )
        }
        EngineError::OtherWorkspace => format!(
            "Take {WORKSPACE_SOURCE} away, or let it name the folder of the engine's machine that the broker has as \
             its workspace."
        ),
        _ => "The log of the sandbox broker has more.".to_owned(),
    };
    NotReady::new(error.to_string(), fix)
}

fn not_our_image(image: &str) -> String {
    format!("Use an image that scripts/images made: {image} must hold our init and Python 3.")
}

#[cfg(test)]
mod tests;
