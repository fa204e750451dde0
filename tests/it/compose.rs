//! `docker compose up` in a clone, on an engine whose containers have networks: the story over the published port, and
//! what must survive that the containers are made anew.

mod namespace;
mod overlays;
mod proxy;
mod walls;

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Output,
    time::Instant,
};

use kazma_testkit::Api;
use serde_json::Value;

use self::namespace::within;
use crate::stack::{PATIENCE, command};

/// How the images are compiled here: `scripts/test` compiled them before.
const PROFILE: &str = "ci";
/// Where compose.yaml publishes the gateway.
const PUBLISHED: &str = "127.0.0.1:9090";
/// What runs for good.
const SERVICES: [&str; 6] = [
    "gateway",
    "agent",
    "gate-registry",
    "runner-api",
    "runner-broker",
    "runner-egress",
];
const IMAGES: [&str; 4] = ["gateway", "agent", "gate-registry", "sandbox-runner"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A clone with what git knows of and nothing else, and the engine that its containers run on.
struct Clone {
    folder: tempfile::TempDir,
    socket: String,
    /// The network namespace of the engine, where ports are published.
    network: PathBuf,
    overlays: Vec<&'static str>,
    settings: BTreeMap<&'static str, String>,
}

impl Clone {
    /// A clone, and no containers or volumes of an earlier one.
    fn fresh(overlays: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listed = command("git")
            .args(["-C", root().to_str().unwrap(), "ls-files", "-z"])
            .output()
            .unwrap();
        assert!(listed.status.success(), "{listed:?}");
        for name in String::from_utf8(listed.stdout)
            .unwrap()
            .split_terminator('\0')
        {
            let to = folder.path().join(name);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root().join(name), to).unwrap();
        }
        let socket = engine();
        let network = Path::new(&socket).with_file_name("net");
        let settings = [
            ("PROFILE", PROFILE.to_owned()),
            ("KAZMA_ENGINE_SOCKET", socket.clone()),
            ("KAZMA_DEMO", "1".to_owned()),
        ];
        let clone = Self {
            folder,
            socket,
            network,
            overlays: overlays.to_vec(),
            settings: settings.into(),
        };
        clone.clear();
        clone
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.settings.insert(name, value.to_owned());
    }

    fn program(&self, name: &str, arguments: &[&str]) -> Output {
        let mut program = command(name);
        program
            .args(arguments)
            .current_dir(self.folder.path())
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", std::env::var_os("HOME").unwrap_or_default())
            .env("DOCKER_HOST", format!("unix://{}", self.socket))
            .envs(&self.settings);
        program.output().unwrap()
    }

    fn told(&self, name: &str, arguments: &[&str]) -> String {
        stdout(
            &format!("{name} {arguments:?}"),
            self.program(name, arguments),
        )
    }

    fn compose(&self, arguments: &[&str]) -> String {
        stdout(
            &format!("compose {arguments:?}"),
            self.run_compose(arguments),
        )
    }

    fn run_compose(&self, arguments: &[&str]) -> Output {
        let files = self
            .overlays
            .iter()
            .map(|name| format!("compose/{name}.yaml"));
        let files: Vec<String> = ["compose.yaml".to_owned()]
            .into_iter()
            .chain(files)
            .collect();
        let mut all: Vec<&str> = files.iter().flat_map(|file| ["--file", file]).collect();
        all.extend(["--progress", "quiet"]);
        all.extend(arguments);
        self.program("scripts/compose", &all)
    }

    /// Has what the overlays take from others there.
    fn others(&self) {
        self.told("scripts/images", &["--others"]);
    }

    /// Builds what is missing or stale, starts everything, and waits until it is healthy.
    fn up(&self) {
        self.up_with(&["--build"]);
    }

    /// The same of every service of ours, and these.
    fn up_and(&self, others: &[&str]) {
        self.up_with(&[&["--build"], SERVICES.as_slice(), others].concat());
    }

    fn up_with(&self, flags: &[&str]) {
        let up = ["up", "--detach", "--wait", "--wait-timeout", "120"];
        let output = self.run_compose(&[&up, flags].concat());
        if !output.status.success() {
            let said = self.compose(&["logs", "--no-color", "--tail", "30"]);
            let state = self.compose(&["ps", "--all"]);
            let why = String::from_utf8_lossy(&output.stderr);
            panic!("{why}\n{state}\n{said}");
        }
    }

    /// Removes every container, volume and network of an earlier test.
    fn clear(&self) {
        self.told("docker", &["version"]);
        for (list, remove) in [
            (
                ["ps", "--all", "--quiet"].as_slice(),
                ["rm", "--force", "--volumes"].as_slice(),
            ),
            (&["volume", "ls", "--quiet"], &["volume", "rm", "--force"]),
            (
                &["network", "ls", "--quiet", "--filter", "type=custom"],
                &["network", "rm"],
            ),
        ] {
            self.remove_all(list, remove);
        }
    }

    /// The broker may have asked for a container's end as well: then the engine refuses ours, and the container is gone soon.
    fn remove_all(&self, list: &[&str], remove: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        let mut refused = String::new();
        loop {
            let found = self.told("docker", list);
            let found: Vec<&str> = found.split_whitespace().collect();
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{found:?} stay: {refused}");
            let output = self.program("docker", &[remove, &found].concat());
            refused = String::from_utf8_lossy(&output.stderr).into_owned();
        }
    }

    fn container(&self, service: &str) -> String {
        let id = self.compose(&["ps", "--quiet", service]);
        assert!(!id.is_empty(), "{service} does not run");
        id
    }

    fn inspect(&self, id: &str) -> Value {
        let text = self.told("docker", &["inspect", id]);
        serde_json::from_str::<Value>(&text).unwrap()[0].take()
    }

    fn exec(&self, service: &str, arguments: &[&str]) -> String {
        let head = ["exec", "--no-TTY", service, "/usr/bin/kazma"];
        self.compose(&[&head, arguments].concat())
    }

    /// The operator's token, which lies in the gateway's volume.
    fn token(&self) -> String {
        let to = self.folder.path().join("token");
        let from = format!("{}:/var/lib/kazma/token", self.container("gateway"));
        self.told("docker", &["cp", &from, to.to_str().unwrap()]);
        fs::read_to_string(to).unwrap().trim().to_owned()
    }

    /// Where the engine's ports are published, with the operator's token.
    fn people<T: Send>(&self, work: impl AsyncFnOnce(Api) -> T + Send) -> T {
        let token = self.token();
        let at: SocketAddr = PUBLISHED.parse().unwrap();
        within(&self.network, || {
            namespace::block_on(async { work(Api::new(at, &token).unwrap()).await })
        })
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.clear();
        }
    }
}

/// What a program said that must have ended well.
fn stdout(what: &str, output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An engine whose containers have networks, with what images are built from.
fn engine() -> String {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tmp.parent().unwrap().join("engine-networks");
    let run = |name: &str, arguments: &[&str], socket: &str| {
        let output = command(root().join("scripts").join(name))
            .args(arguments)
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", std::env::var_os("HOME").unwrap_or_default())
            .env("DOCKER_HOST", format!("unix://{socket}"))
            .output()
            .unwrap();
        stdout(&format!("scripts/{name} {arguments:?}"), output)
    };
    let socket = run("engine", &["networks", folder.to_str().unwrap()], "");
    run("images", &["--bases"], &socket);
    socket
}

/// Says something that asks, approves the card, and gives the reply.
async fn story(api: &Api) -> String {
    let thread = api.say("run python: print(sum(range(10)))").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    assert!(card.to_string().contains("docker"), "{card}");
    approved(api, &thread, &card).await
}

async fn approved(api: &Api, thread: &str, card: &Value) -> String {
    assert_eq!(api.decide(card, "approve").await.unwrap().status, 200);
    let (state, reply) = api.ended(thread).await.unwrap();
    assert_eq!(state, "done", "{reply}");
    reply
}

/// A card that nobody answers yet, and its thread.
async fn asked(api: &Api) -> (String, Value) {
    let thread = api.say("run python: print(6 * 7)").await.unwrap();
    let card = api.card(&thread).await.unwrap();
    (thread, card)
}

#[test]
fn in_a_clone_with_nothing_set_the_story_and_what_a_restart_must_not_take() {
    let clone = Clone::fresh(&[]);
    clone.up();
    // The link that is made in the container signs a browser in, once.
    let link = clone.exec("gateway", &["login-link"]);
    assert!(link.contains("http://localhost:9090/"), "{link}");
    let (token, key) = (clone.token(), key_of(&clone));
    let (thread, card) = clone.people(async |api| {
        let reply = story(&api).await;
        assert!(reply.contains("45"), "{reply}");
        asked(&api).await
    });
    // Everything is made anew, and only volumes stay.
    clone.compose(&["down"]);
    clone.up();
    assert_eq!((clone.token(), key_of(&clone)), (token, key));
    let reply = clone.people(async |api| approved(&api, &thread, &card).await);
    assert!(reply.contains("42"), "{reply}");
    let record = clone.exec("gate-registry", &["audit", "verify"]);
    assert!(!record.is_empty());
}

/// The registry's own key, as far as anybody may know it.
fn key_of(clone: &Clone) -> String {
    let to = clone.folder.path().join("ca");
    let _ = fs::remove_dir_all(&to);
    let from = format!(
        "{}:/var/lib/kazma/gate-registry/ca",
        clone.container("gate-registry")
    );
    clone.told("docker", &["cp", &from, to.to_str().unwrap()]);
    let mut files: Vec<PathBuf> = fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let bytes = files.iter().flat_map(|file| fs::read(file).unwrap());
    kazma_domain::Digest::of_bytes(&bytes.collect::<Vec<u8>>()).to_string()
}

#[test]
fn a_card_survives_an_upgrade_and_the_way_back() {
    let mut clone = Clone::fresh(&[]);
    clone.up();
    for name in IMAGES.into_iter().chain(["sandbox"]) {
        let image = format!("kazma-{name}");
        clone.told(
            "docker",
            &[
                "tag",
                &format!("{image}:latest"),
                &format!("{image}:before"),
            ],
        );
    }
    let before = images(&clone);
    let (thread, card) = clone.people(async |api| asked(&api).await);
    // The next version, as far as an engine can tell.
    let label = fs::read_to_string(clone.folder.path().join("Dockerfile")).unwrap();
    let next = label.replace(r#"version="0.1.0""#, r#"version="0.1.1""#);
    assert_ne!(label, next);
    fs::write(clone.folder.path().join("Dockerfile"), next).unwrap();
    clone.up();
    let (other_thread, other_card) = clone.people(async |api| {
        assert_eq!(api.card(&thread).await.unwrap()["gate_id"], card["gate_id"]);
        asked(&api).await
    });
    for (service, image) in images(&clone) {
        assert_ne!(before[service], image, "{service} was not made anew");
    }
    clone.set("KAZMA_TAG", "before");
    clone.up_with(&["--no-build"]);
    assert_eq!(images(&clone), before);
    clone.people(async |api| {
        let reply = approved(&api, &thread, &card).await;
        assert!(reply.contains("42"), "{reply}");
        // The sandbox's image is on the card. One that is gone again is not quietly another.
        assert_eq!(
            api.decide(&other_card, "approve").await.unwrap().status,
            200
        );
        let (_, reply) = api.ended(&other_thread).await.unwrap();
        assert!(reply.contains("It did not run"), "{reply}");
    });
}

/// The image that each service runs.
fn images(clone: &Clone) -> BTreeMap<&'static str, String> {
    let of = |service| {
        let told = clone.inspect(&clone.container(service));
        (service, told["Image"].as_str().unwrap().to_owned())
    };
    SERVICES.map(of).into()
}

#[test]
fn the_images_are_small_and_say_what_they_are() {
    let clone = Clone::fresh(&[]);
    clone.compose(&["build"]);
    for name in IMAGES {
        let told = clone.inspect(&format!("kazma-{name}:latest"));
        let config = &told["Config"];
        assert_eq!(
            config["Labels"]["org.opencontainers.image.version"],
            env!("CARGO_PKG_VERSION"),
            "{name}"
        );
        assert_eq!(
            config["Labels"]["org.opencontainers.image.licenses"], "MIT",
            "{name}"
        );
        assert_ne!(config["User"], "", "{name}");
        assert!(config["Healthcheck"]["Test"].is_array(), "{name}");
        let made = clone.told(
            "docker",
            &[
                "create",
                "--network",
                "none",
                &format!("kazma-{name}:latest"),
            ],
        );
        let to = clone.folder.path().join(name);
        let from = format!("{made}:/usr/share/sbom/kazma-{name}.cdx.json");
        clone.told("docker", &["cp", &from, to.to_str().unwrap()]);
        let bill: Value = serde_json::from_str(&fs::read_to_string(to).unwrap()).unwrap();
        assert_eq!(
            bill["metadata"]["component"]["name"],
            format!("kazma-{name}"),
            "{name}"
        );
        assert!(bill["components"].as_array().unwrap().len() > 50, "{name}");
    }
}
