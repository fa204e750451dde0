//! The time limits and bounds of the gate. Source: architecture, section 2.

use jiff::SignedDuration;

/// A parked question waits this long unless set otherwise.
pub const PARKED_WAIT: SignedDuration = SignedDuration::from_hours(24);
/// A question that somebody waits for in line.
pub const BLOCKING_WAIT: SignedDuration = SignedDuration::from_secs(60);
/// A person who asks for more time to answer gets this much from then on.
pub const EXTENSION: SignedDuration = SignedDuration::from_mins(10);
/// How long an approval stays good until an executor collects it.
pub const APPROVAL_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// How long a permit stays good once collected.
pub const PERMIT_LIFE: SignedDuration = SignedDuration::from_secs(60);
/// A claim that its executor has not reported for this long is orphaned.
pub const CLAIM_SILENCE: SignedDuration = SignedDuration::from_secs(300);
/// How often an executor reports the claims it still holds.
pub const CLAIM_REPORT_EVERY: SignedDuration = SignedDuration::from_secs(10);
/// No deadline bites earlier than this after the registry's start.
pub const GRACE_AFTER_START: SignedDuration = SignedDuration::from_secs(60);
/// Cards that may wait in one thread; the next call is denied, not asked.
pub const PENDING_PER_THREAD: u32 = 20;
/// Bytes of one tool call's arguments, in canonical form.
pub const ARGUMENTS_MAX: usize = 256 * 1024;
/// Bytes of one person's message.
pub const MESSAGE_MAX: usize = 64 * 1024;
/// Bytes of a reason given with a decision.
pub const REASON_MAX: usize = 2_000;
/// Bytes of a tool's output kept in the ledger.
pub const OUTPUT_MAX: usize = 256 * 1024;
/// Calls that one turn may make.
pub const CALLS_PER_TURN: u32 = 64;
