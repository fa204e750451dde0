//! One run in one jail: a task in, output out, one truthful end.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    sync::mpsc::UnboundedSender,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Chunk, Finished, Jail, Limits, Outcome, OutputStream, StartFailure, Task, Totals,
    cgroup::JailGroups,
    output::Output,
    process::{Body, Control},
    report::Report,
};

/// How long a jail may take to swallow its code.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long an ended or killed jail may take to close its output and go.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const READ_SIZE: usize = 64 * 1024;

/// What a request may choose about its run.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// When the jail is killed, counted from the moment the code is sent.
    pub timeout: Duration,
    /// Bytes of output that are passed on, both streams together.
    pub output_cap: usize,
}

/// Why the broker killed a jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    TimedOut,
    Cancelled,
}

/// How it came to an end, as far as the broker saw.
#[derive(Debug, Default)]
struct End {
    report: Option<Report>,
    kill: Option<Kill>,
}

impl Jail {
    /// Runs `task` and uses the jail up. `cancel` kills it. The listener on `chunks` cannot hold the run up:
    /// all chunks together fit the output cap.
    pub async fn run(
        self,
        task: &Task,
        limits: RunLimits,
        chunks: &UnboundedSender<Chunk>,
        cancel: &CancellationToken,
    ) -> Finished {
        let Self {
            mut control,
            stdout,
            stderr,
            body,
            limits: machine,
        } = self;
        let started = Instant::now();
        match timeout(SEND_LIMIT, send(&mut control, task)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return not_taken(&error.to_string()),
            Err(_) => return not_taken("it does not read"),
        }
        let mut output = Output::new(limits.output_cap, chunks);
        let mut sources = (Source::new(stdout), Source::new(stderr));
        let deadline = started + limits.timeout;
        let end = follow(
            &mut control,
            &mut sources,
            &mut output,
            &body,
            deadline,
            cancel,
        )
        .await;
        if end.kill.is_some() && timeout(CLOSE_LIMIT, body.lifeline.gone()).await.is_err() {
            tracing::error!("a killed jail is still there");
        }
        let totals = Totals {
            elapsed: started.elapsed(),
            peak_memory_bytes: body.groups.as_ref().and_then(JailGroups::peak_memory),
            oom_kills: body.groups.as_ref().and_then(JailGroups::oom_kills),
            pids_refused: body.groups.as_ref().and_then(JailGroups::pids_refused),
            ..output.finish()
        };
        Finished {
            outcome: judge(end, &totals, limits, &machine),
            totals,
        }
    }
}

fn not_taken(reason: &str) -> Finished {
    Finished::not_started(StartFailure::Jail {
        reason: format!("the jail did not take its task: {reason}"),
    })
}

async fn send(control: &mut Control, task: &Task) -> std::io::Result<()> {
    let bytes = task.to_bytes()?;
    let length =
        u32::try_from(bytes.len()).map_err(|_| std::io::Error::other("the task is too long"))?;
    control.writer.write_all(&length.to_be_bytes()).await?;
    control.writer.write_all(&bytes).await
}

/// Passes output on until the jail has reported, or is killed and gone.
async fn follow(
    control: &mut Control,
    (stdout, stderr): &mut (Source, Source),
    output: &mut Output<'_>,
    body: &Body,
    deadline: Instant,
    cancel: &CancellationToken,
) -> End {
    let mut end = End::default();
    let mut listening = true;
    let mut give_up = None;
    while listening || stdout.open || stderr.open {
        let running = end.report.is_none() && end.kill.is_none() && listening;
        let kill = tokio::select! {
            count = stdout.read(), if stdout.open => {
                output.take(OutputStream::Stdout, stdout.filled(count));
                continue;
            }
            count = stderr.read(), if stderr.open => {
                output.take(OutputStream::Stderr, stderr.filled(count));
                continue;
            }
            report = control.next(), if listening => {
                listening = false;
                if report.is_some() {
                    // Nobody in the jail is left to write, so what is in the pipes is all there will be. Their
                    // end comes later, when bubblewrap has gone too.
                    stdout.drain(|data| output.take(OutputStream::Stdout, data));
                    stderr.drain(|data| output.take(OutputStream::Stderr, data));
                    end.report = report;
                    break;
                }
                give_up.get_or_insert_with(|| Instant::now() + CLOSE_LIMIT);
                continue;
            }
            () = sleep_until(output.due()) => {
                output.flush();
                continue;
            }
            () = sleep_until(give_up.unwrap_or(deadline)), if give_up.is_some() => break,
            () = sleep_until(deadline), if running => Kill::TimedOut,
            () = cancel.cancelled(), if running => Kill::Cancelled,
        };
        end.kill = Some(kill);
        body.lifeline.kill();
        give_up.get_or_insert_with(|| Instant::now() + CLOSE_LIMIT);
    }
    end
}

/// What the broker saw, in one word. A report counts more than a kill: it was sent before.
fn judge(end: End, totals: &Totals, limits: RunLimits, machine: &Limits) -> Outcome {
    let out_of_memory = totals.oom_kills.is_some_and(|kills| kills > 0);
    match (end.report, end.kill) {
        (Some(Report::Exited(code)), _) => Outcome::Exited { code },
        (Some(Report::NotStarted(reason)), _) => Outcome::StartFailed {
            failure: StartFailure::Jail { reason },
        },
        (Some(Report::Signalled(9)) | None, None) if out_of_memory => Outcome::OutOfMemory {
            limit_bytes: machine.memory_bytes,
        },
        (Some(Report::Signalled(signal)), _) => Outcome::Signalled { signal },
        (_, Some(Kill::TimedOut)) => Outcome::TimedOut {
            after: limits.timeout,
        },
        (_, Some(Kill::Cancelled)) => Outcome::Cancelled,
        (Some(Report::Failed(reason)), None) => Outcome::Lost { reason },
        (Some(Report::Locked | Report::Stands { .. }) | None, None) => Outcome::Lost {
            reason: "the jail ended without a report".to_owned(),
        },
    }
}

/// One output pipe and the room to read it.
struct Source {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
    open: bool,
}

impl Source {
    fn new(pipe: pipe::Receiver) -> Self {
        Self {
            pipe,
            buffer: vec![0; READ_SIZE],
            open: true,
        }
    }

    async fn read(&mut self) -> usize {
        let count = self.pipe.read(&mut self.buffer).await.unwrap_or(0);
        self.open = count > 0;
        count
    }

    /// Takes what is there now. It asks the kernel itself: the runtime may not have heard of it yet.
    fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        while let Ok(count @ 1..) = rustix::io::read(&self.pipe, &mut self.buffer) {
            take(self.filled(count));
        }
    }

    fn filled(&self, count: usize) -> &[u8] {
        self.buffer.get(..count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(report: Option<Report>, kill: Option<Kill>, oom_kills: Option<u64>) -> Outcome {
        let limits = RunLimits {
            timeout: Duration::from_secs(1),
            output_cap: 1,
        };
        let totals = Totals {
            oom_kills,
            ..Totals::default()
        };
        judge(End { report, kill }, &totals, limits, &Limits::default())
    }

    #[test]
    fn only_the_groups_count_makes_it_out_of_memory() {
        let limit_bytes = Limits::default().memory_bytes;
        assert_eq!(
            judged(Some(Report::Signalled(9)), None, Some(1)),
            Outcome::OutOfMemory { limit_bytes }
        );
        assert_eq!(
            judged(None, None, Some(1)),
            Outcome::OutOfMemory { limit_bytes }
        );
        assert_eq!(
            judged(Some(Report::Signalled(9)), None, None),
            Outcome::Signalled { signal: 9 }
        );
        // A child was killed and the snippet went on.
        assert_eq!(
            judged(Some(Report::Exited(0)), None, Some(1)),
            Outcome::Exited { code: 0 }
        );
        assert!(matches!(judged(None, None, Some(0)), Outcome::Lost { .. }));
    }

    #[test]
    fn what_ended_by_itself_was_not_killed() {
        assert_eq!(
            judged(Some(Report::Exited(0)), Some(Kill::TimedOut), None),
            Outcome::Exited { code: 0 }
        );
        assert!(matches!(
            judged(None, Some(Kill::TimedOut), Some(3)),
            Outcome::TimedOut { .. }
        ));
    }
}
