//! What every process tells: which build it is, and how full its queues are.

use crate::{Gauges, Meters, MetricError};

/// One queue: how many wait in it, and how many may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: &'static str,
    /// How many wait, or how many of its places are taken.
    pub depth: usize,
    /// How many may.
    pub bound: usize,
}

/// The queues of one process.
#[derive(Debug, Clone)]
pub struct Queues {
    depth: Gauges<1>,
    bound: Gauges<1>,
}

impl Queues {
    /// Registers the families.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        Ok(Self {
            depth: meters.gauges(
                "kazma_queue_depth",
                "How many wait in a queue of this process, or how many of its places are taken.",
                ["queue"],
            )?,
            bound: meters.gauges(
                "kazma_queue_bound",
                "How many may wait in that queue; what happens then is in docs/architecture.md.",
                ["queue"],
            )?,
        })
    }

    /// Notes how full it is now.
    pub fn set(&self, queue: Queue) {
        self.depth.set_count([queue.name], queue.depth);
        self.bound.set_count([queue.name], queue.bound);
    }
}

/// Tells which build of which service this is, and since when it runs (in seconds since 1970).
///
/// # Errors
///
/// Refuses a second registration.
pub fn build(
    meters: &Meters,
    service: &str,
    version: &str,
    started: i64,
) -> Result<(), MetricError> {
    meters
        .gauges(
            "kazma_build_info",
            "Always 1; which service this is, and of which version.",
            ["service", "version"],
        )?
        .set([service, version], 1.0);
    meters
        .gauges(
            "kazma_start_time_seconds",
            "When this process started, in seconds since 1970; a change is a restart.",
            [],
        )?
        .set_number([], started);
    Ok(())
}
