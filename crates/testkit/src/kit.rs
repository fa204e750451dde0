//! The services, each startable and stoppable on its own, on addresses that stay.

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::Arc,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::{Clock, Digest, Entropy, Service};
use kazma_gateway::model::ModelSettings;
use kazma_mesh::{Ca, Client as MeshClient, Identity, JoinToken};
use kazma_metrics::Meters;
use kazma_netguard::{Client, Judge, Limits, Origin, SystemResolver};
use kazma_runtime::{Lifecycle, SystemClock, SystemEntropy};
use kazma_sandbox_runner::{api, broker, egress, executor};
use kazma_signing::VerifyingKey;
use tokio::task::JoinHandle;

use crate::{Api, BoxError, ShiftedClock};

/// Who owns the workspace where root runs the tests: the runner's user, and the group of what only reads.
const WORKSPACE: (u32, u32) = (61_102, 65_534);

const TOKEN: &str = "kazma_testkit-token";

/// Every service in one process.
#[derive(Debug)]
pub struct Kit {
    folder: tempfile::TempDir,
    ca: Arc<Ca>,
    sockets: HashMap<Service, TcpListener>,
    public: TcpListener,
    running: HashMap<Service, Running>,
    outside: Outside,
    /// The registry's clock, which alone decides every expiry.
    pub clock: Arc<ShiftedClock>,
}

/// What the egress process reaches.
#[derive(Debug, Clone)]
pub struct Outside {
    /// The guarded client: its judge, its bounds, and who looks names up.
    pub client: Client,
    /// Where searches go.
    pub search: Option<Origin>,
}

impl Default for Outside {
    /// As in the real program.
    fn default() -> Self {
        Self {
            client: Client::new(
                Judge::default(),
                Limits::default(),
                Arc::new(SystemResolver),
            ),
            search: None,
        }
    }
}

#[derive(Debug)]
struct Running {
    life: Lifecycle,
    task: JoinHandle<Result<(), BoxError>>,
}

impl Kit {
    /// Starts everything with the demo model.
    ///
    /// # Errors
    ///
    /// Says what did not start.
    pub async fn start() -> Result<Self, BoxError> {
        Self::start_with(Outside::default()).await
    }

    /// Starts everything with the demo model, and with this for what leaves the house.
    ///
    /// # Errors
    ///
    /// Says what did not start.
    pub async fn start_with(outside: Outside) -> Result<Self, BoxError> {
        let mut kit = Self::build(outside)?;
        for service in Service::ALL {
            kit.start_service(service).await?;
        }
        kit.ready().await?;
        Ok(kit)
    }

    fn build(outside: Outside) -> Result<Self, BoxError> {
        kazma_mesh::install_crypto_provider();
        let folder = tempfile::tempdir()?;
        // As root, sandboxed code has another user and must reach its workspace.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711))?;
        let root = Utf8Path::from_path(folder.path()).ok_or("the temporary folder is no text")?;
        for service in Service::ALL {
            std::fs::create_dir(root.join(service.name()))?;
        }
        let workspace = root.join("workspace");
        std::fs::create_dir(&workspace)?;
        let mut mode = 0o755;
        if std::fs::metadata(&workspace)?.uid() == 0 {
            // As an installation by root does: no run may be root.
            std::os::unix::fs::chown(&workspace, Some(WORKSPACE.0), Some(WORKSPACE.1))?;
            mode = 0o2750;
        }
        std::fs::set_permissions(&workspace, std::fs::Permissions::from_mode(mode))?;
        let ca = Arc::new(Ca::load_or_create(&root.join("ca"), SystemClock.now())?);
        let bind = || TcpListener::bind("127.0.0.1:0");
        let mut sockets = HashMap::new();
        for service in Service::ALL {
            sockets.insert(service, bind()?);
        }
        Ok(Self {
            ca,
            sockets,
            public: bind()?,
            running: HashMap::new(),
            outside,
            clock: Arc::default(),
            folder,
        })
    }

    /// A client of the public API as the operator.
    ///
    /// # Errors
    ///
    /// Says why no HTTP client can be built.
    pub fn api(&self) -> Result<Api, BoxError> {
        Api::new(self.public.local_addr()?, TOKEN)
    }

    /// The folder that tools see.
    ///
    /// # Errors
    ///
    /// Where the temporary folder's name is no text.
    pub fn workspace(&self) -> Result<Utf8PathBuf, BoxError> {
        Ok(self.root()?.join("workspace"))
    }

    /// Ends everything in order and starts it again on the same files.
    ///
    /// # Errors
    ///
    /// Says what did not start.
    pub async fn restart(&mut self) -> Result<(), BoxError> {
        for service in Service::ALL {
            self.stop_service(service).await?;
        }
        for service in Service::ALL {
            self.start_service(service).await?;
        }
        self.ready().await
    }

    /// Ends one service in order.
    ///
    /// # Errors
    ///
    /// Says why it ended otherwise.
    pub async fn stop_service(&mut self, service: Service) -> Result<(), BoxError> {
        let Some(running) = self.running.remove(&service) else {
            return Ok(());
        };
        running.life.stop();
        running.task.await?
    }

    /// Starts one service.
    ///
    /// # Errors
    ///
    /// Says why it did not start.
    pub async fn start_service(&mut self, service: Service) -> Result<(), BoxError> {
        let life = Lifecycle::new();
        match service {
            Service::GateRegistry => self.registry(&life)?,
            Service::RunnerBroker => self.broker(&life)?,
            Service::RunnerEgress => self.egress(&life).await?,
            Service::RunnerApi => self.runner(&life).await?,
            Service::Agent => self.agent(&life).await?,
            Service::Gateway => self.gateway(&life).await?,
        }
        let run = life.clone();
        let task = tokio::spawn(async move {
            match run
                .run(std::future::pending(), Duration::from_secs(3))
                .await
            {
                kazma_runtime::Ended::Asked => Ok(()),
                kazma_runtime::Ended::Early { task, cause } => {
                    Err(cause.unwrap_or_else(|| format!("{task} ended early").into()))
                }
            }
        });
        self.running.insert(service, Running { life, task });
        Ok(())
    }

    /// Waits until code can run.
    async fn ready(&self) -> Result<(), BoxError> {
        let api = self.api()?;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let answer = api.get("/health/ready").await;
            match answer {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(answer) => {
                    let details = api.get("/health/details").await?.body;
                    return Err(format!("not ready: {answer:?} {details:#}").into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn root(&self) -> Result<&Utf8Path, BoxError> {
        Utf8Path::from_path(self.folder.path()).ok_or_else(|| "the folder is no text".into())
    }

    fn of(&self, service: Service) -> Result<Utf8PathBuf, BoxError> {
        Ok(self.root()?.join(service.name()))
    }

    fn socket(&self, service: Service) -> Result<TcpListener, BoxError> {
        Ok(self.sockets.get(&service).ok_or("no socket")?.try_clone()?)
    }

    fn at(&self, service: Service) -> Result<SocketAddr, BoxError> {
        Ok(self.socket(service)?.local_addr()?)
    }

    fn client(&self, identity: &Arc<Identity>, to: Service) -> Result<MeshClient, BoxError> {
        Ok(MeshClient::new(identity, to, self.at(to)?)?)
    }

    async fn enrol(&self, service: Service) -> Result<kazma_mesh::Enrolment, BoxError> {
        let token = JoinToken {
            ca: self.ca.digest(),
            secret: secret(service).into(),
        };
        let (keys, registry) = (
            self.of(service)?.join("keys"),
            self.at(Service::GateRegistry)?,
        );
        Ok(kazma_mesh::enrol(&keys, service, registry, Some(&token), &SystemClock).await?)
    }

    fn registry(&self, life: &Lifecycle) -> Result<(), BoxError> {
        let folder = self.of(Service::GateRegistry)?;
        let tokens = Service::ALL
            .into_iter()
            .map(|service| kazma_gate_registry::Token {
                service,
                digest: Digest::of_bytes(secret(service).as_bytes()),
                expires_at: None,
            })
            .collect();
        let deps = kazma_gate_registry::Deps {
            identity: kazma_mesh::own_identity(&folder.join("keys"), &self.ca, &SystemClock)?,
            issuer: Arc::new(Authority(self.ca.clone())),
            clock: self.clock.clone(),
            entropy: entropy(),
            listener: self.socket(Service::GateRegistry)?.into(),
            meters: Meters::default(),
        };
        let wait = kazma_gate_registry::WAIT;
        let options = kazma_gate_registry::Options {
            folder,
            server: None,
            tokens,
            wait,
        };
        let lives = life.clone();
        life.spawn_essential("registry", async move {
            kazma_gate_registry::serve(options, deps, lives)
                .await
                .map_err(Into::into)
        });
        Ok(())
    }

    fn broker(&self, life: &Lifecycle) -> Result<(), BoxError> {
        let socket = self.root()?.join("broker.sock");
        let _ = std::fs::remove_file(&socket);
        let mut options = broker::BrokerOptions::new(socket, self.workspace()?);
        options.init = Some(sandbox_init()?);
        let listener = broker::listen(&options.socket)?;
        let soft = life.soft();
        life.spawn_essential("broker", async move {
            broker::serve(options, Some(listener), entropy(), soft)
                .await
                .map_err(Into::into)
        });
        Ok(())
    }

    async fn egress(&self, life: &Lifecycle) -> Result<(), BoxError> {
        let enrolment = self.enrol(Service::RunnerEgress).await?;
        let registry = self.client(&enrolment.identity, Service::GateRegistry)?;
        let deps = egress::Deps {
            identity: enrolment.identity,
            listener: self.socket(Service::RunnerEgress)?.into(),
            registry: Arc::new(executor::MeshRegistry(registry)),
            permit_key: VerifyingKey::from_base64(enrolment.permit_key.trim())?,
            client: self.outside.client.clone(),
            clock: self.clock.clone(),
            entropy: entropy(),
            meters: Meters::default(),
        };
        let options = egress::Options {
            search: self.outside.search.clone(),
            ..egress::Options::default()
        };
        let lives = life.clone();
        life.spawn_essential("egress", async move {
            egress::serve(options, deps, lives)
                .await
                .map_err(Into::into)
        });
        Ok(())
    }

    async fn runner(&self, life: &Lifecycle) -> Result<(), BoxError> {
        let enrolment = self.enrol(Service::RunnerApi).await?;
        let registry = self.client(&enrolment.identity, Service::GateRegistry)?;
        let deps = api::Deps {
            identity: enrolment.identity,
            listener: self.socket(Service::RunnerApi)?.into(),
            registry: Arc::new(executor::MeshRegistry(registry)),
            permit_key: VerifyingKey::from_base64(enrolment.permit_key.trim())?,
            code: Arc::new(broker::BrokerClient::new(self.root()?.join("broker.sock"))),
            clock: self.clock.clone(),
            entropy: entropy(),
            meters: Meters::default(),
        };
        let (options, lives) = (api::Options::new(self.workspace()?), life.clone());
        life.spawn_essential("runner", async move {
            api::serve(options, deps, lives).await.map_err(Into::into)
        });
        Ok(())
    }

    async fn agent(&self, life: &Lifecycle) -> Result<(), BoxError> {
        use kazma_agent::clients::{MeshModel, MeshRegistry, MeshRunner};
        let identity = self.enrol(Service::Agent).await?.identity;
        let deps = kazma_agent::Deps {
            listener: self.socket(Service::Agent)?.into(),
            clock: self.clock.clone(),
            entropy: entropy(),
            registry: Arc::new(MeshRegistry(self.client(&identity, Service::GateRegistry)?)),
            runner: Arc::new(MeshRunner(self.client(&identity, Service::RunnerApi)?)),
            egress: Arc::new(MeshRunner(self.client(&identity, Service::RunnerEgress)?)),
            model: Arc::new(MeshModel(self.client(&identity, Service::Gateway)?)),
            identity,
            meters: Meters::default(),
        };
        let (options, lives) = (
            kazma_agent::Options::new(self.of(Service::Agent)?),
            life.clone(),
        );
        life.spawn_essential("agent", async move {
            kazma_agent::serve(options, deps, lives)
                .await
                .map_err(Into::into)
        });
        Ok(())
    }

    async fn gateway(&self, life: &Lifecycle) -> Result<(), BoxError> {
        let identity = self.enrol(Service::Gateway).await?.identity;
        let options = kazma_gateway::Options {
            folder: self.of(Service::Gateway)?,
            public_url: None,
            secret: None,
            api_token: TOKEN.to_owned().into(),
            services_file: self.root()?.join("services.json"),
            trusted_proxies: Vec::new(),
            production: false,
            model: ModelSettings::Demo,
            rates: kazma_gateway::Rates::default(),
        };
        let deps = kazma_gateway::Deps {
            clock: self.clock.clone(),
            entropy: entropy(),
            registry: self.client(&identity, Service::GateRegistry)?,
            runner: self.client(&identity, Service::RunnerApi)?,
            public: self.public.try_clone()?,
            certificate: None,
            mesh: self.socket(Service::Gateway)?.into(),
            identity,
            meters: Meters::default(),
        };
        let lives = life.clone();
        life.spawn_essential("gateway", async move {
            kazma_gateway::serve(options, deps, lives)
                .await
                .map_err(Into::into)
        });
        Ok(())
    }
}

/// Issues leaves by the machine's time, whatever the registry's clock says: TLS judges by it.
#[derive(Debug)]
struct Authority(Arc<Ca>);

impl kazma_gate_registry::LeafIssuer for Authority {
    fn issue(
        &self,
        csr: &[u8],
        service: Service,
        _: jiff::Timestamp,
    ) -> Result<kazma_mesh::IssuedLeaf, kazma_mesh::MeshError> {
        self.0.issue(csr, service, SystemClock.now())
    }

    fn ca(&self) -> &str {
        self.0.pem()
    }
}

fn entropy() -> Arc<dyn Entropy> {
    Arc::new(SystemEntropy)
}

fn secret(service: Service) -> String {
    format!("testkit-join-{service}")
}

/// The jail's init, which cargo builds beside the tests.
fn sandbox_init() -> Result<Utf8PathBuf, BoxError> {
    let test = std::env::current_exe()?;
    let folder = test
        .parent()
        .and_then(std::path::Path::parent)
        .ok_or("no build folder")?;
    let path = Utf8PathBuf::from_path_buf(folder.join("sandbox-init"))
        .map_err(|path| format!("{} is no text", path.display()))?;
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{path} is missing: cargo build -p kazma-sandbox-runner").into())
    }
}
