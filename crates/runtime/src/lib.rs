//! What each `main` needs: logs, the clock, randomness, and an orderly end.

mod clock;
mod lifecycle;
mod logging;

pub use clock::{SystemClock, SystemEntropy};
pub use lifecycle::{BoxError, Ended, Lifecycle};
pub use logging::logging;
