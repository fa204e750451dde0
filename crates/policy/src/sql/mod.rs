//! The judge of SQL: what `sqlite_query` refuses before a database is opened.
//!
//! It reads a real syntax tree and lets through what is on its lists, each from `SQLite`'s manual: one `SELECT`, `VALUES`
//! or `WITH … SELECT`. It is the first lock. The second is `SQLite` itself, which is told the same in the jail: read-only,
//! `query_only`, an authorizer with the same functions. Where this reader and `SQLite` could read a text in two ways, the
//! text is refused.
//!
//! **Invariant:** pure; and whatever cannot be read, or is not known, is refused.

mod expression;
mod functions;
mod parameter;
mod select;
mod tokens;
mod words;

use std::fmt;

use sqlparser::{
    ast::Spanned,
    parser::{Parser, ParserError},
    tokenizer::Location,
};

pub use functions::{AUTHORIZED, is_listed};
pub use parameter::{PARAMETER_BYTES, PARAMETERS, Parameter, parameters};

/// The longest statement, in bytes.
pub const QUERY_BYTES: usize = 32 * 1024;
/// How deep the reader goes: expressions, queries and tables in one another.
const DEPTH: usize = 128;
/// Room for the deepest tree: it is read, walked and taken down by recursion, and a long sum is as deep as it is long.
const STACK: usize = 256 * 1024 * 1024;

/// Where something stands in a statement, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The character in it.
    pub column: u64,
}

/// Why a statement is refused, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Where, as far as it is known.
    pub at: Option<Place>,
    /// In plain words.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(Place { line, column }) => {
                write!(f, "line {line}, column {column}: {}", self.reason)
            }
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    fn new(reason: impl fmt::Display) -> Self {
        Self {
            at: None,
            reason: reason.to_string(),
        }
    }

    fn at(place: Location, reason: impl fmt::Display) -> Self {
        Self {
            // Line 0 is how the reader says that it does not know.
            at: (place.line > 0).then_some(Place {
                line: place.line,
                column: place.column,
            }),
            reason: reason.to_string(),
        }
    }

    fn of(part: &impl Spanned, reason: impl fmt::Display) -> Self {
        Self::at(part.span().start, reason)
    }
}

/// Judges one statement with the values of its placeholders.
///
/// # Errors
///
/// The first thing in it that is refused.
pub fn judge(query: &str, parameters: &[Parameter]) -> Result<(), Refusal> {
    if query.len() > QUERY_BYTES {
        return Err(Refusal::new(format_args!(
            "the statement is longer than {QUERY_BYTES} bytes; give long values as params"
        )));
    }
    parameter::check(parameters)?;
    let read = std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().stack_size(STACK);
        reading
            .spawn_scoped(scope, || read(query, parameters.len()))
            .ok()
            .and_then(|reader| reader.join().ok())
    });
    // A reader that could not start or did not end says nothing of the statement.
    read.unwrap_or_else(|| Err(Refusal::new("the statement could not be read")))
}

fn read(query: &str, parameters: usize) -> Result<(), Refusal> {
    let tokens = tokens::check(query, parameters)?;
    let dialect = tokens::DIALECT;
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(DEPTH)
        .with_tokens_with_locations(tokens);
    let tree = parser
        .parse_query()
        .map_err(|error| unread(query, &error))?;
    let rest = parser.peek_token();
    if rest.token != sqlparser::tokenizer::Token::EOF {
        return Err(Refusal::at(
            rest.span.start,
            format_args!(
                "{} does not belong here: the SELECT has ended before it; {}",
                tokens::quoted(&rest.token.to_string()),
                words::instead(query)
            ),
        ));
    }
    select::query(&tree)
}

/// What the reader stumbled over, in one line, with the place that it names at its end.
fn unread(query: &str, error: &ParserError) -> Refusal {
    match error {
        ParserError::RecursionLimitExceeded => {
            Refusal::new("it is nested too deeply to be read; take it apart by WITH")
        }
        ParserError::ParserError(words) | ParserError::TokenizerError(words) => {
            let (words, place) = match words.rsplit_once(" at Line: ") {
                Some((head, place)) => (head, located(place)),
                None => (words.as_str(), None),
            };
            let words = tokens::shown(words);
            Refusal {
                at: place,
                reason: format!(
                    "this is not read as one SELECT of SQLite: {words}; {}",
                    words::instead(query)
                ),
            }
        }
    }
}

/// `1, Column: 8`, as the reader writes it.
fn located(text: &str) -> Option<Place> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Place {
        line: line.parse().ok().filter(|line| *line > 0)?,
        column: column.trim().parse().ok()?,
    })
}

#[cfg(test)]
mod tests;
