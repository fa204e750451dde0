//! The one command line of every jail.

use std::{
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
};

use camino::Utf8PathBuf;
use command_fds::CommandFdExt;
use rustix::process::geteuid;

use super::{Access, Limits, init::Rlimits, orphans::JAIL_NAME};

/// The user that runs have inside always, and outside when the broker is root and they only read.
pub(crate) const NOBODY: u32 = 65534;

/// `--unshare-all` alone would go on without a user namespace; naming it makes that an error.
const SEPARATION: &str = "--unshare-user --unshare-all --as-pid-1 --die-with-parent --new-session
    --clearenv --uid 65534 --gid 65534 --hostname sandbox";
/// Two capabilities over the jail's own namespaces, for the init to seal `/tmp` with and then drop.
const CAPABILITIES: &str = "--cap-drop ALL --cap-add CAP_SYS_ADMIN --cap-add CAP_SETPCAP";
const FILES: &str = "--ro-bind /usr /usr
    --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64
    --dir /etc --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
    --ro-bind-try /etc/localtime /etc/localtime
    --proc /proc";
/// bubblewrap's own `--dev` would put the jail into a second user namespace, from which the init could not
/// seal `/tmp`.
const DEVICES: &str = "--dir /dev --dev-bind /dev/null /dev/null --dev-bind /dev/zero /dev/zero
    --dev-bind /dev/full /dev/full --dev-bind /dev/random /dev/random
    --dev-bind /dev/urandom /dev/urandom
    --symlink /proc/self/fd /dev/fd --symlink /proc/self/fd/0 /dev/stdin
    --symlink /proc/self/fd/1 /dev/stdout --symlink /proc/self/fd/2 /dev/stderr";
const ENVIRONMENT: &str = "--setenv PATH /usr/bin:/bin --setenv HOME /tmp --setenv TMPDIR /tmp
    --setenv LANG C.UTF-8";

const INIT_INSIDE: &str = "/run/kazma/init";

/// Who runs bubblewrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// The broker is root: bubblewrap becomes uid and gid 65534 before it starts, or the workspace's owner for a run
    /// that writes there.
    Nobody,
    /// The broker is an ordinary user: bubblewrap runs as it, in a user namespace.
    Itself,
}

impl Runner {
    /// What this process can do.
    pub fn of_this_process() -> Self {
        if geteuid().is_root() {
            Self::Nobody
        } else {
            Self::Itself
        }
    }
}

/// What every jail of a broker is made from. It comes from the operator's settings, never from a request.
#[derive(Debug, Clone)]
pub struct Template {
    /// The `bwrap` program.
    pub bwrap: Utf8PathBuf,
    /// The `sandbox-init` program. It is copied into each jail, so only the broker must be able to read it.
    pub init: Utf8PathBuf,
    /// Python as it is called inside: below `/usr`.
    pub python: Utf8PathBuf,
    /// The folder that snippets may read, mounted at its own path.
    pub workspace: Utf8PathBuf,
    /// Who runs bubblewrap.
    pub runner: Runner,
    /// What a jail may use.
    pub limits: Limits,
}

/// The broker's ends of what a jail is started with, as the child sees them.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    pub(crate) control: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) init: OwnedFd,
    pub(crate) info: OwnedFd,
    pub(crate) block: OwnedFd,
}

/// How descriptors are called on a command line.
struct Numbers {
    init: String,
    info: String,
    block: String,
}

impl Numbers {
    fn of(ends: &ChildEnds) -> Self {
        let [init, info, block] =
            [&ends.init, &ends.info, &ends.block].map(|end| end.as_raw_fd().to_string());
        Self { init, info, block }
    }
}

impl Template {
    /// The command that starts one jail. It does nothing before a byte arrives on `ends.block`.
    #[expect(
        clippy::disallowed_methods,
        reason = "starting jails is what the broker is for"
    )]
    pub(crate) fn command(
        &self,
        ends: ChildEnds,
        rlimits: Rlimits,
        access: Option<&Access>,
    ) -> Command {
        let mut command = Command::new(&self.bwrap);
        command
            .arg0(JAIL_NAME)
            .args(self.arguments(access, Numbers::of(&ends)))
            .args([INIT_INSIDE, self.python.as_str()])
            .arg(rlimits.to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(ends.control))
            .stdout(Stdio::from(ends.stdout))
            .stderr(Stdio::from(ends.stderr));
        if self.runner == Runner::Nobody {
            let writer = access.map(|access| access.writer);
            command
                .uid(writer.map_or(NOBODY, |writer| writer.uid))
                .gid(writer.map_or(NOBODY, |writer| writer.gid));
        }
        // Under the numbers that they have: one that was free might be given to the pipe by which this process hears why a
        // program could not be started.
        command.preserved_fds(vec![ends.init, ends.info, ends.block]);
        command
    }

    fn arguments(&self, access: Option<&Access>, numbers: Numbers) -> Vec<String> {
        let workspace = self.workspace.as_str();
        let tmp_bytes = self.limits.tmp_bytes.to_string();
        let Numbers { init, info, block } = numbers;
        let before: [&[&str]; 3] = [
            &["--size", &tmp_bytes, "--perms", "1777", "--tmpfs", "/tmp"],
            &["--perms", "0555", "--ro-bind-data", &init, INIT_INSIDE],
            &["--ro-bind", workspace, workspace],
        ];
        // Later mounts lie over earlier ones.
        let writable = access.iter().flat_map(|access| &access.folders);
        let writable: Vec<String> = writable
            .flat_map(|path| {
                let path = match path.as_str() {
                    "" => workspace.to_owned(),
                    path => self.workspace.join(path).into_string(),
                };
                ["--bind".to_owned(), path.clone(), path]
            })
            .collect();
        let after: [&[&str]; 3] = [
            &["--chdir", workspace],
            &["--remount-ro", "/"],
            &["--info-fd", &info, "--block-fd", &block, "--"],
        ];
        [SEPARATION, CAPABILITIES, FILES, DEVICES, ENVIRONMENT]
            .into_iter()
            .flat_map(str::split_whitespace)
            .chain(before.into_iter().flatten().copied())
            .chain(writable.iter().map(String::as_str))
            .chain(after.into_iter().flatten().copied())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jail::Writer;

    fn arguments(access: Option<&Access>) -> Vec<String> {
        let [init, info, block] = ["10", "11", "12"].map(str::to_owned);
        template().arguments(access, Numbers { init, info, block })
    }

    fn template() -> Template {
        Template {
            bwrap: "/usr/bin/bwrap".into(),
            init: "/init".into(),
            python: "/usr/bin/python3".into(),
            workspace: "/srv/--share-net /x".into(),
            runner: Runner::Itself,
            limits: Limits::default(),
        }
    }

    /// While the ends were opened some low numbers were taken; by the time of the start they are free.
    #[test]
    fn a_program_that_is_missing_is_told_whichever_numbers_are_free() {
        let null = || std::fs::File::open("/dev/null").unwrap();
        let filled = || {
            let files = std::iter::repeat_with(null);
            files
                .take_while(|file| file.as_raw_fd() < 40)
                .collect::<Vec<_>>()
        };
        let mut low = filled();
        let [control, stdout, stderr, init, info, block] =
            std::array::from_fn(|_| OwnedFd::from(null()));
        let ends = ChildEnds {
            control,
            stdout,
            stderr,
            init,
            info,
            block,
        };
        let rlimits = Rlimits {
            address_space: 1,
            processes: 1,
            open_files: 1,
            file_size: 1,
            cpu_seconds: 1,
            tmp_bytes: 1,
            tmp_files: 1,
        };
        let missing = Template {
            bwrap: "/no/such/bwrap".into(),
            ..template()
        };
        let mut command = missing.command(ends, rlimits, None);
        low.retain(|file| file.as_raw_fd() < 10);
        let error = command.spawn().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn only_what_a_run_may_write_is_mounted_so() {
        let access = |folders: &[&str]| Access {
            folders: folders.iter().map(|path| (*path).to_owned()).collect(),
            places: Vec::new(),
            writer: Writer { uid: 1, gid: 2 },
        };
        let writable = |access: Option<&Access>| -> Vec<String> {
            let arguments = arguments(access);
            let places = arguments.iter().enumerate().filter(|(_, a)| *a == "--bind");
            places
                .map(|(at, _)| {
                    assert_eq!(arguments[at + 1], arguments[at + 2]);
                    arguments[at + 1].clone()
                })
                .collect()
        };
        assert!(writable(None).is_empty());
        assert_eq!(writable(Some(&access(&[""]))), ["/srv/--share-net /x"]);
        assert_eq!(
            writable(Some(&access(&["--bind", "a b/.git"]))),
            ["/srv/--share-net /x/--bind", "/srv/--share-net /x/a b/.git"]
        );
    }

    #[test]
    fn a_workspace_with_spaces_and_dashes_stays_one_word() {
        let arguments = arguments(None);
        assert!(!arguments.contains(&"--share-net".to_owned()));
        let at = arguments.iter().rposition(|a| a == "--ro-bind").unwrap();
        assert_eq!(
            arguments[at + 1..at + 3],
            ["/srv/--share-net /x", "/srv/--share-net /x"]
        );
        assert_eq!(arguments.last().unwrap(), "--");
    }
}
