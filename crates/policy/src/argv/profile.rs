//! Which programs there are, by posture.

use super::{Refusal, verdict::refuse};

/// What the operator has switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// `mkdir`, `cp`, `mv` and `touch`.
    pub mutate: bool,
    /// `tar`, `gzip`, `gunzip`, `zip` and `unzip`.
    pub archive: bool,
    /// `ps`, `pgrep` and `kazma`.
    pub dev: bool,
}

impl Profile {
    /// One person's own machine: everything.
    pub const DEFAULT: Self = Self {
        mutate: true,
        archive: true,
        dev: true,
    };

    /// What `KAZMA_PRODUCTION`, `KAZMA_SHELL_STRICT`, `KAZMA_SHELL_ALLOW_MUTATE` and `KAZMA_SHELL_ALLOW_ARCHIVE` say
    /// together; none of a switch is its default.
    pub fn new(
        production: bool,
        strict: Option<bool>,
        mutate: Option<bool>,
        archive: Option<bool>,
    ) -> Self {
        Self {
            mutate: mutate.unwrap_or(!production),
            archive: archive.unwrap_or(!production || strict == Some(false)),
            dev: !production,
        }
    }

    /// Refuses a program that is not on the list, or whose group is off.
    pub(super) fn check(self, name: &str) -> Result<(), Refusal> {
        match group(name) {
            Some(Group::Always) => Ok(()),
            Some(Group::Mutate) if self.mutate => Ok(()),
            Some(Group::Archive) if self.archive => Ok(()),
            Some(Group::Dev) if self.dev => Ok(()),
            Some(Group::Mutate) => {
                refuse!("{name} is off here; KAZMA_SHELL_ALLOW_MUTATE=1 switches it on")
            }
            Some(Group::Archive) => {
                refuse!("{name} is off here; KAZMA_SHELL_ALLOW_ARCHIVE=1 switches it on")
            }
            Some(Group::Dev) => refuse!("{name} is off in production: it can show secrets"),
            None => Err(unknown(name)),
        }
    }
}

/// A group of programs that is switched together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Always there.
    Always,
    /// Changes files.
    Mutate,
    /// Packs and unpacks.
    Archive,
    /// Looks at processes, or is Kazma itself.
    Dev,
}

const ALWAYS: [&str; 29] = [
    "ls", "cat", "head", "tail", "grep", "find", "wc", "sort", "uniq", "echo", "printf", "date",
    "whoami", "pwd", "df", "du", "free", "uptime", "uname", "hostname", "git", "uv", "pytest",
    "ruff", "mypy", "jq", "tr", "cut", "sleep",
];

const MUTATE: [&str; 4] = ["mkdir", "cp", "mv", "touch"];
const ARCHIVE: [&str; 5] = ["tar", "gzip", "gunzip", "zip", "unzip"];
const DEV: [&str; 3] = ["ps", "pgrep", "kazma"];

const GROUPS: [(Group, &[&str]); 4] = [
    (Group::Always, &ALWAYS),
    (Group::Mutate, &MUTATE),
    (Group::Archive, &ARCHIVE),
    (Group::Dev, &DEV),
];

/// The names of all programs that there are in any posture.
pub fn programs() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| *names).copied()
}

/// The group of a program; none for one that is not on the list.
fn group(name: &str) -> Option<Group> {
    let found = GROUPS.iter().find(|(_, names)| names.contains(&name));
    found.map(|(group, _)| *group)
}

/// Why a program that is not on the list is not: the kind that is known, else that it is unknown.
fn unknown(name: &str) -> Refusal {
    let shown: String = name.escape_debug().take(60).collect();
    if name.contains('/') {
        return Refusal::new(format_args!(
            "`{shown}` is a path: a program is called by its bare name, so that nothing in the workspace can stand in"
        ));
    }
    if name.contains('=') {
        return Refusal::new(format_args!(
            "`{shown}` sets a variable: there is no shell, and the runner sets the environment"
        ));
    }
    let why = match name {
        "env" | "printenv" | "set" | "export" | "declare" | "typeset" => {
            "it shows or sets the environment"
        }
        "sh" | "bash" | "dash" | "zsh" | "fish" | "ksh" | "csh" | "tcsh" | "cmd" | "powershell"
        | "pwsh" => "it is a shell",
        "python" | "python3" | "perl" | "ruby" | "node" | "php" | "lua" | "awk" | "gawk"
        | "mawk" | "sed" | "deno" | "bun" | "tclsh" => {
            "it is an interpreter; code runs by python_exec"
        }
        "curl" | "wget" | "nc" | "ncat" | "socat" | "ssh" | "scp" | "sftp" | "rsync" | "ftp"
        | "telnet" | "dig" | "nslookup" | "ping" => {
            "it reaches the network; pages are read by read_url"
        }
        "docker" | "podman" | "kubectl" | "nerdctl" | "ctr" => "it commands a container engine",
        "xargs" | "nice" | "ionice" | "timeout" | "nohup" | "setsid" | "stdbuf" | "time"
        | "watch" | "sudo" | "doas" | "su" | "chroot" | "unshare" | "nsenter" | "parallel"
        | "busybox" | "toybox" | "exec" | "eval" | "command" => "it runs other programs",
        "rm" | "rmdir" | "unlink" | "shred" => "it deletes; file_delete does that after a card",
        _ => "it is not on the list of programs",
    };
    Refusal::new(format_args!("`{shown}` is refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_takes_three_groups_away_and_switches_bring_two_back() {
        let production = Profile::new(true, None, None, None);
        for name in ["cp", "tar", "ps"] {
            assert!(Profile::DEFAULT.check(name).is_ok(), "{name}");
            assert!(production.check(name).is_err(), "{name}");
        }
        assert!(production.check("git").is_ok());
        let switched = Profile::new(true, None, Some(true), Some(true));
        assert!(switched.check("cp").is_ok() && switched.check("tar").is_ok());
        assert!(switched.check("ps").is_err());
        assert!(
            Profile::new(true, Some(false), None, None)
                .check("zip")
                .is_ok()
        );
        assert!(
            Profile::new(false, None, Some(false), Some(false))
                .check("mv")
                .is_err()
        );
    }

    #[test]
    fn only_the_exact_bare_name_is_known() {
        for name in ["GIT", " ls", "ls ", "./ls", "/usr/bin/ls", "ls\u{200b}", ""] {
            assert!(Profile::DEFAULT.check(name).is_err(), "{name:?}");
        }
    }
}
