//! The system call filter of a jail.
//!
//! Three programs, since each can refuse in one way only. One refuses with `EPERM`. One says `ENOSYS` to
//! `clone3`, whose flags lie in memory that a filter cannot read, so that the C library falls back to
//! `clone`. One says `ENOSYS` to every number newer than this list, and on x86-64 to the x32 numbers,
//! which would otherwise walk around it.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The last system call that was looked at for this list: `mseal` (Linux 6.10).
const NEWEST_KNOWN: u32 = 462;

/// System calls that no snippet needs, whatever their arguments.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    STATMOUNT,
    LISTMOUNT,
    // Files by handle, watching and accounting.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_lookup_dcookie,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large or young kernel surfaces.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_vmsplice,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    // Memory that belongs to no process, so that no rlimit counts it, and files that `noexec` misses.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // Sockets: `socketpair` is all that is left (below). Even a socket file in the workspace is out of reach.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// `statmount` and `listmount` (Linux 6.8) have no names in the C library's table yet.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_sysfs,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The flags of `clone` that make a new namespace.
const NEW_NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The type bits of a socket, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCKET_TYPE: u64 = 0xf;

/// The filter could not be built for this machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// There is no list of numbers for this processor.
    #[error("no system call filter for this processor")]
    Processor,
    /// The list does not compile.
    #[error("the system call filter does not compile")]
    Compile(#[from] seccompiler::BackendError),
}

/// The programs to install, in this order.
pub(crate) fn programs() -> Result<Vec<BpfProgram>, FilterError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| FilterError::Processor)?;
    let compile = |rules: Rules, errno: i32| -> Result<BpfProgram, FilterError> {
        let refuse = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
        Ok(BpfProgram::try_from(filter)?)
    };
    Ok(vec![
        compile(refused()?, libc::EPERM)?,
        compile(Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?,
        newer_than(NEWEST_KNOWN),
    ])
}

fn refused() -> Result<Rules, FilterError> {
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .map(|number| (*number, Vec::new()))
        .collect();
    let mut clone = Vec::new();
    for flag in NEW_NAMESPACES {
        let bit = u64::from(flag.unsigned_abs());
        clone.push(SeccompRule::new(vec![SeccompCondition::new(
            0,
            Dword,
            SeccompCmpOp::MaskedEq(bit),
            bit,
        )?])?);
    }
    rules.insert(libc::SYS_clone, clone);
    rules.insert(libc::SYS_socketpair, stream_pairs_only()?);
    rules.insert(libc::SYS_ioctl, terminal_injection()?);
    Ok(rules)
}

/// A datagram end of a pair could be pointed at any socket file; a stream end is bound to its peer.
fn stream_pairs_only() -> Result<Vec<SeccompRule>, FilterError> {
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    let mut rules = vec![SeccompRule::new(vec![SeccompCondition::new(
        0,
        Dword,
        SeccompCmpOp::Ne,
        unix,
    )?])?];
    let stream = u64::from(libc::SOCK_STREAM.unsigned_abs());
    for kind in (0..=SOCKET_TYPE).filter(|kind| *kind != stream) {
        rules.push(SeccompRule::new(vec![SeccompCondition::new(
            1,
            Dword,
            SeccompCmpOp::MaskedEq(SOCKET_TYPE),
            kind,
        )?])?);
    }
    Ok(rules)
}

/// Characters pushed into a terminal would be typed into the shell outside.
fn terminal_injection() -> Result<Vec<SeccompRule>, FilterError> {
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;
    let mut rules = Vec::new();
    for request in [TIOCSTI, TIOCLINUX] {
        rules.push(SeccompRule::new(vec![SeccompCondition::new(
            1,
            Dword,
            SeccompCmpOp::Eq,
            request,
        )?])?);
    }
    Ok(rules)
}

/// Says `ENOSYS` to every number above `newest`. The x32 numbers have bit 30 set, so they are above too.
fn newer_than(newest: u32) -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_GREATER, 0, 1, newest),
        step(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_compiles_for_both_processors() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            let filter = SeccompFilter::new(
                refused().unwrap(),
                SeccompAction::Allow,
                SeccompAction::Errno(1),
                arch,
            )
            .unwrap();
            assert!(BpfProgram::try_from(filter).unwrap().len() > REFUSED.len());
        }
        assert_eq!(programs().unwrap().len(), 3);
    }

    #[test]
    fn nothing_is_listed_twice() {
        let unique: std::collections::BTreeSet<_> = REFUSED.iter().chain(REFUSED_HERE).collect();
        assert_eq!(unique.len(), REFUSED.len() + REFUSED_HERE.len());
    }
}
