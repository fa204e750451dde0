//! A plan: what exactly an executor would do. The executor makes it, the card shows it, the permit is
//! bound to its digest, and the executor makes it again before it acts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical::{Digest, NotCanonical};

/// The longest path that a sentence names, in letters.
const QUOTED_MAX: usize = 120;

/// What exactly an executor would do for one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The tool as the agent named it.
    pub tool: String,
    /// The arguments as the agent gave them.
    pub arguments: serde_json::Value,
    /// What they come to.
    pub action: Action,
}

/// What a plan comes to, with everything resolved that could be read two ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Runs Python code in a fresh sandbox.
    RunPython {
        /// The whole code.
        code: String,
        /// How long it may run, in milliseconds.
        timeout_ms: u64,
        /// Where it runs.
        sandbox: Sandbox,
    },
    /// Starts one program in a fresh sandbox. No shell reads any of it.
    RunCommand {
        /// The program's absolute path in the sandbox, then its arguments, each as it is.
        argv: Vec<String>,
        /// The whole environment.
        env: BTreeMap<String, String>,
        /// The folder it starts in, beneath the workspace; empty for the workspace itself.
        cwd: String,
        /// The folders that it can write, beneath the workspace; an empty path is all of it. None: it only reads.
        writable: Vec<String>,
        /// Whether it runs code that lies in the workspace.
        runs_code: bool,
        /// How long it may run, in milliseconds.
        timeout_ms: u64,
        /// Where it runs.
        sandbox: Sandbox,
    },
    /// Creates or overwrites a file of the workspace.
    WriteFile {
        /// The path beneath the workspace, with `/` between names and no `.` or `..`.
        path: String,
        /// The digest of the file that would be overwritten; none if there is none.
        before: Option<Digest>,
        /// The digest of what would be written.
        after: Digest,
        /// How many bytes would be written.
        bytes: u64,
        /// The change as a unified diff, whole.
        diff: String,
    },
    /// Reads a text file of the workspace.
    ReadFile {
        /// The path beneath the workspace.
        path: String,
        /// Which part.
        window: Window,
    },
    /// Lists a folder of the workspace.
    ListFolder {
        /// The path beneath the workspace; empty for the workspace itself.
        path: String,
        /// A glob over names, if only some are wanted.
        pattern: Option<String>,
    },
    /// Asks one question of one `SQLite` file of the workspace, in a fresh sandbox. It reads and cannot write.
    QuerySqlite {
        /// The database's path beneath the workspace.
        path: String,
        /// The whole statement.
        query: String,
        /// The values of its placeholders, in order.
        parameters: Vec<serde_json::Value>,
        /// At most this many rows are returned.
        limit: u64,
        /// How long it may run, in milliseconds.
        timeout_ms: u64,
        /// Where it runs.
        sandbox: Sandbox,
    },
    /// Fetches one address of the internet.
    FetchUrl {
        /// The host that is asked, as the name server is asked for it.
        host: String,
        /// The address in its canonical spelling.
        url: String,
        /// All that is sent: the first line of the request and every header.
        sends: Vec<String>,
        /// How much of the page's text is returned.
        part: Part,
    },
    /// Asks the search service that the operator configured.
    SearchWeb {
        /// The service's origin.
        service: String,
        /// The words that are searched for.
        query: String,
        /// All that is sent: the first line of the request and every header.
        sends: Vec<String>,
        /// At most this many results are returned.
        results: u64,
    },
}

/// Which part of a text is returned, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The first character, counted from 0.
    pub offset: u64,
    /// At most this many characters.
    pub limit: u64,
}

/// Which part of a file is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub enum Window {
    /// Bytes from `offset`, at most `limit`.
    Bytes {
        /// The first byte, counted from 0.
        offset: u64,
        /// At most this many bytes.
        limit: u64,
    },
    /// Lines `first` to `last`, both included, counted from 1.
    Lines {
        /// The first line.
        first: u64,
        /// The last line.
        last: u64,
    },
}

/// The sandbox that a plan names. What is on the card is what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// The tier's plain name: `native`, `docker`, `kubernetes`, `e2b` or `local`.
    pub tier: String,
    /// What enforces it, such as `bubblewrap` or `runsc`.
    pub runtime: String,
    /// The id of the image it is made from; none where there is no image. A run in another is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What this boundary does not stop, in one line.
    pub limit: String,
    /// Which limits hold and by what, in words, such as `memory 512 MiB (cgroup v2)`.
    pub enforcement: Vec<String>,
    /// Which network it has; `none` unless a card says otherwise.
    pub network: String,
    /// How it sees the workspace: `read-only`, `writable`, or `read-only but for` the folders that are named.
    pub workspace: String,
}

impl Plan {
    /// The digest that a permit is bound to.
    ///
    /// # Errors
    ///
    /// Refuses a plan that canonical JSON cannot hold.
    pub fn digest(&self) -> Result<Digest, NotCanonical> {
        Digest::of(self)
    }

    /// The tier that would run this, if it runs code.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match &self.action {
            Action::RunPython { sandbox, .. }
            | Action::RunCommand { sandbox, .. }
            | Action::QuerySqlite { sandbox, .. } => Some(sandbox),
            Action::WriteFile { .. }
            | Action::ReadFile { .. }
            | Action::ListFolder { .. }
            | Action::FetchUrl { .. }
            | Action::SearchWeb { .. } => None,
        }
    }

    /// One sentence in plain words for the head of the card.
    pub fn headline(&self) -> String {
        match &self.action {
            Action::RunPython { code, sandbox, .. } => format!(
                "Run {} of Python {} with{} network, workspace {}.",
                count(code.lines().count().max(1), "line"),
                sandbox.place(),
                if sandbox.network == "none" { "out" } else { "" },
                sandbox.workspace,
            ),
            Action::RunCommand {
                argv,
                runs_code,
                sandbox,
                ..
            } => format!(
                "Run {}{} {} with{} network, workspace {}.",
                argv.first().map_or("nothing", |path| last_name(path)),
                if *runs_code {
                    ", and code of the workspace,"
                } else {
                    ""
                },
                sandbox.place(),
                if sandbox.network == "none" { "out" } else { "" },
                sandbox.workspace,
            ),
            Action::WriteFile {
                path,
                before,
                bytes,
                ..
            } => format!(
                "{} the file {} ({}).",
                if before.is_some() {
                    "Overwrite"
                } else {
                    "Create"
                },
                quoted(path),
                count(usize::try_from(*bytes).unwrap_or(usize::MAX), "byte"),
            ),
            Action::ReadFile { path, .. } => format!("Read the file {}.", quoted(path)),
            Action::ListFolder { path, .. } if path.is_empty() => "List the workspace.".to_owned(),
            Action::ListFolder { path, .. } => format!("List the folder {}.", quoted(path)),
            Action::QuerySqlite { path, sandbox, .. } => {
                format!(
                    "Query the database {} {}, read-only.",
                    quoted(path),
                    sandbox.place()
                )
            }
            Action::FetchUrl { host, .. } => {
                format!("Fetch a page from {host}. The address leaves this machine.")
            }
            Action::SearchWeb { service, .. } => {
                format!("Search by {service}. The words leave this machine.")
            }
        }
    }
}

impl Sandbox {
    /// Where it is, in words.
    fn place(&self) -> &'static str {
        match self.tier.as_str() {
            "native" => "in a fresh jail on this machine",
            "docker" => "in a fresh container",
            "kubernetes" => "in a fresh pod",
            "e2b" => "in a fresh virtual machine",
            _ => "on this machine, without isolation,",
        }
    }
}

/// A path in a sentence of ours. One that could end its quotation marks, or fill a screen, is not said here: it stands below,
/// whole and in a box of its own.
fn quoted(path: &str) -> String {
    let plain = path.chars().count() <= QUOTED_MAX
        && !path.contains(|c: char| {
            c.is_control() || matches!(c, '"' | '“' | '”' | '„' | '‟' | '«' | '»')
        });
    if plain {
        format!("“{path}”")
    } else {
        "named below".to_owned()
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn count(n: usize, thing: &str) -> String {
    if n == 1 {
        format!("1 {thing}")
    } else {
        format!("{n} {thing}s")
    }
}
