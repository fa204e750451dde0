//! What a jail may use, and who makes it keep to that.

use serde::{Deserialize, Serialize};

/// What one jail may use. Source: architecture, section 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory, swap included.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Thousandths of one CPU.
    pub cpu_millis: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Bytes in `/tmp`; no single file may be larger either.
    pub tmp_bytes: u64,
    /// Files in `/tmp`.
    pub tmp_files: u64,
    /// Seconds of CPU time per process: a backstop behind the time limit of the run.
    pub cpu_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 512 * 1024 * 1024,
            pids: 64,
            cpu_millis: 1000,
            open_files: 256,
            tmp_bytes: 64 * 1024 * 1024,
            tmp_files: 8192,
            cpu_seconds: 330,
        }
    }
}

/// The mechanism that holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcedBy {
    /// A control group of the first kind: the whole jail together.
    CgroupV1,
    /// A control group of the second kind: the whole jail together.
    CgroupV2,
    /// A resource limit: each process (for memory, CPU time) or each user namespace (for processes).
    Rlimit,
    /// A mount flag.
    Mount,
    /// A system call filter.
    Filter,
    /// An empty namespace, with a system call filter in front.
    NamespaceAndFilter,
    /// Nothing.
    Nothing,
}

/// What holds each limit on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// Memory.
    pub memory: EnforcedBy,
    /// Processes and threads.
    pub pids: EnforcedBy,
    /// Share of the CPUs.
    pub cpu: EnforcedBy,
    /// Files in `/tmp` cannot be executed. Interpreters can still read scripts from there.
    pub noexec: EnforcedBy,
    /// Dangerous system calls.
    pub seccomp: EnforcedBy,
    /// No network.
    pub network: EnforcedBy,
    /// One line in plain words, for the card.
    pub summary: String,
}

impl Enforcement {
    pub(crate) fn new(memory: EnforcedBy, pids: EnforcedBy, cpu: EnforcedBy) -> Self {
        Self {
            memory,
            pids,
            cpu,
            noexec: EnforcedBy::Mount,
            seccomp: EnforcedBy::Filter,
            network: EnforcedBy::NamespaceAndFilter,
            summary: format!(
                "native: namespaces and seccomp, no network, shares your kernel; {}",
                in_words(memory, pids, cpu)
            ),
        }
    }
}

fn in_words(memory: EnforcedBy, pids: EnforcedBy, cpu: EnforcedBy) -> String {
    let mut parts = Vec::new();
    if memory == EnforcedBy::Rlimit {
        parts.push("memory limited per process only");
    }
    if pids == EnforcedBy::Rlimit {
        parts.push("processes limited by rlimit only");
    }
    if cpu == EnforcedBy::Rlimit {
        parts.push("CPU limited by time only");
    }
    if parts.is_empty() {
        "memory, processes and CPU held by cgroups".to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_says_what_is_missing() {
        let weak = Enforcement::new(EnforcedBy::Rlimit, EnforcedBy::CgroupV2, EnforcedBy::Rlimit);
        assert_eq!(
            weak.summary,
            "native: namespaces and seccomp, no network, shares your kernel; \
             memory limited per process only, CPU limited by time only"
        );
        let whole = Enforcement::new(
            EnforcedBy::CgroupV1,
            EnforcedBy::CgroupV1,
            EnforcedBy::CgroupV1,
        );
        assert!(whole.summary.ends_with("held by cgroups"));
    }
}
