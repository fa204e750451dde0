//! The gateway's repositories: people, and what they sign in with.
//!
//! Secrets arrive here as SHA-256 digests; nothing in this database lets anybody sign in.

mod credentials;
mod cursor;
mod failures;
mod persons;

pub use credentials::{
    Holder, Session, Token, add_link, add_session, add_token, by_session, by_token, end_session,
    end_token, sessions_of, sweep, take_link, tokens_of,
};
pub use cursor::{cursor, move_cursor};
pub use failures::{Failures, add_failure, failures_since, forget_failures};
pub use persons::{Person, add_person, electorate, operator, person, persons, remove_person};

use crate::Migration;

/// The schema of the gateway's database.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "people",
    sql: include_str!("../migrations/sqlite/gateway/0001_people.sql"),
}];

#[cfg(test)]
mod tests;
