//! The broker's own look at a command, deny by default. It knows nothing of how the api came to it.

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use camino::{Utf8Component, Utf8Path};
use serde::{Deserialize, Serialize};

use crate::jail::{WRITABLE_MAX, is_plain};

/// Arguments of one command; those that the judge adds to git's are among them.
const ARGUMENTS: usize = 1280;
/// Bytes of one argument, as Linux takes them (execve(2), `MAX_ARG_STRLEN`), its end counted.
const ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// Bytes of all arguments and variables.
const BYTES: usize = 256 * 1024;
/// Variables of one command.
const VARIABLES: usize = 48;

/// Where programs are looked for in a sandbox, in this order.
pub(super) const FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];

/// Variables that every command has, with their one value.
pub(crate) const OWN: [(&str, &str); 3] = [
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("TMPDIR", "/tmp"),
];
/// Variables with the one value that they may have: those by which git and uv run and fetch nothing.
const FIXED: [(&str, &str); 20] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("UV_NO_CONFIG", "1"),
    ("UV_OFFLINE", "1"),
    ("UV_NO_CACHE", "1"),
    ("UV_PYTHON_DOWNLOADS", "never"),
    ("UV_NO_ENV_FILE", "1"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
];
/// Variables that name a folder beneath the workspace.
const FOLDER_NAMES: [&str; 2] = ["GIT_DIR", "GIT_WORK_TREE"];
/// Variables whose value is a short word: languages, time zones, terminals.
const WORDS: [&str; 15] = [
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "TERM",
    "NO_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "LINES",
];

/// One program, to be started by itself. No shell reads any of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program's absolute path in the sandbox, then its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The folder to start in, from the workspace; empty for the workspace itself.
    pub cwd: String,
    /// The folders that it may write, from the workspace; an empty path is all of it. None: it only reads.
    pub writable: Vec<String>,
}

impl Command {
    /// Checks all that can be checked without knowing the sandbox.
    ///
    /// # Errors
    ///
    /// Says which field is wrong.
    pub fn check_shape(&self) -> Result<(), String> {
        let texts = || {
            let variables = self.env.iter().flat_map(|(name, value)| [name, value]);
            self.argv.iter().chain(variables)
        };
        let wrong = |problem: String| Err(problem);
        if self.argv.is_empty() || self.argv.len() > ARGUMENTS {
            return wrong(format!("argv: must have 1 to {ARGUMENTS} words"));
        }
        if self.env.len() > VARIABLES {
            return wrong(format!("env: must have at most {VARIABLES} variables"));
        }
        if texts().any(|text| text.contains('\0')) {
            return wrong("argv and env: a NUL character".to_owned());
        }
        if self.argv.iter().any(|word| word.len() > ARGUMENT_BYTES) {
            return wrong(format!(
                "argv: an argument of more than {ARGUMENT_BYTES} bytes"
            ));
        }
        if texts().map(|text| text.len() + 1).sum::<usize>() > BYTES {
            return wrong(format!("argv and env: more than {BYTES} bytes"));
        }
        if !is_plain(&self.cwd) {
            return wrong("cwd: no plain path beneath the workspace".to_owned());
        }
        if self.writable.len() > WRITABLE_MAX || !self.writable.iter().all(|path| is_plain(path)) {
            return wrong("writable: no plain paths beneath the workspace".to_owned());
        }
        Ok(())
    }

    /// Checks the rest: the program is one that was found in the sandbox, and no variable has a value that it
    /// may not have.
    pub(super) fn check(
        &self,
        programs: &BTreeMap<String, String>,
        workspace: &Utf8Path,
    ) -> Result<(), String> {
        self.check_shape()?;
        let program = self.argv.first().map_or("", String::as_str);
        if !programs.values().any(|known| known == program) {
            return Err(format!("{program:?} is no program of the sandbox"));
        }
        if let Some((name, _)) = OWN
            .iter()
            .find(|(name, value)| self.env.get(*name).is_none_or(|set| set != value))
        {
            return Err(format!("env: {name} is not as every command has it"));
        }
        match self
            .env
            .iter()
            .find(|(name, value)| !may_be(name, value, workspace))
        {
            None => Ok(()),
            Some((name, _)) => Err(format!("env: {name:?} may not be there, or not so")),
        }
    }
}

fn may_be(name: &str, value: &str, workspace: &Utf8Path) -> bool {
    let fixed = OWN.iter().chain(&FIXED);
    if let Some((_, only)) = fixed.into_iter().find(|(fixed, _)| *fixed == name) {
        return value == *only;
    }
    if FOLDER_NAMES.contains(&name) {
        let path = Utf8Path::new(value);
        return path.starts_with(workspace)
            && path
                .components()
                .all(|part| matches!(part, Utf8Component::RootDir | Utf8Component::Normal(_)));
    }
    WORDS.contains(&name)
        && value.len() <= 64
        && !value.starts_with('/')
        && !value.contains("..")
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.@-+/".contains(c))
}

/// Whether nobody but root of this machine can change what is started by this path.
pub(super) fn is_roots_alone(path: &Utf8Path) -> bool {
    let Ok(real) = path.canonicalize_utf8() else {
        return false;
    };
    let roots = |path: &Utf8Path| {
        std::fs::symlink_metadata(path).is_ok_and(|found| {
            let writable = found.permissions().mode() & 0o022 != 0;
            found.uid() == 0 && (found.is_symlink() || !writable)
        })
    };
    [path, &real]
        .into_iter()
        .flat_map(Utf8Path::ancestors)
        .all(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        Command {
            argv: vec!["/usr/bin/git".to_owned(), "status".to_owned()],
            env: OWN
                .into_iter()
                .chain([
                    ("LANG", "C.UTF-8"),
                    ("GIT_PAGER", "cat"),
                    ("GIT_DIR", "/srv/ws/.git"),
                    ("TZ", "Europe/Berlin"),
                ])
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            cwd: "a/b".to_owned(),
            writable: vec![".git".to_owned()],
        }
    }

    fn judged(change: impl FnOnce(&mut Command)) -> Result<(), String> {
        let programs = BTreeMap::from([("git".to_owned(), "/usr/bin/git".to_owned())]);
        let mut command = command();
        change(&mut command);
        command.check(&programs, Utf8Path::new("/srv/ws"))
    }

    #[test]
    fn what_the_judge_permits_passes() {
        assert_eq!(judged(|_| {}), Ok(()));
        assert_eq!(judged(|it| it.cwd.clear()), Ok(()));
        assert_eq!(judged(|it| it.writable = vec![String::new()]), Ok(()));
    }

    #[test]
    fn any_other_program_is_refused() {
        for program in [
            "git",
            "/usr/bin/sh",
            "/usr/bin/../bin/git",
            "/srv/ws/git",
            "",
        ] {
            assert!(
                judged(|it| program.clone_into(&mut it.argv[0])).is_err(),
                "{program:?}"
            );
        }
        assert!(judged(|it| it.argv.clear()).is_err());
    }

    #[test]
    fn any_other_variable_is_refused() {
        for (name, value) in [
            ("LD_PRELOAD", "/tmp/x.so"),
            ("GIT_EXTERNAL_DIFF", "cat"),
            ("GIT_PAGER", "less"),
            ("GIT_DIR", "/srv/ws/../etc"),
            ("GIT_DIR", "/srv/wsx/.git"),
            ("GIT_DIR", "relative"),
            ("PATH", "/srv/ws:/usr/bin"),
            ("HOME", "/root"),
            ("LANG", "/etc/passwd"),
            ("LANG", "../x"),
            ("TZ", ":/etc/shadow"),
            ("lang", "C"),
            ("", ""),
        ] {
            let set = judged(|it| drop(it.env.insert(name.to_owned(), value.to_owned())));
            assert!(set.is_err(), "{name}={value}");
        }
        assert!(judged(|it| drop(it.env.remove("PATH"))).is_err());
    }

    #[test]
    fn paths_and_sizes_are_bounded() {
        for bad in ["/", "..", "a/..", "a/", "/srv/ws"] {
            assert!(judged(|it| bad.clone_into(&mut it.cwd)).is_err(), "{bad}");
            assert!(
                judged(|it| it.writable = vec![bad.to_owned()]).is_err(),
                "{bad}"
            );
        }
        let many = WRITABLE_MAX + 1;
        assert!(judged(|it| it.writable = vec!["a".to_owned(); many]).is_err());
        assert!(judged(|it| it.argv.push("a\0b".to_owned())).is_err());
        assert!(judged(|it| it.argv.push("x".repeat(ARGUMENT_BYTES + 1))).is_err());
        let word = "x".repeat(1000);
        assert!(judged(|it| it.argv.extend(vec![word; 300])).is_err());
        assert!(judged(|it| it.argv.extend(vec![String::new(); ARGUMENTS])).is_err());
    }

    #[test]
    fn a_program_that_others_could_change_is_not_roots_alone() {
        assert!(is_roots_alone(Utf8Path::new("/usr/bin/env")));
        assert!(!is_roots_alone(Utf8Path::new("/usr/bin/no-such-program")));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tool");
        std::fs::write(&program, "").unwrap();
        // Beneath /tmp, where everybody may put things.
        assert!(!is_roots_alone(Utf8Path::from_path(&program).unwrap()));
    }
}
