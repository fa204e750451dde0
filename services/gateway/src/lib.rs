//! The people's edge: pages, the HTTP API, signing in; and the agent's way to a model.
//!
//! **Invariant:** the gateway decides nothing. It vouches to the registry for who is signed in, carries
//! what they said, and shows what the registry says.

mod access;
mod api;
mod app;
mod guard;
mod hub;
pub mod member;
mod metrics;
pub mod model;
pub mod pages;
mod people;
mod serve;
mod upstream;
mod web;

pub use api::openapi;
pub use app::{App, Means, NotOpened, Settings};
pub use guard::{
    layers::Connection,
    limits::Rates,
    proxy::{Net, NotANet},
    site::{NotAPublicUrl, Site},
};
pub use hub::Hub;
pub use metrics::Metrics;
pub use serve::{Deps, Error, Options, public_router, serve};
pub use upstream::{Answer, Registry, Runner, Upstream};
