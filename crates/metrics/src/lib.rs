//! Metrics of one process: what is counted, and the listener that shows it.
//!
//! Nothing here is global: a service is given its [`Meters`] and hands them on, so that several services
//! can live in one test. The number of labels is part of a family's type, and label values that come from
//! elsewhere pass through [`Names`], so that the number of series stays bounded.
//!
//! **Invariant:** no label holds a secret, a person's name, or words of a thread.

mod family;
mod http;
mod listener;
mod names;
mod standing;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use prometheus::core::Collector;

pub use family::{Counters, Gauges, Histograms};
pub use http::{Http, Listening, count};
pub use listener::serve;
pub use names::Names;
pub use standing::{Queue, Queues, build};

/// How long a scrape waits for one look.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// A metric cannot be: its name is taken or malformed.
#[derive(Debug, thiserror::Error)]
#[error("a metric cannot be registered")]
pub struct MetricError(#[from] prometheus::Error);

/// What kind of metric a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from zero at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often what was measured fell below each bound.
    Histogram,
}

impl Kind {
    /// The word of the exposition format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One family, as the document lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
}

type Look = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// All metrics of one process. Clones share them.
#[derive(Clone, Default)]
pub struct Meters(Arc<Inner>);

#[derive(Default)]
struct Inner {
    registry: prometheus::Registry,
    described: Mutex<Vec<Described>>,
    looks: Mutex<Vec<Look>>,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Meters {
    /// Does `look` before every scrape, for what is not counted as it happens.
    pub fn before_scrape(&self, look: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) {
        self.0
            .looks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(look));
    }

    /// Every family that was registered, by name.
    pub fn described(&self) -> Vec<Described> {
        let mut all = self
            .0
            .described
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        all.sort_by_key(|family| family.name);
        all
    }

    /// Everything in Prometheus's text format, after a fresh look.
    pub async fn text(&self) -> String {
        let looks: Vec<Look> = self
            .0
            .looks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let looking = looks
            .iter()
            .map(|look| tokio::time::timeout(LOOK_LIMIT, look()));
        if join_all(looking).await.iter().any(Result::is_err) {
            tracing::warn!("what a scrape looks at did not answer in time");
        }
        let mut text = String::new();
        for family in self.0.registry.gather() {
            let one = std::slice::from_ref(&family);
            // A family that cannot be written must not take the others with it.
            if let Err(error) = prometheus::TextEncoder::new().encode_utf8(one, &mut text) {
                tracing::warn!(error = error.to_string(), "a metric cannot be shown");
            }
        }
        text
    }

    fn register(
        &self,
        family: impl Collector + 'static,
        described: Described,
    ) -> Result<(), MetricError> {
        self.0.registry.register(Box::new(family))?;
        self.0
            .described
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(described);
        Ok(())
    }
}
