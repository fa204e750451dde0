//! PostgreSQL: where a server is, and what a session with one promises.

mod server;
mod session;

pub use server::Server;
pub use session::Look;
pub(crate) use session::{Role, Session, query};

#[cfg(test)]
mod passage;
#[cfg(test)]
pub(crate) mod tests;
