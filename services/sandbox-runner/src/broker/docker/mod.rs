//! The `docker` tier: sibling containers from a pool, behind an engine's socket.
//!
//! **Invariant:** a container comes from the operator's settings alone, through [`template`], is looked at
//! again by [`guard`], and is reached through [`engine`], which cannot do anything else.

mod container;
mod engine;
mod error;
mod facts;
mod guard;
mod look;
mod origin;
mod reaper;
mod report;
mod settings;
mod template;

use std::{
    os::unix::fs::MetadataExt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::future::BoxFuture;
use kazma_domain::{Clock, Entropy};
use tokio::sync::{Notify, mpsc::UnboundedSender};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    container::{Container, Known, Makings},
    engine::{Engine, Name},
    error::EngineError,
    facts::Facts,
    reaper::Reaper,
    settings::WORKSPACE_SOURCE,
    template::Blueprint,
};
use super::{
    BrokerError, BrokerOptions, BrokerStatus, Chunk, Finished, RunSpec, TIMEOUT_MAX, Tier,
    canary::{NotReady, Sight, broken_promise, refused},
    native::readable_for_nobody,
    options::unfit,
    pooled::PooledTier,
    workshop::{Face, Workshop},
};
use crate::jail::{Access, Limits, container_rlimits, frame::Key};

pub use report::{EngineReport, engine_report};
pub use settings::{EngineOptions, EngineRuntime, SANDBOX_IMAGE};

/// What a container may live beyond its waiting and its run.
const SLACK: Duration = Duration::from_mins(2);
/// gVisor's own threads and helper processes count as the container's.
const RUNSC_PIDS_FACTOR: u64 = 8;

/// Sibling containers from a pool, once a canary has proven that they hold.
#[derive(Debug)]
pub struct DockerTier(PooledTier<ContainerShop>);

impl DockerTier {
    /// Looks at the engine, sends the canary and starts the pool, all in the background, until `stop`.
    /// `note` says why this tier was chosen.
    pub fn start(
        options: &BrokerOptions,
        engine: EngineOptions,
        note: String,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        stop: CancellationToken,
    ) -> Result<Self, BrokerError> {
        options.check()?;
        if !guard::plain(&engine.owner) {
            return Err(BrokerError::Setting {
                setting: "owner",
                problem: "must be letters, digits and dashes".to_owned(),
            });
        }
        if let Some(source) = &engine.workspace_source
            && let Some(problem) = unfit(source)
        {
            return Err(BrokerError::Setting {
                setting: "workspace source",
                problem: format!("{source} {problem}"),
            });
        }
        let mut random = [0_u8; 6];
        entropy.fill(&mut random);
        let broker = hex::encode(random);
        let known = Known::default();
        let workshop = ContainerShop {
            // Written one way: what is mounted is compared as text.
            workspace: options.workspace.components().collect(),
            limits: limits(options.limits, engine.runtime),
            life: options
                .max_idle_age
                .saturating_add(TIMEOUT_MAX)
                .saturating_add(SLACK),
            reaper: Reaper {
                owner: engine.owner.clone(),
                broker: broker.clone(),
                known,
            },
            broker,
            settings: engine,
            clock,
            entropy: Arc::clone(&entropy),
            standing: Arc::default(),
            stale: Arc::default(),
            tracker: TaskTracker::new(),
            made: AtomicU64::new(0),
        };
        workshop.tracker.spawn(workshop.watch(stop.clone()));
        Ok(Self(PooledTier::start(
            workshop, options, note, entropy, stop,
        )))
    }

    /// Waits until no container is left. Call it after `stop`, when no run is going on.
    pub async fn cleared(&self) {
        self.0.cleared().await;
    }
}

/// Whether containers could be made now; else why not, in a few words.
pub(super) async fn available(engine: &EngineOptions) -> Result<(), String> {
    if !engine.socket.exists() {
        return Err(format!("no container engine listens at {}", engine.socket));
    }
    let look = async {
        let connection = Engine::connect(&engine.socket)?;
        connection.image(&engine.image).await
    };
    match look.await {
        Ok(_) => Ok(()),
        Err(EngineError::Missing { .. }) => Err(format!(
            "the engine at {} does not have the image {}; scripts/images makes it",
            engine.socket, engine.image
        )),
        Err(error) => Err(error.to_string()),
    }
}

impl Tier for DockerTier {
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

fn limits(wanted: Limits, runtime: EngineRuntime) -> Limits {
    let factor = match runtime {
        EngineRuntime::Runsc => RUNSC_PIDS_FACTOR,
        EngineRuntime::Runc | EngineRuntime::Kata => 1,
    };
    Limits {
        pids: wanted.pids.saturating_mul(factor),
        ..wanted
    }
}

/// What is known of the engine.
#[derive(Debug, Clone)]
struct Standing {
    engine: Engine,
    facts: Facts,
    blueprint: Arc<Blueprint>,
    workspace: Option<(u64, u64)>,
}

/// What containers are made with.
#[derive(Debug)]
struct ContainerShop {
    settings: EngineOptions,
    workspace: Utf8PathBuf,
    limits: Limits,
    /// How long a container may live at most.
    life: Duration,
    broker: String,
    reaper: Reaper,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    standing: Arc<Mutex<Option<Standing>>>,
    stale: Arc<Notify>,
    tracker: TaskTracker,
    made: AtomicU64,
}

impl ContainerShop {
    fn standing(&self) -> Option<Standing> {
        standing(&self.standing)
    }

    async fn find_out(&self) -> Result<Standing, NotReady> {
        let explain = |error: EngineError| facts::explain(&error, &self.settings.image);
        let engine = Engine::connect(&self.settings.socket).map_err(explain)?;
        let (version, info) = engine.facts().await.map_err(explain)?;
        let facts = Facts::judge(&version, &info, self.settings.runtime)?;
        let engine = engine.speaking(facts.api);
        let image = engine.image(&self.settings.image).await.map_err(explain)?;
        if !image.volumes.is_empty() {
            return Err(NotReady::new(
                format!(
                    "the image {} declares volumes ({}), which outlive their containers",
                    self.settings.image,
                    image.volumes.join(", ")
                ),
                "Use an image that scripts/images made.",
            ));
        }
        let source = origin::find(&engine, &self.settings, &self.workspace).await?;
        if source != self.workspace {
            tracing::info!(%source, workspace = %self.workspace, "the workspace comes from elsewhere");
        }
        let blueprint = Blueprint {
            image_id: image.id,
            workspace: self.workspace.clone(),
            engine_spreads: facts.spreads_itself(&source),
            source,
            limits: self.limits,
            runtime: facts.runtime.clone(),
            kind: facts.kind,
            cgroups: facts.cgroups,
            owner: self.settings.owner.clone(),
            broker: self.broker.clone(),
            rlimits: container_rlimits(&self.limits),
        };
        let now = self.clock.now().as_second();
        self.reaper.pass(&engine, now).await.map_err(explain)?;
        let workspace = identity(&self.workspace)?;
        Ok(Standing {
            engine,
            facts,
            blueprint: Arc::new(blueprint),
            workspace: self
                .settings
                .runtime
                .shows_the_machine()
                .then_some(workspace),
        })
    }

    /// Looks after the engine until `stop`: removes strays, and notices when it or the image is another.
    fn watch(&self, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        let (shared, stale) = (Arc::clone(&self.standing), Arc::clone(&self.stale));
        let (reaper, clock) = (self.reaper.clone(), Arc::clone(&self.clock));
        let (reference, period) = (self.settings.image.clone(), self.settings.look_every);
        async move {
            let mut ticks = tokio::time::interval(period);
            while stop.run_until_cancelled(ticks.tick()).await.is_some() {
                let Some(Standing {
                    engine, blueprint, ..
                }) = standing(&shared)
                else {
                    continue;
                };
                let looked = async {
                    reaper.pass(&engine, clock.now().as_second()).await?;
                    engine.image(&reference).await
                };
                match looked.await {
                    Ok(image) if image.id == blueprint.image_id => {}
                    Ok(_) => stale.notify_waiters(),
                    Err(error) if error.unsettles() => stale.notify_waiters(),
                    Err(error) => tracing::warn!(%error, "the engine could not be looked after"),
                }
            }
        }
    }
}

fn standing(shared: &Mutex<Option<Standing>>) -> Option<Standing> {
    shared
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Device and inode of the workspace. It must be its own real path: a link on the way could be turned between
/// this look and the engine's mount. Each container says where it stands, and is not used if that is elsewhere.
fn identity(workspace: &Utf8Path) -> Result<(u64, u64), NotReady> {
    let wrong = |said: String| {
        NotReady::new(
            format!("the workspace {workspace} cannot be mounted: {said}"),
            "Name a folder that is there by its real path, without links.",
        )
    };
    let real = workspace
        .canonicalize_utf8()
        .map_err(|error| wrong(error.to_string()))?;
    if real != workspace {
        return Err(wrong(format!("it leads to {real}")));
    }
    let found = std::fs::symlink_metadata(workspace).map_err(|error| wrong(error.to_string()))?;
    if found.is_dir() {
        Ok((found.dev(), found.ino()))
    } else {
        Err(wrong("it is not a folder".to_owned()))
    }
}

impl Workshop for ContainerShop {
    type Made = Container;
    type Error = EngineError;

    const DIED: EngineError = EngineError::Died;

    async fn prepare(&self) -> Result<(), NotReady> {
        let found = self.find_out().await;
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                tracing::info!(engine = %found.facts.name, api = ?found.facts.api, "found an engine");
                *standing = Some(found);
                Ok(())
            }
            Err(not_ready) => {
                *standing = None;
                Err(not_ready)
            }
        }
    }

    fn look(&self, writable: &[String]) -> Result<Access, EngineError> {
        let mut access = Access::look(&self.workspace, writable)?;
        if !self.settings.runtime.shows_the_machine() {
            // Its kernel has numbers of its own for what is mounted.
            access.places.clear();
        }
        Ok(access)
    }

    async fn make(&self, access: Option<&Access>) -> Result<Container, EngineError> {
        let standing = self.standing().ok_or(EngineError::NotPrepared)?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let life = i64::try_from(self.life.as_secs()).unwrap_or(i64::MAX);
        let deadline = self.clock.now().as_second().saturating_add(life);
        let mut key = Key::default();
        self.entropy.fill(&mut key.0);
        let makings = Makings {
            key,
            engine: standing.engine,
            blueprint: standing.blueprint,
            access: access.cloned(),
            known: self.reaper.known.clone(),
            tracker: self.tracker.clone(),
            workspace: standing.workspace,
            hint: match self.settings.runtime {
                EngineRuntime::Runsc => ": with gVisor that is also how too many processes end",
                EngineRuntime::Runc | EngineRuntime::Kata => "",
            },
        };
        let made = Container::start(makings, Name::new(&self.broker, number), deadline).await;
        if made.as_ref().is_err_and(EngineError::unsettles) {
            self.stale.notify_waiters();
        }
        made
    }

    /// The image's folders: the canary sees all there is to see.
    fn trusts(&self, _: &Utf8Path) -> bool {
        true
    }

    async fn stale(&self) {
        self.stale.notified().await;
    }

    fn face(&self) -> Face {
        let runtime = self.settings.runtime;
        let standing = self.standing();
        let weakness = match runtime {
            EngineRuntime::Runc => {
                "It shares this machine's kernel: code that breaks the kernel breaks out."
            }
            EngineRuntime::Runsc => {
                "gVisor answers its system calls: code must break gVisor first, then this machine's kernel."
            }
            EngineRuntime::Kata => {
                "It has a virtual machine of its own: code must break that first. Untested with Kazma."
            }
        };
        Face {
            tier: "docker",
            enforcer: runtime.name().to_owned(),
            enforcement: standing
                .as_ref()
                .map_or_else(Facts::default, |known| known.facts.clone())
                .enforcement(runtime),
            image: standing.map(|known| known.blueprint.image_id.clone()),
            weakness: weakness.to_owned(),
            limits: self.limits,
        }
    }

    fn workspace(&self) -> &Utf8Path {
        &self.workspace
    }

    fn tracker(&self) -> TaskTracker {
        self.tracker.clone()
    }

    fn judge(&self, sight: &Sight) -> Result<(), NotReady> {
        if !self.settings.runtime.shows_the_machine() {
            // Its kernel shows neither flag nor group; the engine holds them from outside. And it opens the
            // descriptors of process 1, which is why reports carry a key.
            return Ok(());
        }
        let is = |seen: &Option<String>, wanted: u64| seen.as_deref() == Some(&*wanted.to_string());
        for (holds, broken) in [
            (is(&sight.no_new_privs, 1), "no_new_privs is not set"),
            (
                is(&sight.seccomp, 2),
                "the system call filter is not in force",
            ),
            (
                refused(&sight.init_descriptors),
                "the descriptors of process 1 can be opened",
            ),
            (
                is(&sight.memory_limit, self.limits.memory_bytes),
                "its control group does not limit memory",
            ),
            (
                is(&sight.pids_limit, self.limits.pids),
                "its control group does not limit processes",
            ),
        ] {
            if !holds {
                return Err(broken_promise(broken));
            }
        }
        Ok(())
    }

    fn explain(&self, error: &EngineError) -> NotReady {
        facts::explain(error, &self.settings.image)
    }

    fn unreadable(&self, path: &Utf8Path, answer: &str) -> NotReady {
        NotReady::new(
            format!("a snippet (uid and gid 65534) cannot read {path} ({answer})"),
            format!(
                "{} Where the engine runs elsewhere, the workspace must be there at the same path, or \
                 {WORKSPACE_SOURCE} must name it.",
                readable_for_nobody(&self.workspace)
            ),
        )
    }
}
