//! The registry as its callers see it, on a real database of either kind, with a clock that the test moves.

#![cfg(test)]

mod crash;
mod filing;
mod forged;
mod gates;
mod house;
mod http;
mod mesh;
mod metrics;
#[path = "../../../../crates/store/src/postgres/passage.rs"]
mod passage;
mod permits;
mod polls;
mod restart;
mod server;
mod trail;
mod unknown;
