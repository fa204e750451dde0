//! The judge of argument lists: whatever the words are, an option that nobody knows never helps, nothing that
//! leads out is let pass, and a permission is for the program that was named.

#![no_main]

use std::collections::BTreeMap;

use kazma_policy::argv::{Command, Entry, Permitted, Profile, Tree, Verdict, judge, judge_line};
use libfuzzer_sys::fuzz_target;

/// `/top/ws` with a few files, a repository and a link that leads out.
#[derive(Debug)]
struct Memory;

impl Tree for Memory {
    fn root(&self) -> &str {
        "/top/ws"
    }

    fn entry(&self, path: &str) -> Entry {
        match path.strip_prefix("/top/ws/").unwrap_or_default() {
            "a.txt" | "data.json" | "a.tar" | "src/app.py" | ".git/config" | ".git/HEAD" => {
                Entry::File
            }
            "src" | ".git" | ".git/objects" | ".git/refs" => Entry::Folder,
            "link" => Entry::Link("../outside".to_owned()),
            _ => Entry::Missing,
        }
    }

    fn read(&self, path: &str, _limit: usize) -> Option<Vec<u8>> {
        (self.entry(path) == Entry::File).then(Vec::new)
    }

    fn list(&self, path: &str, _limit: usize) -> Option<Vec<String>> {
        Some(if path == "/top/ws" {
            vec!["a.txt".to_owned(), "src".to_owned(), "link".to_owned()]
        } else {
            Vec::new()
        })
    }
}

fn permitted(argv: &[String]) -> Option<Permitted> {
    let command = Command {
        argv,
        env: &BTreeMap::new(),
        cwd: None,
    };
    match judge(&command, &Memory, Profile::DEFAULT) {
        Verdict::Allow(permitted) => Some(permitted),
        Verdict::Refuse(refusal) => {
            assert!(!refusal.reason().is_empty());
            None
        }
    }
}

// One argument a line.
fuzz_target!(|text: &str| {
    let argv: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let verdict = permitted(&argv);
    let _ = judge_line(text, None, &Memory, Profile::DEFAULT);
    if let Some(permitted) = &verdict {
        for path in permitted.writable.iter().chain([&permitted.cwd]) {
            let out = path.starts_with('/') || path.split('/').any(|name| name == "..");
            assert!(
                !out && !path.starts_with("link"),
                "{argv:?} leads to {path}"
            );
        }
    }
    // Right behind the program: elsewhere it could be the value that an option before it waits for.
    let mut more = argv.clone();
    more.insert(1, "--kazma-does-not-exist".to_owned());
    assert!(
        verdict.is_some() || permitted(&more).is_none(),
        "{argv:?} is refused, {more:?} is not"
    );
});
