//! The runner's three processes: what each is told, what it may do, and its start.

pub mod api;
pub mod broker;
pub mod egress;
mod joined;
mod tier;

pub use tier::{Containers, Engine, Runtime, Sandbox, Tier};
