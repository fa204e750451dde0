//! Allow, ask or deny: the floor that nothing configured can go beneath, and where arguments came from.
//!
//! **Invariant:** pure. The same request is always answered the same way, and no error allows anything.

pub mod argv;
mod floor;
mod provenance;

pub use floor::{POLICY_VERSION, Request, Route, Verdict, decide};
pub use provenance::{Heard, origins};
