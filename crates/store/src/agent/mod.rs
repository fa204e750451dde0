//! What the agent keeps: its checkpoints.

mod steps;

pub use steps::{Step, StepCall, arguments, filed, forget_before, of_turn, record};

use crate::Migration;

/// The agent's schema.
pub static MIGRATIONS: [Migration; 1] = [Migration {
    version: 1,
    name: "steps of turns and their calls",
    sql: include_str!("../../migrations/sqlite/agent/0001_steps.sql"),
}];
