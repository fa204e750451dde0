//! A container engine of the tests' own. It is started by whoever needs it first and shared; a test that
//! kills it has it alone.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use bollard::{
    API_DEFAULT_VERSION, Docker,
    models::{ContainerConfig, ContainerInspectResponse, ContainerSummary},
    query_parameters::{
        CommitContainerOptionsBuilder, EventsOptionsBuilder, ListContainersOptionsBuilder,
        ListVolumesOptions, RemoveContainerOptionsBuilder, RemoveImageOptionsBuilder,
        TagImageOptionsBuilder,
    },
};
use camino::Utf8PathBuf;
use futures_util::StreamExt;
use kazma_domain::Clock;
use kazma_runtime::SystemClock;
use kazma_sandbox_runner::broker::{BrokerOptions, EngineOptions, EngineRuntime, TierChoice};

use crate::house::{House, spec};

pub(crate) struct Engine {
    pub(crate) socket: Utf8PathBuf,
    _lock: File,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().unwrap().join("engine")
}

/// Runs one of the repository's scripts. What it could not do fails the test, in its own words.
fn script(name: &str, arguments: &[&str], engine: Option<&str>) -> String {
    let mut command = Command::new(repository().join("scripts").join(name));
    command.args(arguments);
    if let Some(socket) = engine {
        command.env("DOCKER_HOST", format!("unix://{socket}"));
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "scripts/{name} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

impl Engine {
    /// The shared engine, with the image.
    pub(crate) fn shared() -> Self {
        Self::with(|lock| lock.lock_shared().unwrap())
    }

    /// The same, while nobody else uses it.
    pub(crate) fn alone() -> Self {
        Self::with(|lock| lock.lock().unwrap())
    }

    fn with(hold: impl FnOnce(&File)) -> Self {
        std::fs::create_dir_all(folder()).unwrap();
        let lock = File::create(folder().join("users")).unwrap();
        hold(&lock);
        let socket = Self::start();
        script(
            "images",
            &["--init", env!("CARGO_BIN_EXE_sandbox-init")],
            Some(&socket),
        );
        Self {
            socket: socket.into(),
            _lock: lock,
        }
    }

    /// A Podman with the same image, beside the shared engine.
    pub(crate) fn podman() -> Self {
        let beside = Self::shared();
        let socket = script("engine", &["podman", folder().to_str().unwrap()], None);
        Self {
            socket: socket.trim().into(),
            ..beside
        }
    }

    /// An engine that an ordinary user runs. It has no image.
    pub(crate) fn rootless() -> Self {
        let beside = Self::shared();
        let socket = script("engine", &["rootless", folder().to_str().unwrap()], None);
        Self {
            socket: socket.trim().into(),
            ..beside
        }
    }

    /// Starts it, if it does not run.
    pub(crate) fn start() -> String {
        script("engine", &["start", folder().to_str().unwrap()], None)
            .trim()
            .to_owned()
    }

    /// The engine's process.
    pub(crate) fn pid() -> i32 {
        let text = std::fs::read_to_string(folder().join("engine.pid")).unwrap();
        text.trim().parse().unwrap()
    }

    pub(crate) fn api(&self) -> Docker {
        Docker::connect_with_unix(self.socket.as_str(), 60, API_DEFAULT_VERSION).unwrap()
    }

    /// Options with an owner that no other test has.
    pub(crate) fn options(&self, runtime: EngineRuntime) -> EngineOptions {
        let unique = spec("").call_id.to_string().replace('_', "-");
        let mut options = EngineOptions::new(&self.socket, unique);
        options.runtime = runtime;
        options
    }

    /// A broker with this engine, ready.
    pub(crate) async fn house(
        &self,
        runtime: EngineRuntime,
        change: impl FnOnce(&mut BrokerOptions),
    ) -> (House, String) {
        let options = self.options(runtime);
        let owner = options.owner.clone();
        let house = House::with(|broker| {
            broker.tier = TierChoice::Docker(options);
            change(broker);
        })
        .await;
        (house, owner)
    }

    /// The containers of an owner, whatever their state.
    pub(crate) async fn containers(&self, owner: &str) -> Vec<ContainerSummary> {
        let label = format!("kazma.sandbox.owner={owner}");
        let filters = HashMap::from([("label", vec![label.as_str()])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters)
            .build();
        loop {
            match self.api().list_containers(Some(options.clone())).await {
                Ok(listed) => return listed,
                // Podman's word for a moment of a container's end, which bollard does not know.
                Err(bollard::errors::Error::JsonDataError { message, .. })
                    if message.contains("`stopped`") =>
                {
                    crate::house::moment().await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until an owner has `count` containers.
    pub(crate) async fn until(&self, owner: &str, count: usize) {
        let counting = async {
            while self.containers(owner).await.len() != count {
                crate::house::moment().await;
            }
        };
        tokio::time::timeout(crate::house::PATIENCE, counting)
            .await
            .expect("the containers never came to the wanted number");
    }

    pub(crate) async fn inspect(&self, container: &ContainerSummary) -> ContainerInspectResponse {
        let id = container.id.as_deref().unwrap();
        self.api().inspect_container(id, None).await.unwrap()
    }

    /// An image that is there and has neither Python nor our init.
    pub(crate) fn image_without_init() -> String {
        "debian:bookworm-slim".to_owned()
    }

    pub(crate) async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        self.api()
            .remove_container(id, Some(options))
            .await
            .unwrap();
    }

    /// Kills the engine itself, and waits until it is gone.
    pub(crate) async fn kill(&self) {
        let pid = rustix::process::Pid::from_raw(Self::pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let gone = async {
            while rustix::process::test_kill_process(pid).is_ok() {
                crate::house::moment().await;
            }
        };
        tokio::time::timeout(crate::house::PATIENCE, gone)
            .await
            .unwrap();
    }

    /// Waits until an owner has `count` containers that run, and no others.
    pub(crate) async fn until_running(&self, owner: &str, count: usize) {
        let counting = async {
            loop {
                let all = self.containers(owner).await;
                let running = all.iter().filter(|c| is_running(c)).count();
                if (running, all.len()) == (count, count) {
                    return;
                }
                crate::house::moment().await;
            }
        };
        tokio::time::timeout(crate::house::PATIENCE, counting)
            .await
            .expect("the containers never came to the wanted number");
    }

    /// Lets a new broker of this owner make its one pass, and sees that nothing is left.
    pub(crate) async fn reap(&self, owner: &str) {
        let mut options = self.options(EngineRuntime::Runc);
        options.owner = owner.to_owned();
        let house = House::with(|broker| broker.tier = TierChoice::Docker(options)).await;
        house.until(|s| s.pool.idle == 2).await;
        // An engine that is busy still has some in its list that it is taking away.
        self.until(owner, 2).await;
        house.close().await;
        self.until(owner, 0).await;
    }

    pub(crate) async fn tag(&self, image: &str, name: &str) {
        let options = TagImageOptionsBuilder::new()
            .repo(name)
            .tag("latest")
            .build();
        self.api().tag_image(image, Some(options)).await.unwrap();
    }

    /// Makes another image with the same content as a container, and gives it the name.
    pub(crate) async fn commit(&self, container: &str, name: &str) -> String {
        let options = CommitContainerOptionsBuilder::new()
            .container(container)
            .repo(name)
            .tag("latest")
            .pause(false)
            .build();
        let made = self
            .api()
            .commit_container(options, ContainerConfig::default())
            .await;
        made.unwrap().id
    }

    pub(crate) async fn untag(&self, name: &str) {
        let options = RemoveImageOptionsBuilder::new().force(true).build();
        let api = self.api();
        api.remove_image(name, Some(options), None).await.unwrap();
    }

    /// The names of all volumes.
    pub(crate) async fn volumes(&self) -> Vec<String> {
        let listed = self
            .api()
            .list_volumes(None::<ListVolumesOptions>)
            .await
            .unwrap();
        let mut names: Vec<_> = listed
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(|volume| volume.name)
            .collect();
        names.sort();
        names
    }

    /// The containers that were created for an owner, from the engine's own record.
    pub(crate) async fn created(&self, owner: &str, since: i64) -> Vec<String> {
        let label = format!("kazma.sandbox.owner={owner}");
        let filters = HashMap::from([("label", vec![label.as_str()]), ("event", vec!["create"])]);
        let now = SystemClock.now().as_second() + 1;
        let options = EventsOptionsBuilder::new()
            .since(&since.to_string())
            .until(&now.to_string())
            .filters(&filters)
            .build();
        let events = self.api().events(Some(options));
        events
            .map(|event| {
                let about = event.unwrap().actor.unwrap().attributes.unwrap();
                about.get("name").unwrap().clone()
            })
            .collect()
            .await
    }
}

fn is_running(container: &ContainerSummary) -> bool {
    container
        .state
        .as_ref()
        .is_some_and(|state| state.to_string() == "running")
}
