//! What the egress process tells: how full its slots are, and which calls it holds.

use std::sync::atomic::Ordering;

use kazma_metrics::{Counters, Gauges, Meters, MetricError, Queue, Queues};

use super::reach::Reach;
use crate::executor::{Executor, changed_plans, held_calls};

/// The families of the egress process.
#[derive(Debug, Clone)]
pub struct Metrics {
    held: Gauges<0>,
    changed: Counters<0>,
    queues: Queues,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        Ok(Self {
            held: held_calls(meters)?,
            changed: changed_plans(meters)?,
            queues: Queues::new(meters)?,
        })
    }

    /// Shows how `executor` stands, which has so many `slots`, whenever somebody looks at `meters`.
    pub(super) fn show(self, meters: &Meters, executor: Executor<Reach>, slots: usize) {
        meters.before_scrape(move || {
            self.queues.set(Queue {
                name: "fetch_slots",
                depth: slots.saturating_sub(executor.hands.slots.available_permits()),
                bound: slots,
            });
            self.held.set_count([], executor.begun.held().len());
            let changed = executor.changed.load(Ordering::Relaxed);
            self.changed
                .add([], changed.saturating_sub(self.changed.get([])));
            Box::pin(std::future::ready(()))
        });
    }
}
