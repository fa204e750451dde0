//! kazma-sandbox-runner.

pub mod api;
pub mod egress;
