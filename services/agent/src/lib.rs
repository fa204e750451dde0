//! The agent: takes a person's message to a model, and what the model wants to the executors.
//!
//! It causes no effect and holds no secret. What it may reach is the mesh: the registry, the runner,
//! and the gateway's model. What the model said is kept before anything of it is done, so that a
//! crash repeats neither a question to the model nor a call.
//!
//! **Invariant:** what a tool returned reaches a model only through the fence: the clients hand it out
//! as [`kazma_fence::Untrusted`], which has no other way out.

pub mod clients;
mod context;
mod journal;
pub mod member;
mod metrics;
mod note;
mod patience;
mod service;
mod slots;
mod turn;
mod words;

pub use metrics::Metrics;
pub use patience::Backoff;
pub use service::{Deps, Error, Options, serve};

#[cfg(test)]
mod tests;
