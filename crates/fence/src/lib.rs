//! The prompt fence: how text that nobody vouches for reaches a model.
//!
//! Such text stands between two marker lines that carry a random nonce, in a message of its own. What
//! looks like a marker, or like the tokens by which models tell speakers apart, is broken by a visible
//! [`BREAK`]; characters that do not show are written out. The fence lowers the odds that a model
//! takes data for orders. It guarantees nothing: the gate does.
//!
//! **Invariants**, each proven by a test: what stands inside holds no marker of its own fence, and
//! fencing what was fenced finds nothing left to break.

mod active;
mod attributes;
mod block;
mod byte;
mod escape;
mod event;
mod fold;
mod hidden;
mod markdown;
mod marker;
mod nonce;
mod place;
mod role;
mod scan;
mod shown;
mod square;
mod stem;
mod style;
mod target;
mod token;
mod untrusted;

pub use block::{Fence, Fenced, NotASource, Source};
pub use scan::{BREAK, defuse};
pub use untrusted::Untrusted;
