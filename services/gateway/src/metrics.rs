//! What the gateway tells of itself: how the model answers, who looks on, and how full its queues are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kazma_domain::Clock;
use kazma_mesh::https::Https;
use kazma_metrics::{Counters, Gauges, Histograms, Meters, MetricError, Queue, Queues};
use kazma_wire::model::Delta;

use crate::{
    app::App,
    hub::BEHIND_MAX,
    model::{ANSWERS_MAX, Models},
};

/// Bounds of how long a model takes, in seconds.
const ANSWERS_WITHIN: [f64; 10] = [0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

/// The families of the gateway.
#[derive(Debug, Clone)]
pub struct Metrics {
    model: ModelMetrics,
    streams: Gauges<0>,
    undeclared: Gauges<0>,
    certificate: Gauges<0>,
    queues: Queues,
}

/// How the model answers.
#[derive(Debug, Clone)]
pub(crate) struct ModelMetrics {
    answers: Counters<1>,
    first_words: Histograms<0>,
    whole: Histograms<1>,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        Ok(Self {
            model: ModelMetrics::new(meters)?,
            streams: meters.gauges(
                "kazma_event_streams",
                "Event streams that people and programs have open.",
                [],
            )?,
            undeclared: meters.gauges(
                "kazma_undeclared_proxy",
                "1 once a peer forwarded requests that KAZMA_TRUSTED_PROXIES does not name.",
                [],
            )?,
            certificate: meters.gauges(
                "kazma_public_certificate_expiry_seconds",
                "Seconds until the certificate of KAZMA_TLS_CERT ends; below 0 it has ended. Shown where one is set.",
                [],
            )?,
            queues: Queues::new(meters)?,
        })
    }

    pub(crate) fn model(&self) -> ModelMetrics {
        self.model.clone()
    }

    /// Shows when the certificate ends that `https` has, by `clock` and through every renewal.
    pub(crate) fn show_expiry(&self, meters: &Meters, https: Https, clock: Arc<dyn Clock>) {
        let ends = self.certificate.clone();
        meters.before_scrape(move || {
            let left = https.not_after().duration_since(clock.now());
            ends.set([], left.as_secs_f64());
            Box::pin(std::future::ready(()))
        });
    }

    /// Shows how full `app` and `models` are whenever somebody looks at `meters`.
    pub(crate) fn show(self, meters: &Meters, app: App, models: Arc<Models>) {
        meters.before_scrape(move || {
            let (waiting, places) = app.people().database().waiting();
            for (name, depth, bound) in [
                ("store_writer", waiting, places),
                ("news", app.hub().behind(), BEHIND_MAX),
                ("model_answers", models.under_way(), ANSWERS_MAX),
            ] {
                self.queues.set(Queue { name, depth, bound });
            }
            self.streams.set_count([], app.streams());
            let undeclared = app.proxies().state().0 == "undeclared_proxy";
            self.undeclared.set([], f64::from(u8::from(undeclared)));
            Box::pin(std::future::ready(()))
        });
    }
}

impl ModelMetrics {
    fn new(meters: &Meters) -> Result<Self, MetricError> {
        let answers = meters.counters(
            "kazma_model_answers_total",
            "Answers of the model: `ended`, `failed`, or `left` by the agent before their end.",
            ["outcome"],
        )?;
        answers.add(["failed"], 0);
        Ok(Self {
            answers,
            first_words: meters.histograms(
                "kazma_model_first_words_seconds",
                "From a question to the first words of its answer.",
                [],
                &ANSWERS_WITHIN,
            )?,
            whole: meters.histograms(
                "kazma_model_answer_seconds",
                "From a question to the end of its answer.",
                ["outcome"],
                &ANSWERS_WITHIN,
            )?,
        })
    }

    /// Follows one answer from its question on.
    pub(crate) fn question(&self) -> Answering {
        Answering {
            metrics: self.clone(),
            asked: Instant::now(),
            first: false,
            over: false,
        }
    }

    fn over(&self, outcome: &'static str, took: Duration) {
        self.answers.inc([outcome]);
        self.whole.observe([outcome], took);
    }
}

/// One answer under way. Dropped before its end, it was left.
#[derive(Debug)]
pub(crate) struct Answering {
    metrics: ModelMetrics,
    asked: Instant,
    first: bool,
    over: bool,
}

impl Answering {
    pub(crate) fn heard(&mut self, delta: &Delta) {
        let outcome = match delta {
            Delta::End { .. } => "ended",
            Delta::Failed { .. } => "failed",
            _ => {
                if !self.first {
                    self.first = true;
                    self.metrics.first_words.observe([], self.asked.elapsed());
                }
                return;
            }
        };
        if !self.over {
            self.over = true;
            self.metrics.over(outcome, self.asked.elapsed());
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.over {
            self.metrics.over("left", self.asked.elapsed());
        }
    }
}
