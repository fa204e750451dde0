//! What the agent tells of its work.

use std::sync::{Arc, Weak};

use kazma_metrics::{Counters, Gauges, Meters, MetricError, Queue, Queues};
use kazma_store::Database;
use tokio::sync::Semaphore;

use crate::service::FOLLOWED_MAX;

/// The families of the agent.
#[derive(Debug, Clone)]
pub struct Metrics {
    meters: Meters,
    followed: Gauges<0>,
    troubles: Counters<0>,
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
            meters: meters.clone(),
            followed: meters.gauges(
                "kazma_agent_turns_open",
                "Turns that the agent works on or that wait for a person.",
                [],
            )?,
            troubles: meters.counters(
                "kazma_agent_turn_troubles_total",
                "How often a turn could not go on and was begun again from its checkpoints.",
                [],
            )?,
            queues: Queues::new(meters)?,
        })
    }

    /// So many turns are followed.
    pub(crate) fn followed(&self, turns: usize) {
        self.followed.set_count([], turns);
        self.queues.set(Queue {
            name: "followed_turns",
            depth: turns,
            bound: FOLLOWED_MAX,
        });
    }

    /// A turn could not go on.
    pub(crate) fn trouble(&self) {
        self.troubles.inc([]);
    }

    /// Shows how many of the `bound` places to think are taken.
    pub(crate) fn thinking(&self, places: &Arc<Semaphore>, bound: usize) {
        let (queues, places) = (self.queues.clone(), Arc::downgrade(places));
        self.meters.before_scrape(move || {
            if let Some(places) = Weak::upgrade(&places) {
                queues.set(Queue {
                    name: "thinking",
                    depth: bound.saturating_sub(places.available_permits()),
                    bound,
                });
            }
            Box::pin(std::future::ready(()))
        });
    }

    /// Shows how many wait for the writer of the checkpoints.
    pub(crate) fn checkpoints(&self, database: Database) {
        let queues = self.queues.clone();
        self.meters.before_scrape(move || {
            let (depth, bound) = database.waiting();
            queues.set(Queue {
                name: "store_writer",
                depth,
                bound,
            });
            Box::pin(std::future::ready(()))
        });
    }
}
