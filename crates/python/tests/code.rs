//! The judge of Python code: what it refuses and where, what passes, and that nothing brings it down.
#![cfg(test)]

use std::{fs, path::Path};

use kazma_python::judge;
use proptest::prelude::*;

#[test]
fn ordinary_snippets_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/python-ordinary");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let code = fs::read_to_string(&path).unwrap();
        assert_eq!(judge(&code), Ok(()), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 100, "only {seen} snippets");
}

#[test]
fn refused_snippets_are_refused_at_their_line() {
    let cases =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/python-refused.jsonl");
    let text = fs::read_to_string(cases).unwrap();
    let mut seen = 0;
    for row in text.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let code = row["code"].as_str().unwrap();
        let refusal = judge(code).expect_err(code);
        assert_eq!(
            Some(refusal.line as u64),
            row["line"].as_u64(),
            "{code}: {refusal}"
        );
        let word = row["reason"].as_str().unwrap();
        assert!(
            refusal.reason.contains(word),
            "{code}: {refusal} does not name {word}"
        );
        seen += 1;
    }
    assert!(seen >= 80, "only {seen} rows");
}

#[test]
fn depth_and_length_bring_nothing_down() {
    let n = 60_000;
    for code in [
        "(".repeat(n),
        "[".repeat(n) + &"]".repeat(n),
        "-".repeat(n) + "1",
        "not ".repeat(n) + "x",
        "x".to_owned() + &".a".repeat(n),
        "x".to_owned() + &"()".repeat(n),
        "1".to_owned() + &"+1".repeat(n),
        "1".to_owned() + &"**1".repeat(n),
        "lambda:".repeat(n) + "1",
        "1 if 1 else ".repeat(n / 4) + "1",
        "f\"{".repeat(n),
        "a=".repeat(n) + "1",
        "{".repeat(n),
        "x[".repeat(n),
        "await ".repeat(n) + "x",
        "if 1:\n".to_owned() + &"elif 1:\n pass\n".repeat(n / 8),
        (0..500).fold(String::new(), |code, depth| {
            code + &" ".repeat(depth) + "if 1:\n"
        }),
        "\"".repeat(n),
        "\u{feff}".repeat(n),
        "\0".repeat(n),
        "match x:\n case ".to_owned() + &"[".repeat(n),
        "x:".repeat(n),
        "*".repeat(n),
        "@".repeat(n),
        "a ".repeat(n),
        "\\\n".repeat(n),
        "x".repeat(300_000),
    ] {
        let _ = judge(&code);
    }
    // What is put together is looked at once, however deep it stands.
    for code in [
        "x".to_owned() + &".split()[0]".repeat(5_000),
        "\"a\"".to_owned() + &".split(\"b\")[0]".repeat(5_000),
        "\"\".join(".repeat(90) + "x" + &".split())".repeat(90),
        "(\"a\" + ".repeat(90) + "\"b\"" + &")[0]".repeat(90),
        "str.join(\"\", [".repeat(60) + "\"a\"" + &"])".repeat(60),
    ] {
        assert_eq!(judge(&code), Ok(()));
    }
    // What is long and flat is ordinary.
    let table = format!("rows = [{}]", "-1.5, ".repeat(15_000));
    assert_eq!(judge(&table), Ok(()));
    let lines = "x = 1 + 2\n".repeat(20_000);
    assert_eq!(judge(&lines), Ok(()));
}

/// In how many ways [`written`] writes a name.
const FORMS: usize = 18;

/// A name as an expression of Python that gives it.
fn written(name: &str, cut: usize, how: usize) -> String {
    let (a, b) = name.split_at(cut);
    let backwards: String = name.chars().rev().collect();
    let codes = |by: u32| {
        let codes: Vec<String> = name
            .chars()
            .map(|c| (u32::from(c) - by).to_string())
            .collect();
        codes.join(", ")
    };
    let shifted: String = name
        .chars()
        .map(|c| char::from_u32(u32::from(c) - 1).unwrap())
        .collect();
    match how {
        0 => format!("'{name}'"),
        1 => format!("'{a}' + '{b}'"),
        2 => format!("'%s%s' % ('{a}', '{b}')"),
        3 => format!("'{{}}{{}}'.format('{a}', '{b}')"),
        4 => format!("f\"{{'{a}'}}{b}\""),
        5 => format!("''.join(['{a}', '{b}'])"),
        6 => format!("str.join('', ('{a}', '{b}'))"),
        7 => format!("'{backwards}'[::-1]"),
        8 => format!("''.join(map(chr, [{}]))", codes(0)),
        9 => format!("''.join(chr(c + 3) for c in [{}])", codes(3)),
        10 => format!("''.join(chr(ord(c) + 1) for c in '{shifted}')"),
        11 => format!("bytes([{}]).decode()", codes(0)),
        12 => format!("bytes(c + 1 for c in [{}]).decode()", codes(1)),
        13 => format!("'{}'.lower()", name.to_uppercase()),
        14 => format!("'x-{name}'.split('-')[1]"),
        15 => format!("'x{name}'.removeprefix('x')"),
        16 => format!("['{a}', ''][0] + {{'k': '{b}'}}['k']"),
        _ => format!("''.join(map(lambda c: chr(c - 0), [{}]))", codes(0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_it_panic(code in "\\PC{0,200}") {
        let _ = judge(&code);
    }

    #[test]
    fn a_name_is_refused_however_it_is_put_together(
        name in prop::sample::select(vec!["__globals__", "__subclasses__", "__builtins__", "f_globals", "gi_frame", "tb_frame"]),
        cut in 1_usize..6,
        how in 0_usize..FORMS,
        wrapped in 0_usize..4,
    ) {
        let text = written(name, cut, how);
        let code = match wrapped {
            0 => format!("getattr(x, {text})"),
            1 => format!("def get(of, by): return getattr(of, by)\nget(x, {text})"),
            2 => format!("names = [{text}]\nfor name in names: getattr(x, name)"),
            _ => format!("table = {{1: ({text})}}\nlist(map(lambda it: getattr(x, it), table.values()))"),
        };
        prop_assert!(judge(&code).is_err(), "{code}");
    }

    #[test]
    fn no_python_like_text_makes_it_panic(words in prop::collection::vec(prop::sample::select(vec![
        "def ", "f", "(", ")", ":", "\n", "    ", "import ", "os", "from ", "f\"", "{", "}", "\"", "'''", "lambda ", "=", "[", "]",
        "class ", "match ", "case ", "*", "**", "async ", "await ", "if ", "else ", "#", "\\", "\t", "0x", "1e", ".", ",", "@",
    ]), 0..60)) {
        let _ = judge(&words.concat());
    }
}
