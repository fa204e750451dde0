//! Families of series that differ in their labels. How many labels there are is part of the type, so that
//! a value cannot be missing.

use std::{fmt, time::Duration};

use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts};

use crate::{Described, Kind, Meters, MetricError};

/// Counters that differ in `N` labels.
#[derive(Clone)]
pub struct Counters<const N: usize>(IntCounterVec);

/// Gauges that differ in `N` labels.
#[derive(Clone)]
pub struct Gauges<const N: usize>(GaugeVec);

/// Histograms of seconds that differ in `N` labels.
#[derive(Clone)]
pub struct Histograms<const N: usize>(HistogramVec);

impl<const N: usize> Counters<N> {
    /// One more of these.
    pub fn inc(&self, labels: [&str; N]) {
        self.add(labels, 1);
    }

    /// So many more of these. Zero makes the series appear, so that its first step is seen as one.
    pub fn add(&self, labels: [&str; N], more: u64) {
        if let Ok(series) = self.0.get_metric_with_label_values(&labels) {
            series.inc_by(more);
        }
    }

    /// How many there were.
    pub fn get(&self, labels: [&str; N]) -> u64 {
        self.0
            .get_metric_with_label_values(&labels)
            .map_or(0, |series| series.get())
    }
}

impl<const N: usize> Gauges<N> {
    /// So many there are.
    pub fn set(&self, labels: [&str; N], value: f64) {
        if let Ok(series) = self.0.get_metric_with_label_values(&labels) {
            series.set(value);
        }
    }

    /// The same for a count.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact below 2^53, and nothing here is counted further"
    )]
    pub fn set_count(&self, labels: [&str; N], value: usize) {
        self.set(labels, value as f64);
    }

    /// The same for a number of the database.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact below 2^53, and nothing here is counted further"
    )]
    pub fn set_number(&self, labels: [&str; N], value: i64) {
        self.set(labels, value as f64);
    }

    /// Forgets what was said: nobody knows any more.
    pub fn clear(&self) {
        self.0.reset();
    }
}

impl<const N: usize> Histograms<N> {
    /// It took this long.
    pub fn observe(&self, labels: [&str; N], took: Duration) {
        if let Ok(series) = self.0.get_metric_with_label_values(&labels) {
            series.observe(took.as_secs_f64());
        }
    }
}

macro_rules! opaque {
    ($($family:ident)*) => {$(
        impl<const N: usize> fmt::Debug for $family<N> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($family)).finish_non_exhaustive()
            }
        }
    )*};
}
opaque!(Counters Gauges Histograms);

impl Meters {
    /// A family of counters. Its name ends with `_total`.
    ///
    /// # Errors
    ///
    /// Refuses a name that is taken or malformed.
    pub fn counters<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Result<Counters<N>, MetricError> {
        let vec = IntCounterVec::new(Opts::new(name, help), &labels)?;
        self.register(vec.clone(), described(name, Kind::Counter, help, labels))?;
        let family = Counters(vec);
        if let Some(none) = none() {
            family.add(none, 0);
        }
        Ok(family)
    }

    /// A family of gauges.
    ///
    /// # Errors
    ///
    /// Refuses a name that is taken or malformed.
    pub fn gauges<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Result<Gauges<N>, MetricError> {
        let vec = GaugeVec::new(Opts::new(name, help), &labels)?;
        self.register(vec.clone(), described(name, Kind::Gauge, help, labels))?;
        Ok(Gauges(vec))
    }

    /// A family of histograms of seconds, counted below each of `bounds`.
    ///
    /// # Errors
    ///
    /// Refuses a name that is taken or malformed.
    pub fn histograms<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        bounds: &[f64],
    ) -> Result<Histograms<N>, MetricError> {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        let vec = HistogramVec::new(options, &labels)?;
        self.register(vec.clone(), described(name, Kind::Histogram, help, labels))?;
        Ok(Histograms(vec))
    }
}

/// The values of no labels, where there are none.
fn none<const N: usize>() -> Option<[&'static str; N]> {
    (N == 0).then_some([""; N])
}

fn described<const N: usize>(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: [&'static str; N],
) -> Described {
    Described {
        name,
        kind,
        help,
        labels: labels.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_counted_is_shown_and_what_nobody_knows_is_not() {
        let meters = Meters::default();
        let lost = meters.counters("lost_total", "Lost.", []).unwrap();
        let asked = meters
            .counters("asked_total", "Asked.", ["rule", "tier"])
            .unwrap();
        let waiting = meters.gauges("waiting", "Waiting.", []).unwrap();
        assert!(meters.text().await.contains("lost_total 0\n"));
        lost.inc([]);
        asked.add(["a \"b\"", "read"], 2);
        waiting.set_count([], 3);
        let text = meters.text().await;
        assert!(text.contains("# TYPE waiting gauge\nwaiting 3\n"), "{text}");
        assert!(text.contains("lost_total 1\n"), "{text}");
        assert!(
            text.contains("asked_total{rule=\"a \\\"b\\\"\",tier=\"read\"} 2\n"),
            "{text}"
        );
        waiting.clear();
        assert!(!meters.text().await.contains("waiting"));
    }

    #[tokio::test]
    async fn a_name_is_given_once() {
        let meters = Meters::default();
        meters.gauges("twice", "Once.", []).unwrap();
        assert!(meters.gauges("twice", "Again.", []).is_err());
        assert_eq!(meters.described().len(), 1);
    }
}
