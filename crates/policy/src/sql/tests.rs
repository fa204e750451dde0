//! What the rows of tests/cases cannot say.

use serde_json::json;

use super::*;

fn refused(query: &str) -> String {
    judge(query, &[]).expect_err(query).to_string()
}

#[test]
fn a_refusal_says_where_and_what_to_write_instead() {
    for (query, words) in [
        (
            "SELECT a\nFROM pragma_table_info('t')",
            "line 2, column 6: \"pragma_table_info\" is a PRAGMA in disguise; read sqlite_schema",
        ),
        (
            "SELECT readfile('x')",
            "line 1, column 8: the function \"readfile\" is not among those",
        ),
        ("SELECT 1; SELECT 2", "line 1, column 9: a second statement"),
        (
            "SELECT a FROM b.c",
            "only the one that db_path names is open",
        ),
        ("SELECT name ILIKE 'a' FROM t", "write LIKE"),
        ("DELETE FROM t", "this tool only reads"),
        ("", "the statement is empty; write one SELECT"),
        (
            "SELECT ?",
            "the statement has 1 placeholder for values and params has 0",
        ),
        ("SELECT :a", "write ? and give the values in params"),
    ] {
        let refusal = refused(query);
        assert!(refusal.contains(words), "{query}: {refusal}");
    }
}

#[test]
fn a_refusal_is_one_short_line_whatever_is_refused() {
    let long = "x".repeat(20_000);
    for query in [
        format!("SELECT {long}('\n')"),
        format!("SELECT * FROM {long}.t"),
        format!("SELECT '{long}' '{long}'"),
        format!("{long} 1"),
        format!("SELECT \"{long}\n\"('1')"),
        format!("SELECT `{long}"),
        format!("SELECT 1 FROM t WHERE {long} SIMILAR TO 'x'"),
        "SELECT \"\u{202e}\n\"(1)".to_owned(),
    ] {
        let refusal = refused(&query);
        assert!(refusal.len() < 600, "{}: {refusal}", refusal.len());
        assert!(!refusal.contains('\n'), "{refusal}");
    }
}

#[test]
fn depth_and_length_bring_nothing_down() {
    let n = 2_500;
    for query in [
        "SELECT ".to_owned() + &"(".repeat(n),
        "SELECT * FROM ".to_owned() + &"(".repeat(n),
        "SELECT * FROM ".to_owned() + &"((t) ".repeat(60) + &")".repeat(60),
        "SELECT ".to_owned() + &"(SELECT ".repeat(60) + "1" + &")".repeat(60),
        "SELECT 1".to_owned() + &" UNION SELECT 1".repeat(n / 2),
        "SELECT 1".to_owned() + &"+1".repeat(n),
        "SELECT 1".to_owned() + &" AND 1".repeat(n),
        "SELECT ".to_owned() + &"- ".repeat(n) + "1",
        "SELECT ".to_owned() + &"NOT ".repeat(n) + "1",
        "SELECT ".to_owned() + &"CASE WHEN 1 THEN ".repeat(n / 5) + "1",
        "SELECT ".to_owned() + &"a.".repeat(n) + "a",
        "SELECT a".to_owned() + &" COLLATE b".repeat(n),
        "SELECT a".to_owned() + &" -> 'b'".repeat(n),
        "SELECT a".to_owned() + &" IS NULL".repeat(n),
        "SELECT a FROM b".to_owned() + &" JOIN b".repeat(n),
        "SELECT a FROM b".to_owned() + &", b".repeat(n),
        "SELECT a FROM (".repeat(59) + "b" + &")".repeat(59),
        "WITH ".to_owned() + &"a AS (SELECT 1), ".repeat(n / 8) + "a AS (SELECT 1) SELECT 1",
        "WITH a AS (".repeat(59),
        "VALUES ".to_owned() + &"(1),".repeat(n / 2) + "(1)",
        "SELECT ".to_owned() + &"f(".repeat(59) + &")".repeat(59),
        "SELECT a IN (".repeat(59),
        "SELECT ".to_owned() + &"EXISTS (SELECT ".repeat(59),
        "SELECT count(*) OVER (".repeat(59),
        "'".repeat(n),
        "/*".repeat(n),
        "SELECT 1 ".to_owned() + &"/**/".repeat(n),
    ] {
        let begun = std::time::Instant::now();
        let _ = judge(&query, &[]);
        assert!(
            begun.elapsed().as_secs() < 10,
            "{:?}: {:.60}",
            begun.elapsed(),
            query
        );
    }
}

#[test]
fn values_are_what_json_and_sqlite_both_hold() {
    let read = |value| parameters(&[value]).map(|mut all| all.pop());
    for (value, parameter) in [
        (json!(null), Parameter::Null),
        (json!(true), Parameter::Bool(true)),
        (json!(-3), Parameter::Integer(-3)),
        (json!(1.5), Parameter::Real(1.5)),
        (json!("a\nb"), Parameter::Text("a\nb".to_owned())),
        (
            json!(9_007_199_254_740_991_i64),
            Parameter::Integer(9_007_199_254_740_991),
        ),
    ] {
        assert_eq!(read(value), Ok(Some(parameter)));
    }
    for value in [
        json!([1]),
        json!({"a": 1}),
        json!(9_007_199_254_740_992_i64),
        json!(-9_007_199_254_740_992_i64),
        json!(u64::MAX),
    ] {
        assert!(read(value.clone()).is_err(), "{value}");
    }
    assert!(parameters(&vec![json!(1); PARAMETERS + 1]).is_err());
    for odd in [
        Parameter::Text("a\0b".to_owned()),
        Parameter::Real(f64::NAN),
        Parameter::Real(f64::INFINITY),
        Parameter::Text("x".repeat(PARAMETER_BYTES + 1)),
    ] {
        assert!(
            judge("SELECT ?", std::slice::from_ref(&odd)).is_err(),
            "{odd:?}"
        );
    }
}
