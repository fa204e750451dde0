//! Starting a jail, and being sure that it is gone.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines, unix::AsyncFd},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf, pipe},
    },
    process::Child,
    runtime::Handle,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    Access, Cgroups, Limits, Spawner, Template,
    cgroup::{Controller, JailGroups},
    command::ChildEnds,
    init::Rlimits,
    report::Report,
};

/// A jail that is not ready by then never will be.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long the kernel may take to clear a killed jail away.
const CLEAR_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a failed start's last words.
const LAST_WORDS: u64 = 2048;
/// Address space behind a cgroup: far enough that the cgroup, which can say so, is hit first.
const ADDRESS_SPACE_FACTOR: u64 = 8;

/// A jail could not be started or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JailError {
    /// A program that the jail needs is not there.
    #[error("{program} is not at {path}")]
    Missing {
        /// What is missing: `bubblewrap`, `sandbox-init`.
        program: &'static str,
        /// Where it was looked for.
        path: String,
    },
    /// bubblewrap refused to make the jail.
    #[error("bubblewrap could not make the jail: {0}")]
    Bubblewrap(String),
    /// The init refused to run anything.
    #[error("the jail could not be locked down: {0}")]
    LockDown(String),
    /// The control groups could not be made, though they could be when the broker started.
    #[error("the jail's control groups could not be made: {0}")]
    Groups(String),
    /// It took too long.
    #[error("the jail was not ready within {} seconds", START_LIMIT.as_secs())]
    TooSlow,
    /// The system ran out of something.
    #[error("the system would not start a jail: {0}")]
    System(String),
    /// What it shall write cannot be mounted so.
    #[error("the workspace cannot be written to: {0}")]
    Access(#[from] super::AccessError),
    /// It ended while it waited for work.
    #[error("the jail ended before it was used")]
    Died,
}

impl From<io::Error> for JailError {
    fn from(error: io::Error) -> Self {
        Self::System(error.to_string())
    }
}

/// Sends the kernel's kill to the init of one jail, and knows when nothing is left of the jail.
///
/// Process 1 of a namespace counts as ended only when all others in it have.
#[derive(Debug, Clone)]
pub(crate) struct Lifeline(Arc<AsyncFd<OwnedFd>>);

impl Lifeline {
    #[expect(
        deprecated,
        reason = "the replacement needs unsafe code; an owned descriptor meets its contract"
    )]
    fn to(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self(Arc::new(AsyncFd::with_interest(
            descriptor,
            tokio::io::Interest::READABLE,
        )?)))
    }

    pub(crate) fn kill(&self) {
        // It may have ended by itself, which is as good.
        let _ = pidfd_send_signal(self.0.get_ref(), Signal::KILL);
    }

    pub(crate) async fn gone(&self) {
        // The guard is dropped without clearing: an ended process stays readable.
        let _ = self.0.readable().await;
    }
}

/// A started, locked-down jail with an initialised Python that has run nothing.
#[derive(Debug)]
pub struct Jail {
    pub(super) control: Control,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    pub(super) body: Body,
    pub(super) limits: Limits,
}

/// The broker's end of the socket to the init.
#[derive(Debug)]
pub(super) struct Control {
    lines: Lines<BufReader<OwnedReadHalf>>,
    pub(super) writer: OwnedWriteHalf,
}

impl Control {
    fn new(socket: UnixStream) -> Self {
        let (reader, writer) = socket.into_split();
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    /// The next thing the init says; `None` once it has hung up. Nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> Option<Report> {
        Report::parse(&self.lines.next_line().await.ok()??)
    }
}

/// What must be cleared away after a jail, whatever became of it.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) lifeline: Lifeline,
    pub(super) groups: Option<JailGroups>,
    child: Option<Child>,
    clearing: TaskTracker,
}

impl Drop for Body {
    /// Kills at once; the rest of the clearing needs the runtime.
    fn drop(&mut self) {
        self.lifeline.kill();
        let (lifeline, groups, child) =
            (self.lifeline.clone(), self.groups.take(), self.child.take());
        if let Ok(runtime) = Handle::try_current() {
            let clear = async move {
                if timeout(CLEAR_LIMIT, lifeline.gone()).await.is_err() {
                    tracing::error!("a killed jail would not go");
                }
                if let Some(mut child) = child {
                    let _ = timeout(CLEAR_LIMIT, child.wait()).await;
                }
                if let Some(groups) = groups {
                    groups.remove().await;
                }
            };
            self.clearing.spawn_on(clear, &runtime);
        }
    }
}

/// The broker's ends.
struct OwnEnds {
    control: UnixStream,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    info: pipe::Receiver,
    block: PipeWriter,
}

fn ends(template: &Template) -> Result<(OwnEnds, ChildEnds), JailError> {
    let init = std::fs::File::open(&template.init).map_err(|_| JailError::Missing {
        program: "sandbox-init",
        path: template.init.to_string(),
    })?;
    let (control, control_inside) = std::os::unix::net::UnixStream::pair()?;
    control.set_nonblocking(true)?;
    let receiver = |reader: PipeReader| pipe::Receiver::from_owned_fd(reader.into());
    let (stdout, stdout_inside) = io::pipe()?;
    let (stderr, stderr_inside) = io::pipe()?;
    let (info, info_inside) = io::pipe()?;
    let (block_inside, block) = io::pipe()?;
    Ok((
        OwnEnds {
            control: UnixStream::from_std(control)?,
            stdout: receiver(stdout)?,
            stderr: receiver(stderr)?,
            info: receiver(info)?,
            block,
        },
        ChildEnds {
            control: control_inside.into(),
            stdout: stdout_inside.into(),
            stderr: stderr_inside.into(),
            init: init.into(),
            info: info_inside.into(),
            block: block_inside.into(),
        },
    ))
}

impl Jail {
    /// Starts a jail and waits until Python in it is ready for code.
    pub async fn start(
        template: &Template,
        access: Option<&Access>,
        spawner: &Spawner,
        cgroups: &Cgroups,
        name: &str,
    ) -> Result<Self, JailError> {
        timeout(
            START_LIMIT,
            Self::start_slowly(template, access, spawner, cgroups, name),
        )
        .await
        .unwrap_or(Err(JailError::TooSlow))
    }

    async fn start_slowly(
        template: &Template,
        access: Option<&Access>,
        spawner: &Spawner,
        cgroups: &Cgroups,
        name: &str,
    ) -> Result<Self, JailError> {
        let (mut own, child_ends) = ends(template)?;
        let command = template.command(child_ends, rlimits(&template.limits, cgroups), access);
        let child = spawner.spawn(command).await.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                JailError::Missing {
                    program: "bubblewrap",
                    path: template.bwrap.to_string(),
                }
            } else {
                error.into()
            }
        })?;
        let Some(pid) = child_pid(&mut own.info).await else {
            return Err(JailError::Bubblewrap(last_words(&mut own.stderr).await));
        };
        let lifeline = match Lifeline::to(pid) {
            Err(error) if has_ended(&error) => {
                return Err(JailError::Bubblewrap(last_words(&mut own.stderr).await));
            }
            lifeline => lifeline?,
        };
        let mut body = Body {
            lifeline,
            groups: None,
            child: Some(child),
            clearing: spawner.clearing(),
        };
        match cgroups.enclose(name, &template.limits, pid) {
            Ok(groups) => body.groups = Some(groups),
            Err(error) if has_ended(&error) => {
                return Err(JailError::Bubblewrap(last_words(&mut own.stderr).await));
            }
            Err(error) => return Err(JailError::Groups(error.to_string())),
        }
        match own.block.write_all(b"!") {
            Err(error) if has_ended(&error) => {
                return Err(JailError::Bubblewrap(last_words(&mut own.stderr).await));
            }
            told => told?,
        }
        drop(own.block);
        let mut jail = Self {
            control: Control::new(own.control),
            stdout: own.stdout,
            stderr: own.stderr,
            body,
            limits: template.limits,
        };
        jail.until_ready().await?;
        Ok(jail)
    }

    async fn until_ready(&mut self) -> Result<(), JailError> {
        match self.control.next().await {
            Some(Report::Locked) => {}
            Some(Report::Failed(reason)) => return Err(JailError::LockDown(reason)),
            _ => return Err(JailError::Bubblewrap(last_words(&mut self.stderr).await)),
        }
        // Nothing of a snippet is in the jail yet, so this byte can only be the bootstrap's.
        match self.stdout.read_u8().await {
            Ok(6) => Ok(()),
            _ => Err(JailError::LockDown(last_words(&mut self.stderr).await)),
        }
    }

    pub(crate) fn lifeline(&self) -> Lifeline {
        self.body.lifeline.clone()
    }
}

/// A jail that fails before its first instruction is gone before it can be put into its groups or told to go on;
/// then bubblewrap knows why.
fn has_ended(error: &io::Error) -> bool {
    use rustix::io::Errno;

    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::PIPE))
}

/// What the init of a container limits, behind the engine's own limits.
pub(crate) fn container_rlimits(limits: &Limits) -> String {
    Rlimits {
        address_space: limits.memory_bytes.saturating_mul(ADDRESS_SPACE_FACTOR),
        processes: limits.pids,
        open_files: limits.open_files,
        file_size: limits.tmp_bytes,
        cpu_seconds: limits.cpu_seconds,
        tmp_bytes: limits.tmp_bytes,
        tmp_files: limits.tmp_files,
    }
    .to_string()
}

fn rlimits(limits: &Limits, cgroups: &Cgroups) -> Rlimits {
    // Where a cgroup holds a limit, the rlimit is only a backstop: the cgroup counts what it refuses.
    let backstop = |controller, limit: u64, factor: u64| {
        if cgroups.holds(controller) {
            limit.saturating_mul(factor)
        } else {
            limit
        }
    };
    Rlimits {
        address_space: backstop(
            Controller::Memory,
            limits.memory_bytes,
            ADDRESS_SPACE_FACTOR,
        ),
        processes: backstop(Controller::Pids, limits.pids, 2),
        open_files: limits.open_files,
        file_size: limits.tmp_bytes,
        cpu_seconds: limits.cpu_seconds,
        tmp_bytes: limits.tmp_bytes,
        tmp_files: limits.tmp_files,
    }
}

/// bubblewrap writes one small JSON object with the process id of the init.
async fn child_pid(info: &mut pipe::Receiver) -> Option<i32> {
    #[derive(serde::Deserialize)]
    struct Info {
        #[serde(rename = "child-pid")]
        child_pid: i32,
    }
    let mut text = Vec::new();
    while !text.contains(&b'}') && text.len() < 1024 {
        if info.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
    serde_json::from_slice::<Info>(&text)
        .ok()
        .map(|info| info.child_pid)
}

async fn last_words(stderr: &mut pipe::Receiver) -> String {
    let mut words = Vec::new();
    // A jail that fails ends, and so does its output; one that does not is not waited for.
    let _ = timeout(
        Duration::from_secs(1),
        stderr.take(LAST_WORDS).read_to_end(&mut words),
    )
    .await;
    let words = String::from_utf8_lossy(&words);
    match words.trim() {
        "" => "it said nothing".to_owned(),
        words => words.trim_start_matches("bwrap: ").to_owned(),
    }
}
