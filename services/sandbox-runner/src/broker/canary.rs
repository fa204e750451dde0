//! The proof, in a real jail, that a jail holds on this machine. Without it no run starts.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::Entropy;
use serde::Deserialize;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use super::pool::Workshop;
use crate::jail::{JailError, Outcome, OutputStream, RunLimits, Runner};

/// The file through which the canary sees that its workspace is ours.
const NONCE_FILE: &str = ".kazma-canary";
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
    fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            fix: fix.into(),
        }
    }
}

/// What the canary saw from inside.
#[derive(Debug, Deserialize)]
struct Sight {
    python: String,
    uid: u32,
    gid: u32,
    no_new_privs: Option<String>,
    seccomp: Option<String>,
    capabilities: Vec<Option<String>>,
    nonce: String,
    descriptors: Vec<u32>,
    network: String,
    workspace_write: String,
    tmp_write: String,
    tmp_exec: String,
    init_memory: String,
    init_descriptors: String,
}

/// Sends a canary into a jail. Answers with the runtime that it found, such as `Python 3.11.2`.
pub(super) async fn send(workshop: &Workshop, entropy: &dyn Entropy) -> Result<String, NotReady> {
    let nonce = Nonce::leave(&workshop.template.workspace, entropy)
        .map_err(|error| no_nonce(&workshop.template.workspace, &error))?;
    let jail = workshop
        .make()
        .await
        .map_err(|error| explain(&error, workshop))?;
    let path = serde_json::to_string(nonce.path.as_str())
        .map_err(|error| NotReady::new(error.to_string(), "Choose another workspace path."))?;
    let code = include_str!("canary.py").replace("@NONCE_PATH@", &path);
    let (chunks, mut inbox) = unbounded_channel();
    let never = CancellationToken::new();
    let finished = jail.run(code.as_bytes(), LIMITS, &chunks, &never).await;
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
    Ok(format!("Python {}", sight.python))
}

impl Sight {
    fn judge(&self, nonce: &Nonce, workshop: &Workshop) -> Result<(), NotReady> {
        if self.nonce != nonce.value {
            return Err(unreadable(&nonce.path, &self.nonce, workshop));
        }
        let refused = |answer: &str| answer.starts_with("refused");
        let no_capabilities = self.capabilities.iter().all(|set| {
            set.as_deref()
                .is_some_and(|set| set.bytes().all(|b| b == b'0'))
        });
        let checks = [
            (
                self.uid == 65534 && self.gid == 65534,
                "the snippet is not uid and gid 65534",
            ),
            (
                self.no_new_privs.as_deref() == Some("1"),
                "no_new_privs is not set",
            ),
            (
                self.seccomp.as_deref() == Some("2"),
                "the system call filter is not in force",
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
                refused(&self.init_memory) && refused(&self.init_descriptors),
                "process 1 of the sandbox can be read",
            ),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, broken)) => Err(NotReady::new(
                format!("the sandbox does not hold on this machine: {broken}"),
                "Do not use the native tier here; use a container engine instead.",
            )),
        }
    }
}

/// A file with a random value in the workspace, removed when this is dropped.
#[derive(Debug)]
struct Nonce {
    path: Utf8PathBuf,
    value: String,
}

impl Nonce {
    fn leave(workspace: &Utf8Path, entropy: &dyn Entropy) -> io::Result<Self> {
        let mut random = [0_u8; 16];
        entropy.fill(&mut random);
        let nonce = Self {
            path: workspace.join(NONCE_FILE),
            value: hex::encode(random),
        };
        // One that a killed broker left behind. Creating anew never follows a link that somebody put there.
        let _ = fs::remove_file(&nonce.path);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&nonce.path)?;
        // The umask may have taken from that.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(nonce.value.as_bytes())?;
        Ok(nonce)
    }
}

impl Drop for Nonce {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn no_nonce(workspace: &Utf8Path, error: &io::Error) -> NotReady {
    NotReady::new(
        format!("the broker cannot write to the workspace {workspace}: {error}"),
        "Create the folder and give it to the user that the sandbox runner runs as.",
    )
}

fn unreadable(path: &Utf8Path, answer: &str, workshop: &Workshop) -> NotReady {
    let reader = reader(workshop.template.runner);
    NotReady::new(
        format!("a snippet ({reader}) cannot read {path} ({answer})"),
        readable_fix(workshop),
    )
}

fn reader(runner: Runner) -> &'static str {
    match runner {
        Runner::Nobody => "uid and gid 65534",
        Runner::Itself => "the broker's own user",
    }
}

fn readable_fix(workshop: &Workshop) -> String {
    let workspace = &workshop.template.workspace;
    match workshop.template.runner {
        Runner::Nobody => format!(
            "chgrp 65534 {workspace} && chmod 2750 {workspace}, and give every folder above it the x bit for others."
        ),
        Runner::Itself => format!("Make {workspace} readable for the user that runs Kazma."),
    }
}

/// A failed start in plain words.
fn explain(error: &JailError, workshop: &Workshop) -> NotReady {
    let said = error.to_string();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let fix = match error {
        JailError::Missing {
            program: "bubblewrap",
            ..
        } => "Install bubblewrap (Debian: apt-get install bubblewrap).".to_owned(),
        JailError::Missing { .. } => {
            "Put sandbox-init beside the Kazma program; it is part of every build.".to_owned()
        }
        JailError::LockDown(_) if has(&["start Python"]) => {
            "Install Python 3 below /usr (Debian: apt-get install python3), or set its path.".to_owned()
        }
        JailError::Bubblewrap(_) if has(&["user namespace", "new namespace", "uid map"]) => {
            "Allow unprivileged user namespaces: user.max_user_namespaces above 0, \
             kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0 where \
             they exist; in a container, a seccomp profile that allows them."
                .to_owned()
        }
        JailError::Bubblewrap(_) if has(&["mount proc"]) => {
            "This container hides parts of /proc; start it with an unmasked /proc, or use another tier."
                .to_owned()
        }
        JailError::Bubblewrap(_) if has(&[workshop.template.workspace.as_str()]) => {
            readable_fix(workshop)
        }
        _ => "The log of the sandbox broker has more.".to_owned(),
    };
    NotReady::new(said, fix)
}
