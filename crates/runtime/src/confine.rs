//! What a service's own process may still do once it has started: the least that its work needs.
//!
//! Three walls, each of which the kernel keeps for the rest of the process's life and for every thread and
//! child it makes: *no dump* (no process of the same user may read its memory, environment or descriptors), a
//! system call filter (it may look into no other process, and start none), and Landlock (it may open only
//! what it is told, connect only where it is told, and signal nobody outside). A kernel that has less is told
//! of in [`Held`]; nothing fails for it.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, NetPort, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The newest rights this was written for; an older kernel gives what it has.
const RIGHTS: ABI = ABI::V6;

/// What every service reads: libraries, names of hosts and users, certificates, time zones, and what the
/// kernel says of the process itself.
const COMMON: [&str; 8] = [
    "/usr",
    "/lib",
    "/lib64",
    "/etc",
    "/proc/self",
    "/dev/urandom",
    // A program without a C library to load looks here first whether there is randomness.
    "/dev/random",
    "/run/systemd/resolve",
];
const DEVICES: [&str; 1] = ["/dev/null"];

/// Looking into other processes, and the large surfaces that no service uses.
const REFUSED: [i64; 18] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
];
/// Starting programs, and other views of the machine.
const REFUSED_TO_WHO_STARTS_NOTHING: [i64; 8] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_umount2,
];

/// What a service's process needs.
#[derive(Debug, Clone)]
pub enum Confinement {
    /// It starts sandboxes: it may start programs and mount. Looking into other processes is taken from it, and
    /// the network: of sockets it has those of the machine's files and of the kernel's own links.
    StartsSandboxes,
    /// It starts nothing.
    StartsNothing {
        /// Folders and files it reads, beyond what every service does.
        read: Vec<Utf8PathBuf>,
        /// Folders it reads and writes.
        write: Vec<Utf8PathBuf>,
        /// Where it may connect over TCP.
        connect: Connect,
    },
}

/// Where a service may connect over TCP.
#[derive(Debug, Clone)]
pub enum Connect {
    /// Wherever it is told at run time.
    Anywhere,
    /// Only to these ports.
    Ports(Vec<u16>),
}

/// What the kernel holds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// All that was asked for.
    All,
    /// The filter and no dump, and of Landlock what an older kernel has.
    Partly,
    /// The filter and no dump; the kernel has no Landlock, or none was asked for.
    WithoutLandlock,
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused a setting of the process.
    #[error("the process cannot be closed to others")]
    Process(#[from] rustix::io::Errno),
    /// The filter.
    #[error("the system call filter cannot be set")]
    Filter(#[from] seccompiler::Error),
    /// The filter's program.
    #[error("the system call filter does not compile")]
    Program(#[from] seccompiler::BackendError),
    /// Landlock.
    #[error("Landlock refuses the rules")]
    Landlock(#[from] landlock::RulesetError),
    /// A folder of the service's own.
    #[error("{path} cannot be opened")]
    Folder {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        source: landlock::PathFdError,
    },
}

/// Confines this process. To be called before it makes its first thread; those that are there already stay
/// as they were.
///
/// # Errors
///
/// Says what the kernel refused that it should have known.
pub fn confine(needs: &Confinement) -> Result<Held, ConfineError> {
    rustix::thread::set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let held = match needs {
        Confinement::StartsSandboxes => Held::WithoutLandlock,
        Confinement::StartsNothing {
            read,
            write,
            connect,
        } => match restrict(read, write, connect)?.ruleset {
            RulesetStatus::FullyEnforced => Held::All,
            RulesetStatus::PartiallyEnforced => Held::Partly,
            RulesetStatus::NotEnforced => Held::WithoutLandlock,
        },
    };
    filter(needs)?;
    Ok(held)
}

fn restrict(
    read: &[Utf8PathBuf],
    write: &[Utf8PathBuf],
    connect: &Connect,
) -> Result<RestrictionStatus, ConfineError> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    // All but executing: a service starts nothing.
    let writing = AccessFs::from_all(RIGHTS) & !AccessFs::Execute;
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(RIGHTS))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(RIGHTS))?;
    if matches!(connect, Connect::Ports(_)) {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut ruleset = ruleset
        .create()?
        .add_rules(path_beneath_rules(COMMON, reading))?
        .add_rules(path_beneath_rules(DEVICES, reading | AccessFs::WriteFile))?;
    for (paths, access) in [(read, reading), (write, writing)] {
        for path in paths {
            let folder = PathFd::new(path).map_err(|source| ConfineError::Folder {
                path: path.clone(),
                source,
            })?;
            ruleset = ruleset.add_rule(PathBeneath::new(folder, access))?;
        }
    }
    if let Connect::Ports(ports) = connect {
        for port in ports {
            ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
    }
    Ok(ruleset.restrict_self()?)
}

fn filter(needs: &Confinement) -> Result<(), ConfineError> {
    let starting: &[i64] = match needs {
        Confinement::StartsSandboxes => &[],
        Confinement::StartsNothing { .. } => &REFUSED_TO_WHO_STARTS_NOTHING,
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED
        .iter()
        .chain(starting)
        .map(|number| (*number, Vec::new()))
        .collect();
    if matches!(needs, Confinement::StartsSandboxes) {
        rules.insert(libc::SYS_socket, vec![other_family()?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    Ok(())
}

/// Sockets that are neither local nor to the kernel (bubblewrap sets an empty network up by `AF_NETLINK`).
fn other_family() -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = [libc::AF_UNIX, libc::AF_NETLINK].map(|family| {
        SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Ne,
            u64::from(family.unsigned_abs()),
        )
    });
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, UdpSocket},
        os::unix::net::UnixStream,
    };

    use super::*;

    #[test]
    fn who_starts_sandboxes_has_no_network() {
        // The filter is a thread's own and its children's.
        let answers = std::thread::spawn(|| {
            confine(&Confinement::StartsSandboxes).unwrap();
            (
                TcpListener::bind("127.0.0.1:0").map(|_| ()),
                UdpSocket::bind("[::1]:0").map(|_| ()),
                UnixStream::pair().map(|_| ()),
            )
        })
        .join()
        .unwrap();
        let (tcp, udp, local) = answers;
        assert_eq!(tcp.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(udp.unwrap_err().raw_os_error(), Some(libc::EPERM));
        local.unwrap();
    }
}
