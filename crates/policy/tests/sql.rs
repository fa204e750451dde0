//! The judge of SQL on its rows, and what holds for every statement.
#![cfg(test)]

use std::{fs, path::Path};

use kazma_policy::sql::{self, Parameter, Refusal};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    query: String,
    #[serde(default)]
    params: Vec<Value>,
    expect: String,
}

fn rows() -> Vec<Row> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/sql.jsonl");
    fs::read_to_string(cases)
        .unwrap()
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect()
}

fn judged(query: &str, params: &[Value]) -> Result<(), Refusal> {
    sql::judge(query, &sql::parameters(params)?)
}

#[test]
fn every_row_is_judged_as_it_says() {
    let rows = rows();
    for row in &rows {
        let judged = judged(&row.query, &row.params);
        assert_eq!(
            judged.is_ok(),
            row.expect == "allow",
            "{} {:?}: {judged:?}",
            row.id,
            row.query
        );
    }
    let allowed = rows.iter().filter(|row| row.expect == "allow").count();
    assert!(
        allowed >= 120 && rows.len() - allowed >= 200,
        "{allowed} of {}",
        rows.len()
    );
}

/// Rows that are allowed and take no values.
fn allowed() -> Vec<String> {
    rows()
        .into_iter()
        .filter(|row| row.expect == "allow" && row.params.is_empty())
        .map(|row| row.query)
        .collect()
}

fn refused() -> Vec<Row> {
    rows()
        .into_iter()
        .filter(|row| row.expect == "refuse")
        .collect()
}

#[test]
fn what_stands_in_front_of_a_statement_or_behind_it_opens_nothing() {
    for row in refused() {
        for more in [
            format!("{};", row.query),
            format!("{}; SELECT 1", row.query),
            format!("SELECT 1; {}", row.query),
            format!("/* SELECT 1 */ {}", row.query),
            format!("-- SELECT 1\n{}", row.query),
            format!("EXPLAIN {}", row.query),
        ] {
            // What a comment or a quote swallowed whole is no second statement.
            let closed = !row.query.contains(['\'', '"', '`', '[', '*', '-'])
                && !row.query.trim().is_empty();
            let ended = row.query.trim_end().ends_with(';');
            if closed && !ended {
                assert!(judged(&more, &row.params).is_err(), "{}: {more:?}", row.id);
            }
        }
    }
}

/// Whatever is done to the letters of a name or around it, it stays the same name to SQLite.
#[test]
fn no_spelling_of_a_name_opens_it() {
    for name in [
        "load_extension",
        "readfile",
        "fts3_tokenizer",
        "optimize",
        "edit",
        "zeroblob_",
    ] {
        for spelt in spellings(name) {
            for query in [
                format!("SELECT {spelt}('x')"),
                format!("SELECT 1 WHERE {spelt} ('x') = 1"),
                format!("SELECT upper({spelt}/**/('x'))"),
                format!("SELECT * FROM {spelt}('x')"),
                format!("WITH a AS (SELECT {spelt}\n('x')) SELECT * FROM a"),
            ] {
                assert!(judged(&query, &[]).is_err(), "{query}");
            }
        }
    }
    for name in ["pragma_table_info", "pragma_database_list", "sqlite_dbpage"] {
        for spelt in spellings(name) {
            for query in [
                format!("SELECT * FROM {spelt}"),
                format!("SELECT * FROM main.{spelt} AS x"),
                format!("SELECT * FROM {spelt}('x') x JOIN a"),
                format!("SELECT 1 IN {spelt}"),
                format!("SELECT (SELECT 1 FROM a, {spelt})"),
            ] {
                assert!(judged(&query, &[]).is_err(), "{query}");
            }
        }
    }
}

fn spellings(name: &str) -> Vec<String> {
    vec![
        name.to_owned(),
        name.to_uppercase(),
        name.replacen('a', "A", 1),
        format!("\"{name}\""),
        format!("[{name}]"),
        format!("`{}`", name.to_uppercase()),
    ]
}

/// A statement put together of pieces that mean something, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "SELECT",
        "FROM",
        "WHERE",
        "WITH",
        "AS",
        "VALUES",
        "UNION ALL",
        "JOIN",
        "ON",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "a",
        "t",
        "\"b\"",
        "[c]",
        "`d`",
        "main.t",
        "1",
        "2.5",
        "'x'",
        "x'00'",
        "NULL",
        "*",
        "(",
        ")",
        ",",
        ";",
        "+",
        "||",
        "->>",
        "=",
        "NOT",
        "IN",
        "LIKE",
        "GLOB",
        "ISNULL",
        "count(*)",
        "upper(a)",
        "load_extension('x')",
        "pragma_table_info('t')",
        "INSERT INTO t",
        "DELETE FROM t",
        "UPDATE t SET",
        "DROP TABLE t",
        "PRAGMA x",
        "ATTACH 'x' AS y",
        "RETURNING *",
        "-- x\n",
        "/* x */",
        "/*",
        "'",
        "\"",
        "OVER ()",
        "CASE WHEN",
        "THEN",
        "END",
        "EXISTS",
        "RECURSIVE",
        "t(a)",
        "json_each(a)",
        "INTO",
        "?",
        "AS MATERIALIZED",
        "CAST(a AS TEXT)",
        "COLLATE NOCASE",
        "BETWEEN",
        "AND",
        "\n",
        "\t",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_answers_whatever_it_is_given(query in "\\PC{0,200}") {
        if let Err(refusal) = judged(&query, &[]) {
            prop_assert!(!refusal.reason.is_empty());
        }
    }

    /// A statement that is allowed begins as one that reads, and with another behind it, it is none any more.
    #[test]
    fn what_is_allowed_is_one_statement_that_reads(query in pieces()) {
        if judged(&query, &[]).is_ok() {
            let first = query
                .split("/* x */")
                .flat_map(|part| part.split("-- x\n"))
                .find_map(|part| part.split_whitespace().next())
                .unwrap_or_default()
                .to_uppercase();
            prop_assert!(["SELECT", "WITH", "VALUES"].contains(&first.as_str()), "{query:?}");
            for second in ["; DELETE FROM t", "\n;SELECT 1", "\n; PRAGMA user_version = 1", "\n;;"] {
                let more = format!("{query}{second}");
                // An open comment at the end swallows it, for SQLite as well.
                if !query.contains("/*") || query.matches("/*").count() == query.matches("/* x */").count() {
                    prop_assert!(judged(&more, &[]).is_err(), "{more:?}");
                }
            }
        }
    }

    /// Values are data: whatever a text says, the verdict is the same.
    #[test]
    fn no_value_changes_the_verdict(text in "[^\0]{0,80}") {
        prop_assert_eq!(sql::judge("SELECT * FROM t WHERE a = ?", &[Parameter::Text(text)]), Ok(()));
    }

    /// An allowed statement with a refused function anywhere a column stands is refused.
    #[test]
    fn a_refused_function_is_found_wherever_it_stands(row in prop::sample::select(allowed()), nth in 0_usize..6) {
        let places: Vec<_> = row.match_indices("name").collect();
        if let Some((at, _)) = places.get(nth)
            && !row.contains(['\'', '"', '[', '`'])
            && !row.contains("AS name")
        {
            let alone = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || "_.".contains(c));
            let (before, after) = (row[..*at].chars().next_back(), row[at + 4..].chars().next());
            if alone(before) && alone(after) {
                let more = format!("{}readfile(name){}", &row[..*at], &row[at + 4..]);
                prop_assert!(judged(&more, &[]).is_err(), "{more:?}");
            }
        }
    }
}
