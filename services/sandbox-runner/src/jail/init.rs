//! Process 1 inside the jail: locks itself in, starts Python, runs one task in it or in its place, and reports
//! truthfully how that ended.
//!
//! The only way to report is a socket on its standard input. Python gets another standard input, and
//! this process is not dumpable, so nothing inside can reach the socket: not through `/proc/1/fd`, not by
//! `ptrace`, not by a signal (the kernel shields process 1 from its own namespace).
//!
//! It has one thread. The kernel's shield has a gap: a signal that one thread of process 1 has blocked, as
//! the C library does for moments of its own, is fatal when another thread has not.
//!
//! Descriptors that the broker was started with by accident may come this far. The bootstrap closes them
//! in Python before it asks for code; here they are as much out of reach as the socket.
//!
//! Order matters: mounts need the two capabilities that bubblewrap left, then they go for good, and the
//! system call filter comes last, before any other process exists.

use std::{
    fmt,
    io::{self, Read, Write},
    os::fd::AsFd,
    os::unix::net::UnixStream,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    str::FromStr,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    mount::{MountFlags, mount_remount},
    process::{
        DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus,
        getrlimit, kill_process_group, pidfd_open, set_dumpable_behavior,
        set_parent_process_death_signal, setrlimit, wait,
    },
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    },
};

use super::{report::Report, seccomp, task::Task};

mod container;
mod program;
mod usage;

pub(crate) use container::MODE as CONTAINER_MODE;

const BOOTSTRAP: &str = include_str!("bootstrap.py");
/// How the broker and a person tell that the init, not the snippet, gave up.
const GAVE_UP: u8 = 70;

/// The limits that the init sets, as its arguments carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rlimits {
    /// Bytes of address space per process.
    pub(crate) address_space: u64,
    /// Processes and threads in the jail's user namespace.
    pub(crate) processes: u64,
    /// Open files per process.
    pub(crate) open_files: u64,
    /// Bytes per file.
    pub(crate) file_size: u64,
    /// Seconds of CPU per process.
    pub(crate) cpu_seconds: u64,
    /// Bytes in `/tmp`.
    pub(crate) tmp_bytes: u64,
    /// Files in `/tmp`.
    pub(crate) tmp_files: u64,
}

impl fmt::Display for Rlimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address_space,
            processes,
            open_files,
            file_size,
            cpu_seconds,
            tmp_bytes,
            tmp_files,
        } = self;
        write!(
            f,
            "{address_space},{processes},{open_files},{file_size},{cpu_seconds},{tmp_bytes},{tmp_files}"
        )
    }
}

impl FromStr for Rlimits {
    type Err = InitError;

    fn from_str(text: &str) -> Result<Self, InitError> {
        let mut numbers = text.split(',').map(str::parse);
        let mut next = || match numbers.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(InitError::Usage),
        };
        Ok(Self {
            address_space: next()?,
            processes: next()?,
            open_files: next()?,
            file_size: next()?,
            cpu_seconds: next()?,
            tmp_bytes: next()?,
            tmp_files: next()?,
        })
    }
}

/// Why the jail could not be locked down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// Not started by the broker.
    #[error("sandbox-init is started by the broker, not by hand")]
    Usage,
    /// One step of the lock-down failed.
    #[error("could not {step}: {source}")]
    Step {
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Python ended while it waited.
    #[error("Python ended before it was used")]
    Unused,
    /// The system call filter.
    #[error("could not build the system call filter: {0}")]
    Filter(#[from] seccomp::FilterError),
    /// The system call filter.
    #[error("could not install the system call filter: {0}")]
    Install(#[from] seccompiler::Error),
    /// Python is not there, or cannot be run.
    #[error("could not start Python at {path}: {source}")]
    Python {
        /// Where it was looked for.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
}

fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> InitError {
    move |source| InitError::Step {
        step,
        source: source.into(),
    }
}

/// Runs the init. `arguments`: the path of Python and the limits, as [`Rlimits`] prints them; in a container
/// the word `container` comes first.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == CONTAINER_MODE).is_some() {
        return container::main(arguments);
    }
    let Ok(control) = io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(UnixStream::from)
    else {
        return ExitCode::from(GAVE_UP);
    };
    let report = match locked_down(arguments) {
        Ok((python, input)) => match serve(&control, &python, input) {
            Ok(report) => report,
            Err(error) => Report::Failed(error.to_string()),
        },
        Err(error) => Report::Failed(error.to_string()),
    };
    match tell(&control, &report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(GAVE_UP),
    }
}

fn tell(mut control: &UnixStream, report: &Report) -> io::Result<()> {
    control.write_all(format!("{report}\n").as_bytes())
}

fn locked_down(
    mut arguments: impl Iterator<Item = String>,
) -> Result<(Child, ChildStdin), InitError> {
    let (Some(python), Some(limits)) = (arguments.next(), arguments.next()) else {
        return Err(InitError::Usage);
    };
    let limits: Rlimits = limits.parse()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("hide process 1"))?;
    seal_tmp(&limits)?;
    drop_privileges()?;
    forget_privileges()?;
    // Capabilities that go can take this with them, so it is asked for again.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(step("die with the broker"))?;
    limit(&limits)?;
    limit_processes(limits.processes)?;
    filter_calls()?;
    start_python(&python, Stdio::inherit)
}

fn filter_calls() -> Result<(), InitError> {
    for program in seccomp::programs()? {
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

fn seal_tmp(limits: &Rlimits) -> Result<(), InitError> {
    let options = format!("size={},nr_inodes={}", limits.tmp_bytes, limits.tmp_files);
    mount_remount(
        "/tmp",
        MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV,
        options.as_str(),
    )
    .map_err(step("make /tmp noexec"))
}

fn drop_privileges() -> Result<(), InitError> {
    clear_ambient_capability_set().map_err(step("drop ambient capabilities"))?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP] {
        remove_capability_from_bounding_set(capability)
            .map_err(step("empty the capability bounding set"))?;
    }
    Ok(())
}

/// Gives up what privileges there are, and the ways to new ones. Needs none itself.
fn forget_privileges() -> Result<(), InitError> {
    set_no_new_privs(true).map_err(step("set no_new_privs"))?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
    .map_err(step("drop capabilities"))
}

fn limit(limits: &Rlimits) -> Result<(), InitError> {
    for (resource, value) in [
        (Resource::As, limits.address_space),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
    ] {
        set_both(resource, value)?;
    }
    Ok(())
}

/// Apart from the others: the kernel counts processes for each user of a user namespace. A jail has a
/// namespace of its own; containers share the host's, and this would count all of them together.
fn limit_processes(value: u64) -> Result<(), InitError> {
    set_both(Resource::Nproc, value)
}

/// One that is as low already is left alone: gVisor refuses to set some, and has them from the engine.
fn set_both(resource: Resource, value: u64) -> Result<(), InitError> {
    if getrlimit(resource).maximum.is_some_and(|now| now <= value) {
        return Ok(());
    }
    let both = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(resource, both).map_err(step("set resource limits"))
}

#[expect(clippy::disallowed_methods, reason = "it exists to start Python")]
fn start_python(path: &str, output: fn() -> Stdio) -> Result<(Child, ChildStdin), InitError> {
    let failed = |source| InitError::Python {
        path: path.to_owned(),
        source,
    };
    let mut python = Command::new(path)
        .args(["-I", "-B", "-c", BOOTSTRAP])
        .stdin(Stdio::piped())
        .stdout(output())
        .stderr(output())
        .spawn()
        .map_err(failed)?;
    let input = python
        .stdin
        .take()
        .ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
    Ok((python, input))
}

/// Takes one task and waits for it to end; empties the jail before it says how.
fn serve(control: &UnixStream, python: &Child, mut input: ChildStdin) -> Result<Report, InitError> {
    let python = pid(python)?;
    tell(control, &Report::Locked).map_err(step("report"))?;
    wait_for_code(control, python)?;
    let main = match read_task(control).map_err(step("read the task"))? {
        task @ (Task::Python(_) | Task::Fixed { .. }) => {
            if let Some(said) = task.for_python() {
                // A Python that has ended already is reported below.
                let _ = input.write_all(&said);
            }
            drop(input);
            python
        }
        Task::Command(start) => {
            drop(input);
            empty_the_jail();
            match program::start(&start, Stdio::inherit) {
                Ok(child) => pid(&child)?,
                Err(error) => return Ok(not_started(&start.argv, &error)),
            }
        }
    };
    let status = reap_until(main).map_err(step("wait for the end"))?;
    empty_the_jail();
    Ok(ended(Some(status)))
}

fn pid(child: &Child) -> Result<Pid, InitError> {
    let number = i32::try_from(child.id()).ok();
    number.and_then(Pid::from_raw).ok_or(InitError::Usage)
}

fn not_started(argv: &[String], error: &io::Error) -> Report {
    let program = argv.first().map_or("nothing", String::as_str);
    Report::NotStarted(format!("{program} could not be started: {error}"))
}

fn ended(status: Option<WaitStatus>) -> Report {
    match (
        status.and_then(WaitStatus::exit_status),
        status.and_then(WaitStatus::terminating_signal),
    ) {
        (Some(code), _) => Report::Exited(code),
        (None, Some(signal)) => Report::Signalled(signal),
        (None, None) => Report::Failed("it ended in no known way".to_owned()),
    }
}

/// Notices a Python that dies while nobody has come for it.
fn wait_for_code(control: &UnixStream, main: Pid) -> Result<(), InitError> {
    let python = pidfd_open(main, PidfdFlags::empty()).map_err(step("watch Python"))?;
    let mut sources = [
        PollFd::new(control, PollFlags::IN),
        PollFd::new(&python, PollFlags::IN),
    ];
    loop {
        match poll(&mut sources, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(step("wait for code")(error)),
        }
    }
    let [_, python] = sources;
    if python.revents().is_empty() {
        Ok(())
    } else {
        Err(InitError::Unused)
    }
}

/// Reads one task with the length before it.
fn read_task(mut control: &UnixStream) -> io::Result<Task> {
    let mut length = [0_u8; 4];
    control.read_exact(&mut length)?;
    let mut bytes = Vec::new();
    control
        .take(u64::from(u32::from_be_bytes(length)))
        .read_to_end(&mut bytes)?;
    Task::parse(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reaps whatever ends, orphans of the snippet included, until `main` does.
fn reap_until(main: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => return Ok(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills and reaps all that is left. "Process group 1" is how `kill(2)` spells "every process but me".
fn empty_the_jail() {
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
    while !matches!(wait(WaitOptions::empty()), Err(rustix::io::Errno::CHILD)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_survive_the_command_line() {
        let limits = Rlimits {
            address_space: 1,
            processes: 2,
            open_files: 3,
            file_size: 4,
            cpu_seconds: 5,
            tmp_bytes: 6,
            tmp_files: 7,
        };
        assert_eq!(limits.to_string().parse::<Rlimits>().unwrap(), limits);
        assert!("1,2,3".parse::<Rlimits>().is_err());
    }
}
