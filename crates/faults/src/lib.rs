//! What a test may do to a process from inside: have it die at a named step, or switch one check off to see
//! that somebody notices.
//!
//! Without the feature `armed` nothing of this is compiled: [`reach`] is empty and [`wrong`] gives its
//! argument back. With it a program is no longer safe, so a build without debug assertions refuses it.

#[cfg(all(feature = "armed", not(debug_assertions)))]
compile_error!("`armed` switches the gate's checks off and is for tests alone");

#[cfg(feature = "armed")]
mod armed;
mod check;
mod point;

pub use check::Check;
pub use point::Point;

/// The folder in which a file named after a [`Point`] has the first process that comes there die.
pub const FOLDER: &str = "KAZMA_FAULTS";
/// The [`Check`] that is switched off, by its name.
pub const SABOTAGE: &str = "KAZMA_SABOTAGE";

/// A step of a call's way. Where a test wants it, the process is killed here and now.
#[cfg(not(feature = "armed"))]
#[inline]
pub const fn reach(_point: Point) {}

/// Whether something is wrong: as it was seen, unless a test has switched this check off.
#[cfg(not(feature = "armed"))]
#[inline]
#[must_use]
pub const fn wrong(_check: Check, seen: bool) -> bool {
    seen
}

/// What a check decides: `value`, unless a test has switched the check off.
#[cfg(not(feature = "armed"))]
#[inline]
pub fn instead<T>(_check: Check, value: T, _without: impl FnOnce() -> T) -> T {
    value
}

#[cfg(feature = "armed")]
pub use armed::{instead, reach, wrong};
