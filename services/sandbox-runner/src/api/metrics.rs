//! What the api process tells: how many sandboxes there are, and how full its slots.

use std::sync::{Arc, atomic::Ordering};

use kazma_metrics::{Counters, Gauges, Meters, MetricError, Queue, Queues};

use super::{Options, execute::Workbench};
use crate::executor::{Executor, changed_plans, held_calls};

/// The families of the api process.
#[derive(Debug, Clone)]
pub struct Metrics {
    pool: Gauges<1>,
    kept: Gauges<0>,
    ready: Gauges<0>,
    replaced: Gauges<0>,
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
            pool: meters.gauges(
                "kazma_sandboxes",
                "Sandboxes by state: `idle` wait unused, `starting`, `running`; `queued` are runs that wait for one.",
                ["state"],
            )?,
            kept: meters.gauges(
                "kazma_sandbox_pool_size",
                "How many idle sandboxes the broker means to keep.",
                [],
            )?,
            ready: meters.gauges(
                "kazma_sandbox_ready",
                "1 while code can run; 0 while it cannot, or while the broker does not answer.",
                [],
            )?,
            replaced: meters.gauges(
                "kazma_sandboxes_replaced",
                "Idle sandboxes that the broker replaced since it started, for age or because they died.",
                [],
            )?,
            held: held_calls(meters)?,
            changed: changed_plans(meters)?,
            queues: Queues::new(meters)?,
        })
    }

    /// Shows how `executor` stands whenever somebody looks at `meters`. The broker, which has no network,
    /// is asked over its socket.
    pub(super) fn show(self, meters: &Meters, executor: Executor<Workbench>, options: &Options) {
        let (code, files) = (options.code_slots, options.file_slots);
        meters.before_scrape(move || {
            let (me, hands) = (self.clone(), &executor.hands);
            for (name, slots, bound) in [
                ("code_slots", &hands.code_slots, code),
                ("file_slots", &hands.file_slots, files),
            ] {
                let depth = bound.saturating_sub(slots.available_permits());
                me.queues.set(Queue { name, depth, bound });
            }
            me.held.set_count([], executor.begun.held().len());
            let changed = executor.changed.load(Ordering::Relaxed);
            me.changed
                .add([], changed.saturating_sub(me.changed.get([])));
            let runner = Arc::clone(&hands.planner.code);
            Box::pin(async move {
                let Some(pool) = runner.pool().await else {
                    me.pool.clear();
                    me.kept.clear();
                    me.replaced.clear();
                    me.ready.set([], 0.0);
                    return;
                };
                for (state, number) in [
                    ("idle", pool.idle),
                    ("starting", pool.starting),
                    ("running", pool.running),
                    ("queued", pool.queued),
                ] {
                    me.pool.set_count([state], number);
                }
                me.kept.set_count([], pool.size);
                let replaced = i64::try_from(pool.replaced).unwrap_or(i64::MAX);
                me.replaced.set_number([], replaced);
                me.ready.set([], f64::from(u8::from(pool.ready)));
                me.queues.set(Queue {
                    name: "runs",
                    depth: pool.queued,
                    bound: pool.queue_bound,
                });
            })
        });
    }
}
