//! A real `kazma up` with a data folder of its own, and what tests ask of its processes.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use kazma_testkit::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Long enough for a loaded machine with two cores; nothing that works takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long an end in order may take, as promised.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(5);

/// The `kazma` program: `KAZMA_TEST_BIN`, else the one beside the folder of this test's program.
#[expect(
    clippy::disallowed_methods,
    reason = "the build says by the environment which program to test"
)]
pub(crate) fn program() -> PathBuf {
    let set = std::env::var("KAZMA_TEST_BIN").map(PathBuf::from);
    let program = set.unwrap_or_else(|_| {
        let own = std::env::current_exe().unwrap();
        own.ancestors().nth(2).unwrap().join("kazma")
    });
    assert!(
        program.is_file(),
        "{} is not there: build it with `cargo build -p kazma -p kazma-sandbox-runner`, or name it by KAZMA_TEST_BIN",
        program.display()
    );
    program
}

/// A command with a clean environment and no input.
#[expect(
    clippy::disallowed_methods,
    reason = "the programs are the subject of these tests"
)]
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null());
    command
}

/// A running process, told from a later one of the same number by when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    parent: u32,
    began: String,
    name: String,
}

impl Process {
    /// The process of this number; none where there is none, or only its exit code.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        (!matches!(fields[0], "Z" | "X")).then(|| Self {
            pid,
            parent: fields[1].parse().unwrap(),
            began: fields[19].to_owned(),
            name: head.split_once('(').unwrap().1.to_owned(),
        })
    }

    pub(crate) fn lives(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.began == self.began)
    }

    pub(crate) fn kill(&self) {
        signal(self.pid, Signal::KILL);
    }

    fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::of).collect()
    }

    /// Itself and all that it started and that they started.
    pub(crate) fn tree(pid: u32) -> Vec<Self> {
        let all = Self::all();
        let mut tree: Vec<Self> = all.iter().filter(|p| p.pid == pid).cloned().collect();
        let mut next = 0;
        while let Some(parent) = tree.get(next).map(|p| p.pid) {
            tree.extend(all.iter().filter(|p| p.parent == parent).cloned());
            next += 1;
        }
        tree
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // It may be gone already, which is as good.
    let _ = kill_process(pid, signal);
}

/// How a stack is started.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) program: PathBuf,
    /// More flags than the usual ones.
    pub(crate) flags: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Where its new folder is made.
    pub(crate) inside: PathBuf,
}

impl Setup {
    pub(crate) fn usual() -> Self {
        Self {
            program: program(),
            flags: Vec::new(),
            environment: Vec::new(),
            inside: PathBuf::from("/tmp"),
        }
    }

    /// With the program that dies where a test says so by a file in `faults`.
    pub(crate) fn faulty(faults: &Path) -> Self {
        let mut program = program();
        program.set_file_name("kazma-faulty");
        assert!(
            program.is_file(),
            "{} is not there: build kazma with the feature `faults` and copy it there",
            program.display()
        );
        let folder = (
            "KAZMA_FAULTS".to_owned(),
            faults.to_str().unwrap().to_owned(),
        );
        Self {
            program,
            environment: vec![folder],
            ..Self::usual()
        }
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = up_command_of(&self.program, folder);
        command.args(&self.flags).envs(self.environment.clone());
        command
    }
}

/// A running `kazma up`. Dropping it ends it and removes its folder.
pub(crate) struct Stack {
    pub(crate) ready: Value,
    pub(crate) api: Api,
    supervisor: Child,
    folder: tempfile::TempDir,
    setup: Setup,
}

impl Stack {
    /// Starts one on a new folder.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more flags than the usual ones.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::start_as(Setup {
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            ..Setup::usual()
        })
    }

    pub(crate) fn start_as(setup: Setup) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kazma-processes-")
            .tempdir_in(&setup.inside)
            .unwrap();
        // The services have users of their own when root runs this.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let (supervisor, ready) = Self::up(folder.path(), &setup);
        Self {
            setup,
            api: api(&ready),
            ready,
            supervisor,
            folder,
        }
    }

    fn up(folder: &Path, setup: &Setup) -> (Child, Value) {
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut supervisor = setup
            .command(folder)
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(supervisor.stdout.take().unwrap());
        let (told, line) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = lines.read_line(&mut line).map(|_| line);
            let _ = told.send(read);
        });
        let line = line.recv_timeout(PATIENCE);
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        let Ok(Ok(line)) = line else {
            let _ = supervisor.kill();
            panic!("kazma up said nothing: {line:?}\n{}", log());
        };
        let ready = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{line:?}: {error}\n{}", log()));
        (supervisor, ready)
    }

    /// Starts another `kazma up` on the same folder after this one has ended.
    pub(crate) fn start_again(&mut self) {
        let (supervisor, ready) = Self::up(self.folder.path(), &self.setup);
        self.supervisor = supervisor;
        self.api = api(&ready);
        self.ready = ready;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    pub(crate) fn supervisor(&self) -> u32 {
        self.supervisor.id()
    }

    /// A fresh client of the gateway, with the token and without connections of the past.
    pub(crate) fn fresh_api(&self) -> Api {
        api(&self.ready)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", port(&self.ready))
    }

    /// What runs, as the supervisor writes it: name to process; none for one that is being started.
    pub(crate) fn services(&self) -> BTreeMap<String, Option<Process>> {
        let text = fs::read_to_string(self.folder().join("run/services.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let services = file["services"].as_array().unwrap();
        services
            .iter()
            .map(|one| {
                let pid = one["pid"].as_u64().unwrap().try_into().unwrap();
                let running = one["state"] == "running";
                let process = running.then(|| Process::of(pid)).flatten();
                (one["name"].as_str().unwrap().to_owned(), process)
            })
            .collect()
    }

    pub(crate) fn service(&self, name: &str) -> Process {
        self.services()[name]
            .clone()
            .unwrap_or_else(|| panic!("{name} does not run"))
    }

    /// Everything that this stack has started and that lives.
    pub(crate) fn processes(&self) -> Vec<Process> {
        Process::tree(self.supervisor())
    }

    /// Every bubblewrap that works for this folder, whoever its parent is now.
    pub(crate) fn bubblewraps(&self) -> Vec<Process> {
        let folder = self.folder().to_str().unwrap();
        let mentions = |pid: u32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(folder))
        };
        let mut found = Process::all();
        found.retain(|process| process.name == "bwrap" && mentions(process.pid));
        found
    }

    /// Waits until nothing of `before` and no bubblewrap of this stack is left.
    pub(crate) async fn until_gone(&self, before: &[Process], limit: Duration) {
        let left = || {
            let mut left: Vec<_> = before.iter().filter(|p| p.lives()).cloned().collect();
            left.extend(self.bubblewraps());
            left
        };
        until(limit, || left().is_empty())
            .await
            .unwrap_or_else(|()| panic!("still there after {limit:?}: {:#?}", left()));
    }

    /// Waits until nothing of `before` lives. A jail that was being born when everything was killed may be left,
    /// and has run nothing: the next broker ends it.
    pub(crate) async fn until_dead(&self, before: &[Process]) {
        let left = || before.iter().filter(|p| p.lives()).collect::<Vec<_>>();
        until(PATIENCE, || left().is_empty())
            .await
            .unwrap_or_else(|()| panic!("still there: {:#?}", left()));
    }

    /// Asks it to end and waits; says how it ended.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        signal(self.supervisor(), Signal::TERM);
        self.ended(END_LIMIT).await
    }

    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        until(limit, || {
            status = self.supervisor.try_wait().unwrap();
            status.is_some()
        })
        .await
        .unwrap_or_else(|()| panic!("the supervisor still runs after {limit:?}"));
        status.unwrap()
    }

    /// Runs one of the operator's commands on this folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        let mut command = command(program());
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(self.folder())
            .output()
            .unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("the stack's log:\n{}\n", self.log()).as_bytes(),
            );
        }
        let processes = self.processes();
        signal(self.supervisor(), Signal::TERM);
        let deadline = Instant::now() + END_LIMIT;
        while matches!(self.supervisor.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.supervisor.kill();
            }
            std::thread::yield_now();
        }
        for process in processes.iter().filter(|process| process.lives()) {
            process.kill();
        }
    }
}

/// `kazma up` on `folder` as every test starts it.
pub(crate) fn up_command(folder: &Path) -> Command {
    up_command_of(&program(), folder)
}

fn up_command_of(program: &Path, folder: &Path) -> Command {
    let mut command = command(program);
    command
        .args(["up", "--demo", "--json", "--listen", "127.0.0.1:0"])
        // The same on a machine that has an engine and the image.
        .env("KAZMA_SANDBOX", "native")
        .arg("--data-dir")
        .arg(folder);
    command
}

/// Runs a `kazma` that is expected to end by itself, and quickly.
pub(crate) async fn refused(mut command: Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ended = false;
    let waited = until(PATIENCE, || {
        ended = child.try_wait().unwrap().is_some();
        ended
    })
    .await;
    if waited.is_err() {
        signal(child.id(), Signal::TERM);
    }
    let output = child.wait_with_output().unwrap();
    assert!(ended, "{command:?} was not refused: {output:?}");
    assert_eq!(output.status.signal(), None, "{output:?}");
    output
}

/// The pages' port.
pub(crate) fn port(ready: &Value) -> u16 {
    let listens = ready["listen"].as_str().unwrap();
    listens.rsplit_once(':').unwrap().1.parse().unwrap()
}

fn api(ready: &Value) -> Api {
    let at = ([127, 0, 0, 1], port(ready)).into();
    Api::new(at, ready["api_token"].as_str().unwrap()).unwrap()
}

/// Looks until `done`, for `limit` at most.
pub(crate) async fn until(limit: Duration, mut done: impl FnMut() -> bool) -> Result<(), ()> {
    let deadline = Instant::now() + limit;
    while !done() {
        if Instant::now() > deadline {
            return Err(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
