//! What a fetched body says, as plain text: by its type, its character set, and its markup.
//!
//! **Invariant:** whatever the bytes are, the work is bounded and nothing in them is followed.

mod charset;
mod html;
mod kind;

use kazma_netguard::Page;

use kind::Kind;

/// What a page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is text.
    Text(Readable),
    /// It is none, and is named instead: what it is.
    Other(String),
}

/// The text of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Readable {
    /// Its title; empty where it has none.
    pub(crate) title: String,
    /// Its text, with a number in brackets behind each link.
    pub(crate) text: String,
    /// Where the links lead, in the order of their numbers, from 1.
    pub(crate) links: Vec<String>,
    /// Whether it was too intricate to be read to its end.
    pub(crate) unfinished: bool,
}

/// Reads a page. To be called where it may take some time.
pub(crate) fn read(page: &Page) -> Said {
    if let Some(encoding) = &page.content_encoding
        && !encoding.trim().eq_ignore_ascii_case("identity")
    {
        return Said::Other(format!(
            "compressed as {encoding:?}, which was not asked for"
        ));
    }
    let kind = kind::of(page.content_type.as_deref(), &page.body);
    match kind {
        Kind::Html { charset } => {
            let text = charset::decode(&page.body, charset.as_deref(), true);
            Said::Text(html::read(&text, page.url()))
        }
        Kind::Plain { charset } => Said::Text(Readable {
            text: charset::decode(&page.body, charset.as_deref(), false),
            ..Readable::default()
        }),
        Kind::Other { name } => Said::Other(name),
    }
}
