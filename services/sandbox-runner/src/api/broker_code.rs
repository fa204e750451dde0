//! The broker's client as what runs code.

use futures_util::{StreamExt as _, future::BoxFuture, stream, stream::BoxStream};
use kazma_domain::{CallId, plan::Sandbox};

use super::{
    CodeError, CodeEvent, CodeRunner, CodeSpec, CodeStatus, Ended, How, Pool, Stream, Trouble,
};
use crate::broker::{
    BrokerClient, BrokerError, BrokerStatus, EnforcedBy, Finished, Limits, OUTPUT_CAP_MAX, Outcome,
    OutputStream, Readiness, RunEvent, RunSpec, StartFailure, Totals,
};
use crate::executor::Redeemed;

const MIB: u64 = 1024 * 1024;

impl CodeRunner for BrokerClient {
    fn status(&self) -> BoxFuture<'_, Result<CodeStatus, CodeError>> {
        Box::pin(async move {
            let status = BrokerClient::status(self)
                .await
                .map_err(|e| CodeError::Unreachable(e.into()))?;
            Ok(described(status))
        })
    }

    fn pool(&self) -> BoxFuture<'_, Option<Pool>> {
        Box::pin(async move {
            let status = BrokerClient::status(self).await.ok()?;
            let pool = status.pool;
            Some(Pool {
                size: pool.size,
                idle: pool.idle,
                starting: pool.starting,
                running: pool.running,
                queued: pool.queued,
                queue_bound: pool.queue_bound,
                replaced: pool.replaced,
                ready: status.readiness == Readiness::Ready,
            })
        })
    }

    fn run(
        &self,
        permit: Redeemed,
        code: CodeSpec,
    ) -> BoxFuture<'_, Result<BoxStream<'static, CodeEvent>, CodeError>> {
        Box::pin(async move {
            let spec = RunSpec {
                call_id: permit.call(),
                program: code.program,
                image: code.image,
                timeout: code.timeout,
                // The broker's cap is for both streams together.
                output_cap: code.output_cap.saturating_mul(2).min(OUTPUT_CAP_MAX),
            };
            let run = BrokerClient::run(self, spec)
                .await
                .map_err(|error| match error {
                    // Nothing was sent: then nothing ran.
                    BrokerError::Unreachable { .. } | BrokerError::Refused(_) => {
                        CodeError::Refused(error.to_string())
                    }
                    other => CodeError::Unreachable(other.into()),
                })?;
            let events = stream::unfold((run, self.clone()), |(mut run, client)| async move {
                let event = match run.next().await? {
                    RunEvent::Chunk(chunk) => CodeEvent::Output {
                        stream: match chunk.stream {
                            OutputStream::Stdout => Stream::Stdout,
                            OutputStream::Stderr => Stream::Stderr,
                        },
                        bytes: chunk.data,
                    },
                    RunEvent::Finished(finished) => {
                        let limits = client.limits_of(&finished).await;
                        CodeEvent::Ended(ended(finished, &limits))
                    }
                };
                Some((event, (run, client)))
            });
            Ok(events.boxed())
        })
    }

    fn cancel(&self, call: CallId) -> BoxFuture<'_, Result<(), CodeError>> {
        Box::pin(async move {
            BrokerClient::cancel(self, call)
                .await
                .map(drop)
                .map_err(|error| CodeError::Unreachable(error.into()))
        })
    }
}

impl BrokerClient {
    /// The limits that a remark on this end would name; only then is the broker asked for them.
    async fn limits_of(&self, finished: &Finished) -> Limits {
        if remark(&finished.outcome, &finished.totals, &Limits::default()).is_none() {
            return Limits::default();
        }
        BrokerClient::status(self)
            .await
            .map_or_else(|_| Limits::default(), |status| status.limits)
    }
}

/// What the broker says of itself, as a card says it.
fn described(status: BrokerStatus) -> CodeStatus {
    let enforcement = enforcement(&status);
    let trouble = match status.readiness {
        Readiness::Ready => None,
        Readiness::NotReady { reason, fix } => Some(Trouble {
            starting: !status.settled,
            reason,
            fix,
        }),
    };
    let runtime = match status.runtime {
        Some(runtime) => format!("{}, {runtime}", status.enforcer),
        None => status.enforcer,
    };
    CodeStatus {
        sandbox: Sandbox {
            tier: status.tier,
            runtime,
            image: status.image,
            limit: status.weakness,
            enforcement,
            network: "none".to_owned(),
            workspace: "read-only".to_owned(),
        },
        trouble,
        programs: status.programs,
        unwritable: status.unwritable,
        pool: u32::try_from(status.pool.idle).unwrap_or(u32::MAX),
        note: status.note,
    }
}

fn enforcement(status: &BrokerStatus) -> Vec<String> {
    let (limits, by) = (&status.limits, &status.enforcement);
    vec![
        format!(
            "memory {} MiB ({})",
            limits.memory_bytes / MIB,
            held(by.memory, "each process")
        ),
        format!("{} processes ({})", limits.pids, held(by.pids, "rlimit")),
        format!(
            "{} CPU ({})",
            thousandths(limits.cpu_millis),
            held(by.cpu, "by time alone")
        ),
        format!(
            "/tmp {} MiB, not executable ({})",
            limits.tmp_bytes / MIB,
            held(by.noexec, "rlimit")
        ),
        format!("system calls ({})", held(by.seccomp, "rlimit")),
        format!("no network ({})", held(by.network, "rlimit")),
    ]
}

/// By what a limit is held, in words; `rlimit` says what that means for this one.
fn held(by: EnforcedBy, rlimit: &str) -> String {
    match by {
        EnforcedBy::CgroupV1 => "cgroup v1".to_owned(),
        EnforcedBy::CgroupV2 => "cgroup v2".to_owned(),
        EnforcedBy::Rlimit if rlimit == "rlimit" => rlimit.to_owned(),
        EnforcedBy::Rlimit => format!("rlimit, {rlimit}"),
        EnforcedBy::Mount => "mount option".to_owned(),
        EnforcedBy::Filter => "seccomp".to_owned(),
        EnforcedBy::NamespaceAndFilter => "own namespace and seccomp".to_owned(),
        EnforcedBy::Nothing => "not held".to_owned(),
    }
}

fn thousandths(millis: u64) -> String {
    match millis % 1000 {
        0 => (millis / 1000).to_string(),
        rest => format!("{}.{rest:03}", millis / 1000)
            .trim_end_matches('0')
            .to_owned(),
    }
}

/// The broker's words for an end in the api's.
fn ended(finished: Finished, limits: &Limits) -> Ended {
    let Finished { outcome, totals } = finished;
    let remark = remark(&outcome, &totals, limits);
    let how = match outcome {
        Outcome::Exited { code } => How::Exit { code },
        Outcome::Signalled { signal } => How::Signal { signal },
        Outcome::TimedOut { .. } => How::TimeLimit,
        Outcome::OutOfMemory { limit_bytes } => How::OutOfMemory {
            limit_mib: limit_bytes / MIB,
        },
        Outcome::Cancelled => How::Cancelled,
        Outcome::StartFailed { failure } => How::NotStarted { why: why(&failure) },
        Outcome::Broken { reason } => How::Broken { why: reason },
        Outcome::Lost { reason } => How::Unknown {
            what: format!("Nobody knows how the code ended: {reason}."),
        },
    };
    Ended {
        how,
        ran: totals.elapsed,
        stdout_bytes: totals.stdout_bytes,
        stderr_bytes: totals.stderr_bytes,
        remark,
    }
}

fn why(failure: &StartFailure) -> String {
    match failure {
        StartFailure::NotReady { fix, .. } => format!("{failure} {fix}"),
        other => other.to_string(),
    }
}

/// Limits that a run met without being ended by them.
fn remark(outcome: &Outcome, totals: &Totals, limits: &Limits) -> Option<String> {
    if let Some(refused) = totals.pids_refused.filter(|n| *n > 0) {
        return Some(format!(
            "process limit of {} reached, {refused} refused",
            limits.pids
        ));
    }
    let memory = limits.memory_bytes / MIB;
    match outcome {
        Outcome::OutOfMemory { .. } => None,
        _ if totals.oom_kills.is_some_and(|n| n > 0) => Some(format!(
            "memory limit of {memory} MiB reached, a process was killed"
        )),
        // The program can write these words itself, so they are a hint and no more.
        Outcome::Exited { code } if *code != 0 && totals.memory_error_seen => {
            Some(format!("MemoryError: memory limit of {memory} MiB"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn end(outcome: Outcome, totals: Totals) -> Ended {
        ended(Finished { outcome, totals }, &Limits::default())
    }

    #[test]
    fn each_end_keeps_its_meaning() {
        let none = Totals::default;
        let reason = || "x".to_owned();
        for (outcome, how) in [
            (Outcome::Exited { code: 3 }, How::Exit { code: 3 }),
            (
                Outcome::Signalled { signal: 11 },
                How::Signal { signal: 11 },
            ),
            (
                Outcome::TimedOut {
                    after: Duration::from_secs(1),
                },
                How::TimeLimit,
            ),
            (
                Outcome::OutOfMemory {
                    limit_bytes: 512 * MIB,
                },
                How::OutOfMemory { limit_mib: 512 },
            ),
            (Outcome::Cancelled, How::Cancelled),
        ] {
            assert_eq!(end(outcome, none()).how, how);
        }
        let failure = StartFailure::QueueFull { bound: 3 };
        assert!(matches!(
            end(Outcome::StartFailed { failure }, none()).how,
            How::NotStarted { .. }
        ));
        assert!(matches!(
            end(Outcome::Lost { reason: reason() }, none()).how,
            How::Unknown { .. }
        ));
    }

    #[test]
    fn limits_that_were_met_are_remarked() {
        let failed = Outcome::Exited { code: 1 };
        let met = Totals {
            pids_refused: Some(3),
            ..Totals::default()
        };
        assert_eq!(
            end(failed.clone(), met).remark.as_deref(),
            Some("process limit of 64 reached, 3 refused")
        );
        let met = Totals {
            memory_error_seen: true,
            ..Totals::default()
        };
        assert!(
            end(failed.clone(), met.clone())
                .remark
                .is_some_and(|r| r.contains("512 MiB"))
        );
        // A program that says so and ends well met nothing.
        assert_eq!(end(Outcome::Exited { code: 0 }, met).remark, None);
        assert_eq!(
            end(
                failed,
                Totals {
                    pids_refused: Some(0),
                    ..Totals::default()
                }
            )
            .remark,
            None
        );
    }
}
