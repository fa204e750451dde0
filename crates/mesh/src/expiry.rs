//! How long this process's certificate still holds.

use std::sync::Arc;

use kazma_domain::Clock;
use kazma_metrics::{Gauges, Meters, MetricError};

use crate::Identity;

/// Shows when a certificate ends.
#[derive(Debug)]
pub struct Expiry(Gauges<0>);

impl Expiry {
    /// Registers the family.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        Ok(Self(meters.gauges(
            "kazma_certificate_expiry_seconds",
            "Seconds until this process's certificate in the mesh ends; below 0 it has ended.",
            [],
        )?))
    }

    /// Follows `identity` by `clock`, through every renewal.
    pub fn follow(self, meters: &Meters, identity: Arc<Identity>, clock: Arc<dyn Clock>) {
        meters.before_scrape(move || {
            let left = identity.not_after().duration_since(clock.now());
            self.0.set([], left.as_secs_f64());
            Box::pin(std::future::ready(()))
        });
    }
}
