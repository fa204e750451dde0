//! What the container's own control group has counted, read from inside where the engine mounts it.

use super::container::small_file;
use crate::jail::frame::Usage;

/// The figures that are to be had. A runtime that hides the control group, as gVisor does, gives none.
pub(super) fn read() -> Usage {
    Usage {
        oom_kills: first_word(
            &[
                "/sys/fs/cgroup/memory.events",
                "/sys/fs/cgroup/memory/memory.oom_control",
            ],
            "oom_kill",
        ),
        pids_refused: first_word(
            &[
                "/sys/fs/cgroup/pids.events",
                "/sys/fs/cgroup/pids/pids.events",
            ],
            "max",
        ),
        peak_memory: [
            "/sys/fs/cgroup/memory.peak",
            "/sys/fs/cgroup/memory/memory.max_usage_in_bytes",
        ]
        .iter()
        .find_map(|path| small_file(path)?.trim().parse().ok()),
    }
}

fn first_word(paths: &[&str], key: &str) -> Option<u64> {
    paths.iter().find_map(|path| keyed(&small_file(path)?, key))
}

/// The number behind `key` in a file of `key number` lines.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_counts() {
        let control = "oom_kill_disable 7\nunder_oom 8\noom_kill 3\n";
        assert_eq!(keyed(control, "oom_kill"), Some(3));
        assert_eq!(keyed("low 1\nmax 5\n", "max"), Some(5));
        assert_eq!(keyed("oom_kill_disable 7\n", "oom_kill"), None);
    }
}
