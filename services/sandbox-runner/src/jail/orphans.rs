//! What bubblewrap leaves behind when it is killed at the wrong moment.
//!
//! bubblewrap starts the jail's first process, then maps its user ids, and only then lets it go on. Killed
//! in between, it leaves a process that waits for ever for a map that nobody will write. Such a process has
//! run nothing and can run nothing, but it stays. It cannot ask to die with its parent: it has not run yet.

use std::{collections::HashMap, fs};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The name that every jail's bubblewrap has as the first of its arguments.
///
/// The first process of a jail has it too until it becomes the init.
pub const JAIL_NAME: &str = "kazma-jail";

/// Kills the half-born first processes of jails whose bubblewrap is gone; returns how many.
///
/// It reads all of `/proc`, so it blocks for some milliseconds. Processes of other users that this one may
/// not signal stay.
pub fn sweep() -> usize {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let swept = pids.filter(|pid| end_if_orphan(*pid)).count();
    if swept > 0 {
        tracing::warn!(swept, "ended what killed sandboxes had left");
    }
    swept
}

fn end_if_orphan(pid: i32) -> bool {
    if !has_name(pid) {
        return false;
    }
    // Held before the second look: the number cannot be given to another process in between.
    let Some(held) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return false;
    };
    is_orphan(pid) && pidfd_send_signal(&held, Signal::KILL).is_ok()
}

/// A jail's first process, not yet the init, whose parent is not bubblewrap any more.
fn is_orphan(pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    let fields: HashMap<&str, &str> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    // Process 1 of a namespace of its own; the bubblewrap outside is not.
    let first = fields
        .get("NSpid")
        .and_then(|numbers| numbers.split_whitespace().next_back())
        == Some("1");
    let parent = fields.get("PPid").and_then(|parent| parent.parse().ok());
    first && has_name(pid) && parent.is_some_and(|parent| !has_name(parent))
}

fn has_name(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split(|byte| *byte == 0).next() == Some(JAIL_NAME.as_bytes()))
}
