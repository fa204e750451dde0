//! The judge of argument lists over rows of `tests/cases`, on real workspaces.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "the rows' set-ups and what the judge lets through are really run"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use kazma_policy::argv::{self, Permitted, Profile, Tier, Verdict};
use kazma_workspace::Disk;
use serde::Deserialize;

/// A row. Without `ok` and `expect`, `decision` says it.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    id: String,
    argv: Vec<String>,
    #[serde(default)]
    ok: bool,
    expect: Option<String>,
    tier: Option<String>,
    workspace_setup: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

fn rows(name: &str) -> Vec<Row> {
    fs::read_to_string(cases().join(name))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// A workspace as the script makes it; copies of it are changed, itself never.
struct Ground {
    top: tempfile::TempDir,
}

impl Ground {
    fn make() -> Self {
        let top = tempfile::tempdir().unwrap();
        let script = cases().join("shell-workspace");
        let made = Command::new("bash")
            .arg(script)
            .arg(top.path().join("base"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", said(&made));
        for entry in fs::read_dir(top.path().join("base/ws/.git/hooks")).unwrap() {
            // Samples from git's template: nothing but more to copy.
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        Self { top }
    }

    /// A fresh copy in which a row's set-up has run.
    fn copy(&self, row: &Row) -> PathBuf {
        let copy = self.top.path().join(&row.id);
        let copied = Command::new("cp")
            .arg("-a")
            .arg(self.top.path().join("base"))
            .arg(&copy)
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", said(&copied));
        if let Some(setup) = &row.workspace_setup {
            let workspace = copy.join("ws");
            let setup = setup.replace("@WS@", workspace.to_str().unwrap());
            let ran = Command::new("sh")
                .args(["-c", &setup])
                .current_dir(&workspace)
                .env("HOME", copy.join("home"))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            // A trap may go off while it is being set: only what happens afterwards counts.
            let _ = fs::remove_file(workspace.join("PWNED"));
            assert!(
                ran.status.success() || row.expect.is_some(),
                "{}: {}",
                row.id,
                said(&ran)
            );
        }
        copy
    }

    /// The workspace that a row is judged in.
    fn place(&self, row: &Row) -> PathBuf {
        if row.workspace_setup.is_some() || writes(row) {
            self.copy(row)
        } else {
            self.top.path().join("base")
        }
    }
}

/// Whether what is permitted may change the workspace.
fn writes(row: &Row) -> bool {
    row.expect.as_deref().is_some_and(|it| it != "refuse") || row.tier.as_deref() == Some("write")
}

/// Whether a program did not understand its own arguments, so that the grammar has an option that is none.
fn misunderstood(ran: &Output) -> bool {
    let words = said(ran);
    ran.status.code() == Some(129)
        || [
            "unknown option",
            "unrecognized option",
            "invalid option",
            "unrecognized argument",
        ]
        .iter()
        .any(|complaint| words.contains(complaint))
}

/// Whether the program is on this machine at all; the linters often are not.
fn installed(name: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn judge(row: &Row, workspace: &Path) -> Verdict {
    let disk = Disk::open(workspace).unwrap();
    let command = argv::Command {
        argv: &row.argv,
        env: &row.env,
        cwd: row.cwd.as_deref(),
    };
    argv::judge(&command, &disk, Profile::DEFAULT)
}

/// Runs what was permitted, as a runner would but for the jail.
fn run(permitted: &Permitted, copy: &Path) -> Output {
    let (name, arguments) = permitted.argv.split_first().unwrap();
    Command::new("timeout")
        .args(["20", name])
        .args(arguments)
        .current_dir(copy.join("ws").join(&permitted.cwd))
        .env_clear()
        .envs(&permitted.env)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("TMPDIR", "/tmp")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What goes wrong when a permitted command is run.
fn sprung(permitted: &Permitted, place: &Path) -> Option<String> {
    let name = permitted.argv.first().unwrap();
    if permitted.tier == Tier::SandboxExec || !installed(name) {
        return None;
    }
    let ran = run(permitted, place);
    if place.join("ws/PWNED").exists() {
        return Some(format!("the trap went off: {}", said(&ran)));
    }
    misunderstood(&ran).then(|| format!("it does not work: {}", said(&ran)))
}

/// What a row's verdict gets wrong, if anything.
fn wrong(row: &Row, ground: &Ground) -> Option<String> {
    let place = ground.place(row);
    let verdict = judge(row, &place.join("ws"));
    let fault = match (&verdict, row.ok, row.expect.as_deref()) {
        (Verdict::Refuse(refusal), true, _) => Some(format!("refused: {refusal}")),
        (Verdict::Allow(_), _, Some("refuse")) => Some("allowed".to_owned()),
        (Verdict::Allow(permitted), ..) => {
            let name = permitted.tier.name();
            let tier = row.tier.as_deref().filter(|tier| row.ok && *tier != name);
            tier.map(|tier| format!("{name} instead of {tier}"))
                .or_else(|| sprung(permitted, &place))
        }
        _ => None,
    };
    if place.ends_with(&row.id) {
        let _ = fs::remove_dir_all(&place);
    }
    fault.map(|fault| format!("{} {:?}: {fault}", row.id, row.argv))
}

fn all_right(name: &str, least: usize) {
    let rows = rows(name);
    assert!(rows.len() >= least, "{name} has only {} rows", rows.len());
    let ground = Ground::make();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let some: Vec<_> = rows
            .chunks(rows.len().div_ceil(8))
            .map(|some| {
                scope.spawn(|| {
                    some.iter()
                        .filter_map(|row| wrong(row, &ground))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        some.into_iter()
            .flat_map(|some| some.join().unwrap())
            .collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_shared_rows_are_judged_rightly() {
    all_right("shell.jsonl", 289);
}

#[test]
fn our_own_rows_are_judged_rightly() {
    all_right("argv-more.jsonl", 1100);
}

/// What comes out of an archive never gets into a git folder: neither through a link that the archive brings along, nor by
/// a hard link, nor through what a command before it has left.
#[test]
fn no_archive_reaches_into_a_git_folder() {
    let ground = Ground::make();
    let row = |id: &str, argv: &[&str], setup: &str| Row {
        id: id.to_owned(),
        argv: argv.iter().map(|it| (*it).to_owned()).collect(),
        ok: false,
        expect: Some("neutralise".to_owned()),
        tier: None,
        workspace_setup: Some(format!("rm link_out link_secret; {setup}")),
        env: BTreeMap::new(),
        cwd: None,
    };
    let member = "mkdir -p s/hooks && printf x > s/hooks/mark && tar rf l.tar s/hooks && rm -r s";
    let zipped = "mkdir -p s/hooks && printf x > s/hooks/mark && zip -qr l.zip s/hooks && rm -r s";
    let tar = ["tar", "-xf", "l.tar"];
    for row in [
        row(
            "link",
            &tar,
            &format!("ln -s .git s; tar cf l.tar s; rm s; {member}"),
        ),
        row(
            "cases",
            &tar,
            &format!("ln -s ./.git/ s; tar cf l.tar s; rm s; {member}"),
        ),
        row(
            "two links",
            &tar,
            &format!("ln -s . t; ln -s t/.git s; tar cf l.tar t s; rm s t; {member}"),
        ),
        row(
            "one name over another",
            &tar,
            &format!(
                "ln -s . .git_; ln -s .git/.git s; tar cf l.tar .git_ s; rm s .git_; {member}"
            ),
        ),
        row(
            "top level",
            &["tar", "xf", "l.tar", "--one-top-level=new"],
            &format!("ln -s ../.git s; tar cf l.tar s; rm s; {member}"),
        ),
        row(
            "zip",
            &["unzip", "l.zip"],
            &format!("ln -s .git s; zip -qy l.zip s; rm s; {zipped}"),
        ),
        row(
            "hard link",
            &tar,
            "ln .git/config h; tar cf l.tar .git/config h; rm h",
        ),
    ] {
        let place = ground.copy(&row);
        let Verdict::Allow(permitted) = judge(&row, &place.join("ws")) else {
            panic!("{} is refused", row.id);
        };
        run(&permitted, &place);
        let git = place.join("ws/.git");
        assert!(!git.join("hooks/mark").exists(), "{}", row.id);
        assert!(!place.join("ws/h").exists(), "{}", row.id);
        // Once more: what the first one left must not be a way in.
        if let Verdict::Allow(permitted) = judge(&row, &place.join("ws")) {
            run(&permitted, &place);
            assert!(!git.join("hooks/mark").exists(), "{}", row.id);
        }
    }
}

/// The same archives without the options that the judge puts before the arguments: the test above is of something.
#[test]
fn an_archive_could_reach_into_a_git_folder() {
    let top = tempfile::tempdir().unwrap();
    let script = "git init -q . && ln -s .git s && tar cf l.tar s && rm s && mkdir -p s/hooks && printf x > s/hooks/mark && \
                  tar rf l.tar s/hooks && rm -r s && tar xf l.tar";
    let ran = Command::new("sh")
        .args(["-c", script])
        .current_dir(top.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(top.path().join(".git/hooks/mark").exists());
}
