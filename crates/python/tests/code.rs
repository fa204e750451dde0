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
    // What is long and flat is ordinary.
    let table = format!("rows = [{}]", "-1.5, ".repeat(15_000));
    assert_eq!(judge(&table), Ok(()));
    let lines = "x = 1 + 2\n".repeat(20_000);
    assert_eq!(judge(&lines), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_it_panic(code in "\\PC{0,200}") {
        let _ = judge(&code);
    }

    #[test]
    fn no_python_like_text_makes_it_panic(words in prop::collection::vec(prop::sample::select(vec![
        "def ", "f", "(", ")", ":", "\n", "    ", "import ", "os", "from ", "f\"", "{", "}", "\"", "'''", "lambda ", "=", "[", "]",
        "class ", "match ", "case ", "*", "**", "async ", "await ", "if ", "else ", "#", "\\", "\t", "0x", "1e", ".", ",", "@",
    ]), 0..60)) {
        let _ = judge(&words.concat());
    }
}
