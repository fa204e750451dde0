//! Starts the services in order, restarts what dies, and ends them all together.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::net::UnixListener},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use camino::Utf8PathBuf;
use futures_util::future::{try_join, try_join_all};
use jiff::SignedDuration;
use kazma_domain::{Clock, Digest, Service, clock::after};
use kazma_gate_registry::member::Invitation;
use kazma_gateway::member::api_url;
use kazma_launch::{Peers, random_text, write_public};
use kazma_mesh::https::Pem;
use kazma_operator::Api;
use kazma_runtime::{BoxError, SystemClock, SystemEntropy};
use kazma_sandbox_runner::member as runner;
use rustix::fs::{Mode, OFlags};
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    boot::{Boot, Role, Said},
    metrics,
    up::{
        announce::{self, Announcement, ServiceLine},
        child::{Running, Start, StartError},
        folder::DataFolder,
        settings::Settings,
    },
};

/// How long services have to end in order before they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(4);
/// The longest wait between two starts of a service that keeps dying.
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);
/// A service that lived this long starts again without waiting.
const STEADY: Duration = Duration::from_secs(10);

/// All that stays while services come and go.
struct House {
    settings: Settings,
    folder: DataFolder,
    program: OwnedFd,
    workspace: Utf8PathBuf,
    api_token: String,
    listen: SocketAddr,
    peers: Peers,
    sockets: HashMap<Service, Vec<OwnedFd>>,
    /// Where each service shows its metrics, by the last of its sockets.
    metrics: HashMap<Service, SocketAddr>,
    invitations: HashMap<Service, String>,
    /// The certificate that people are shown, as it is now.
    certificate: Option<watch::Sender<Pem>>,
    ca: Option<Digest>,
    pids: Mutex<HashMap<Service, Option<u32>>>,
}

/// Runs everything until a signal.
pub(crate) async fn supervise(settings: Settings) -> Result<ExitCode, BoxError> {
    let began = Instant::now();
    let mut signals = Signals::new()?;
    let mut house = House::build(settings)?;
    let started = tokio::select! {
        started = house.start_all() => started?,
        () = signals.stop() => return Ok(ExitCode::SUCCESS),
    };
    let house = Arc::new(house);
    let stop = CancellationToken::new();
    let guards = TaskTracker::new();
    guards.spawn(house.clone().renew(stop.clone()));
    for running in started {
        house.record(running.service, Some(running.pid));
        guards.spawn(guard(house.clone(), running, stop.clone()));
    }
    let announced = tokio::select! {
        announced = house.announce(began) => announced,
        () = signals.stop() => Ok(()),
    };
    if announced.is_ok() && !signals.stopped {
        signals.stop().await;
    }
    stop.cancel();
    guards.close();
    guards.wait().await;
    announced.map(|()| ExitCode::SUCCESS)
}

struct Signals {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    stopped: bool,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            stopped: false,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
        self.stopped = true;
    }
}

impl House {
    fn build(settings: Settings) -> Result<Self, BoxError> {
        let folder = DataFolder::prepare(&settings.data_dir)?;
        let workspace = folder.workspace(settings.workspace.as_deref())?;
        let api_token = folder.token(&SystemEntropy)?;
        let public = TcpListener::bind(settings.listen).map_err(|error| {
            format!(
                "--listen {}: {error}; choose another address or port 0",
                settings.listen
            )
        })?;
        let listen = public.local_addr()?;
        let mesh = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (registry, gateway, runner) = (mesh()?, mesh()?, mesh()?);
        let (egress, agent) = (mesh()?, mesh()?);
        let peers = Peers {
            registry: registry.local_addr()?.into(),
            gateway: gateway.local_addr()?.into(),
            runner: runner.local_addr()?.into(),
            egress: egress.local_addr()?.into(),
            agent: agent.local_addr()?.into(),
        };
        let socket = folder.broker_socket();
        // A socket file is left behind by whoever was killed; the lock says that nobody uses it.
        let _ = std::fs::remove_file(&socket);
        let broker = UnixListener::bind(&socket)?;
        folder.own_socket(&socket)?;
        let mut sockets: HashMap<Service, Vec<OwnedFd>> = HashMap::from([
            (Service::GateRegistry, vec![registry.into()]),
            (Service::Gateway, vec![gateway.into(), public.into()]),
            (Service::RunnerApi, vec![runner.into()]),
            (Service::RunnerBroker, vec![broker.into()]),
            (Service::RunnerEgress, vec![egress.into()]),
            (Service::Agent, vec![agent.into()]),
        ]);
        let mut shown = HashMap::new();
        for (service, listener) in metrics::listeners(settings.metrics)? {
            shown.insert(service, listener.local_addr()?);
            sockets.entry(service).or_default().push(listener.into());
        }
        let certificate = settings.certificate.as_ref().map(|(_, pem)| pem.clone());
        let program = rustix::fs::open(
            "/proc/self/exe",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self {
            settings,
            folder,
            program,
            workspace,
            api_token,
            listen,
            peers,
            sockets,
            metrics: shown,
            invitations: HashMap::new(),
            certificate: certificate.map(|pem| watch::channel(pem).0),
            ca: None,
            pids: Mutex::default(),
        })
    }

    async fn start_all(&mut self) -> Result<Vec<Running>, BoxError> {
        for service in Service::ALL {
            if !matches!(service, Service::GateRegistry | Service::RunnerBroker) {
                self.invitations
                    .insert(service, random_text(&SystemEntropy));
            }
        }
        // The broker needs nobody, and its first sandbox takes longest.
        let this = &*self;
        let (registry, broker) = try_join(
            this.start(Service::GateRegistry),
            this.start(Service::RunnerBroker),
        )
        .await?;
        self.ca = registry.ready.ca;
        let this = &*self;
        let rest = Service::ALL
            .into_iter()
            .filter(|service| !matches!(service, Service::GateRegistry | Service::RunnerBroker))
            .map(|service| this.start(service));
        let mut running = vec![registry, broker];
        running.extend(try_join_all(rest).await?);
        Ok(running)
    }

    async fn start(&self, service: Service) -> Result<Running, StartError> {
        let boot = self.boot(service);
        let sockets = self
            .sockets
            .get(&service)
            .into_iter()
            .flatten()
            .map(OwnedFd::try_clone)
            .collect::<Result<_, _>>()
            .map_err(|error| StartError::Spawn(service, error))?;
        Running::start(Start {
            service,
            owners: self.folder.owners,
            program: &self.program,
            sockets,
            boot: &boot,
        })
        .await
    }

    fn boot(&self, service: Service) -> Boot {
        let token = self.ca.zip(self.invitations.get(&service));
        Boot {
            folder: self.folder.of(service),
            log: Some(
                self.settings
                    .log
                    .clone()
                    .unwrap_or_else(|| "warn".to_owned()),
            ),
            metrics: self.metrics.get(&service).and_then(|_| {
                let sockets = self.sockets.get(&service)?;
                sockets.len().checked_sub(1)
            }),
            token: token.map(|(ca, secret)| format!("{ca}.{secret}")),
            peers: self.peers.clone(),
            role: self.role(service),
        }
    }

    fn role(&self, service: Service) -> Role {
        match service {
            Service::GateRegistry => Role::GateRegistry(kazma_gate_registry::member::Settings {
                invitations: self.invite(),
                approval_timeout: self.settings.approval_timeout,
                database: self
                    .settings
                    .registry_database
                    .as_ref()
                    .map(|url| url.expose_secret().to_owned()),
            }),
            Service::RunnerBroker => Role::RunnerBroker(runner::broker::Settings {
                workspace: self.workspace.clone(),
                allowed_uid: self.folder.owners.uid(Service::RunnerApi),
                tier: self.settings.tier.clone(),
                owner: runner::broker::owner_by_folder(&self.folder.of(service)),
            }),
            Service::RunnerEgress => Role::RunnerEgress(runner::egress::Settings {
                search: self.settings.search.clone(),
            }),
            Service::RunnerApi => Role::RunnerApi(runner::api::Settings {
                workspace: self.workspace.clone(),
                broker: self.folder.broker_socket(),
                shell: self.settings.shell,
            }),
            Service::Agent => Role::Agent,
            Service::Gateway => Role::Gateway(Box::new(kazma_gateway::member::Settings {
                public_url: self.settings.public_url.clone(),
                api_token: self.api_token.clone(),
                secret: self
                    .settings
                    .secret
                    .as_ref()
                    .map(|s| s.expose_secret().to_owned()),
                services_file: self.folder.services_file(),
                trusted_proxies: self.settings.trusted_proxies.clone(),
                certificate: self.certificate.as_ref().map(|pem| pem.borrow().clone()),
                production: self.settings.production,
                model: (&self.settings.model).into(),
            })),
        }
    }

    /// Looks for a renewed certificate until `stop`.
    async fn renew(self: Arc<Self>, stop: CancellationToken) {
        if let Some(((files, _), shown)) = self
            .settings
            .certificate
            .as_ref()
            .zip(self.certificate.as_ref())
        {
            files.warn();
            files.clone().follow(shown, stop).await;
        }
    }

    /// The join tokens as the registry knows them: by digest.
    fn invite(&self) -> Vec<Invitation> {
        let expires_at = after(SystemClock.now(), SignedDuration::from_mins(10));
        self.invitations
            .iter()
            .map(|(service, secret)| Invitation {
                service: *service,
                digest: Digest::of_bytes(secret.as_bytes()),
                expires_at,
            })
            .collect()
    }

    /// Starts a service until it is started; one that keeps dying waits longer each time.
    async fn start_again(
        &self,
        service: Service,
        last: &mut Option<(Instant, Duration)>,
    ) -> Running {
        loop {
            let now = Instant::now();
            let wait = match *last {
                Some((started, wait)) if now.duration_since(started) < STEADY => {
                    (wait * 2).clamp(Duration::from_millis(100), RESTART_WAIT_MAX)
                }
                _ => Duration::ZERO,
            };
            *last = Some((now, wait));
            tokio::time::sleep(wait).await;
            match self.start(service).await {
                Ok(running) => return running,
                Err(error) => tracing::error!(error = error.to_string(), "not started"),
            }
        }
    }

    /// Notes a service's process, or that it has none, where the gateway looks.
    fn record(&self, service: Service, pid: Option<u32>) {
        let lines = {
            let mut pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner);
            pids.insert(service, pid);
            self.lines(&pids)
        };
        let text =
            serde_json::json!({ "api": api_url(self.listen), "services": lines }).to_string();
        if let Err(error) = write_public(&self.folder.services_file(), &text) {
            tracing::error!(
                error = error.to_string(),
                "run/services.json was not written"
            );
        }
    }

    /// The services in the order they start.
    fn lines(&self, pids: &HashMap<Service, Option<u32>>) -> Vec<ServiceLine> {
        let known = Service::ALL
            .into_iter()
            .filter_map(|service| Some((service, *pids.get(&service)?)));
        known
            .map(|(service, pid)| ServiceLine {
                name: service.name(),
                pid: pid.unwrap_or(0),
                state: if pid.is_some() {
                    "running"
                } else {
                    "restarting"
                },
                metrics: self.metrics.get(&service).copied(),
            })
            .collect()
    }

    async fn announce(&self, began: Instant) -> Result<(), BoxError> {
        let api = Api::new(&api_url(self.listen), &self.api_token)?;
        let sandbox = announce::sandbox(&api).await?;
        let link = api.post("/api/auth/links", &serde_json::json!({})).await?;
        let login_url = link
            .get("login_url")
            .and_then(serde_json::Value::as_str)
            .ok_or("the gateway made no sign-in link")?;
        let announcement = Announcement {
            url: announce::url(
                self.settings.public_url.as_deref(),
                self.listen,
                self.certificate.is_some(),
            ),
            listen: self.listen,
            login_url: login_url.to_owned(),
            api_token: self.api_token.clone(),
            ready_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            sandbox: match sandbox.trouble {
                None => sandbox.tier.clone(),
                Some(_) => "none".to_owned(),
            },
            services: self.lines(&self.pids.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        announce::print(
            &announcement,
            self.settings.json,
            &sandbox,
            &self.folder.path,
        )
    }
}

/// The next certificate that comes; waits for ever where none can.
async fn next(renewed: &mut Option<watch::Receiver<Pem>>) -> Pem {
    if let Some(renewed) = renewed
        && renewed.changed().await.is_ok()
    {
        return renewed.borrow_and_update().clone();
    }
    std::future::pending().await
}

/// Keeps one service running until `stop`, then ends it: in order first, then at once.
async fn guard(house: Arc<House>, mut running: Running, stop: CancellationToken) {
    let service = running.service;
    let mut last: Option<(Instant, Duration)> = None;
    let certificate = house
        .certificate
        .as_ref()
        .filter(|_| service == Service::Gateway);
    let mut renewed = certificate.map(watch::Sender::subscribe);
    loop {
        let status = tokio::select! {
            () = stop.cancelled() => return running.end(STOP_LIMIT).await,
            status = running.ended() => status,
            pem = next(&mut renewed) => {
                running.say(&Said::Certificate(pem)).await;
                continue;
            }
        };
        let status = status.map(|status| status.to_string()).unwrap_or_default();
        tracing::error!(service = service.name(), status, "ended; starting it again");
        house.record(service, None);
        running = tokio::select! {
            () = stop.cancelled() => return,
            again = house.start_again(service, &mut last) => again,
        };
        house.record(service, Some(running.pid));
    }
}
