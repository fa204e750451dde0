//! Allow, ask or deny: the floor that nothing configured can go beneath, and where arguments came from.
//!
//! **Invariant:** pure. The same request is always answered the same way, and no error allows anything.

pub mod argv;
mod floor;
mod mcp;
mod provenance;
pub mod sql;

pub use floor::{POLICY_VERSION, Request, Route, Verdict, decide};
pub use mcp::{Label, McpAnswer, McpRules, Trust, decide_mcp, label_mcp};
pub use provenance::{Heard, origins};
