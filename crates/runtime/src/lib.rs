//! What each `main` needs: logs, the clock, randomness, and an orderly end.

mod clock;
mod confine;
mod landlock_abi;
mod lifecycle;
mod logging;

pub use clock::{SystemClock, SystemEntropy};
pub use confine::{ConfineError, Confinement, Connect, Held, confine};
pub use landlock_abi::landlock_abi;
pub use lifecycle::{BoxError, Ended, Lifecycle};
pub use logging::logging;
