//! What people see: page and part templates, their view models, and the files they load.
//!
//! Handlers fill plain structs of strings, numbers and flags and call `render()`; nothing here knows the wire types, a
//! clock or a database. Every struct has a `sample()`, with which tests and `examples/preview.rs` render every page.
//!
//! Text is untrusted unless it is ours. Templates escape everything, and print what the agent, a tool or another
//! person wrote through [`shown`], which makes hidden characters visible. The two exceptions are [`Markup`], which
//! only our renderer makes, and icons.

mod assets;
mod card;
mod exact;
mod markdown;
mod page;
mod text;
mod thread;
mod visible;

pub use assets::{Asset, asset, asset_url, assets, icon};
pub use card::{Card, CardPart, CardState, Detail, Moment, Provenance, Source};
pub use exact::{Exact, Kind, Line, Mark};
pub use markdown::{MARKDOWN_LIMIT, Markup};
pub use page::{ApprovalsPage, Band, ErrorPage, GatePage, Section, Shell, SignInPage, Tone};
pub use text::{escape, shown, shown_html, shown_word, span, spelled};
pub use thread::{
    ChatPage, Example, Message, MessagesPart, Speaker, ThreadPage, ThreadRow, ThreadsPage,
};
pub use visible::{Span, lookalike_hosts, visible};

#[cfg(test)]
mod tests;
