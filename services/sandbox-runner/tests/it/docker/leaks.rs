//! Nothing is left, whoever dies when.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use camino::Utf8PathBuf;
use kazma_domain::Entropy;
use kazma_runtime::SystemEntropy;
use kazma_sandbox_runner::broker::{
    BrokerClient, BrokerOptions, EngineRuntime, Outcome, Readiness, TierChoice, serve,
};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::Engine,
    house::{PATIENCE, spec},
};

/// A broker in a process of its own. The owner stays the same over all of its starts.
struct Broker {
    child: Child,
    client: BrokerClient,
}

impl Broker {
    fn start(engine: &Engine, owner: &str, folder: &Path) -> Self {
        let socket = Utf8PathBuf::from_path_buf(folder.join("broker.sock")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "docker::leaks::a_broker_to_be_killed",
                "--ignored",
            ])
            .env("SOCKET", &socket)
            .env("WORKSPACE", folder.join("workspace"))
            .env("ENGINE", &engine.socket)
            .env("OWNER", owner)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            client: BrokerClient::new(socket),
        }
    }

    async fn ready(&self) {
        let asking = async {
            while !matches!(self.client.status().await, Ok(s) if s.readiness == Readiness::Ready) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the test that starts it wants it"
)]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests"]
async fn a_broker_to_be_killed() {
    let told = |name: &str| std::env::var(name).unwrap();
    let mut options = BrokerOptions::new(told("SOCKET"), told("WORKSPACE"));
    let engine = kazma_sandbox_runner::broker::EngineOptions::new(told("ENGINE"), told("OWNER"));
    options.tier = TierChoice::Docker(engine);
    options.queue_bound = 256;
    let never = CancellationToken::new();
    serve(options, None, std::sync::Arc::new(SystemEntropy), never)
        .await
        .unwrap();
}

fn random(bound: usize) -> usize {
    let mut bytes = [0_u8; 8];
    SystemEntropy.fill(&mut bytes);
    usize::try_from(u64::from_be_bytes(bytes) % u64::try_from(bound).unwrap()).unwrap()
}

/// Snippets of every kind of end.
const MIXED: [&str; 8] = [
    "print(1)",
    "raise SystemExit(3)",
    "import os; os.kill(os.getpid(), 9)",
    "import time; time.sleep(1000)",
    "h = []\nwhile True: h.append(bytearray(32 << 20))",
    "import os\nwhile True: os.write(1, b'x' * 65536)",
    "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "open('/tmp/x', 'wb').write(bytes(1 << 20))",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_broker_leaves_is_gone_after_the_next_starts() {
    let engine = Engine::shared();
    let owner = engine.options(EngineRuntime::Runc).owner;
    let ground = ground();
    let mut broker = Broker::start(&engine, &owner, ground.path());
    broker.ready().await;
    let forever = spec("import time; print('on', flush=True); time.sleep(1000)");
    let mut run = broker.client.run(forever).await.unwrap();
    run.next().await.unwrap();
    broker.kill();
    let end = run.collect().await.finished.outcome;
    assert!(matches!(end, Outcome::Lost { .. }), "{end:?}");
    // The containers end by themselves, for their broker hung up; their remains wait for the next one.
    let mut broker = Broker::start(&engine, &owner, ground.path());
    broker.ready().await;
    engine.until_running(&owner, 2).await;
    broker.kill();
    engine.reap(&owner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_of_mixed_ends_and_kills_leaves_nothing() {
    let engine = Engine::shared();
    let owner = engine.options(EngineRuntime::Runc).owner;
    let ground = ground();
    let volumes = engine.volumes().await;
    let rounds = if crate::house::long() { 300 } else { 30 };
    let mut broker = Broker::start(&engine, &owner, ground.path());
    broker.ready().await;
    let mut done = 0;
    while done < rounds {
        let batch: Vec<_> = (0..6)
            .map(|_| {
                let mut run = spec(MIXED[random(MIXED.len())]);
                run.timeout = Duration::from_millis(300 + 200 * random(5) as u64);
                let client = broker.client.clone();
                // An api that dies drops its connection: some callers leave before the end.
                let stays = random(4) > 0;
                tokio::spawn(async move {
                    let Ok(stream) = client.run(run).await else {
                        return;
                    };
                    if stays {
                        stream.collect().await;
                    } else {
                        let moment = Duration::from_millis(20 * random(10) as u64);
                        let _ = tokio::time::timeout(moment, stream.collect()).await;
                    }
                })
            })
            .collect();
        done += batch.len();
        if random(3) == 0 {
            tokio::time::sleep(Duration::from_millis(10 * random(80) as u64)).await;
            broker.kill();
            broker = Broker::start(&engine, &owner, ground.path());
            broker.ready().await;
        }
        for run in batch {
            run.await.unwrap();
        }
    }
    broker.kill();
    engine.reap(&owner).await;
    assert_eq!(engine.volumes().await, volumes);
    let left: Vec<_> = std::fs::read_dir(ground.path().join("workspace"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn ground() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let ground = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(ground.path(), open.clone()).unwrap();
    let workspace = ground.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::set_permissions(workspace, open).unwrap();
    ground
}
