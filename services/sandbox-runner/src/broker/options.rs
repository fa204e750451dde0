//! What the operator decides about the broker.

use std::time::Duration;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::{BrokerError, EngineOptions};
use crate::jail::{CgroupChoice, Limits, Runner, Template};

/// Folders of the jail's own making; a workspace there would cover, or be covered by, them.
const TAKEN: [&str; 9] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys",
];
/// Folders that hold much else, sockets of engines among it; a workspace may be in them, not they.
const WHOLE: [&str; 5] = ["/tmp", "/run", "/var", "/var/run", "/var/lib"];

/// Which tier runs code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TierChoice {
    /// Jails of this machine.
    #[default]
    Native,
    /// Containers, and nothing else if that cannot be.
    Docker(EngineOptions),
    /// Containers where the engine and the image are there when the broker starts; else jails. The first
    /// engine that answers is taken.
    Auto(Vec<EngineOptions>),
}

/// What the operator decides about the broker. Nothing in a request changes any of it.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// The socket to listen on.
    pub socket: Utf8PathBuf,
    /// The uids that may connect.
    pub allowed_uids: Vec<u32>,
    /// The folder that snippets may read: absolute, at the same path inside. When the broker is root, uid
    /// and gid 65534 must be able to reach and read it.
    pub workspace: Utf8PathBuf,
    /// Which tier runs code.
    pub tier: TierChoice,
    /// The bubblewrap program.
    pub bwrap: Utf8PathBuf,
    /// Python as it is called inside: below `/usr`.
    pub python: Utf8PathBuf,
    /// The `sandbox-init` program; `None` looks beside the running program.
    pub init: Option<Utf8PathBuf>,
    /// Sandboxes that wait, started and never used; with 0 every run waits for one that is made for it.
    pub pool_size: usize,
    /// Bytes that the machine must have to spare before a sandbox is started that nobody waits for.
    pub spare_memory: u64,
    /// Runs that may go on at once.
    pub max_running: usize,
    /// Runs that may wait for their turn; the next one is refused.
    pub queue_bound: usize,
    /// How long a run may wait for its turn.
    pub queue_wait: Duration,
    /// A jail that has waited this long is replaced.
    pub max_idle_age: Duration,
    /// How long after a failed canary the next one is tried at most; the first few come sooner.
    pub canary_retry: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// What a jail may use.
    pub limits: Limits,
    /// Whether to use control groups.
    pub cgroups: CgroupChoice,
}

impl BrokerOptions {
    /// The defaults, for this process's own uid as the only caller.
    pub fn new(socket: impl Into<Utf8PathBuf>, workspace: impl Into<Utf8PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            allowed_uids: vec![rustix::process::geteuid().as_raw()],
            workspace: workspace.into(),
            tier: TierChoice::Native,
            bwrap: "/usr/bin/bwrap".into(),
            python: "/usr/bin/python3".into(),
            init: None,
            pool_size: 2,
            spare_memory: 256 * 1024 * 1024,
            max_running: 8,
            queue_bound: 32,
            queue_wait: Duration::from_mins(1),
            max_idle_age: Duration::from_mins(10),
            canary_retry: Duration::from_secs(15),
            max_connections: 64,
            limits: Limits::default(),
            cgroups: CgroupChoice::Auto,
        }
    }

    /// Checks the settings and makes the template of every jail.
    pub(crate) fn template(&self) -> Result<Template, BrokerError> {
        self.check()?;
        Ok(Template {
            bwrap: self.bwrap.clone(),
            init: match &self.init {
                Some(path) => path.clone(),
                None => beside_this_program()?,
            },
            python: self.python.clone(),
            workspace: self.workspace.clone(),
            runner: Runner::of_this_process(),
            limits: self.limits,
        })
    }

    /// Checks what every tier needs.
    pub(crate) fn check(&self) -> Result<(), BrokerError> {
        check_workspace(&self.workspace)?;
        for (setting, value) in [
            ("runs at once", self.max_running),
            ("connections", self.max_connections),
        ] {
            if value == 0 {
                return Err(BrokerError::Setting {
                    setting,
                    problem: "must be at least 1".to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn check_workspace(path: &Utf8Path) -> Result<(), BrokerError> {
    match unfit(path) {
        None => Ok(()),
        Some(problem) => Err(BrokerError::Setting {
            setting: "workspace",
            problem: format!("{path} {problem}"),
        }),
    }
}

/// Why a folder can be no workspace, neither here nor on an engine's machine; none where it can.
pub(super) fn unfit(path: &Utf8Path) -> Option<&'static str> {
    let mut parts = path.components();
    let plain = parts.next() == Some(Utf8Component::RootDir)
        && parts.all(|part| matches!(part, Utf8Component::Normal(_)));
    if !plain || path.parent().is_none() || path.as_str().contains('\0') {
        return Some("is no absolute path without dots, or is the root");
    }
    let taken = TAKEN.iter().any(|taken| path.starts_with(taken));
    if taken || WHOLE.iter().any(|whole| path == whole) {
        return Some("is where a machine or a sandbox has its own files");
    }
    None
}

fn beside_this_program() -> Result<Utf8PathBuf, BrokerError> {
    let unknown = |problem: String| BrokerError::Setting {
        setting: "sandbox-init",
        problem,
    };
    let program = std::env::current_exe().map_err(|error| unknown(error.to_string()))?;
    Utf8PathBuf::from_path_buf(program.with_file_name("sandbox-init"))
        .map_err(|path| unknown(format!("{} is not valid text", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_cannot_cover_the_jail() {
        for bad in [
            "/",
            "/usr/share",
            "/tmp",
            "/proc/self",
            "relative",
            "/srv/../etc",
            "/etc",
            "/var/run",
        ] {
            assert!(check_workspace(Utf8Path::new(bad)).is_err(), "{bad}");
        }
        for good in [
            "/srv/workspace",
            "/tmp/x",
            "/home/a/work",
            "/var/lib/x/_data",
        ] {
            assert!(check_workspace(Utf8Path::new(good)).is_ok(), "{good}");
        }
    }
}
