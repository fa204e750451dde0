//! How every program of ours starts: its settings read, its process confined, its place in the mesh taken, and
//! an orderly end.

mod container;
mod files;
mod folder;
mod member;
mod metrics;
mod run;
mod usage;

pub use container::{Contained, Health, checked, listener};
pub use files::{random_text, write_private, write_public};
pub use folder::{Place, default_data_dir};
pub use member::{Invitation, Member, Peers};
pub use metrics::confinement as show_confinement;
pub use run::{Start, Stop, run, starts_nothing};
pub use usage::{Usage, outcome, secret, switch};
