//! kazma-sandbox-runner.

pub mod api;
pub mod broker;
pub mod egress;
pub mod executor;
pub mod jail;
pub mod member;
mod nonce;
