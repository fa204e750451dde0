//! State on disk: the only crate that speaks SQL.
//!
//! **Invariant:** services see [`Database`], [`Tx`] and the repositories; no type of the database
//! driver leaves this crate.

pub mod agent;
pub mod database;
pub mod error;
pub mod gateway;
mod ground;
mod migrate;
pub mod registry;
mod row;
mod tx;
mod writer;

pub use database::{Database, Options};
pub use error::StoreError;
pub use ground::network_file_system;
pub use migrate::Migration;
pub use tx::Tx;
