//! Time and randomness as parameters.

use jiff::{SignedDuration, Timestamp};

/// Tells the time. Services take one, so that tests say when.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// A source of random bytes. In production it must be cryptographically secure.
pub trait Entropy: Send + Sync + std::fmt::Debug {
    /// Fills `bytes` with random values.
    fn fill(&self, bytes: &mut [u8]);
}

/// When something is judged: the time now, and when the judge started.
///
/// Nobody can answer a card while the registry is down, so no deadline bites before the registry has
/// been up for [`crate::limits::GRACE_AFTER_START`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time now.
    pub now: Timestamp,
    /// When this registry process began to serve.
    pub started: Timestamp,
}

impl Moment {
    /// The later of `deadline` and the end of the grace time after the registry's start.
    pub fn effective(self, deadline: Timestamp) -> Timestamp {
        deadline.max(after(self.started, crate::limits::GRACE_AFTER_START))
    }

    /// Whether `deadline` has passed, grace included.
    pub fn is_past(self, deadline: Timestamp) -> bool {
        self.now >= self.effective(deadline)
    }
}

/// `start` plus `length`; at the end of representable time it stays there.
pub fn after(start: Timestamp, length: SignedDuration) -> Timestamp {
    start.checked_add(length).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
pub(crate) mod test {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The `seconds`th second of a made-up day.
    pub(crate) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[derive(Debug, Default)]
    pub(crate) struct Counting(AtomicU64);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            let next = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            for (slot, byte) in bytes.iter_mut().rev().zip(next.iter().rev()) {
                *slot = *byte;
            }
        }
    }

    #[test]
    fn no_deadline_bites_within_a_minute_of_the_start() {
        let moment = Moment {
            now: at(100),
            started: at(90),
        };
        assert!(!moment.is_past(at(50)));
        let later = Moment {
            now: at(150),
            started: at(90),
        };
        assert!(later.is_past(at(50)));
        assert!(!later.is_past(at(200)));
    }
}
