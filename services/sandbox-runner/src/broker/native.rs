//! The `native` tier: bubblewrap jails from a pool.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use camino::Utf8Path;
use futures_util::future::BoxFuture;
use kazma_domain::Entropy;
use tokio::{runtime::Handle, sync::mpsc::UnboundedSender};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    BrokerError, BrokerOptions, BrokerStatus, Chunk, Finished, RunSpec, Tier,
    canary::{NotReady, Sight, broken_promise, refused},
    commands,
    pooled::PooledTier,
    workshop::{Face, Made, Workshop},
};
use crate::jail::{
    Access, Cgroups, Enforcement, Jail, JailError, RunLimits, Runner, Spawner, Task, Template,
    orphans,
};

/// How often what killed jails left is looked for.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Bubblewrap jails from a pool, once a canary has proven that they hold.
#[derive(Debug)]
pub struct NativeTier(PooledTier<JailShop>);

impl NativeTier {
    /// Sends the canary and starts the pool, both in the background, until `stop`.
    pub fn start(
        options: &BrokerOptions,
        entropy: Arc<dyn Entropy>,
        stop: CancellationToken,
    ) -> Result<Self, BrokerError> {
        Self::chosen(options, String::new(), entropy, stop)
    }

    /// The same, with a word on why this tier and no other.
    pub(super) fn chosen(
        options: &BrokerOptions,
        note: String,
        entropy: Arc<dyn Entropy>,
        stop: CancellationToken,
    ) -> Result<Self, BrokerError> {
        let template = options.template()?;
        let cgroups = Cgroups::detect(options.cgroups);
        cgroups.sweep();
        let workshop = JailShop {
            enforcement: cgroups.enforcement(),
            template,
            spawner: Spawner::start(Handle::current())?,
            cgroups,
            made: AtomicU64::new(0),
        };
        workshop.tracker().spawn(sweep_until(stop.clone()));
        Ok(Self(PooledTier::start(
            workshop, options, note, entropy, stop,
        )))
    }

    /// Waits until no jail is left. Call it after `stop`, when no run is going on.
    pub async fn cleared(&self) {
        self.0.cleared().await;
        sweep().await;
    }
}

impl Tier for NativeTier {
    fn status(&self) -> BrokerStatus {
        self.0.status()
    }

    fn run<'a>(
        &'a self,
        spec: &'a RunSpec,
        chunks: &'a UnboundedSender<Chunk>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Finished> {
        self.0.run(spec, chunks, cancel)
    }
}

/// Ends what a killed broker or bubblewrap left: at once, and now and then.
async fn sweep_until(stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP_PERIOD);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        sweep().await;
    }
}

async fn sweep() {
    if let Err(error) = tokio::task::spawn_blocking(orphans::sweep).await {
        tracing::error!(%error, "looking for what killed sandboxes left broke");
    }
}

/// What jails are made with.
#[derive(Debug)]
struct JailShop {
    template: Template,
    spawner: Spawner,
    cgroups: Cgroups,
    enforcement: Enforcement,
    made: AtomicU64,
}

impl Made for Jail {
    fn image(&self) -> Option<&str> {
        None
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        let lifeline = self.lifeline();
        Box::pin(async move { lifeline.gone().await })
    }

    async fn run(
        self,
        task: &Task,
        limits: RunLimits,
        chunks: &UnboundedSender<Chunk>,
        cancel: &CancellationToken,
    ) -> Finished {
        Self::run(self, task, limits, chunks, cancel).await
    }
}

impl Workshop for JailShop {
    type Made = Jail;
    type Error = JailError;

    const DIED: JailError = JailError::Died;

    async fn prepare(&self) -> Result<(), NotReady> {
        Ok(())
    }

    fn look(&self, writable: &[String]) -> Result<Access, JailError> {
        Ok(Access::look(&self.template.workspace, writable)?)
    }

    async fn make(&self, access: Option<&Access>) -> Result<Jail, JailError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("jail-{}-{number}", std::process::id());
        Jail::start(&self.template, access, &self.spawner, &self.cgroups, &name).await
    }

    /// The machine's own folders are mounted.
    fn trusts(&self, program: &Utf8Path) -> bool {
        commands::is_roots_alone(program)
    }

    async fn stale(&self) {
        std::future::pending::<()>().await;
    }

    fn face(&self) -> Face {
        Face {
            tier: "native",
            enforcer: "bubblewrap".to_owned(),
            image: None,
            weakness: "It shares this machine's kernel: code that breaks the kernel breaks out."
                .to_owned(),
            enforcement: self.enforcement.clone(),
            limits: self.template.limits,
        }
    }

    fn workspace(&self) -> &Utf8Path {
        &self.template.workspace
    }

    fn tracker(&self) -> TaskTracker {
        self.spawner.clearing()
    }

    fn judge(&self, sight: &Sight) -> Result<(), NotReady> {
        if sight.no_new_privs.as_deref() != Some("1") {
            return Err(broken_promise("no_new_privs is not set"));
        }
        if sight.seccomp.as_deref() != Some("2") {
            return Err(broken_promise("the system call filter is not in force"));
        }
        if !refused(&sight.init_descriptors) {
            return Err(broken_promise("the descriptors of process 1 can be opened"));
        }
        Ok(())
    }

    fn explain(&self, error: &JailError) -> NotReady {
        let said = error.to_string();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let fix = match error {
            JailError::Missing {
                program: "bubblewrap",
                ..
            } => "Install bubblewrap (Debian: apt-get install bubblewrap).".to_owned(),
            JailError::Missing { .. } => {
                "Put sandbox-init beside the Kazma program; it is part of every build.".to_owned()
            }
            JailError::LockDown(_) if has(&["start Python"]) => {
                "Install Python 3 below /usr (Debian: apt-get install python3), or set its path."
                    .to_owned()
            }
            JailError::Bubblewrap(_) if has(&["user namespace", "new namespace", "uid map"]) => {
                "Allow unprivileged user namespaces: user.max_user_namespaces above 0, \
                 kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0 \
                 where they exist; in a container, a seccomp profile that allows them."
                    .to_owned()
            }
            JailError::Bubblewrap(_) if has(&["mount proc"]) => {
                "This container hides parts of /proc; start it with an unmasked /proc, or use another \
                 tier."
                    .to_owned()
            }
            JailError::Bubblewrap(_) if has(&[self.template.workspace.as_str()]) => {
                self.readable_fix()
            }
            _ => "The log of the sandbox broker has more.".to_owned(),
        };
        NotReady::new(said, fix)
    }

    fn unreadable(&self, path: &Utf8Path, answer: &str) -> NotReady {
        let reader = match self.template.runner {
            Runner::Nobody => "uid and gid 65534",
            Runner::Itself => "the broker's own user",
        };
        NotReady::new(
            format!("a snippet ({reader}) cannot read {path} ({answer})"),
            self.readable_fix(),
        )
    }
}

impl JailShop {
    fn readable_fix(&self) -> String {
        let workspace = &self.template.workspace;
        match self.template.runner {
            Runner::Nobody => readable_for_nobody(workspace),
            Runner::Itself => format!("Make {workspace} readable for the user that runs Kazma."),
        }
    }
}

/// How to let uid and gid 65534 read the workspace.
pub(super) fn readable_for_nobody(workspace: &Utf8Path) -> String {
    format!(
        "chgrp 65534 {workspace} && chmod 2750 {workspace}, and give every folder above it the x bit for others."
    )
}
