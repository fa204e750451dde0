//! Every service in one process, over real mutual TLS with a throwaway CA, real SQLite files in a
//! temporary folder and real jails. Only ever a dev-dependency.

mod api;
mod clock;
mod kit;

pub use api::{Answer, Api};
pub use clock::ShiftedClock;
pub use kit::{Kit, Outside};

/// Any error of a test's setting up.
pub type BoxError = kazma_runtime::BoxError;
