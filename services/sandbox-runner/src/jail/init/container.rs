//! The init as process 1 of a container.
//!
//! A container has no socket to its broker, only the three standard streams, and the engine gives those to
//! whatever runs inside. So the init keeps them: Python gets pipes, and the init passes on what comes out
//! of them in [frames](frame) that its own reports go between. What the snippet prints can
//! look like anything; it cannot become a frame. The way to the init's own streams is closed as in a jail:
//! it is process 1 and not dumpable. gVisor does not keep that promise, so reports carry a [key](frame::Key).
//!
//! The end of its standard input means that the broker is gone. Then everything here ends too, whether
//! the engine still works or not. A run that outlives its time by [`OVERTIME`] ends as well.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, ExitCode, Stdio},
    time::Duration,
};

use bytes::BytesMut;
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, WaitStatus, set_dumpable_behavior, wait,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until, timeout},
};

use super::{
    GAVE_UP, InitError, Rlimits, empty_the_jail, ended, filter_calls, forget_privileges, limit,
    not_started, pid, program, start_python, step, usage,
};
use crate::jail::{
    OutputStream,
    frame::{self, Key, Order, Totals},
    report::Report,
    task::{Start, Task},
};

/// The first argument that asks for this.
pub(crate) const MODE: &str = "container";
/// How much longer than its time a run may live here. The broker ends it on time; this is for a broker or
/// an engine that cannot.
const OVERTIME: Duration = Duration::from_secs(15);
/// How long the broker may take to hang up once it was told the end.
const FAREWELL: Duration = Duration::from_secs(20);
const READ_SIZE: usize = 32 * 1024;

/// Runs the init in a container.
pub(super) fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let Ok(mut out) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else {
        return ExitCode::from(GAVE_UP);
    };
    let told = match locked_down(arguments) {
        Ok(python) => run(python, &mut out),
        Err(error) => tell(&mut out, &Report::Failed(error.to_string())),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(GAVE_UP),
    }
}

fn tell(out: &mut File, report: &Report) -> io::Result<()> {
    out.write_all(&frame::report(Key::default(), report))
}

/// The engine has set no-new-privileges, dropped the capabilities and mounted `/tmp`; the canary checks
/// that. Here comes what the engine does not do.
fn locked_down(mut arguments: impl Iterator<Item = String>) -> Result<Child, InitError> {
    let (Some(python), Some(limits)) = (arguments.next(), arguments.next()) else {
        return Err(InitError::Usage);
    };
    let limits: Rlimits = limits.parse()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(step("hide process 1"))?;
    forget_privileges()?;
    limit(&limits)?;
    filter_calls()?;
    let (mut child, input) = start_python(&python, Stdio::piped)?;
    child.stdin = Some(input);
    Ok(child)
}

/// One thread, as in a jail.
fn run(python: Child, out: &mut File) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        let mut post = Post::open(out.as_fd().try_clone_to_owned()?)?;
        let ended = match Sandbox::open(python) {
            Ok(sandbox) => sandbox.serve(&mut post).await,
            Err(error) => Ok(Some(Report::Failed(error.to_string()))),
        };
        match ended {
            Ok(Some(report)) => post.report(&report).await?,
            Ok(None) => return Ok(()),
            Err(error) => post.report(&Report::Failed(error.to_string())).await?,
        }
        // The engine closes its side of the output as soon as this process is gone, and has lost last
        // words that way. The broker hangs up when it has them.
        let _ = timeout(FAREWELL, post.hung_up()).await;
        Ok(())
    });
    // Whoever is left ends with process 1.
    report
}

/// The way to the broker.
struct Post {
    input: pipe::Receiver,
    output: pipe::Sender,
    /// What of an order has come so far.
    inbox: BytesMut,
    key: Key,
}

impl Post {
    fn open(out: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            input: pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?,
            output: pipe::Sender::from_owned_fd(out)?,
            inbox: BytesMut::new(),
            key: Key::default(),
        })
    }

    async fn report(&mut self, report: &Report) -> io::Result<()> {
        self.output
            .write_all(&frame::report(self.key, report))
            .await
    }

    /// The order, and its task. Nothing is lost when this is dropped and called again.
    async fn order(&mut self) -> io::Result<(Order, Task)> {
        loop {
            if let Some(head) = self.inbox.first_chunk() {
                let order = Order::from_bytes(*head);
                let whole = Order::SIZE + order.task_bytes as usize;
                if self.inbox.len() >= whole {
                    let task = self.inbox.split_to(whole).split_off(Order::SIZE);
                    self.key = order.key;
                    let task = Task::parse(&task).ok_or(io::ErrorKind::InvalidData)?;
                    return Ok((order, task));
                }
            }
            if self.input.read_buf(&mut self.inbox).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits until the broker is gone. It has nothing more to say, so whatever it says is thrown away.
    async fn hung_up(&mut self) {
        let mut sink = [0_u8; 64];
        while self
            .input
            .read(&mut sink)
            .await
            .is_ok_and(|count| count > 0)
        {}
    }
}

/// One output of Python.
struct Source {
    stream: OutputStream,
    pipe: Option<pipe::Receiver>,
    buffer: Vec<u8>,
    /// Bytes read so far.
    total: u64,
    /// Bytes that may still be passed on.
    room: u64,
}

impl Source {
    fn open(stream: OutputStream, pipe: Option<impl Into<OwnedFd>>) -> io::Result<Self> {
        Ok(Self {
            stream,
            pipe: pipe
                .map(|p| pipe::Receiver::from_owned_fd(p.into()))
                .transpose()?,
            buffer: vec![0; READ_SIZE],
            total: 0,
            room: 0,
        })
    }

    async fn read(&mut self) -> usize {
        match &mut self.pipe {
            Some(pipe) => pipe.read(&mut self.buffer).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    }

    /// Passes on what was read, as far as there is room; at the end of the stream, closes.
    async fn pass_on(&mut self, count: usize, post: &mut Post) -> io::Result<()> {
        if count == 0 {
            self.pipe = None;
            return Ok(());
        }
        self.total = self.total.saturating_add(count as u64);
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(count);
        self.room = self.room.saturating_sub(fits as u64);
        match self.buffer.get(..fits) {
            Some(data) if !data.is_empty() => {
                post.output
                    .write_all(&frame::output(self.stream, data))
                    .await
            }
            _ => Ok(()),
        }
    }
}

struct Sandbox {
    /// What runs: Python, or the program in its place.
    python: Child,
    main: Pid,
    stdout: Source,
    stderr: Source,
    children: Signal,
    ended: Option<WaitStatus>,
}

/// What woke the init.
enum Woken {
    Stdout(usize),
    Stderr(usize),
    Child,
    HungUp,
    Late,
}

impl Sandbox {
    fn open(mut python: Child) -> Result<Self, InitError> {
        let main = pid(&python)?;
        let watch = step("watch Python");
        let open = |python: &mut Child| {
            Ok::<_, io::Error>((
                Source::open(OutputStream::Stdout, python.stdout.take())?,
                Source::open(OutputStream::Stderr, python.stderr.take())?,
                signal(SignalKind::child())?,
            ))
        };
        let (stdout, stderr, children) = open(&mut python).map_err(watch)?;
        Ok(Self {
            python,
            main,
            stdout,
            stderr,
            children,
            ended: None,
        })
    }

    /// Waits for a task, runs it, and says how it ended; nothing if nobody is there to be told.
    async fn serve(mut self, post: &mut Post) -> io::Result<Option<Report>> {
        // The byte by which the bootstrap says that it is ready; there is no snippet yet.
        self.stdout.room = 1;
        if let Ok(here) = rustix::fs::stat(".") {
            let (device, inode) = (here.st_dev, here.st_ino);
            post.report(&Report::Stands { device, inode }).await?;
        }
        post.report(&Report::Locked).await?;
        let (order, task) = loop {
            tokio::select! {
                order = post.order() => match order {
                    Ok(order) => break order,
                    Err(_) => return Ok(None),
                },
                count = self.stdout.read() => self.stdout.pass_on(count, post).await?,
                count = self.stderr.read() => self.stderr.pass_on(count, post).await?,
                _ = self.children.recv() => self.reap(),
            }
            if self.ended.is_some() {
                return Ok(Some(Report::Failed(InitError::Unused.to_string())));
            }
        };
        if let Task::Command(start) = &task
            && let Err(error) = self.put_in_place_of_python(start)
        {
            return Ok(Some(not_started(&start.argv, &error)));
        }
        for source in [&mut self.stdout, &mut self.stderr] {
            source.total = 0;
            source.room = u64::from(order.output_cap);
        }
        // Small enough for the pipe or not, Python reads it all before it does anything else.
        if let (Some(said), Some(mut input)) = (task.for_python(), self.python.stdin.take()) {
            let _ = input.write_all(&said);
        }
        let late = Instant::now() + Duration::from_millis(order.timeout_ms.into()) + OVERTIME;
        match timeout(
            late.saturating_duration_since(Instant::now()),
            self.follow(post, late),
        )
        .await
        {
            Ok(Ok(true)) => {}
            Ok(Err(error)) => return Err(error),
            Ok(Ok(false)) | Err(_) => return Ok(None),
        }
        empty_the_jail();
        self.last_words(post).await?;
        post.output
            .write_all(&frame::totals(
                post.key,
                &Totals {
                    stdout_bytes: self.stdout.total,
                    stderr_bytes: self.stderr.total,
                    usage: usage::read(),
                },
            ))
            .await?;
        Ok(Some(ended(self.ended)))
    }

    /// Ends Python and starts a program with pipes of its own.
    fn put_in_place_of_python(&mut self, start: &Start) -> io::Result<()> {
        empty_the_jail();
        self.python = program::start(start, Stdio::piped)?;
        self.main = pid(&self.python).map_err(io::Error::other)?;
        self.stdout = Source::open(OutputStream::Stdout, self.python.stdout.take())?;
        self.stderr = Source::open(OutputStream::Stderr, self.python.stderr.take())?;
        Ok(())
    }

    /// Passes output on until Python has ended. False if it must not go on.
    async fn follow(&mut self, post: &mut Post, late: Instant) -> io::Result<bool> {
        loop {
            self.reap();
            if self.ended.is_some() {
                return Ok(true);
            }
            let woken = tokio::select! {
                count = self.stdout.read() => Woken::Stdout(count),
                count = self.stderr.read() => Woken::Stderr(count),
                _ = self.children.recv() => Woken::Child,
                () = post.hung_up() => Woken::HungUp,
                () = sleep_until(late) => Woken::Late,
            };
            match woken {
                Woken::Stdout(count) => self.stdout.pass_on(count, post).await?,
                Woken::Stderr(count) => self.stderr.pass_on(count, post).await?,
                Woken::Child => {}
                Woken::HungUp | Woken::Late => return Ok(false),
            }
        }
    }

    /// Nobody is left to write, so both outputs have an end.
    async fn last_words(&mut self, post: &mut Post) -> io::Result<()> {
        for source in [&mut self.stdout, &mut self.stderr] {
            while source.pipe.is_some() {
                let count = source.read().await;
                source.pass_on(count, post).await?;
            }
        }
        Ok(())
    }

    /// Takes note of whatever has ended, orphans of the snippet included.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.main {
                self.ended = Some(status);
            }
        }
    }
}

/// Reads a small file of the kernel's.
pub(super) fn small_file(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(4096)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}
