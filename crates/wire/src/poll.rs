//! The long poll: ask for what came after a sequence number, and wait a while if there is nothing.

use serde::{Deserialize, Serialize};

/// The longest a poll may wait, in milliseconds.
pub const WAIT_MAX_MS: u64 = 30_000;

/// The query of a long poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// Only what came after this.
    #[serde(default)]
    pub after: i64,
    /// Wait this long for it, in milliseconds; at most [`WAIT_MAX_MS`].
    #[serde(default)]
    pub wait_ms: u64,
}

/// The answer to a long poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled<T> {
    /// What there is.
    pub items: Vec<T>,
    /// What to give as `after` the next time.
    pub seq: i64,
}
