//! What the gate registry keeps. Functions take a [`crate::Tx`]; the service composes them.

pub mod audit;
pub mod calls;
pub mod events;
pub mod gates;
pub mod mesh;
pub mod meta;
pub mod permits;
pub mod standing;
pub(crate) mod tail;
pub mod threads;

use crate::Migration;

/// The schema of the registry.
pub static MIGRATIONS: [Migration; 3] = [
    Migration {
        version: 1,
        name: "begin",
        sql: include_str!("../../migrations/sqlite/registry/0001_begin.sql"),
    },
    Migration {
        version: 2,
        name: "live calls",
        sql: include_str!("../../migrations/sqlite/registry/0002_live_calls.sql"),
    },
    Migration {
        version: 3,
        name: "turn wait",
        sql: include_str!("../../migrations/sqlite/registry/0003_turn_wait.sql"),
    },
];
