//! What executors say about calls they hold: work, claims, output, and how it ended.

use kazma_domain::{Call, CallId, Event, Refusal, Service, State, limits};
use kazma_faults::{Point, reach};
use kazma_store::registry::{
    calls::{self, CallRow},
    threads,
};
use kazma_wire::{
    agent::EntryKind,
    events::{self, What},
    executor::{
        Claim, LoseRequest, OutputRequest, ReportRequest, SettleRequest, WithdrawRequest, Work,
    },
    poll::{Poll, Polled},
};
use serde_json::json;

use crate::{
    Error, Registry,
    filing::short,
    step::{Change, subjects},
};

/// Calls that one answer hands out.
const WORK_MAX: u32 = 256;
/// Calls that one report names.
const REPORT_MAX: usize = 1024;
/// Chunks of one output request, and bytes of one chunk.
const CHUNKS_MAX: usize = 64;
const CHUNK_MAX: usize = 16 * 1024;
/// Bytes of the few words that say how a call ended.
const SUMMARY_MAX: usize = 2_000;

impl Registry {
    /// The calls that `executor` may run now and that changed since.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn work(&self, executor: Service, poll: Poll) -> Result<Polled<Work>, Error> {
        let database = self.database.clone();
        let concerns = move |change: &Change| matches!(change, Change::Call { executor: of, .. } if *of == executor);
        self.poll(poll.wait_ms, concerns, move || {
            let database = database.clone();
            Box::pin(async move {
                database
                    .read(move |tx| {
                        Box::pin(async move {
                            let rows =
                                calls::approved_for(tx, executor, poll.after, WORK_MAX).await?;
                            let mut seq = poll.after;
                            let mut items = Vec::with_capacity(rows.len());
                            for row in rows {
                                seq = seq.max(row.changed);
                                let plan =
                                    calls::plan(tx, row.call.id).await?.ok_or(Error::NoPlan)?;
                                items.push(Work {
                                    call: row.call,
                                    plan,
                                });
                            }
                            Ok(Polled { items, seq })
                        })
                    })
                    .await
            })
        })
        .await
    }

    /// The calls that `executor` has begun.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn claims(&self, executor: Service) -> Result<Polled<Claim>, Error> {
        self.read(move |tx| {
            Box::pin(async move {
                let mut seq = 0;
                let mut items = Vec::new();
                for row in calls::claimed_by(tx, executor).await? {
                    seq = seq.max(row.changed);
                    let plan = calls::plan(tx, row.call.id).await?.ok_or(Error::NoPlan)?;
                    items.push(Claim {
                        call: row.call,
                        plan,
                    });
                }
                Ok(Polled { items, seq })
            })
        })
        .await
    }

    /// Notes that `executor` still works on these calls. Calls that have ended meanwhile are left out.
    ///
    /// # Errors
    ///
    /// Refuses another service's call.
    pub async fn report(&self, executor: Service, request: ReportRequest) -> Result<(), Error> {
        if request.calls.len() > REPORT_MAX {
            return Err(Error::invalid("calls", format!("at most {REPORT_MAX}")));
        }
        self.write(move |tx, step| {
            Box::pin(async move {
                for id in request.calls {
                    let Some(row) = calls::find(tx, id).await? else {
                        continue;
                    };
                    match row.call.apply(&Event::Report { executor }, step.moment) {
                        Ok(kazma_domain::call::Applied::Changed(next)) => {
                            // Nothing that anybody waits for has changed: no event.
                            calls::update(tx, &next, row.changed)?;
                        }
                        Ok(kazma_domain::call::Applied::Unchanged)
                        | Err(Refusal::NotNow { .. }) => {}
                        Err(refused) => return Err(refused.into()),
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// Hands on what a running call printed. Not kept.
    ///
    /// # Errors
    ///
    /// Refuses chunks that are too large, another service's call, and one that does not run.
    pub async fn output(
        &self,
        executor: Service,
        id: CallId,
        request: OutputRequest,
    ) -> Result<(), Error> {
        if request.chunks.len() > CHUNKS_MAX {
            return Err(Error::invalid("chunks", format!("at most {CHUNKS_MAX}")));
        }
        for chunk in &request.chunks {
            short("chunks.text", &chunk.text, CHUNK_MAX)?;
            if !matches!(chunk.stream.as_str(), "stdout" | "stderr") {
                return Err(Error::invalid("chunks.stream", "stdout or stderr"));
            }
        }
        let row = self
            .read(move |tx| Box::pin(async move { Ok(calls::find(tx, id).await?) }))
            .await?
            .ok_or(Error::NotFound("call"))?;
        if row.call.executor != executor {
            return Err(Refusal::NotTheExecutor.into());
        }
        if !matches!(row.call.state, State::Claimed { .. }) {
            return Err(Refusal::NotNow {
                state: row.call.state.name(),
            }
            .into());
        }
        let at = self.moment().now;
        for chunk in request.chunks {
            // Nobody follows: then it passes by.
            drop(self.outputs.send(events::Event {
                seq: None,
                at,
                thread: row.call.thread,
                turn: Some(row.call.turn),
                what: What::Output {
                    call: id,
                    stream: chunk.stream,
                    text: chunk.text,
                },
            }));
        }
        Ok(())
    }

    /// Says how a call ended; what it returned goes into the ledger with it. Idempotent.
    ///
    /// # Errors
    ///
    /// Refuses another service's call, one that was not begun, and another ending than the first.
    pub async fn settle(
        &self,
        executor: Service,
        id: CallId,
        request: SettleRequest,
    ) -> Result<Call, Error> {
        short("outcome.summary", &request.outcome.summary, SUMMARY_MAX)?;
        short("output.text", &request.output.text, limits::OUTPUT_MAX)?;
        short("output.note", &request.output.note, SUMMARY_MAX)?;
        short("output.origin", &request.output.origin, SUMMARY_MAX)?;
        let call = self
            .write(move |tx, step| {
                Box::pin(async move {
                    let row = calls::find(tx, id).await?.ok_or(Error::NotFound("call"))?;
                    let event = Event::Settle {
                        executor,
                        outcome: request.outcome.clone(),
                    };
                    let Some(next) = step.apply(tx, &row, &event).await? else {
                        return Ok(row.call);
                    };
                    calls::keep_output(tx, id, &request.output)?;
                    let payload = json!({
                        "outcome": &request.outcome,
                        "total_bytes": request.output.total_bytes,
                        "output": &request.output.text,
                    });
                    let kind = EntryKind::Result {
                        call: id,
                        tool: row.tool.clone(),
                        summary: request.outcome.summary,
                        ok: request.outcome.ok,
                        output: request.output,
                    };
                    let (thread, turn) = (next.thread, next.turn);
                    threads::append(tx, step.id(), thread, turn, step.moment.now, &kind)?;
                    step.gate_event(tx, &row, &next).await?;
                    step.record(tx, "call.settled", executor, subjects(&next), payload)
                        .await?;
                    reach(Point::Settling);
                    Ok(next)
                })
            })
            .await?;
        reach(Point::Settled);
        Ok(call)
    }

    /// Gives an approved call back: what would run is no longer what was approved.
    ///
    /// # Errors
    ///
    /// Refuses another service's call and one that is not approved.
    pub async fn withdraw(
        &self,
        executor: Service,
        id: CallId,
        request: WithdrawRequest,
    ) -> Result<Call, Error> {
        short("reason", &request.reason, limits::REASON_MAX)?;
        let event = Event::Withdraw {
            executor,
            reason: request.reason,
        };
        self.end(executor, id, event, "call.withdrawn").await
    }

    /// Says that nobody knows how a call ended.
    ///
    /// # Errors
    ///
    /// Refuses another service's call and one that was not begun.
    pub async fn lose(
        &self,
        executor: Service,
        id: CallId,
        request: LoseRequest,
    ) -> Result<Call, Error> {
        short("what", &request.what, limits::REASON_MAX)?;
        let event = Event::Lose {
            executor,
            what: request.what,
        };
        self.end(executor, id, event, "call.orphaned").await
    }

    async fn end(
        &self,
        executor: Service,
        id: CallId,
        event: Event,
        kind: &'static str,
    ) -> Result<Call, Error> {
        self.write(move |tx, step| {
            Box::pin(async move {
                let row: CallRow = calls::find(tx, id).await?.ok_or(Error::NotFound("call"))?;
                let next = step.apply_alone(tx, &row, &event, kind, executor).await?;
                Ok(next.unwrap_or(row.call))
            })
        })
        .await
    }
}
