//! What may depend on what, over `cargo metadata`: the boundaries of the design, kept by a test.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const PURE: [&str; 4] = [
    "kazma-domain",
    "kazma-policy",
    "kazma-python",
    "kazma-fence",
];
const SERVICES: [&str; 4] = [
    "kazma-gateway",
    "kazma-agent",
    "kazma-gate-registry",
    "kazma-sandbox-runner",
];

/// The workspace as cargo sees it.
struct Workspace {
    /// Package id to name.
    names: BTreeMap<String, String>,
    /// Normal dependencies of each package id.
    normal: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
    metadata: Value,
}

impl Workspace {
    fn load() -> Self {
        let output = cargo(&[
            "metadata",
            "--format-version=1",
            "--locked",
            "--offline",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ]);
        let metadata: Value = serde_json::from_str(&output).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let names = metadata["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let members = metadata["workspace_members"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect();
        let mut normal = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let dependencies = node["deps"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dep| {
                    dep["dep_kinds"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|kind| kind["kind"].is_null())
                })
                .map(|dep| text(&dep["pkg"]))
                .collect();
            normal.insert(text(&node["id"]), dependencies);
        }
        Self {
            names,
            normal,
            members,
            metadata,
        }
    }

    fn id(&self, name: &str) -> &str {
        let found = self.members.iter().find(|id| self.names[*id] == name);
        found.unwrap_or_else(|| panic!("{name} is not in the workspace"))
    }

    /// The names a package depends on directly.
    fn direct(&self, name: &str) -> BTreeSet<&str> {
        self.normal[self.id(name)]
            .iter()
            .map(|id| self.names[id].as_str())
            .collect()
    }

    /// The names a package depends on at any depth.
    fn whole(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![self.id(name)];
        while let Some(id) = open.pop() {
            for next in &self.normal[id] {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen.into_iter().map(|id| self.names[id].as_str()).collect()
    }

    fn member_names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|id| self.names[id].as_str())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo is the subject of these tests"
)]
fn cargo(arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_pure_crates_neither_await_nor_reach_out() {
    let workspace = Workspace::load();
    for name in PURE {
        let whole = workspace.whole(name);
        for banned in ["tokio", "axum", "sqlx", "rusqlite", "reqwest", "rustls"] {
            assert!(!whole.contains(banned), "{name} comes to {banned}");
        }
    }
}

#[test]
fn a_service_knows_no_other_service() {
    let workspace = Workspace::load();
    for name in workspace.member_names() {
        if matches!(name, "kazma" | "kazma-testkit" | "kazma-tests") {
            continue;
        }
        for service in SERVICES {
            let known = workspace.whole(name).contains(service);
            assert!(!known || name == service, "{name} knows {service}");
        }
    }
}

#[test]
fn each_power_has_one_crate_that_holds_it() {
    let workspace = Workspace::load();
    for (power, holders) in [
        ("sqlx", &["kazma-store"][..]),
        ("rusqlite", &["kazma-store"]),
        ("rustls", &["kazma-mesh"]),
        ("tokio-rustls", &["kazma-mesh"]),
        ("rcgen", &["kazma-mesh"]),
        ("seccompiler", &["kazma-runtime", "kazma-sandbox-runner"]),
        ("bollard", &["kazma-sandbox-runner"]),
        ("kube", &["kazma-sandbox-runner"]),
        ("askama", &["kazma-gateway"]),
        ("html5ever", &["kazma-sandbox-runner"]),
        ("aes-gcm", &["kazma-vault"]),
    ] {
        for name in workspace.member_names() {
            let has = workspace.direct(name).contains(power);
            assert!(!has || holders.contains(&name), "{name} holds {power}");
        }
    }
}

#[test]
fn the_agent_does_not_even_contain_what_it_may_not_do() {
    let workspace = Workspace::load();
    let whole = workspace.whole("kazma-agent");
    for banned in [
        "kazma-vault",
        "bollard",
        "kube",
        "kazma-netguard",
        "rmcp",
        "kazma-signing",
        "command-fds",
    ] {
        assert!(!whole.contains(banned), "the agent contains {banned}");
    }
}

#[test]
fn what_is_banned_everywhere_is_nowhere() {
    let workspace = Workspace::load();
    // `cargo metadata` counts features that are only weakly named; `cargo tree` counts what is built.
    let built = cargo(&[
        "tree",
        "--workspace",
        "--edges=normal",
        "--prefix=none",
        "--offline",
    ]);
    let built: BTreeSet<&str> = built
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(built.contains("rustls"), "the tree was not read");
    for banned in ["openssl-sys", "native-tls", "ring"] {
        assert!(!built.contains(banned), "{banned} is built");
    }
    for name in workspace.member_names() {
        let direct = workspace.direct(name);
        assert!(
            !direct.contains("kazma-testkit"),
            "{name} has the testkit as a normal dependency"
        );
        assert!(
            name == "kazma" || !direct.contains("anyhow"),
            "{name} uses anyhow"
        );
    }
}

#[test]
fn no_program_is_built_with_what_lets_tests_through_the_guard() {
    let features = |package| {
        cargo(&[
            "tree",
            "--package",
            package,
            "--edges=normal,features",
            "--prefix=none",
            "--offline",
        ])
    };
    let testing = "kazma-netguard feature \"testing\"";
    for program in ["kazma", "kazma-sandbox-runner"] {
        let tree = features(program);
        assert!(tree.contains("kazma-netguard"), "the tree was not read");
        assert!(!tree.contains(testing), "{program} has it");
    }
    assert!(features("kazma-testkit").contains(testing));
}

#[test]
fn the_central_crates_are_there_once() {
    let workspace = Workspace::load();
    for single in [
        "rustls", "axum", "hyper", "tokio", "sqlx", "rusqlite", "reqwest", "h2",
    ] {
        let versions = workspace
            .names
            .values()
            .filter(|name| *name == single)
            .count();
        assert!(versions <= 1, "{single} is there {versions} times");
    }
}

#[test]
fn every_crate_takes_the_workspace_s_lints_and_licence() {
    let workspace = Workspace::load();
    for package in workspace.metadata["packages"].as_array().unwrap() {
        if !workspace.members.contains(package["id"].as_str().unwrap()) {
            continue;
        }
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}",
            package["name"]
        );
        assert_eq!(package["license"], "MIT", "{}", package["name"]);
    }
}

/// What follows `Problem::new(STATUS, ` in a source file, as the kinds of problems it makes.
fn problem_kinds(source: &str) -> BTreeSet<String> {
    let made = source.split("Problem::new(").skip(1);
    made.filter_map(|rest| {
        let (before, after) = rest.split_once('"')?;
        // A kind that is not written out is made from one that is.
        let plain = before.trim().trim_end_matches(',').parse::<u16>().is_ok();
        plain.then(|| after.split('"').next().unwrap_or_default().to_owned())
    })
    .collect()
}

#[test]
fn every_kind_of_problem_is_explained() {
    let explained: BTreeSet<String> = include_str!("../../docs/problems.md")
        .lines()
        .filter_map(|line| {
            Some(
                line.strip_prefix("| `/problems/")?
                    .split('`')
                    .next()?
                    .to_owned(),
            )
        })
        .collect();
    let mut made = BTreeSet::new();
    for path in sources() {
        made.append(&mut problem_kinds(&std::fs::read_to_string(path).unwrap()));
    }
    // What a client makes of an answer without a problem document.
    made.remove("unknown");
    let missing: Vec<_> = made.difference(&explained).collect();
    assert!(
        missing.is_empty(),
        "docs/problems.md says nothing of {missing:?}"
    );
    assert!(made.len() > 20, "only {made:?} were found");
}

/// Every source file of ours, tests aside.
fn sources() -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    let mut open = vec![root.join("crates"), root.join("services")];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "tests" | "node_modules" | "target") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    found
}

/// Source files of ours may be long, but not without end; tests aside.
#[test]
fn no_source_file_is_longer_than_a_subject() {
    let sources = sources();
    assert!(
        sources.len() > 20,
        "only {} files were found",
        sources.len()
    );
    for path in sources {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 700, "{} has {lines} lines", path.display());
    }
}
