//! kazma-sandbox-runner.

pub mod api;
pub mod egress;
pub mod broker;
pub mod jail;
