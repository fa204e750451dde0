//! What travels between the services, and between Kazma and its clients.
//!
//! Request types refuse unknown fields, so that a misspelt one is an error and not a default. Answers
//! may grow.

pub mod agent;
pub mod events;
pub mod executor;
pub mod gateway;
pub mod mesh;
pub mod model;
pub mod poll;
pub mod problem;
pub mod runner;
pub mod view;

pub use problem::Problem;
