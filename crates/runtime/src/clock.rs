//! The real clock and the real randomness.

use jiff::Timestamp;
use kazma_domain::{Clock, Entropy};

/// The time of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one clock that others take"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Cryptographically secure randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness every secret would be guessable: there is nothing to go on with.
        assert!(
            aws_lc_rs::rand::fill(bytes).is_ok(),
            "the operating system gives no randomness"
        );
    }
}
