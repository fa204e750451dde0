//! axum glue for every HTTP surface of Kazma: problem documents, and extractors whose refusals say
//! which field is wrong and what would be right.

mod error;
mod extract;
pub mod request;

pub use error::{ApiError, fallback, method_not_allowed, not_found};
pub use extract::{Json, Path, Query, parse_form};
