//! Which words of a statement are words of the language, and which are names: as for `SQLite`, not as for all the dialects
//! that the reader knows. Source: <https://www.sqlite.org/lang_keywords.html>.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// The words that mean something in a `SELECT` to `SQLite`; every other one is a name to it, and so to the reader, which
/// knows the words of all dialects. The last line is what types are made of: a `CAST` to one may take two words.
const WORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COLLATE",
    "CROSS",
    "CURRENT",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "DELETE",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXCLUDE",
    "EXISTS",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FOR",
    "FROM",
    "FULL",
    "GLOB",
    "GROUP",
    "GROUPS",
    "HAVING",
    "IN",
    "INDEXED",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS",
    "ISNULL",
    "JOIN",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MATCH",
    "MATERIALIZED",
    "NATURAL",
    "NO",
    "NOT",
    "NOTNULL",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OTHERS",
    "OUTER",
    "OVER",
    "PARTITION",
    "PRECEDING",
    "RANGE",
    "RECURSIVE",
    "REGEXP",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "ROW",
    "ROWS",
    "SELECT",
    "SET",
    "TABLE",
    "THEN",
    "TIES",
    "UNBOUNDED",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
    "BIG",
    "CHARACTER",
    "DOUBLE",
    "PRECISION",
    "UNSIGNED",
    "VARYING",
];

/// The same tokens, with names where `SQLite` sees names, and two of its words spelt as the reader knows them.
pub(super) fn as_sqlite_reads(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(mut token) = tokens.next() {
        if let Token::Word(word) = &mut token.token
            && !WORDS.iter().any(|it| it.eq_ignore_ascii_case(&word.value))
        {
            word.keyword = Keyword::NoKeyword;
        }
        let isnull = matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("ISNULL"));
        if isnull {
            // A reserved word: `a ISNULL` is `a IS NULL` and can be nothing else.
            for keyword in ["IS", "NULL"] {
                read.push(TokenWithSpan::new(Token::make_keyword(keyword), token.span));
            }
            continue;
        }
        if token.token == Token::LParen {
            without_hint(&mut read);
        }
        // `a NOT GLOB b` stands where `a NOT LIKE b` does, which the reader knows.
        let pattern = is_word(&token, Keyword::GLOB) || is_word(&token, Keyword::MATCH);
        let negated = read.last().is_some_and(|last| is_word(last, Keyword::NOT));
        let called = tokens
            .peek()
            .is_some_and(|next| next.token == Token::LParen);
        if pattern && negated && !called {
            token.token = Token::make_keyword("LIKE");
        }
        read.push(token);
    }
    read
}

/// Takes the hint of `AS MATERIALIZED (` or `AS NOT MATERIALIZED (` off the end; the query in the brackets is judged.
fn without_hint(read: &mut Vec<TokenWithSpan>) {
    let mut from_end = read.iter().rev().peekable();
    if !from_end
        .next()
        .is_some_and(|it| is_word(it, Keyword::MATERIALIZED))
    {
        return;
    }
    let negated = from_end.next_if(|it| is_word(it, Keyword::NOT)).is_some();
    if from_end.next().is_some_and(|it| is_word(it, Keyword::AS)) {
        let hint = if negated { 2 } else { 1 };
        read.truncate(read.len() - hint);
    }
}

fn is_word(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// What to write instead of words of other dialects, for a statement that could not be read.
pub(super) fn instead(query: &str) -> &'static str {
    const OTHERS: &[(&str, &str)] = &[
        (
            "ILIKE",
            "write LIKE, which takes no notice of the case of ASCII letters",
        ),
        ("SIMILAR", "write LIKE or GLOB for patterns"),
        ("RLIKE", "write LIKE or GLOB for patterns"),
        ("TOP", "write LIMIT at the end"),
        ("FETCH", "write LIMIT at the end"),
        (
            "QUALIFY",
            "put the window function into a query in FROM and filter outside",
        ),
        ("INTERVAL", "reckon with dates by date(x, '+1 day')"),
        ("EXTRACT", "take parts of dates by strftime('%Y', x)"),
        ("POSITION", "find text by instr(where, what)"),
        ("LATERAL", "write the query in FROM without LATERAL"),
        ("UNNEST", "write json_each(…) in FROM"),
        ("EXCLUDE", "leave EXCLUDE out of the window"),
    ];
    let mut words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
    words
        .find_map(|word| {
            OTHERS
                .iter()
                .find(|(other, _)| other.eq_ignore_ascii_case(word))
        })
        .map_or(
            "write it plainer, and quote names by double quotes",
            |(_, fix)| fix,
        )
}
