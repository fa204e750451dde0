//! The broker with real jails. Needs bubblewrap and Python; without them every test fails and says so.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "one test starts a broker of its own, to kill it, and tells it where by the environment"
)]

mod commands;
mod confinement;
mod docker;
mod ends;
mod engine;
mod escape;
mod house;
mod orphans;
mod pool;
mod queries;
mod service;
mod traps;
