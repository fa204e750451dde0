//! The proof, in a real jail, that a jail holds on this machine. Without it no run starts.

use std::{collections::BTreeMap, os::fd::OwnedFd, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::Entropy;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use serde::Deserialize;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use super::{
    commands::FOLDERS,
    native::readable_for_nobody,
    workshop::{Made, Workshop},
};
use crate::{
    jail::{Outcome, OutputStream, RunLimits, Task},
    nonce::{self, NoWord},
};

const LIMITS: RunLimits = RunLimits {
    timeout: Duration::from_secs(15),
    output_cap: 16 * 1024,
};

/// Why no run can start, and what a person can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotReady {
    pub(super) reason: String,
    pub(super) fix: String,
}

impl NotReady {
    pub(super) fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            fix: fix.into(),
        }
    }
}

/// What the canary saw from inside.
#[derive(Debug, Deserialize)]
pub(super) struct Sight {
    python: String,
    uid: u32,
    gid: u32,
    pub(super) no_new_privs: Option<String>,
    pub(super) seccomp: Option<String>,
    /// The ambient set is within the permitted one, so a kernel that does not show it hides nothing.
    capabilities: Vec<Option<String>>,
    nonce: String,
    descriptors: Vec<u32>,
    network: String,
    workspace_write: String,
    /// Mounts beyond `/tmp` where a file could be made.
    writable_places: Vec<String>,
    tmp_write: String,
    tmp_exec: String,
    init_memory: String,
    /// The programs that are there, by name, in folders that one user alone can change.
    programs: BTreeMap<String, String>,
    pub(super) init_descriptors: String,
    /// What the control group's files say, where they can be seen.
    pub(super) memory_limit: Option<String>,
    pub(super) pids_limit: Option<String>,
}

/// What a canary found.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    /// What runs code, such as `Python 3.11.2`.
    pub(super) runtime: String,
    /// The programs that commands may start, by name, with their paths.
    pub(super) programs: BTreeMap<String, String>,
}

/// Sends a canary into a jail.
pub(super) async fn send<W: Workshop>(
    workshop: &W,
    entropy: &dyn Entropy,
) -> Result<Proof, NotReady> {
    let workspace = workshop.workspace();
    let nonce = Nonce::of(workspace, entropy)?;
    let jail = workshop
        .make(None)
        .await
        .map_err(|error| workshop.explain(&error))?;
    let code = code(&nonce.path)
        .map_err(|error| NotReady::new(error.to_string(), "Choose another workspace path."))?;
    let (chunks, mut inbox) = unbounded_channel();
    let never = CancellationToken::new();
    let finished = jail
        .run(&Task::Python(code.into_bytes()), LIMITS, &chunks, &never)
        .await;
    drop(chunks);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(chunk) = inbox.recv().await {
        match chunk.stream {
            OutputStream::Stdout => stdout.extend_from_slice(&chunk.data),
            OutputStream::Stderr => stderr.extend_from_slice(&chunk.data),
        }
    }
    if finished.outcome != (Outcome::Exited { code: 0 }) {
        let said = String::from_utf8_lossy(&stderr);
        return Err(NotReady::new(
            format!(
                "the trial run in a sandbox failed: {:?} {}",
                finished.outcome,
                said.trim()
            ),
            "Check that Python and its standard library are whole.",
        ));
    }
    let sight: Sight = serde_json::from_slice(&stdout).map_err(|_| {
        NotReady::new(
            "the trial run in a sandbox said something unexpected",
            "Check that the configured Python is CPython 3.9 or newer.",
        )
    })?;
    sight.judge(&nonce, workshop)?;
    workshop.judge(&sight)?;
    let trusted = |path: &String| workshop.trusts(Utf8Path::new(path));
    Ok(Proof {
        runtime: format!("Python {}", sight.python),
        programs: sight
            .programs
            .into_iter()
            .filter(|(_, path)| trusted(path))
            .collect(),
    })
}

fn code(nonce: &Utf8Path) -> serde_json::Result<String> {
    let programs: Vec<&str> = kazma_policy::argv::programs().collect();
    Ok(include_str!("canary.py")
        .replace("@NONCE_PATH@", &serde_json::to_string(nonce.as_str())?)
        .replace("@PROGRAMS@", &serde_json::to_string(&programs)?)
        .replace("@FOLDERS@", &serde_json::to_string(&FOLDERS)?))
}

impl Sight {
    fn judge<W: Workshop>(&self, nonce: &Nonce, workshop: &W) -> Result<(), NotReady> {
        if nonce::is_word(&self.nonce) && self.nonce != nonce.value {
            return Err(other_workspace(workshop.workspace()));
        }
        if self.nonce != nonce.value {
            return Err(workshop.unreadable(&nonce.path, &self.nonce));
        }
        let no_capabilities = self.capabilities.iter().all(|set| {
            set.as_deref()
                .is_some_and(|set| set.bytes().all(|b| b == b'0'))
        });
        let checks = [
            (
                self.uid == 65534 && self.gid == 65534,
                "the snippet is not uid and gid 65534",
            ),
            (no_capabilities, "the snippet has capabilities"),
            // The list was read through one more, which is left out.
            (
                self.descriptors == [0, 1, 2],
                "something outside the sandbox is open inside",
            ),
            (
                refused(&self.network),
                "the snippet can make network sockets",
            ),
            (
                refused(&self.workspace_write),
                "the workspace can be written to",
            ),
            (self.tmp_write == "ok", "/tmp cannot be written to"),
            (refused(&self.tmp_exec), "files in /tmp can be executed"),
            (
                refused(&self.init_memory),
                "the memory of process 1 can be read",
            ),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, broken)) => Err(broken_promise(broken)),
            None if self.writable_places.is_empty() => Ok(()),
            None => Err(broken_promise(&format!(
                "more than /tmp can be written to: {}",
                self.writable_places.join(", ")
            ))),
        }
    }
}

/// Whether the canary was refused what it tried.
pub(super) fn refused(answer: &str) -> bool {
    answer.starts_with("refused")
}

/// A lock-down that is not in force.
pub(super) fn broken_promise(broken: &str) -> NotReady {
    NotReady::new(
        format!("the sandbox does not hold on this machine: {broken}"),
        "Do not use this tier here; choose another with --sandbox.",
    )
}

/// What another word than ours means.
fn other_workspace(workspace: &Utf8Path) -> NotReady {
    NotReady::new(
        format!("the sandbox sees another folder at {workspace} than the broker"),
        "Look where the engine has the workspace (KAZMA_WORKSPACE_SOURCE). If the runner's api has just been started, \
         the next try finds its new word.",
    )
}

/// The word in the workspace that the canary must bring back.
#[derive(Debug)]
struct Nonce {
    path: Utf8PathBuf,
    value: String,
    /// Where it is taken away again when this is dropped; none where somebody else left it.
    folder: Option<OwnedFd>,
}

impl Nonce {
    /// One of the broker's own where it can write; else the one that the api has left.
    fn of(workspace: &Utf8Path, entropy: &dyn Entropy) -> Result<Self, NotReady> {
        let path = workspace.join(nonce::FILE);
        let value = nonce::word(entropy);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let left = rustix::fs::open(workspace.as_std_path(), flags, Mode::empty())
            .and_then(|folder| nonce::leave(&folder, &value, 0o644, None).map(|()| folder));
        match left {
            Ok(folder) => Ok(Self {
                path,
                value,
                folder: Some(folder),
            }),
            Err(errno @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) => {
                let value = nonce::read(workspace).map_err(|no| no_word(workspace, errno, &no))?;
                Ok(Self {
                    path,
                    value,
                    folder: None,
                })
            }
            Err(errno) => Err(cannot_write(workspace, errno)),
        }
    }
}

impl Drop for Nonce {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            nonce::take_away(folder);
        }
    }
}

const CREATE: &str = "Create the folder and give it to the user that the sandbox runner runs as.";

fn cannot_write(workspace: &Utf8Path, errno: Errno) -> NotReady {
    NotReady::new(
        format!("the broker cannot write to the workspace {workspace}: {errno}"),
        CREATE,
    )
}

/// Why a broker that cannot write has no word to compare.
fn no_word(workspace: &Utf8Path, errno: Errno, no: &NoWord) -> NotReady {
    let file = workspace.join(nonce::FILE);
    let fix = match no {
        NoWord::Closed(Errno::NOENT) => format!(
            "Where the broker has the workspace to be read alone, the runner's api leaves {file} when it starts: \
             start it again with the same workspace. Elsewhere: {CREATE}"
        ),
        NoWord::Closed(_) => format!(
            "{} The broker must be in group 65534 too.",
            readable_for_nobody(workspace)
        ),
        NoWord::Odd => format!("Remove {file} and start the runner's api again."),
    };
    NotReady::new(
        format!(
            "the broker cannot write to the workspace {workspace} ({errno}), and has no word of the runner's api to \
             compare in {file}: {no}"
        ),
        fix,
    )
}
