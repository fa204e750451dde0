//! What the registry counts: with each transaction, told once it is durable; and how everything stands,
//! read from the database when somebody asks.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use kazma_domain::{Call, CallId, State, ThreadId, Tier, Tool, Vote};
use kazma_edge::request;
use kazma_metrics::{Counters, Gauges, Histograms, Meters, MetricError, Names, Queue, Queues};
use kazma_store::registry::{calls::CallRow, standing};

use crate::{
    Registry,
    registry::{CHANGES, OUTPUTS},
};

/// Rules that are told apart. This build names some thirty.
const RULES: usize = 64;
/// Bounds of how long people take to answer, in seconds.
const ANSWERED_WITHIN: [f64; 9] = [
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0,
];
/// What stands for a tool that nobody classified.
const UNKNOWN: &str = "unknown";

/// One thing that is counted, and told to the log.
#[derive(Debug)]
pub(crate) struct Count {
    call: CallId,
    thread: ThreadId,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A call was filed and judged.
    Filed {
        decision: &'static str,
        rule: String,
        tier: &'static str,
    },
    /// A person answered a card.
    Voted {
        decision: &'static str,
        surface: &'static str,
        tier: &'static str,
        /// How long it had waited, if that settled it.
        settled_after: Option<Duration>,
    },
    /// A call stands elsewhere now, and goes on.
    Moved { state: &'static str },
    /// A call came to its end.
    Ended {
        state: &'static str,
        tier: &'static str,
    },
}

impl Count {
    /// A new call, judged by `rule` unless where it stands was decided otherwise.
    pub(crate) fn filed(row: &CallRow, rule: &str) -> Self {
        let (decision, rule) = match &row.call.state {
            State::Pending { .. } => ("ask", rule),
            State::Approved { .. } => ("allow", rule),
            State::Denied {
                by: kazma_domain::Denial::Rule { rule, .. },
                ..
            } => ("deny", rule.as_str()),
            _ => ("deny", rule),
        };
        Self::of(
            &row.call,
            What::Filed {
                decision,
                rule: rule.to_owned(),
                tier: tier(&row.tool),
            },
        )
    }

    const fn of(call: &Call, what: What) -> Self {
        Self {
            call: call.id,
            thread: call.thread,
            what,
        }
    }

    /// A vote on the card that `row` belongs to, which stands at `state` with it.
    pub(crate) fn voted(row: &CallRow, vote: &Vote, state: &str) -> Self {
        let waited = vote.at.duration_since(row.filed_at);
        let what = What::Voted {
            decision: match vote.decision {
                kazma_domain::Decision::Approve => "approve",
                kazma_domain::Decision::Deny => "deny",
            },
            surface: vote.surface.name(),
            tier: tier(&row.tool),
            settled_after: (state != "pending")
                .then(|| Duration::try_from(waited).unwrap_or_default()),
        };
        Self::of(&row.call, what)
    }

    /// Where a call stands now.
    pub(crate) fn stands(call: &Call, tool: &str) -> Self {
        let state = match &call.state {
            State::Settled { outcome, .. } if outcome.ok => "settled_ok",
            State::Settled { .. } => "settled_failed",
            state => state.name(),
        };
        let what = if call.state.is_final() {
            let tier = tier(tool);
            What::Ended { state, tier }
        } else {
            What::Moved { state }
        };
        Self::of(call, what)
    }
}

/// The tier of a tool, as a label.
fn tier(tool: &str) -> &'static str {
    match Tool::find(tool).map(|tool| tool.tier) {
        None => UNKNOWN,
        Some(Tier::Read) => "read",
        Some(Tier::Safe) => "safe",
        Some(Tier::Write) => "write",
        Some(Tier::Danger) => "danger",
        Some(Tier::Always) => "always",
    }
}

/// The families of the registry.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    filed: Counters<3>,
    voted: Counters<3>,
    ended: Counters<2>,
    answered: Histograms<1>,
    pending: Gauges<0>,
    oldest: Gauges<0>,
    calls: Gauges<1>,
    turns: Gauges<1>,
    head: Gauges<0>,
    signed: Gauges<0>,
    backup: Gauges<0>,
    queues: Queues,
    rules: Names,
}

impl Metrics {
    /// Registers the families.
    ///
    /// # Errors
    ///
    /// Refuses a second registration.
    pub fn new(meters: &Meters) -> Result<Self, MetricError> {
        let ended = meters.counters(
            "kazma_calls_ended_total",
            "Calls that came to their end, by how (`orphaned`: nobody knows what they did) and by the tool's tier.",
            ["state", "tier"],
        )?;
        // The first orphan of all must be seen as a step.
        for tier in ["read", "safe", "write", "danger", "always", UNKNOWN] {
            ended.add(["orphaned", tier], 0);
        }
        Ok(Self(Arc::new(Families {
            filed: meters.counters(
                "kazma_calls_filed_total",
                "Calls filed, by what was decided, the rule that decided, and the tool's tier.",
                ["decision", "rule", "tier"],
            )?,
            voted: meters.counters(
                "kazma_gate_decisions_total",
                "Answers of people to cards, by answer, surface and the tool's tier.",
                ["decision", "surface", "tier"],
            )?,
            answered: meters.histograms(
                "kazma_gate_answer_seconds",
                "From a card to the answer that settled it, by the registry's clock.",
                ["decision"],
                &ANSWERED_WITHIN,
            )?,
            pending: meters.gauges(
                "kazma_gates_pending",
                "Cards that wait for a person.",
                [],
            )?,
            oldest: meters.gauges(
                "kazma_gates_oldest_pending_seconds",
                "How long the oldest of them has waited, by the registry's clock; 0 where none waits.",
                [],
            )?,
            calls: meters.gauges(
                "kazma_calls_live",
                "Calls that wait for an answer (`pending`), for their executor (`approved`), or run (`claimed`).",
                ["state"],
            )?,
            turns: meters.gauges("kazma_turns_live", "Turns that have not ended, by state.", ["state"])?,
            head: meters.gauges(
                "kazma_audit_head_sequence",
                "The last record of the audit chain.",
                [],
            )?,
            signed: meters.gauges(
                "kazma_audit_signed_sequence",
                "The last record that a signed head covers; far behind the last one, signing fails.",
                [],
            )?,
            backup: meters.gauges(
                "kazma_backup_last_success_timestamp_seconds",
                "When the file `last-backup` in the registry's folder was touched, in seconds since 1970: whoever makes backups \
                 does so once a copy is known to be good. Missing before the first.",
                [],
            )?,
            queues: Queues::new(meters)?,
            rules: Names::new(RULES),
            ended,
        })))
    }

    /// When the last backup was made.
    pub(crate) fn backup(&self) -> Gauges<0> {
        self.0.backup.clone()
    }

    /// Counts and tells what has become durable.
    pub(crate) fn count(&self, counts: Vec<Count>) {
        let all = &self.0;
        for Count { call, thread, what } in counts {
            request::about(call, thread);
            match what {
                What::Filed {
                    decision,
                    rule,
                    tier,
                } => {
                    let rule = all.rules.known(&rule);
                    all.filed.inc([decision, rule, tier]);
                    tracing::info!(call_id = %call, thread_id = %thread, decision, rule, tier, "a call was filed");
                }
                What::Voted {
                    decision,
                    surface,
                    tier,
                    settled_after,
                } => {
                    all.voted.inc([decision, surface, tier]);
                    tracing::info!(call_id = %call, thread_id = %thread, decision, surface, "a person answered");
                    if let Some(waited) = settled_after {
                        all.answered.observe([decision], waited);
                    }
                }
                What::Moved { state } => {
                    tracing::info!(call_id = %call, thread_id = %thread, state, "a call stands elsewhere");
                }
                What::Ended { state, tier } => {
                    all.ended.inc([state, tier]);
                    tracing::info!(call_id = %call, thread_id = %thread, state, "a call has ended");
                }
            }
        }
    }
}

impl Registry {
    /// Shows how this registry stands whenever somebody looks at `meters`.
    pub(crate) fn show(self: &Arc<Self>, meters: &Meters) {
        let registry = Arc::downgrade(self);
        meters.before_scrape(move || Box::pin(look(Weak::clone(&registry))));
    }
}

async fn look(registry: Weak<Registry>) {
    let Some(registry) = registry.upgrade() else {
        return;
    };
    let all = &registry.herald.metrics.0;
    let (waiting, places) = registry.database.waiting();
    for (name, depth, bound) in [
        ("store_writer", waiting, places),
        ("changes", registry.herald.changes.len(), CHANGES),
        ("outputs", registry.outputs.len(), OUTPUTS),
    ] {
        all.queues.set(Queue { name, depth, bound });
    }
    let stands = registry
        .read(|tx| Box::pin(async move { Ok(standing::standing(tx).await?) }))
        .await;
    let stands = match stands {
        Ok(stands) => stands,
        Err(error) => {
            tracing::warn!(
                error = error.to_string(),
                "how the registry stands is not known"
            );
            for gauge in [&all.pending, &all.oldest, &all.head, &all.signed] {
                gauge.clear();
            }
            all.calls.clear();
            all.turns.clear();
            return;
        }
    };
    let now = registry.moment().now;
    let age = stands
        .oldest
        .map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
    all.pending.set_number([], stands.gates);
    all.oldest.set([], age);
    for (state, number) in [
        ("pending", stands.pending),
        ("approved", stands.approved),
        ("claimed", stands.claimed),
    ] {
        all.calls.set_number([state], number);
    }
    for state in ["open", "running", "parked"] {
        let found = stands.turns.iter().find(|(name, _)| name == state);
        all.turns.set_number([state], found.map_or(0, |(_, n)| *n));
    }
    all.head.set_number([], stands.audit_head);
    all.signed.set_number([], stands.audit_signed);
}
