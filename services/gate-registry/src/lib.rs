//! The gate registry: it decides, it signs, and it remembers. Nothing runs without its word.
//!
//! **Invariants:** the registry calls nobody; every step is one transaction with its audit record;
//! nothing is answered, announced or signed before its commit; time is its own clock's.

pub mod audit;
mod backup;
mod error;
mod extending;
mod filing;
mod follow;
mod http;
mod joining;
pub mod member;
mod metrics;
mod people;
mod permits;
mod registry;
mod replanning;
mod running;
mod serve;
mod step;
mod sweep;
mod thinking;
mod trail;
mod view;

pub use error::Error;
pub use http::router;
pub use joining::{TOKEN_LIFE, Token};
pub use kazma_store::{Place, Server};
pub use metrics::Metrics;
pub use registry::{LeafIssuer, Parts, Registry, WAIT};
pub use serve::{Deps, Options, SERVER_SCHEMA, open, place, serve, serve_opened};
pub use trail::{audit_export, audit_verify};
