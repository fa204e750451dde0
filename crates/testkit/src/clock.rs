//! A clock that runs as the machine's does, and can be put forward.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use kazma_domain::Clock;
use kazma_runtime::SystemClock;

/// The machine's time plus a shift. Certificates are judged by the machine's time, so a clock that
/// stands still would not do here.
#[derive(Debug, Default)]
pub struct ShiftedClock(AtomicI64);

impl ShiftedClock {
    /// Puts the clock forward.
    pub fn forward(&self, by: SignedDuration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        let shift = SignedDuration::from_secs(self.0.load(Ordering::SeqCst));
        kazma_domain::clock::after(SystemClock.now(), shift)
    }
}
