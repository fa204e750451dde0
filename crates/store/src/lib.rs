//! State on disk: the only crate that speaks SQL.
//!
//! **Invariant:** services see [`Database`], [`Tx`] and the repositories; no type of the database
//! driver leaves this crate.

pub mod agent;
mod connection;
pub mod database;
pub mod error;
pub mod gateway;
mod ground;
mod migrate;
mod postgres;
pub mod registry;
mod row;
mod sqlite;
mod statement;
mod tx;
mod writer;

pub use database::{Database, Options, Place};
pub use error::StoreError;
pub use ground::network_file_system;
pub use migrate::{Migration, Schema};
pub use postgres::{Look, Server};
pub use tx::Tx;
