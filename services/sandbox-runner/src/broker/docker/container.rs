//! One container: started and waiting, then used once, then gone.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bollard::container::LogOutput;
use bytes::BytesMut;
use futures_util::{Stream, StreamExt, future::BoxFuture};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    runtime::Handle,
    sync::{mpsc, mpsc::UnboundedSender},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    engine::{Engine, Name},
    error::EngineError,
    guard,
    template::Blueprint,
};
use crate::{
    broker::{Chunk, Finished, Outcome, OutputStream, StartFailure, Totals, workshop::Made},
    jail::{
        Access, Limits, Output, RunLimits, Task,
        frame::{self, Frame, Key, Order},
        report::Report,
    },
};

/// A container that does not come up by then never will. A start alone may take [`super::error::Step::Start`].
const READY_LIMIT: Duration = Duration::from_secs(45);
/// How long a container may take to swallow its code.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long an ended or killed container may take to close its output.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// Frames that wait for the run to take them. The run always takes them at once.
const FRAMES: usize = 64;
/// Bytes of what a container said that did not come up.
const LAST_WORDS: usize = 2048;

type Bytestream = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// The names of the containers that this broker knows of. What the engine has beyond them is a stray.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<std::collections::HashSet<Name>>>);

impl Known {
    pub(super) fn add(&self, name: &Name) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone());
    }

    fn forget(&self, name: &Name) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Whether one of these, as the engine writes names, is known.
    pub(super) fn has(&self, names: &[String]) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().any(|listed| {
            let listed = listed.trim_start_matches('/');
            known.iter().any(|name| name.as_str() == listed)
        })
    }
}

/// What a container is made with.
#[derive(Debug, Clone)]
pub(super) struct Makings {
    pub(super) engine: Engine,
    pub(super) blueprint: Arc<Blueprint>,
    /// What of the workspace it may write.
    pub(super) access: Option<Access>,
    pub(super) known: Known,
    pub(super) tracker: TaskTracker,
    /// Device and inode of the workspace as the broker sees it; none where containers see others.
    pub(super) workspace: Option<(u64, u64)>,
    /// What its init shows its reports by.
    pub(super) key: Key,
    /// What a container without a report is likely to have met.
    pub(super) hint: &'static str,
}

/// A started, locked-down container with an initialised Python that has run nothing.
pub(super) struct Container {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    frames: mpsc::Receiver<Frame>,
    body: Body,
    blueprint: Arc<Blueprint>,
    hint: &'static str,
    key: Key,
    /// The key that reports must carry, as the reader knows it.
    agreed: Arc<OnceLock<Key>>,
}

/// What must be cleared away after a container, whatever became of it. It is there before the container is,
/// so that a create whose answer never came is cleared away too.
struct Body {
    engine: Engine,
    name: Name,
    known: Known,
    tracker: TaskTracker,
    /// Lets go of the attached stream. An engine stalls on a reader who holds it and does not read.
    detach: CancellationToken,
    /// The stream has ended.
    gone: CancellationToken,
    /// The init has reported; the engine's word comes after.
    reported: bool,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.detach.cancel();
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (engine, name, known) = (self.engine.clone(), self.name.clone(), self.known.clone());
        let (gone, reported) = (self.gone.clone(), self.reported);
        let clear = async move {
            gone.cancelled().await;
            if reported {
                confirm(&engine, &name).await;
            }
            if let Err(error) = engine.remove(&name).await {
                tracing::warn!(container = name.as_str(), %error, "not removed; the reaper tries again");
            }
            // Known no more, so that the reaper takes one that is still there for a stray.
            known.forget(&name);
        };
        self.tracker.spawn_on(clear, &runtime);
    }
}

/// The engine's word on an end that the init has reported already.
async fn confirm(engine: &Engine, name: &Name) {
    match engine.wait(name).await {
        Ok(0) => {}
        Ok(code) => {
            tracing::warn!(
                container = name.as_str(),
                code,
                "the init reported, and ended badly"
            );
        }
        Err(error) => {
            tracing::debug!(container = name.as_str(), %error, "the end was not confirmed");
        }
    }
}

impl Container {
    /// Makes a container and waits until Python in it is ready for code.
    pub(super) async fn start(
        makings: Makings,
        name: Name,
        deadline: i64,
    ) -> Result<Self, EngineError> {
        let Makings {
            engine,
            blueprint,
            access,
            known,
            tracker,
            workspace,
            key,
            hint,
        } = makings;
        known.add(&name);
        let (detach, gone) = (CancellationToken::new(), CancellationToken::new());
        let body = Body {
            engine: engine.clone(),
            name: name.clone(),
            known,
            tracker: tracker.clone(),
            detach: detach.clone(),
            gone: gone.clone(),
            reported: false,
        };
        // Cancelled also when something below fails before there is a stream.
        let unattached = gone.clone().drop_guard();
        engine
            .create(
                &name,
                blueprint.body(deadline, access.as_ref()),
                &policy(&blueprint, access.as_ref()),
            )
            .await?;
        let attached = engine.attach(&name).await?;
        let (frames, inbox) = mpsc::channel(FRAMES);
        let words = Arc::new(Mutex::new(Vec::new()));
        let agreed = Arc::new(OnceLock::new());
        let pump = pump(
            attached.output,
            frames,
            Arc::clone(&words),
            Arc::clone(&agreed),
        );
        unattached.disarm();
        tracker.spawn(async move {
            detach.run_until_cancelled(pump).await;
            gone.cancel();
        });
        let mut container = Self {
            input: attached.input,
            frames: inbox,
            body,
            blueprint: Arc::clone(&blueprint),
            hint,
            key,
            agreed,
        };
        engine.start(&name).await?;
        let ready = container.until_ready(workspace);
        match timeout(READY_LIMIT, ready).await {
            Ok(Ok(())) => Ok(container),
            Ok(Err(None)) => Err(EngineError::LockDown(said(&words))),
            Ok(Err(Some(error))) => Err(error),
            Err(_) => Err(EngineError::LockDown(format!(
                "it was not ready within {} seconds",
                READY_LIMIT.as_secs()
            ))),
        }
    }

    async fn until_ready(
        &mut self,
        workspace: Option<(u64, u64)>,
    ) -> Result<(), Option<EngineError>> {
        let mut locked = false;
        while let Some(frame) = self.frames.recv().await {
            match frame {
                Frame::Report(Report::Stands { device, inode }) => {
                    if workspace.is_some_and(|ours| ours != (device, inode)) {
                        return Err(Some(EngineError::OtherWorkspace));
                    }
                }
                Frame::Report(Report::Locked) => locked = true,
                Frame::Report(Report::Failed(reason)) => {
                    return Err(Some(EngineError::LockDown(reason)));
                }
                // Nothing of a snippet is in there yet, so this byte can only be the bootstrap's.
                Frame::Output(OutputStream::Stdout, data) if locked && data == [6_u8][..] => {
                    return Ok(());
                }
                _ => return Err(None),
            }
        }
        Err(None)
    }
}

fn policy<'a>(blueprint: &'a Blueprint, access: Option<&'a Access>) -> guard::Policy<'a> {
    guard::Policy {
        writer: access.map(|access| access.writer),
        writable: access.map_or(&[], |access| &access.folders),
        image_id: &blueprint.image_id,
        workspace: &blueprint.workspace,
        source: &blueprint.source,
        engine_spreads: blueprint.engine_spreads,
        runtime: &blueprint.runtime,
        owner: &blueprint.owner,
        kind: blueprint.kind,
        most: &blueprint.limits,
    }
}

fn said(words: &Mutex<Vec<u8>>) -> String {
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    match String::from_utf8_lossy(&words).trim() {
        "" => "it said nothing".to_owned(),
        words => words.to_owned(),
    }
}

/// Reads what the container says until it ends, says something that is no frame, or nobody listens.
///
/// It waits for nobody but a run, and a run takes every frame at once: it drops what is over its cap. So
/// the engine is never kept from writing.
async fn pump(
    mut stream: Bytestream,
    frames: mpsc::Sender<Frame>,
    words: Arc<Mutex<Vec<u8>>>,
    agreed: Arc<OnceLock<Key>>,
) {
    let mut buffer = BytesMut::new();
    while let Some(Ok(output)) = stream.next().await {
        match output {
            LogOutput::StdOut { message } => buffer.extend_from_slice(&message),
            LogOutput::StdErr { message } => {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                let room = LAST_WORDS.saturating_sub(words.len());
                words.extend_from_slice(message.get(..room).unwrap_or(&message));
            }
            // Not of a container without a terminal.
            LogOutput::StdIn { .. } | LogOutput::Console { .. } => return,
        }
        loop {
            match frame::next(&mut buffer, agreed.get().copied().unwrap_or_default()) {
                Ok(Some(frame)) => {
                    if frames.send(frame).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "a container was given up");
                    return;
                }
            }
        }
    }
}

/// Why the broker killed a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    TimedOut,
    Cancelled,
}

/// How it came to an end, as far as the broker saw.
#[derive(Debug, Default)]
struct End {
    report: Option<Report>,
    totals: Option<frame::Totals>,
    kill: Option<Kill>,
}

impl Made for Container {
    fn image(&self) -> Option<&str> {
        Some(&self.blueprint.image_id)
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let gone = self.body.gone.clone();
        Box::pin(async move { gone.cancelled().await })
    }

    async fn run(
        mut self,
        task: &Task,
        limits: RunLimits,
        chunks: &UnboundedSender<Chunk>,
        cancel: &CancellationToken,
    ) -> Finished {
        let started = Instant::now();
        match timeout(SEND_LIMIT, self.send(task, limits)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return not_taken(&error.to_string()),
            Err(_) => return not_taken("it does not read"),
        }
        let mut output = Output::new(limits.output_cap, chunks);
        let end = self
            .follow(&mut output, started + limits.timeout, cancel)
            .await;
        let elapsed = started.elapsed();
        let totals = counted(output.finish(), end.totals, elapsed);
        let outcome =
            if let Some(outcome) = known_end(&end, &totals, limits, &self.blueprint.limits) {
                outcome
            } else {
                let (engine, name) = (self.body.engine.clone(), self.body.name.clone());
                ask(&engine, &name, &self.blueprint.limits.clone(), self.hint).await
            };
        Finished { outcome, totals }
    }
}

impl Container {
    async fn send(&mut self, task: &Task, limits: RunLimits) -> std::io::Result<()> {
        let task = task.to_bytes()?;
        let short = |number: usize| u32::try_from(number).map_err(std::io::Error::other);
        // From here on, before a snippet is in there.
        let key = *self.agreed.get_or_init(|| self.key);
        let order = Order {
            key,
            task_bytes: short(task.len())?,
            timeout_ms: u32::try_from(limits.timeout.as_millis()).unwrap_or(u32::MAX),
            output_cap: short(limits.output_cap)?,
        };
        let mut message = BytesMut::from(&order.to_bytes()[..]);
        message.extend_from_slice(&task);
        self.input.write_all(&message).await?;
        self.input.flush().await
    }

    /// Passes output on until the init has reported, or the container is killed and gone.
    async fn follow(
        &mut self,
        output: &mut Output<'_>,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> End {
        let mut end = End::default();
        let mut give_up = None;
        loop {
            let running = end.kill.is_none();
            let kill = tokio::select! {
                frame = self.frames.recv() => {
                    match frame {
                        Some(Frame::Output(stream, data)) => output.take(stream, &data),
                        Some(Frame::Totals(totals)) => end.totals = Some(totals),
                        Some(Frame::Report(report)) => {
                            end.report = Some(report);
                            self.body.reported = true;
                            return end;
                        }
                        None => return end,
                    }
                    continue;
                }
                () = sleep_until(output.due()) => {
                    output.flush();
                    continue;
                }
                () = sleep_until(give_up.unwrap_or(deadline)), if give_up.is_some() => {
                    tracing::error!(container = self.body.name.as_str(), "a killed container is still there");
                    return end;
                }
                () = sleep_until(deadline), if running => Kill::TimedOut,
                () = cancel.cancelled(), if running => Kill::Cancelled,
            };
            end.kill = Some(kill);
            give_up = Some(Instant::now() + CLOSE_LIMIT);
            self.kill();
        }
    }

    /// Kills by name, beside the reading: an engine that cannot write does not kill either.
    fn kill(&self) {
        let (engine, name) = (self.body.engine.clone(), self.body.name.clone());
        self.body.tracker.spawn(async move {
            if let Err(error) = engine.kill(&name).await {
                tracing::warn!(container = name.as_str(), %error, "not killed; it is removed instead");
            }
        });
    }
}

/// What the engine says of a container whose init did not report.
async fn ask(engine: &Engine, name: &Name, limits: &Limits, hint: &str) -> Outcome {
    let lost = |reason: String| Outcome::Lost { reason };
    match engine.state(name).await {
        Ok(state) if state.running => {
            lost("the engine dropped the connection to its container".to_owned())
        }
        Ok(state) if state.oom_killed => Outcome::OutOfMemory {
            limit_bytes: limits.memory_bytes,
        },
        Ok(state) => Outcome::Broken {
            reason: match state.exit_code {
                137 => "its container was killed".to_owned(),
                code => format!(
                    "its container ended with code {code} before the end was reported{hint}"
                ),
            },
        },
        Err(EngineError::Missing { .. }) => {
            lost("the container was removed from outside".to_owned())
        }
        Err(error) => lost(error.to_string()),
    }
}

fn not_taken(reason: &str) -> Finished {
    Finished::not_started(StartFailure::Jail {
        reason: format!("the container did not take its task: {reason}"),
    })
}

/// What came through, with the init's count of what did not.
fn counted(mut totals: Totals, told: Option<frame::Totals>, elapsed: Duration) -> Totals {
    totals.elapsed = elapsed;
    if let Some(told) = told {
        totals.stdout_bytes = told.stdout_bytes.max(totals.stdout_bytes);
        totals.stderr_bytes = told.stderr_bytes.max(totals.stderr_bytes);
        totals.truncated =
            totals.kept_bytes < totals.stdout_bytes.saturating_add(totals.stderr_bytes);
        totals.peak_memory_bytes = told.usage.peak_memory;
        totals.oom_kills = told.usage.oom_kills;
        totals.pids_refused = told.usage.pids_refused;
    }
    totals
}

/// The end as far as the broker itself knows it. A report counts more than a kill: it was sent before.
fn known_end(end: &End, totals: &Totals, limits: RunLimits, machine: &Limits) -> Option<Outcome> {
    let out_of_memory = totals.oom_kills.is_some_and(|kills| kills > 0);
    Some(match (&end.report, end.kill) {
        (Some(Report::Exited(code)), _) => Outcome::Exited { code: *code },
        (Some(Report::NotStarted(reason)), _) => Outcome::StartFailed {
            failure: StartFailure::Jail {
                reason: reason.clone(),
            },
        },
        (Some(Report::Signalled(9)), None) if out_of_memory => Outcome::OutOfMemory {
            limit_bytes: machine.memory_bytes,
        },
        (Some(Report::Signalled(signal)), _) => Outcome::Signalled { signal: *signal },
        (_, Some(Kill::TimedOut)) => Outcome::TimedOut {
            after: limits.timeout,
        },
        (_, Some(Kill::Cancelled)) => Outcome::Cancelled,
        (Some(Report::Failed(reason)), None) => Outcome::Lost {
            reason: reason.clone(),
        },
        (Some(Report::Locked | Report::Stands { .. }), None) => Outcome::Lost {
            reason: "the init reported out of turn".to_owned(),
        },
        (None, None) => return None,
    })
}
