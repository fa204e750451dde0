//! The native jail: one bubblewrap sandbox for one run, and the init that is process 1 inside it.
//!
//! **Invariant:** a jail's flags come from the operator's [`Template`] alone, but for the parts of the workspace
//! that it may write; a run brings its [`Task`], its time and its output cap.

mod access;
mod cgroup;
mod command;
pub(crate) mod frame;
pub mod init;
mod limits;
pub mod orphans;
mod outcome;
mod output;
mod process;
pub(crate) mod report;
mod run;
mod seccomp;
mod spawner;
mod task;

pub(crate) use access::is_plain;
pub use access::{Access, AccessError, WRITABLE_MAX, Writer};
pub use cgroup::{CgroupChoice, Cgroups};
pub use command::{Runner, Template};
pub use limits::{EnforcedBy, Enforcement, Limits};
pub(crate) use outcome::millis;
pub use outcome::{Chunk, Finished, Outcome, OutputStream, StartFailure, Totals};
pub(crate) use output::Output;
pub(crate) use process::container_rlimits;
pub use process::{Jail, JailError};
pub use run::RunLimits;
pub use spawner::Spawner;
pub use task::{Place, Start, Task};
