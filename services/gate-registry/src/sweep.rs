//! What time alone changes: cards expire, approvals lapse, silent claims are orphaned.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Event, clock::after, limits};
use kazma_store::registry::calls;

use crate::{Error, Registry};

/// States that time changes, with the grace after the registry's start.
const MORTAL: [(&str, SignedDuration); 3] = [
    ("pending", limits::GRACE_AFTER_START),
    ("approved", limits::GRACE_AFTER_START),
    ("claimed", limits::CLAIM_SILENCE),
];
/// Calls of one state that one transaction changes.
const BATCH: u32 = 64;
/// The longest sleep: a clock that was set must not be slept through.
const NAP: SignedDuration = SignedDuration::from_secs(30);

impl Registry {
    /// Lets time pass: applies what is due and returns how many calls changed.
    ///
    /// # Errors
    ///
    /// Fails when nothing could be written; nothing is lost by trying again.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let mut total = 0;
        for (state, grace) in MORTAL {
            loop {
                let changed = self.sweep_some(state, grace).await?;
                total += changed;
                if changed < BATCH as usize {
                    break;
                }
            }
        }
        Ok(total)
    }

    async fn sweep_some(&self, state: &'static str, grace: SignedDuration) -> Result<usize, Error> {
        self.write(move |tx, step| {
            Box::pin(async move {
                let now = step.moment.now;
                if now < after(step.moment.started, grace) {
                    return Ok(0);
                }
                let mut changed = 0;
                for row in calls::due(tx, state, now, BATCH).await? {
                    let next = step
                        .apply_alone(tx, &row, &Event::Tick, "call.lapsed", "gate-registry")
                        .await?;
                    changed += usize::from(next.is_some());
                }
                Ok(changed)
            })
        })
        .await
    }

    /// When the next thing is due; none when nothing is.
    pub(crate) async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        let started = self.moment().started;
        self.read(move |tx| {
            Box::pin(async move {
                let mut next: Option<Timestamp> = None;
                for (state, grace) in MORTAL {
                    if let Some(deadline) = calls::next_deadline(tx, state).await? {
                        let due = deadline.max(after(started, grace));
                        next = Some(next.map_or(due, |earlier| earlier.min(due)));
                    }
                }
                Ok(next)
            })
        })
        .await
    }

    /// Sweeps whenever something is due, until the registry stops.
    ///
    /// # Errors
    ///
    /// Never: what fails is tried again.
    pub async fn keep_sweeping(self: Arc<Self>) -> Result<(), kazma_runtime::BoxError> {
        loop {
            let nap = self.sweep_if_due().await.unwrap_or_else(|error| {
                tracing::warn!(error = error.to_string(), "the sweep failed; trying again");
                Duration::from_secs(1)
            });
            tokio::select! {
                () = tokio::time::sleep(nap) => {}
                () = self.herald.sooner.notified() => {}
                () = self.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// Sweeps if something is due. Returns how long nothing will be.
    async fn sweep_if_due(&self) -> Result<Duration, Error> {
        loop {
            let now = self.moment().now;
            let latest = after(now, NAP);
            // Before it looks: what is written while it looks must wake it.
            self.herald
                .wakes_at
                .store(latest.as_microsecond(), Ordering::SeqCst);
            match self.next_due().await? {
                Some(due) if due <= now => {
                    self.sweep().await?;
                }
                Some(due) if due < latest => {
                    self.herald
                        .wakes_at
                        .store(due.as_microsecond(), Ordering::SeqCst);
                    return Ok(Duration::try_from(due.duration_since(now)).unwrap_or_default());
                }
                _ => return Ok(Duration::try_from(NAP).unwrap_or_default()),
            }
        }
    }
}
