//! The broker with real jails. Needs bubblewrap and Python; without them every test fails and says so.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod confinement;
mod ends;
mod house;
mod pool;
mod service;
