//! Fetches from the internet on behalf of text that nobody vouches for.
//!
//! [`Judge`] decides about an address without any input or output: its spelling, its name, every address
//! that the name resolves to, each hop of a redirect, the peer. [`Client`] fetches what the judge lets
//! pass, from the very address that was judged. `kazma policy url` is the same judge over rows.
//!
//! **Invariants**, each proven by a test: whatever cannot be read, resolved or judged is refused; no
//! special address passes in any spelling that the parser accepts; a fetch never speaks to an address
//! that was not judged; nothing in the environment sends it elsewhere.

mod address;
mod client;

mod judge;
mod names;
mod origin;
mod refusal;
mod row;
mod special;
mod spelling;

pub use client::{Client, Cut, Error, Limits, Page, Resolve, Stage, SystemResolver};
pub use judge::{Answers, Judge, Target};
pub use origin::{NotAnOrigin, Origin};
pub use refusal::Refusal;
pub use row::Row;
