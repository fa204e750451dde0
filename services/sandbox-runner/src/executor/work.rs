//! What the executor does without being asked: it fetches approved calls, and says which it holds.

use std::time::Duration;

use kazma_domain::limits;
use kazma_wire::{
    executor::ReportRequest,
    poll::{Poll, WAIT_MAX_MS},
};
use tokio_util::sync::CancellationToken;

use super::{Executor, Hands, retry::Retry};

/// The wait after a poll that was refused.
const REFUSED_WAIT: Duration = Duration::from_secs(5);
/// Calls of one report. Source: the registry's limit.
const REPORT_MAX: usize = 1_024;
/// Calls that wait here for a slot; more are left with the registry meanwhile.
const WAITING: usize = 1_024;

impl<H: Hands> Executor<H> {
    /// Fetches approved calls and starts each, until `stop`.
    pub(crate) async fn fetch_work(&self, stop: CancellationToken) {
        let retry = Retry::until(stop.clone());
        let mut poll = Poll {
            after: 0,
            wait_ms: WAIT_MAX_MS,
        };
        while !stop.is_cancelled() {
            if self.tasks.len() >= WAITING {
                retry.pause(limit_wait()).await;
                continue;
            }
            match retry
                .until_answered("work", || self.on.registry.work(poll))
                .await
            {
                None => return,
                Some(Ok(polled)) => {
                    for work in polled.items {
                        if work.call.executor == H::ME {
                            self.start(work.call, work.plan, None);
                        }
                    }
                    poll.after = polled.seq;
                }
                Some(Err(error)) => {
                    tracing::error!(error = error.to_string(), "the registry gives no work");
                    retry.pause(REFUSED_WAIT).await;
                }
            }
        }
    }

    /// Says every ten seconds which calls are held, until `stop`.
    pub(crate) async fn report_claims(&self, stop: CancellationToken) {
        let retry = Retry::until(stop);
        let every = limits::CLAIM_REPORT_EVERY.unsigned_abs();
        while retry.pause(every).await {
            let held = self.begun.held();
            for calls in held.chunks(REPORT_MAX) {
                let request = ReportRequest {
                    calls: calls.to_vec(),
                };
                // One lost report is made good by the next: the registry waits for many.
                if let Err(error) = self.on.registry.report(&request).await {
                    tracing::warn!(
                        error = error.to_string(),
                        "the held claims were not reported"
                    );
                }
            }
        }
    }
}

/// How long a full house waits before it looks again.
const fn limit_wait() -> Duration {
    Duration::from_millis(100)
}
