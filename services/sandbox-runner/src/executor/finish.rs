//! How a call ended, as far as is known.

use kazma_domain::{Outcome, limits};
use kazma_wire::executor::{Output, SettleRequest};

/// How a call ended, as far as is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finish {
    /// It is known.
    Settled(SettleRequest),
    /// It is not: what is known, in words.
    Lost(String),
}

/// An end that is known and not well.
pub(crate) fn failed(summary: impl Into<String>) -> Finish {
    let summary = clipped(&summary.into());
    Finish::Settled(SettleRequest {
        output: Output {
            text: format!("{summary}\n"),
            ..Output::default()
        },
        outcome: Outcome { ok: false, summary },
    })
}

/// At most as long as the registry takes a reason.
pub(crate) fn clipped(reason: &str) -> String {
    let end = reason.floor_char_boundary(limits::REASON_MAX);
    reason.get(..end).unwrap_or_default().to_owned()
}
