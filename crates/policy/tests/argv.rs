//! Properties of the judge of argument lists, on a workspace in memory.
#![cfg(test)]

use std::{collections::BTreeMap, fs, path::Path};

use kazma_policy::argv::{Command, Entry, Profile, Tree, Verdict, judge, judge_line, split};
use proptest::prelude::*;

/// `/top/ws` with a few files, a folder and two links that lead out.
#[derive(Debug)]
struct Memory;

impl Tree for Memory {
    fn root(&self) -> &'static str {
        "/top/ws"
    }

    fn entry(&self, path: &str) -> Entry {
        match path.strip_prefix("/top/ws/").unwrap_or_default() {
            "a.txt" | "b.txt" | "data.json" | "a.tar" | "src/app.py" | ".git/config"
            | ".git/HEAD" => Entry::File,
            "src" | ".git" | ".git/objects" | ".git/refs" => Entry::Folder,
            "link_out" => Entry::Link("../outside".to_owned()),
            "link_secret" => Entry::Link("../outside/secret.txt".to_owned()),
            _ => Entry::Missing,
        }
    }

    fn read(&self, path: &str, _limit: usize) -> Option<Vec<u8>> {
        (self.entry(path) == Entry::File).then(Vec::new)
    }

    fn list(&self, path: &str, _limit: usize) -> Option<Vec<String>> {
        let names: &[&str] = match path {
            "/top/ws" => &["a.txt", "src", "link_out"],
            _ => &[],
        };
        Some(names.iter().map(|it| (*it).to_owned()).collect())
    }
}

fn allowed<S: AsRef<str>>(argv: &[S]) -> bool {
    let argv: Vec<String> = argv.iter().map(|it| it.as_ref().to_owned()).collect();
    let command = Command {
        argv: &argv,
        env: &BTreeMap::new(),
        cwd: None,
    };
    matches!(
        judge(&command, &Memory, Profile::DEFAULT),
        Verdict::Allow(_)
    )
}

/// The argument lists of all rows, right and wrong.
fn rows() -> Vec<Vec<String>> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    ["shell.jsonl", "argv-more.jsonl"]
        .into_iter()
        .flat_map(|name| {
            let text = fs::read_to_string(cases.join(name)).unwrap();
            let rows: Vec<serde_json::Value> = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            rows
        })
        .map(|row| serde_json::from_value(row["argv"].clone()).unwrap())
        .collect()
}

#[test]
fn an_option_that_nobody_knows_never_turns_a_refusal_into_a_permission() {
    let rows = rows();
    assert!(rows.len() > 1000, "only {} rows", rows.len());
    for argv in rows.iter().filter(|it| it.len() < 100 && !allowed(it)) {
        for unknown in ["--kazma-does-not-exist", "--zz=1", "-é"] {
            // Not last: there it could be the value that was missing.
            for at in 1..argv.len() {
                let mut more = argv.clone();
                more.insert(at, unknown.to_owned());
                assert!(!allowed(&more), "{argv:?} is refused, {more:?} is not");
            }
        }
    }
}

#[test]
fn cutting_names_of_long_options_never_helps() {
    for argv in rows().iter().filter(|it| it.len() < 100) {
        for (at, argument) in argv.iter().enumerate().skip(1) {
            // What git and the text printers take as words may begin with dashes.
            let name = argument.split('=').next().unwrap_or_default();
            if !name.starts_with("--")
                || name.len() < 6
                || matches!(argv[0].as_str(), "echo" | "printf" | "tr")
            {
                continue;
            }
            let mut cut = argv.clone();
            cut[at] = argument.replacen(name, &name[..name.len() - 1], 1);
            assert!(
                allowed(argv) || !allowed(&cut),
                "{argv:?} is refused, {cut:?} is not"
            );
        }
    }
}

#[test]
fn a_line_is_judged_as_its_words_are() {
    let verdict = |line| judge_line(line, None, &Memory, Profile::DEFAULT);
    let reason = |line| match verdict(line) {
        Verdict::Refuse(refusal) => refusal.reason().to_owned(),
        Verdict::Allow(permitted) => permitted.argv.join("·"),
    };
    assert_eq!(reason("grep -E '^a|b$' a.txt"), "grep·-E·^a|b$·a.txt");
    assert_eq!(reason("cat \"a.txt\" src/app.py"), "cat·a.txt·src/app.py");
    assert!(reason("ls; rm -rf /").starts_with("catastrophic"));
    assert!(reason("cat a.txt | sh").contains("no shell"));
    assert!(reason("cat ../outside/secret.txt").contains("leads out"));
    assert!(reason("").contains("empty"));
}

/// Programs whose operands are all files, and short options without a value.
const READERS: [(&str, &str); 9] = [
    ("cat", "AbeEnstTuvL"),
    ("head", "qvzf"),
    ("tail", "qvzfF"),
    ("wc", "cmlLwo"),
    ("sort", "bdfgiMhnRrVCmsuzoT"),
    ("cut", "nszo"),
    ("ls", "aAbBcCdDfFgGhHiklmnNopqQrRsStuUvxXZ1L"),
    ("du", "0abcDHhklmPSsxLX"),
    ("df", "ahHiklPTvs"),
];

fn reader() -> impl Strategy<Value = (&'static str, Vec<char>)> {
    (0..READERS.len()).prop_flat_map(|index| {
        let (name, letters) = READERS[index];
        let letters: Vec<char> = letters.chars().collect();
        let chosen = prop::collection::vec(prop::sample::select(letters), 1..5);
        (Just(name), chosen)
    })
}

proptest! {
    #[test]
    fn clusters_and_order_of_options_do_not_matter((name, letters) in reader(), turn in 0_usize..4) {
        // A letter that takes a value swallows what is glued to it, so it is not a flag in a cluster.
        prop_assume!(!letters.iter().any(|c| "oTXLFfs".contains(*c) && matches!(name, "sort" | "tail" | "du" | "cut")));
        let together = vec![name.to_owned(), format!("-{}", letters.iter().collect::<String>()), "a.txt".to_owned()];
        let mut apart: Vec<String> = letters.iter().map(|c| format!("-{c}")).collect();
        let length = apart.len();
        apart.rotate_left(turn % length);
        let mut before = vec![name.to_owned()];
        before.extend(apart.iter().cloned());
        before.push("a.txt".to_owned());
        let mut after = vec![name.to_owned(), "a.txt".to_owned()];
        after.extend(apart);
        prop_assert_eq!(allowed(&together), allowed(&before));
        prop_assert_eq!(allowed(&together), allowed(&after));
    }

    #[test]
    fn a_path_that_leads_out_is_refused_wherever_it_stands(
        (name, letters) in reader(),
        path in prop::sample::select(vec![
            "../outside/secret.txt", "link_out/x", "link_secret", "/etc/passwd", "src/../../x", "./../x", "//etc", "~/x",
            "src/./.././../x", "/top/ws/../x", "/top/wsx", "/top", "link_out/../../ws/a.txt", "..",
        ]),
        first in any::<bool>(),
        dashes in any::<bool>(),
    ) {
        let mut argv: Vec<String> = vec![name.to_owned()];
        argv.extend(letters.iter().map(|c| format!("-{c}")));
        if dashes {
            argv.push("--".to_owned());
        }
        argv.push("a.txt".to_owned());
        let at = if first { argv.len() - 1 } else { argv.len() };
        argv.insert(at, path.to_owned());
        // What stands behind an option with a value may be that value; none of these takes any path.
        prop_assert!(!allowed(&argv), "{argv:?}");
    }

    #[test]
    fn nothing_makes_it_panic(
        name in prop::sample::select(vec![
            "ls", "sort", "find", "grep", "jq", "git", "tar", "zip", "unzip", "gzip", "ps", "cp", "mv", "date", "printf",
            "uv", "ruff", "mypy", "pytest", "tr", "uniq", "sleep", "mkdir", "echo",
        ]),
        words in prop::collection::vec(
            prop_oneof![
                "[-a-zA-Z0-9=.,/:;(){}\\[\\]\"\\\\$|@#~*%+ é]{0,12}",
                prop::sample::select(vec![
                    "--", "-", "-C", "-c", "log", "diff", "-xf", "a.tar", "a.txt", "src", "-d", "-x", "@", ".[", "\"\\(", "def f:",
                ]).prop_map(str::to_owned),
            ],
            0..6,
        ),
    ) {
        let mut argv = vec![name.to_owned()];
        argv.extend(words);
        let _ = allowed(&argv);
    }

    #[test]
    fn a_quoted_word_comes_out_as_it_went_in(word in "[ -&(-~]{0,20}") {
        prop_assert_eq!(split(&format!("echo '{word}' x")).unwrap(), vec!["echo", word.as_str(), "x"]);
    }

    #[test]
    fn splitting_never_panics(line in "\\PC{0,40}") {
        let _ = split(&line);
    }
}
