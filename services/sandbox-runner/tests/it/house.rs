//! A broker with a workspace of its own, and what tests ask it.

use std::{os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use kazma_domain::{CallId, Clock};
use kazma_runtime::{SystemClock, SystemEntropy};
use kazma_sandbox_runner::broker::{
    BrokerClient, BrokerOptions, BrokerStatus, Collected, Readiness, RunSpec, serve,
};
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine with two cores.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct House {
    pub(crate) client: BrokerClient,
    pub(crate) workspace: Utf8PathBuf,
    pub(crate) socket: Utf8PathBuf,
    stop: CancellationToken,
    broker: JoinHandle<()>,
    _folders: [tempfile::TempDir; 2],
}

impl House {
    /// Starts a broker and waits until it is ready.
    pub(crate) async fn open() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut BrokerOptions)) -> Self {
        let house = Self::unready(change);
        house
            .until(|s| s.readiness == Readiness::Ready && s.pool.idle > 0)
            .await;
        house
    }

    /// Starts a broker and waits for nothing.
    pub(crate) fn unready(change: impl FnOnce(&mut BrokerOptions)) -> Self {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [sockets, workspace] = &folders;
        std::fs::set_permissions(workspace.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = |p: &std::path::Path| Utf8PathBuf::from_path_buf(p.to_owned()).unwrap();
        let workspace = path(workspace.path());
        let socket = path(&sockets.path().join("broker.sock"));
        let mut options = BrokerOptions::new(&socket, &workspace);
        options.init = Some(env!("CARGO_BIN_EXE_sandbox-init").into());
        change(&mut options);
        // Bound here, so that a client can connect at once.
        let listener = UnixListener::bind(&socket).unwrap();
        let stop = CancellationToken::new();
        let served = serve(
            options,
            Some(listener),
            Arc::new(SystemEntropy),
            stop.clone(),
        );
        let broker = tokio::spawn(async move { served.await.unwrap() });
        Self {
            client: BrokerClient::new(&socket),
            socket,
            workspace,
            stop,
            broker,
            _folders: folders,
        }
    }

    /// Waits until the status is as wanted. A broker that says it cannot ever be ready fails the test.
    pub(crate) async fn until(&self, wanted: impl Fn(&BrokerStatus) -> bool) -> BrokerStatus {
        let asking = async {
            loop {
                let status = self.client.status().await.unwrap();
                if wanted(&status) {
                    return status;
                }
                if let Readiness::NotReady { reason, fix } = &status.readiness
                    && status.settled
                {
                    panic!("the sandbox is not ready: {reason} -- {fix}");
                }
                moment().await;
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .expect("the status never came")
    }

    /// Waits until the status is as wanted, whatever it is before.
    pub(crate) async fn until_again(&self, wanted: impl Fn(&BrokerStatus) -> bool) {
        let asking = async {
            while !wanted(&self.client.status().await.unwrap()) {
                moment().await;
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .expect("the status never came");
    }

    pub(crate) async fn run(&self, code: &str) -> Collected {
        self.run_with(code, |_| {}).await
    }

    pub(crate) async fn run_with(
        &self,
        code: &str,
        change: impl FnOnce(&mut RunSpec),
    ) -> Collected {
        let mut run = spec(code);
        change(&mut run);
        self.client.run(run).await.unwrap().collect().await
    }

    /// Stops the broker and waits until all is cleared away.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.broker)
            .await
            .unwrap()
            .unwrap();
    }
}

/// Between two looks at something that others are about to change. Looking all the time would take the
/// processor from them.
pub(crate) async fn moment() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// Whether to take the time that a pull request should not wait for.
#[expect(clippy::disallowed_methods, reason = "how scripts/test --long says so")]
pub(crate) fn long() -> bool {
    std::env::var("KAZMA_TEST_LONG").is_ok_and(|set| set == "1")
}

pub(crate) fn spec(code: &str) -> RunSpec {
    RunSpec::new(CallId::new(SystemClock.now(), &SystemEntropy), code)
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A word that no other process on this machine has on its command line.
pub(crate) fn marked() -> String {
    format!("marker-{}", spec("").call_id)
}

/// How many processes of the machine have `marker` on their command line.
pub(crate) fn processes_with(marker: &str) -> usize {
    pids_with(marker).len()
}

/// The processes of the machine with `marker` on their command line.
pub(crate) fn pids_with(marker: &str) -> Vec<i32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(marker))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
