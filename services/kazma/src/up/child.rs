//! One service process: started with its sockets and its boot line, watched until it ends.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use command_fds::{CommandFdExt, FdMapping};
use kazma_domain::Service;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
};

use crate::{
    boot::{Boot, Ready, Said},
    up::folder::Owners,
};

/// How long a service may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a running service may take to hear what it is told.
const SAY_LIMIT: Duration = Duration::from_secs(5);

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("{0} could not be started")]
    Spawn(Service, #[source] io::Error),
    #[error("{0} ended while it started; its log says why")]
    Ended(Service),
    #[error("{0} did not serve within 20 s; its log says why")]
    Slow(Service),
}

/// What a service is started with.
pub(crate) struct Start<'a> {
    pub(crate) service: Service,
    pub(crate) owners: Owners,
    /// This program, opened: a path might be closed to the service's user.
    pub(crate) program: &'a OwnedFd,
    /// The sockets it serves on, in the order it expects.
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) boot: &'a Boot,
}

/// A running service.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) service: Service,
    pub(crate) pid: u32,
    pub(crate) ready: Ready,
    child: Child,
    /// Its end tells the service to stop.
    stdin: ChildStdin,
}

impl Running {
    /// Starts a service and waits until it serves.
    pub(crate) async fn start(start: Start<'_>) -> Result<Self, StartError> {
        let service = start.service;
        let failed = |error| StartError::Spawn(service, error);
        let mut child = command(&start).map_err(failed)?.spawn().map_err(failed)?;
        let pid = child.id().ok_or(StartError::Ended(service))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Ended(service));
        };
        let mut line = serde_json::to_vec(start.boot).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        stdin
            .write_all(&line)
            .await
            .map_err(|_| StartError::Ended(service))?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = match tokio::time::timeout(START_LIMIT, lines.next_line()).await {
            Ok(Ok(Some(line))) => {
                serde_json::from_str(&line).map_err(|_| StartError::Ended(service))?
            }
            Ok(_) => return Err(StartError::Ended(service)),
            Err(_) => return Err(StartError::Slow(service)),
        };
        Ok(Self {
            service,
            pid,
            ready,
            child,
            stdin,
        })
    }

    /// Tells it something more. One that is about to end may not hear it; the next is told at its start.
    pub(crate) async fn say(&mut self, said: &Said) {
        let Ok(mut line) = serde_json::to_vec(said) else {
            return;
        };
        line.push(b'\n');
        let _ = tokio::time::timeout(SAY_LIMIT, self.stdin.write_all(&line)).await;
    }

    /// Waits until it ends.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks it to end, and ends it where it has not within `limit`.
    pub(crate) async fn end(&mut self, limit: Duration) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may have ended already, which is what was wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(limit, self.child.wait())
            .await
            .is_err()
        {
            let _ = self.child.kill().await;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the supervisor starts the services"
)]
fn command(start: &Start<'_>) -> io::Result<Command> {
    let mut command = Command::new(format!("/proc/self/fd/{}", start.program.as_raw_fd()));
    command
        .arg0("kazma")
        .args(["service", start.service.name()])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("LANG", "C.UTF-8")
        .env("LISTEN_FDS", start.sockets.len().to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    #[cfg(feature = "faults")]
    for name in [kazma_faults::FOLDER, "LD_PRELOAD"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    if start.owners == Owners::Separate {
        let uid = start.owners.uid(start.service);
        command.uid(uid).gid(uid);
    }
    let mut mappings = Vec::new();
    for (socket, child_fd) in start.sockets.iter().zip(3..) {
        mappings.push(FdMapping {
            parent_fd: socket.try_clone()?,
            child_fd,
        });
    }
    command
        .fd_mappings(mappings)
        .map_err(|_| io::Error::other("two sockets for one descriptor"))?;
    Ok(command)
}
