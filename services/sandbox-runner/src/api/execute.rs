//! What is done on this machine: code in sandboxes, and the files of the workspace.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kazma_domain::{Action, CallId, Digest, Outcome, Plan, Service};
use kazma_wire::{
    Problem,
    executor::{Claim, Output, SettleRequest},
};
use serde_json::Value;
use tokio::{
    sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    arguments::Request,
    code::{CodeError, CodeEvent, CodeSpec, Ended, How},
    live::Live,
    outcome::{self, Printed},
    planner::{self, Act, Planner},
    query,
    workspace::{Returned, WriteFailed},
};
use crate::{
    broker::Program,
    executor::{Finish, Hands, Redeemed, Refused, Registry, failed},
};

/// How much longer than its own limit a run may take, its wait for a sandbox included, before the
/// broker is taken for gone.
const BROKER_GRACE: Duration = Duration::from_mins(3);

/// The hands of the api process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Workbench {
    /// Where live output goes.
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) planner: Planner,
    /// Bytes of each stream that a result may hold.
    pub(crate) output_cap: usize,
    /// Runs of code at the same time.
    pub(crate) code_slots: Arc<Semaphore>,
    /// Calls of file tools at the same time.
    pub(crate) file_slots: Arc<Semaphore>,
}

/// What a call holds while it is carried out.
#[derive(Debug)]
pub(crate) struct Place {
    _slot: OwnedSemaphorePermit,
    /// That nothing else writes to the workspace meanwhile.
    writer: Option<OwnedMutexGuard<()>>,
}

impl Hands for Workbench {
    const ME: Service = Service::RunnerApi;
    type Request = Request;
    type Act = Act;
    type Place = Place;

    fn parse(tool: &str, arguments: &Value) -> Result<Request, Problem> {
        Request::parse(tool, arguments)
    }

    async fn plan(&self, request: Request) -> Result<(Action, Act), Refused> {
        self.planner.plan(request).await
    }

    async fn place(&self, filed: &Plan) -> Option<Place> {
        let slots = if filed.sandbox().is_some() {
            &self.code_slots
        } else {
            &self.file_slots
        };
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        let writer = if writes(&filed.action) {
            Some(self.planner.workspace.writer().await)
        } else {
            None
        };
        Some(Place {
            _slot: slot,
            writer,
        })
    }

    async fn act(&self, redeemed: Redeemed, act: Act, place: &mut Place) -> Finish {
        let finish = self.carry_out(redeemed, act).await;
        place.writer = None;
        finish
    }

    fn what_changed(filed: &Plan, now: &Plan) -> String {
        planner::what_changed(filed, now)
    }

    async fn what_became_of(&self, claim: &Claim) -> Finish {
        self.look_back(claim).await
    }
}

impl Workbench {
    async fn carry_out(&self, redeemed: Redeemed, act: Act) -> Finish {
        match act {
            Act::Run {
                program,
                image,
                timeout,
            } => self.run_code(redeemed, program, image, timeout).await,
            Act::Read(read) => self.on_files(move || text(read.read(&redeemed))).await,
            Act::List(list) => self.on_files(move || text(list.list(&redeemed))).await,
            Act::Write(write) => {
                let (created, after) = (write.before.is_none(), write.after);
                self.on_files(move || written(write.write(&redeemed), created, &after))
                    .await
            }
        }
    }

    async fn on_files(&self, work: impl FnOnce() -> Finish + Send + 'static) -> Finish {
        match tokio::task::spawn_blocking(work).await {
            Ok(finish) => finish,
            Err(_) => {
                Finish::Lost("The file tool failed in the middle; the log says more.".to_owned())
            }
        }
    }

    async fn run_code(
        &self,
        redeemed: Redeemed,
        program: Program,
        image: Option<String>,
        timeout: Duration,
    ) -> Finish {
        let call = redeemed.call();
        let asked = match &program {
            Program::Sqlite(query) => Some(query.path.clone()),
            Program::Python { .. } | Program::Command(_) => None,
        };
        let spec = CodeSpec {
            program,
            image,
            timeout,
            output_cap: self.output_cap,
        };
        let deadline = Instant::now() + timeout + BROKER_GRACE;
        let mut events = match self.planner.code.run(redeemed, spec).await {
            Ok(events) => events,
            Err(CodeError::Refused(why)) => return failed(format!("not started: {why}")),
            Err(error @ CodeError::Unreachable(_)) => {
                return self
                    .lost(call, format!("{error}; whether the code ran is not known."))
                    .await;
            }
        };
        let live = Live::start(Arc::clone(&self.registry), call);
        let mut printed = Printed::new(self.output_cap);
        let mut end = None;
        while let Ok(Some(event)) = tokio::time::timeout_at(deadline, events.next()).await {
            match event {
                CodeEvent::Output { stream, bytes } => {
                    printed.take(stream, &bytes);
                    live.pass(stream, bytes);
                }
                CodeEvent::Ended(ended) => {
                    end = Some(ended);
                    break;
                }
            }
        }
        live.finish().await;
        match end {
            Some(Ended {
                how: How::Unknown { what },
                ..
            }) => self.lost(call, what).await,
            Some(ended) => match outcome::outcome(&ended, timeout) {
                Some(outcome) => {
                    let request = SettleRequest {
                        outcome,
                        output: printed.output(&ended),
                    };
                    Finish::Settled(match asked {
                        Some(path) => query::answered(request, &ended, path),
                        None => request,
                    })
                }
                None => {
                    self.lost(call, "How the code ended is not known.".to_owned())
                        .await
                }
            },
            None => {
                let what = "The sandbox broker stopped answering while the code ran.".to_owned();
                self.lost(call, what).await
            }
        }
    }

    /// Nobody knows how the run ended: whatever is left of it is ended, and that is said.
    async fn lost(&self, call: CallId, what: String) -> Finish {
        if let Err(error) = self.planner.code.cancel(call).await {
            tracing::warn!(%call, error = error.to_string(), "the run could not be cancelled");
        }
        Finish::Lost(what)
    }
}

/// Whether this changes the workspace, so that nobody else may meanwhile.
fn writes(action: &Action) -> bool {
    match action {
        Action::WriteFile { .. } => true,
        Action::RunCommand { writable, .. } => !writable.is_empty(),
        Action::RunPython { .. }
        | Action::QuerySqlite { .. }
        | Action::ReadFile { .. }
        | Action::ListFolder { .. }
        | Action::FetchUrl { .. }
        | Action::SearchWeb { .. } => false,
    }
}

fn text(result: Result<Returned, String>) -> Finish {
    match result {
        Ok(text) => Finish::Settled(SettleRequest {
            outcome: Outcome {
                ok: true,
                summary: text.summary,
            },
            output: Output {
                text: text.text,
                truncated: text.truncated,
                total_bytes: text.total_bytes,
                ..Output::default()
            },
        }),
        Err(why) => failed(why),
    }
}

fn written(result: Result<(), WriteFailed>, created: bool, after: &Digest) -> Finish {
    match result {
        Ok(()) => settled_write(if created { "created" } else { "overwritten" }, after),
        Err(failure) => failed(failure.to_string()),
    }
}

/// A write that is known to have happened.
pub(crate) fn settled_write(how: &str, after: &Digest) -> Finish {
    Finish::Settled(SettleRequest {
        outcome: Outcome {
            ok: true,
            summary: how.to_owned(),
        },
        output: Output {
            text: format!("The file was {how}; its content is {after}.\n"),
            ..Output::default()
        },
    })
}
