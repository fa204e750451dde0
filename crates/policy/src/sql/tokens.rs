//! The statement as a row of tokens, before there is a tree.
//!
//! What `SQLite` and this reader could cut in two different ways ends here, so that both see the same tokens; so does a
//! second statement. Source: `SQLite`'s own rules for tokens (<https://www.sqlite.org/lang_expr.html>, "Literal Values
//! (Constants)", "Parameters"; <https://www.sqlite.org/lang_comment.html>; <https://www.sqlite.org/lang_keywords.html>).

use sqlparser::{
    dialect::SQLiteDialect,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace, Word},
};

use super::{Refusal, parameter::PARAMETERS, words};

/// The most tokens of one statement, spaces and comments not counted.
const TOKENS: usize = 6_000;
/// Brackets in brackets.
const BRACKETS: usize = 60;

pub(super) const DIALECT: SQLiteDialect = SQLiteDialect {};

/// The tokens of one statement, without the semicolon at its end.
pub(super) fn check(query: &str, parameters: usize) -> Result<Vec<TokenWithSpan>, Refusal> {
    characters(query)?;
    let all = Tokenizer::new(&DIALECT, query)
        .tokenize_with_location()
        .map_err(|error| {
            Refusal::at(
                error.location,
                format_args!(
                    "this is not SQL: {}",
                    shown(&error.message).trim_end_matches('.')
                ),
            )
        })?;
    // What stands between tokens says nothing to the reader.
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    for token in all {
        match &token.token {
            Token::Whitespace(space) => comment(space, token.span.start)?,
            Token::EOF => {}
            _ => tokens.push(token),
        }
    }
    if tokens
        .last()
        .is_some_and(|last| last.token == Token::SemiColon)
    {
        tokens.pop();
    }
    first(&tokens)?;
    if tokens.len() > TOKENS {
        return Err(Refusal::new(format_args!(
            "the statement has more than {TOKENS} words and signs; give values as params or ask in parts"
        )));
    }
    let mut seen = Seen::default();
    for token in &tokens {
        seen.take(token)?;
    }
    let tokens = words::as_sqlite_reads(tokens);
    if seen.needed != parameters {
        return Err(Refusal::new(format_args!(
            "the statement has {} for values and params has {parameters}; give exactly one value for each",
            match seen.needed {
                1 => "1 placeholder".to_owned(),
                n => format!("{n} placeholders"),
            }
        )));
    }
    Ok(tokens)
}

/// No character that a person could not see on a card, and none at which `SQLite` and this reader part ways: a NUL ends
/// the text for one of them, a vertical tab is a space for the other.
fn characters(query: &str) -> Result<(), Refusal> {
    let mut place = Location { line: 1, column: 1 };
    for c in query.chars() {
        if c.is_control() && !matches!(c, '\t' | '\n' | '\r') {
            return Err(Refusal::at(
                place,
                format_args!(
                    "the control character {}; write it as char({}) or give it as a value of params",
                    c.escape_unicode(),
                    u32::from(c)
                ),
            ));
        }
        if c == '\n' {
            place.line += 1;
            place.column = 1;
        } else {
            place.column += 1;
        }
    }
    Ok(())
}

fn comment(space: &Whitespace, at: Location) -> Result<(), Refusal> {
    match space {
        // A line ends at a line feed alone for SQLite; a person may see two lines at a bare carriage return.
        Whitespace::SingleLineComment { comment, prefix } if prefix == "--" => {
            if comment.trim_end_matches(['\r', '\n']).contains('\r') {
                return Err(Refusal::at(
                    at,
                    "a carriage return inside a comment; end the line with a line feed",
                ));
            }
            Ok(())
        }
        Whitespace::SingleLineComment { .. } => Err(Refusal::at(
            at,
            "no comment of SQLite begins so; write -- or /* */",
        )),
        // SQLite ends it at the first end mark, whatever was opened inside.
        Whitespace::MultiLineComment(text) if text.contains("/*") => Err(Refusal::at(
            at,
            "a comment inside a comment; close the first one before the next",
        )),
        Whitespace::Space
        | Whitespace::Newline
        | Whitespace::Tab
        | Whitespace::MultiLineComment(_) => Ok(()),
    }
}

/// The first word says what a statement is, to `SQLite` too.
fn first(tokens: &[TokenWithSpan]) -> Result<(), Refusal> {
    let Some(first) = tokens.first() else {
        return Err(Refusal::new("the statement is empty; write one SELECT"));
    };
    if let Token::Word(Word {
        value,
        quote_style: None,
        ..
    }) = &first.token
    {
        let word = value.to_ascii_uppercase();
        let why = match word.as_str() {
            "SELECT" | "VALUES" | "WITH" => return Ok(()),
            "PRAGMA" => {
                "settings are not read or changed here; the tables and their columns stand in sqlite_schema"
            }
            "ATTACH" | "DETACH" => "one call reads one database; name it by db_path",
            "EXPLAIN" => "the plan of a statement is not shown here; run the SELECT itself",
            _ => "this tool only reads: one SELECT, VALUES or WITH … SELECT",
        };
        return Err(Refusal::at(
            first.span.start,
            format_args!("{} is refused: {why}", quoted(value)),
        ));
    }
    Err(Refusal::at(
        first.span.start,
        "a statement begins with SELECT, VALUES or WITH",
    ))
}

/// What the tokens so far came to.
#[derive(Debug, Default)]
struct Seen {
    brackets: usize,
    /// How many values the placeholders need.
    needed: usize,
}

impl Seen {
    fn take(&mut self, token: &TokenWithSpan) -> Result<(), Refusal> {
        let refuse = |reason: &str| Err(Refusal::at(token.span.start, reason));
        match &token.token {
            Token::LParen => {
                self.brackets += 1;
                if self.brackets > BRACKETS {
                    return refuse("it is nested too deeply to be read; take it apart by WITH");
                }
            }
            Token::RParen => self.brackets = self.brackets.saturating_sub(1),
            Token::SemiColon => {
                return refuse(
                    "a second statement begins behind this semicolon; make one call for each",
                );
            }
            Token::Placeholder(name) => return self.placeholder(name, token.span.start),
            _ => {
                if let Some(reason) = odd(token) {
                    return refuse(&reason);
                }
            }
        }
        Ok(())
    }

    /// `?` is the next number behind the greatest so far, `?3` is the third.
    fn placeholder(&mut self, name: &str, at: Location) -> Result<(), Refusal> {
        let refused = || {
            Refusal::at(
                at,
                format_args!(
                    "the placeholder {}; write ? or ?1 to ?{PARAMETERS}",
                    quoted(name)
                ),
            )
        };
        let number = match name.strip_prefix('?').ok_or_else(refused)? {
            "" => self.needed + 1,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| refused())?
            }
            _ => return Err(refused()),
        };
        if number == 0 || number > PARAMETERS {
            return Err(refused());
        }
        self.needed = self.needed.max(number);
        Ok(())
    }
}

/// Why a token is refused that `SQLite` does not have, or might end elsewhere.
fn odd(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) => odd_word(word),
        Token::Number(digits, long) => {
            // Digits are grouped by underscores only in new versions of SQLite.
            (*long || digits.contains('_'))
                .then(|| format!("the number {}; write plain digits", quoted(digits)))
        }
        Token::HexStringLiteral(digits) => {
            // The reader has one token for 0x1f and x'1f'; they differ by a quotation mark.
            let span = token.span;
            let long = span.end.column.saturating_sub(span.start.column);
            let number = span.start.line == span.end.line && long == digits.len() as u64 + 2;
            let whole = (number && !digits.is_empty() || !number && digits.len() % 2 == 0)
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            (!whole).then(|| "x'…' takes pairs of hexadecimal digits and nothing else".to_owned())
        }
        Token::SingleQuotedString(_)
        | Token::Comma
        | Token::DoubleEq
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq
        | Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::Period
        | Token::Ampersand
        | Token::Pipe
        | Token::Tilde
        | Token::ShiftLeft
        | Token::ShiftRight
        | Token::Arrow
        | Token::LongArrow => None,
        Token::Colon | Token::AtSign => Some(
            "named placeholders are not filled in here; write ? and give the values in params"
                .to_owned(),
        ),
        other => Some(format!(
            "{} is no sign of SQLite's language",
            quoted(&other.to_string())
        )),
    }
}

fn odd_word(word: &Word) -> Option<String> {
    match word.quote_style {
        // SQLite ends it at the first bracket; this reader takes two for one.
        Some('[') => word
            .value
            .contains(']')
            .then(|| "a bracket inside [ ]; quote the name by double quotes".to_owned()),
        Some('"' | '`') => None,
        Some(_) => Some("a name is quoted by double quotes".to_owned()),
        None => word
            .value
            .chars()
            .find(|c| !c.is_alphanumeric() && !matches!(c, '_' | '$'))
            .map(|c| {
                format!(
                    "the character {} in a name; quote the name by double quotes",
                    c.escape_unicode()
                )
            }),
    }
}

/// A piece of the statement in a sentence: short, and on one line.
pub(super) fn quoted(text: &str) -> String {
    let mut out: String = text.chars().take(40).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    format!("{out:?}")
}

/// Words of the reader, which hold pieces of the statement: short, and on one line.
pub(super) fn shown(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(200)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().count() > 200 {
        out.push('…');
    }
    out
}
