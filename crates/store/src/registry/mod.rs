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

use crate::{Migration, Schema};

/// The steps to the schema of the registry, with the texts of one database.
macro_rules! steps {
    ($database:literal) => {
        &[
            Migration {
                version: 1,
                name: "begin",
                sql: include_str!(concat!(
                    "../../migrations/",
                    $database,
                    "/registry/0001_begin.sql"
                )),
            },
            Migration {
                version: 2,
                name: "live calls",
                sql: include_str!(concat!(
                    "../../migrations/",
                    $database,
                    "/registry/0002_live_calls.sql"
                )),
            },
            Migration {
                version: 3,
                name: "turn wait",
                sql: include_str!(concat!(
                    "../../migrations/",
                    $database,
                    "/registry/0003_turn_wait.sql"
                )),
            },
        ]
    };
}

/// The schema of the registry.
pub static SCHEMA: Schema = Schema {
    sqlite: steps!("sqlite"),
    postgres: steps!("postgres"),
};

#[cfg(test)]
mod statements;
#[cfg(test)]
mod tests;
