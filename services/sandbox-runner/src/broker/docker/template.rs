//! The one request by which containers are created.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
    RestartPolicy, RestartPolicyNameEnum,
};
use camino::{Utf8Path, Utf8PathBuf};

use super::facts::{CgroupVersion, EngineKind};
use crate::jail::{Access, Limits, init::CONTAINER_MODE};

/// Where the image has the init.
pub(super) const INIT: &str = "/usr/lib/kazma/sandbox-init";
pub(super) const PYTHON: &str = "/usr/bin/python3";
pub(super) const NOBODY: &str = "65534:65534";
pub(super) const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/bin:/bin",
    "HOME=/tmp",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
];

/// Marks a container as a sandbox of Kazma.
pub(super) const LABEL_MANAGED: &str = "kazma.sandbox";
/// Whose it is: [`super::EngineOptions::owner`].
pub(super) const LABEL_OWNER: &str = "kazma.sandbox.owner";
/// Which start of the broker made it.
pub(super) const LABEL_BROKER: &str = "kazma.sandbox.broker";
/// When it must be gone, in seconds since 1970.
pub(super) const LABEL_DEADLINE: &str = "kazma.sandbox.deadline";

/// Processes of uid 65534 on the whole machine: the engine counts all containers together here, and each one's
/// own in its control group. Named because Podman would ask for more than root may give in some containers.
pub(super) const PROCESSES_OF_NOBODY: u64 = 4096;

/// How a place is covered that an engine would leave writable: empty, and to be read alone.
pub(super) const COVER: &str = "ro,noexec,nosuid,nodev,size=4096,mode=0555";

/// What one process may use. The init sets the same and more; gVisor takes some from the engine alone.
pub(super) const fn ulimits(limits: &Limits) -> [(&'static str, u64); 7] {
    [
        ("nproc", PROCESSES_OF_NOBODY),
        ("nofile", limits.open_files),
        ("fsize", limits.tmp_bytes),
        ("cpu", limits.cpu_seconds),
        ("core", 0),
        ("memlock", 0),
        ("msgqueue", 0),
    ]
}

/// What every container of a broker is made from. Nothing of it comes from a request, but for the folders of the
/// workspace that one may write.
#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    /// The image's id, not a name: what a card named is what runs.
    pub(super) image_id: String,
    /// Where the workspace is inside, as in the broker.
    pub(super) workspace: Utf8PathBuf,
    /// The same folder as the engine finds it. Another path where the broker is in a container itself.
    pub(super) source: Utf8PathBuf,
    /// [`super::facts::Facts::spreads_itself`].
    pub(super) engine_spreads: bool,
    pub(super) limits: Limits,
    /// The runtime as the engine calls it.
    pub(super) runtime: String,
    pub(super) kind: EngineKind,
    pub(super) cgroups: CgroupVersion,
    pub(super) owner: String,
    pub(super) broker: String,
    /// The init's own limits as it takes them.
    pub(super) rlimits: String,
}

impl Blueprint {
    /// The request for one container that must be gone by `deadline`, in seconds since 1970.
    pub(super) fn body(&self, deadline: i64, access: Option<&Access>) -> ContainerCreateBody {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        ContainerCreateBody {
            image: Some(self.image_id.clone()),
            user: Some(access.map_or_else(
                || NOBODY.to_owned(),
                |access| format!("{}:{}", access.writer.uid, access.writer.gid),
            )),
            hostname: Some("sandbox".to_owned()),
            working_dir: Some(self.workspace.to_string()),
            entrypoint: words(&[INIT]),
            cmd: words(&[CONTAINER_MODE, PYTHON, &self.rlimits]),
            env: words(&ENVIRONMENT),
            labels: Some(self.labels(deadline)),
            // The engine's own check of health would start processes inside.
            healthcheck: Some(HealthConfig {
                test: words(&["NONE"]),
                ..HealthConfig::default()
            }),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            stdin_once: Some(true),
            tty: Some(false),
            network_disabled: Some(true),
            host_config: Some(self.host_config(access)),
            ..ContainerCreateBody::default()
        }
    }

    fn labels(&self, deadline: i64) -> HashMap<String, String> {
        [
            (LABEL_MANAGED, "1".to_owned()),
            (LABEL_OWNER, self.owner.clone()),
            (LABEL_BROKER, self.broker.clone()),
            (LABEL_DEADLINE, deadline.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn host_config(&self, access: Option<&Access>) -> HostConfig {
        let number = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        let Limits {
            memory_bytes,
            pids,
            cpu_millis,
            tmp_bytes,
            tmp_files,
            ..
        } = self.limits;
        let files = if self.kind.counts_files() {
            format!("nr_inodes={tmp_files},")
        } else {
            String::new()
        };
        let tmp = format!("rw,noexec,nosuid,nodev,size={tmp_bytes},{files}mode=1777");
        HostConfig {
            network_mode: Some("none".to_owned()),
            ipc_mode: Some("none".to_owned()),
            // Groups of the first kind are mounted as the container's own in any case.
            cgroupns_mode: (self.cgroups == CgroupVersion::Two)
                .then_some(HostConfigCgroupnsModeEnum::PRIVATE),
            memory: number(memory_bytes),
            memory_swap: number(memory_bytes),
            nano_cpus: number(cpu_millis.saturating_mul(1_000_000)),
            pids_limit: number(pids),
            ulimits: Some(
                ulimits(&self.limits)
                    .map(|(name, value)| ResourcesUlimits {
                        name: Some(name.to_owned()),
                        soft: number(value),
                        hard: number(value),
                    })
                    .into(),
            ),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            tmpfs: Some(self.tmpfs(tmp)),
            mounts: Some(self.mounts(access)),
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                config: None,
            }),
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            // How it ended is asked for before it is removed.
            auto_remove: Some(false),
            runtime: Some(self.runtime.clone()),
            ..HostConfig::default()
        }
    }

    fn tmpfs(&self, tmp: String) -> HashMap<String, String> {
        let covers = self
            .kind
            .covered()
            .iter()
            .map(|place| ((*place).to_owned(), COVER.to_owned()));
        covers.chain([("/tmp".to_owned(), tmp)]).collect()
    }

    /// The workspace, and over it what may be written of it.
    fn mounts(&self, access: Option<&Access>) -> Vec<Mount> {
        let folders: Vec<&str> = access
            .iter()
            .flat_map(|access| &access.folders)
            .map(String::as_str)
            .collect();
        if folders == [""] {
            return vec![self.mount("", false)];
        }
        std::iter::once(self.mount("", true))
            .chain(folders.into_iter().map(|path| self.mount(path, false)))
            .collect()
    }

    /// What is at `path` of the workspace, where it is inside; an empty path is all of it. As a mount: `Binds` would
    /// create a source that is not there.
    fn mount(&self, path: &str, read_only: bool) -> Mount {
        let beneath = |folder: &Utf8Path| match path {
            "" => Some(folder.to_string()),
            path => Some(folder.join(path).into_string()),
        };
        Mount {
            typ: Some(MountType::BIND),
            source: beneath(&self.source),
            target: beneath(&self.workspace),
            read_only: Some(read_only),
            bind_options: (!self.engine_spreads).then(|| MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                ..MountBindOptions::default()
            }),
            ..Mount::default()
        }
    }
}
