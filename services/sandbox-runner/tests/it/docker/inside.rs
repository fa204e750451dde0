//! The broker as a container of the engine that it speaks with, as compose runs it: uid 0 without capabilities,
//! without a network, on a read-only root, the workspace to be read alone. The api is another container, which may
//! write in the workspace, as a user of its own.

use std::{
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_runtime::SystemEntropy;
use kazma_sandbox_runner::{
    api::{Bounds, Workspace},
    broker::{
        self, BrokerClient, BrokerOptions, BrokerStatus, EngineOptions, EngineRuntime, Outcome,
        Program, Readiness, SANDBOX_IMAGE, TierChoice, serve,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::Engine,
    house::{PATIENCE, moment, spec, text},
};

/// Who the api is.
const API: u32 = 10_004;
/// Whom sandboxes read as, whose group the workspace has.
const NOBODY: u32 = 65_534;
const SOCKET: &str = "/run/kazma/broker.sock";
const HELLO: &str = "print(open('hello.txt').read())";

/// Containers of one deployment and what they share. All of it goes when this is dropped.
struct Deployment {
    engine: Engine,
    owner: String,
    /// The folder of the broker's socket, on this machine.
    sockets: tempfile::TempDir,
    /// What the containers have at their workspace's place: a volume's name, or a path.
    workspace: String,
    broker: String,
    /// The api's first group.
    group: u32,
    volumes: Vec<String>,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = self.docker(&["rm", "--force", &self.broker]);
        for volume in &self.volumes {
            let _ = self.docker(&["volume", "rm", "--force", volume]);
        }
    }
}

impl Deployment {
    fn new(engine: Engine, workspace: Option<&Path>) -> Self {
        let owner = engine.options(EngineRuntime::Runc).owner;
        let sockets = tempfile::tempdir().unwrap();
        std::fs::set_permissions(sockets.path(), mode(0o711)).unwrap();
        let mut deployment = Self {
            engine,
            sockets,
            workspace: workspace.map_or_else(String::new, |path| path.display().to_string()),
            broker: format!("broker-{owner}"),
            owner,
            group: API,
            volumes: Vec::new(),
        };
        match workspace {
            Some(path) => furnish(path, "from a folder"),
            None => {
                deployment.workspace = deployment.volume("workspace", "from a volume").0;
            }
        }
        deployment
    }

    /// Makes a volume with a file in it. Gives its name, and its folder on this machine.
    fn volume(&mut self, name: &str, hello: &str) -> (String, Utf8PathBuf) {
        let name = format!("{name}-{}", self.owner);
        self.done(&["volume", "create", &name]);
        self.volumes.push(name.clone());
        let format = ["volume", "inspect", "--format", "{{.Mountpoint}}", &name];
        let folder = Utf8PathBuf::from(self.done(&format).trim());
        furnish(folder.as_std_path(), hello);
        (name, folder)
    }

    fn docker(&self, arguments: &[&str]) -> std::io::Result<std::process::Output> {
        Command::new("docker")
            .args(["--host", &format!("unix://{}", self.engine.socket)])
            .args(arguments)
            .output()
    }

    /// What it printed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Arguments that make this test binary a container that calls one of its functions.
    fn container(
        &self,
        user: &str,
        place: &str,
        function: &str,
        told: &[(&str, &str)],
    ) -> Vec<String> {
        let program = std::env::current_exe().unwrap();
        let access = if user == "0:0" { ":ro" } else { "" };
        let mut arguments: Vec<String> = [
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--network=none",
            "--read-only",
            // Podman would ask for more than root may give in some containers.
            "--ulimit=nofile=1024",
            "--ulimit=nproc=4096",
            "--entrypoint=/kazma-test",
        ]
        .map(str::to_owned)
        .into();
        arguments.extend([
            format!("--user={user}"),
            format!("--volume={}:/kazma-test:ro", program.display()),
            format!("--volume={}:/run/kazma", self.sockets.path().display()),
            format!("--volume={}:{place}{access}", self.workspace),
        ]);
        arguments.extend(
            told.iter()
                .map(|(name, value)| format!("--env={name}={value}")),
        );
        arguments.push(SANDBOX_IMAGE.to_owned());
        let test = format!("docker::inside::{function}");
        arguments.extend(["--exact", &test, "--ignored", "--nocapture"].map(str::to_owned));
        arguments
    }

    /// Starts the broker with the workspace's volume or folder at `place`.
    fn start(&self, place: &str, told: &[(&str, &str)]) {
        self.start_with(&self.engine.socket, place, told);
    }

    /// The same, with the socket of another engine.
    fn start_with(&self, engine: &Utf8Path, place: &str, told: &[(&str, &str)]) {
        let all = [
            &[("OWNER", self.owner.as_str()), ("WORKSPACE", place)],
            told,
        ]
        .concat();
        let mut arguments = vec![
            "run".to_owned(),
            "--detach".to_owned(),
            format!("--name={}", self.broker),
            format!("--group-add={NOBODY}"),
            format!("--volume={engine}:/run/engine.sock"),
        ];
        arguments.extend(self.container("0:0", place, "a_broker_in_a_container", &all));
        self.done(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Lets the api, as the user `uid`, do one thing, and gives what it printed.
    fn api(&self, uid: u32, what: &str) -> String {
        let user = format!("{uid}:{}", self.group);
        let told = [("DO", what), ("WORKSPACE", "/workspace")];
        let mut arguments = vec!["run".to_owned(), "--rm".to_owned()];
        arguments.extend(self.container(&user, "/workspace", "an_api_in_a_container", &told));
        self.done(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn client(&self) -> BrokerClient {
        let path = self.sockets.path().join("broker.sock");
        BrokerClient::new(Utf8PathBuf::from_path_buf(path).unwrap())
    }

    /// The broker's log.
    fn log(&self) -> String {
        let output = self.docker(&["logs", &self.broker]).unwrap();
        [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat()
    }

    /// Waits until the broker is ready.
    async fn ready(&self) -> BrokerStatus {
        let status = self
            .settled(|s| s.readiness == Readiness::Ready && s.pool.idle > 0)
            .await;
        status.unwrap_or_else(|last| panic!("never ready: {last} {}", self.log()))
    }

    /// Waits until the broker says that it is not ready and why.
    async fn not_ready(&self) -> (String, String) {
        let unready = |s: &BrokerStatus| s.settled && s.readiness != Readiness::Ready;
        let status = self.settled(unready).await;
        match status.map(|status| status.readiness) {
            Ok(Readiness::NotReady { reason, fix }) => (reason, fix),
            other => panic!("ready, or never there: {other:?} {}", self.log()),
        }
    }

    /// The first status as wanted, or what came last.
    async fn settled(
        &self,
        wanted: impl Fn(&BrokerStatus) -> bool,
    ) -> Result<BrokerStatus, String> {
        let client = self.client();
        let mut last = String::new();
        let asking = async {
            loop {
                match client.status().await {
                    Ok(status) if wanted(&status) => return status,
                    other => last = format!("{:?}", other.map(|status| status.readiness)),
                }
                moment().await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asking).await;
        asked.map_err(|_| last)
    }

    async fn prints(&self, code: &str) -> String {
        let run = self.client().run(spec(code)).await.unwrap().collect().await;
        let end = &run.finished.outcome;
        assert_eq!(end, &Outcome::Exited { code: 0 }, "{}", text(&run.stderr));
        text(&run.stdout).to_owned()
    }

    /// Where the workspace of a waiting sandbox comes from, and where it is in there.
    async fn mounted(&self) -> (String, String) {
        let waiting = self.engine.containers(&self.owner).await;
        let waiting = waiting.first().unwrap();
        let mounts = self.engine.inspect(waiting).await.mounts.unwrap();
        let [mount] = <[_; 1]>::try_from(mounts).unwrap();
        (mount.source.unwrap(), mount.destination.unwrap())
    }

    /// Ends the broker as it would end, and sees that nothing is left.
    async fn close(self) {
        self.done(&["kill", "--signal=KILL", &self.broker]);
        self.engine.reap(&self.owner).await;
    }
}

fn mode(bits: u32) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(bits)
}

/// Makes a folder a workspace as deployments have it, with a file in it.
fn furnish(workspace: &Path, hello: &str) {
    chown(workspace, Some(API), Some(NOBODY)).unwrap();
    std::fs::set_permissions(workspace, mode(0o2750)).unwrap();
    let file = workspace.join("hello.txt");
    std::fs::write(&file, hello).unwrap();
    chown(&file, Some(API), Some(NOBODY)).unwrap();
    std::fs::set_permissions(&file, mode(0o640)).unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the test that starts it wants it"
)]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests, in a container"]
async fn a_broker_in_a_container() {
    let workspace = told("WORKSPACE").unwrap();
    let mut options = BrokerOptions::new(SOCKET, workspace);
    let mut engine = EngineOptions::new("/run/engine.sock", told("OWNER").unwrap());
    engine.workspace_source = told("SOURCE").map(Utf8PathBuf::from);
    if told("RUNTIME").is_some_and(|runtime| runtime == "runsc") {
        engine.runtime = EngineRuntime::Runsc;
    }
    options.tier = TierChoice::Docker(engine);
    options.pool_size = 1;
    options.canary_retry = std::time::Duration::from_secs(1);
    // This test's own uid, or the api's alone.
    let uid = told("ALLOWED").map_or(0, |uid| uid.parse().unwrap());
    options.allowed_uids = vec![uid];
    let never = CancellationToken::new();
    if let Err(error) = serve(options, None, std::sync::Arc::new(SystemEntropy), never).await {
        panic!("{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests, in a container"]
async fn an_api_in_a_container() {
    let workspace = Utf8PathBuf::from(told("WORKSPACE").unwrap());
    let client = BrokerClient::new(SOCKET);
    match told("DO").unwrap().as_str() {
        "leave" => Workspace::open(&workspace, Bounds::default())
            .unwrap()
            .leave_canary(&SystemEntropy)
            .unwrap(),
        "status" => println!("{:?}", client.status().await),
        "run" => {
            let run = client.run(spec(HELLO)).await.unwrap().collect().await;
            println!("{} {:?}", text(&run.stdout), run.finished.outcome);
        }
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_found_and_the_api_alone_is_served() {
    let deployment = Deployment::new(Engine::shared(), None);
    deployment.api(API, "leave");
    deployment.start("/workspace", &[("ALLOWED", &API.to_string())]);
    let ready = async {
        while !deployment.api(API, "status").contains("readiness: Ready") {
            moment().await;
        }
    };
    let ready = tokio::time::timeout(PATIENCE, ready).await;
    assert!(ready.is_ok(), "{}", deployment.log());
    let said = deployment.api(API, "run");
    assert!(
        said.contains("from a volume\n Exited { code: 0 }"),
        "{said}"
    );
    // Root of another container is nobody here either.
    for uid in [API + 1, 0] {
        let said = deployment.api(uid, "status");
        assert!(said.contains("Err(Connection("), "{uid}: {said}");
    }
    let (source, place) = deployment.mounted().await;
    assert!(
        source.ends_with(&format!("/volumes/{}/_data", deployment.workspace)),
        "{source}"
    );
    assert_eq!(place, "/workspace");
    deployment.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_beneath_a_mount_is_found_and_can_be_written() {
    let host = tempfile::tempdir().unwrap();
    std::fs::set_permissions(host.path(), mode(0o755)).unwrap();
    let inner = host.path().join("two words");
    std::fs::create_dir(&inner).unwrap();
    let mut deployment = Deployment::new(Engine::shared(), Some(&inner));
    deployment.api(API, "leave");
    deployment.workspace = host.path().display().to_string();
    deployment.start("/srv/shared", &[("WORKSPACE", "/srv/shared/two words")]);
    deployment.ready().await;
    assert_eq!(deployment.prints(HELLO).await, "from a folder\n");
    let (source, place) = deployment.mounted().await;
    assert_eq!(
        (source.as_str(), place.as_str()),
        (inner.to_str().unwrap(), "/srv/shared/two words")
    );
    for (folder, writable) in [("made", ""), ("made/more", "made")] {
        let mut run = spec("");
        run.program = Program::Command(broker::Command {
            argv: vec!["/usr/bin/mkdir".to_owned(), folder.to_owned()],
            env: [
                ("PATH", "/usr/bin:/bin"),
                ("HOME", "/tmp"),
                ("TMPDIR", "/tmp"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            cwd: String::new(),
            writable: vec![writable.to_owned()],
        });
        let run = deployment.client().run(run).await.unwrap().collect().await;
        let end = run.finished.outcome;
        assert_eq!(
            end,
            Outcome::Exited { code: 0 },
            "{folder}: {}",
            text(&run.stderr)
        );
        let made = std::fs::metadata(inner.join(folder)).unwrap();
        let owner = (
            std::os::unix::fs::MetadataExt::uid(&made),
            std::os::unix::fs::MetadataExt::gid(&made),
        );
        assert_eq!(owner, (API, NOBODY));
    }
    deployment.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn podman_is_asked_the_same() {
    let mut deployment = Deployment::new(Engine::podman(), None);
    // It gives a new volume to the user and the group of the first container that has it.
    deployment.group = NOBODY;
    deployment.api(API, "leave");
    deployment.start("/workspace", &[]);
    deployment.ready().await;
    assert_eq!(deployment.prints(HELLO).await, "from a volume\n");
    deployment.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_volume_is_refused() {
    let mut deployment = Deployment::new(Engine::shared(), None);
    deployment.api(API, "leave");
    let (other, folder) = deployment.volume("other", "from elsewhere");
    // It has a word of its own, as another deployment's workspace would.
    let own = std::mem::replace(&mut deployment.workspace, other);
    deployment.api(API, "leave");
    deployment.workspace = own;
    for (runtime, said) in [
        ("runc", "another workspace than the broker"),
        ("runsc", "another folder at /workspace"),
    ] {
        deployment.start(
            "/workspace",
            &[("SOURCE", folder.as_str()), ("RUNTIME", runtime)],
        );
        let (reason, fix) = deployment.not_ready().await;
        assert!(reason.contains(said), "{runtime}: {reason}");
        assert!(fix.contains("KAZMA_WORKSPACE_SOURCE"), "{fix}");
        deployment.done(&["rm", "--force", &deployment.broker]);
    }
    // The place that was named is used, where it is the right one.
    let format = [
        "volume",
        "inspect",
        "--format",
        "{{.Mountpoint}}",
        &deployment.workspace,
    ];
    let right = deployment.done(&format);
    for runtime in ["runc", "runsc"] {
        deployment.start(
            "/workspace",
            &[("SOURCE", right.trim()), ("RUNTIME", runtime)],
        );
        deployment.ready().await;
        assert_eq!(deployment.prints(HELLO).await, "from a volume\n");
        deployment.done(&["rm", "--force", &deployment.broker]);
    }
    deployment.engine.reap(&deployment.owner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_know_says_so() {
    let deployment = Deployment::new(Engine::shared(), None);
    // No api has started yet.
    deployment.start("/workspace", &[]);
    let (reason, fix) = deployment.not_ready().await;
    assert!(reason.contains("no word of the runner's api"), "{reason}");
    assert!(fix.contains("start it again"), "{fix}");
    deployment.api(API, "leave");
    deployment.ready().await;
    deployment.done(&["rm", "--force", &deployment.broker]);
    // A workspace that is in no mount.
    deployment.start("/workspace", &[("WORKSPACE", "/srv")]);
    let (reason, fix) = deployment.not_ready().await;
    assert!(reason.contains("in the broker's own container"), "{reason}");
    assert!(fix.contains("Mount a volume"), "{fix}");
    deployment.done(&["rm", "--force", &deployment.broker]);
    // The engine of somebody else.
    let other = Engine::podman();
    deployment.start_with(&other.socket, "/workspace", &[]);
    let (reason, fix) = deployment.not_ready().await;
    assert!(reason.contains("does not know that container"), "{reason}");
    assert!(fix.contains("KAZMA_WORKSPACE_SOURCE"), "{fix}");
    deployment.engine.reap(&deployment.owner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_one_is_followed_by_another_that_clears_up() {
    let deployment = Deployment::new(Engine::shared(), None);
    deployment.api(API, "leave");
    deployment.start("/workspace", &[]);
    deployment.ready().await;
    let forever = spec("import time; print('on', flush=True); time.sleep(1000)");
    let mut run = deployment.client().run(forever).await.unwrap();
    run.next().await.unwrap();
    deployment.done(&["kill", "--signal=KILL", &deployment.broker]);
    let end = run.collect().await.finished.outcome;
    assert!(matches!(end, Outcome::Lost { .. }), "{end:?}");
    assert!(deployment.sockets.path().join("broker.sock").exists());
    deployment.done(&["start", &deployment.broker]);
    deployment.ready().await;
    deployment.engine.until_running(&deployment.owner, 1).await;
    assert_eq!(deployment.prints(HELLO).await, "from a volume\n");
    deployment.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_cannot_be_taken_away_is_named() {
    let deployment = Deployment::new(Engine::shared(), None);
    let path = deployment.sockets.path();
    drop(std::os::unix::net::UnixListener::bind(path.join("broker.sock")).unwrap());
    chown(path, Some(API), Some(API)).unwrap();
    deployment.start("/workspace", &[]);
    let said = async {
        while !deployment
            .log()
            .contains("cannot be removed: its folder must belong to uid 0")
        {
            moment().await;
        }
    };
    let said = tokio::time::timeout(PATIENCE, said).await;
    assert!(said.is_ok(), "{}", deployment.log());
}
