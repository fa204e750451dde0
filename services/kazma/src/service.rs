//! One service of `kazma up`: told by its boot line what to be, until its standard input ends.

use std::{
    io::{BufRead, Write},
    net::{SocketAddr, TcpListener},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use camino::Utf8Path;
use jiff::SignedDuration;
use kazma_domain::{Clock, Entropy, Service};
use kazma_gate_registry::Server;
use kazma_gateway::model::ModelSettings;
use kazma_mesh::{Ca, Client, Enrolment, Expiry, Identity, JoinToken, MeshError};
use kazma_metrics::Meters;
use kazma_netguard::{Judge, Limits, Origin, SystemResolver};
use kazma_runtime::{BoxError, Ended, Held, Lifecycle, SystemClock, SystemEntropy};
use kazma_sandbox_runner::{api, broker, egress, executor};
use kazma_signing::VerifyingKey;
use listenfd::ListenFd;
use tokio_util::sync::CancellationToken;

use crate::{
    boot::{self, Boot, Peers, Ready, Role},
    cli, metrics,
};

/// How long what runs may take to finish once the end is asked for.
const GRACE: Duration = Duration::from_secs(3);
/// How much of a conversation a model is sent unless it says otherwise: about 32,000 tokens.
const CONTEXT_BYTES: usize = 128 * 1024;

/// Runs one service.
pub(crate) fn run(service: Service) -> Result<ExitCode, BoxError> {
    let mut sockets = ListenFd::from_env();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let boot: Boot = serde_json::from_str(&line)?;
    kazma_runtime::logging(service.name(), boot.log.as_deref());
    // Before any thread: what is taken away now is taken from all that are yet to come.
    let held = kazma_runtime::confine(&boot.needs())?;
    match held {
        Held::WithoutLandlock if service != Service::RunnerBroker => {
            tracing::warn!("this kernel has no Landlock; services of one user are less apart");
        }
        Held::All | Held::Partly | Held::WithoutLandlock => {}
    }
    kazma_mesh::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(live(service, boot, held, &mut sockets))?;
    // Blocking work that hangs must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(200));
    match ended {
        Ended::Asked => Ok(ExitCode::SUCCESS),
        Ended::Early { task, cause } => {
            Err(cause.unwrap_or_else(|| format!("{task} ended early").into()))
        }
    }
}

async fn live(
    service: Service,
    boot: Boot,
    held: Held,
    sockets: &mut ListenFd,
) -> Result<Ended, BoxError> {
    let life = Lifecycle::new();
    let stop = stop_sign(life.soft());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meters = Meters::default();
    let started = clock.now().as_second();
    kazma_metrics::build(&meters, service.name(), env!("CARGO_PKG_VERSION"), started)?;
    metrics::confinement(&meters, Some(held))?;
    if let Some(index) = boot.metrics {
        let (listener, shown, soft) = (tcp(sockets, index)?, meters.clone(), life.soft());
        life.spawn_essential("metrics", async move {
            Ok(kazma_metrics::serve(listener, shown, soft).await?)
        });
    }
    let house = House {
        service,
        folder: boot.folder,
        token: boot.token,
        peers: boot.peers,
        clock,
        entropy: Arc::new(SystemEntropy),
        meters,
        life: life.clone(),
    };
    let ready = match boot.role {
        Role::GateRegistry {
            invitations,
            approval_timeout,
            database,
        } => {
            let wait = SignedDuration::from_secs(i64::from(approval_timeout));
            let server = database.map(|url| cli::server(&url.into())).transpose()?;
            registry(&house, tcp(sockets, 0)?, invitations, (wait, server)).await?
        }
        Role::RunnerBroker {
            workspace,
            allowed_uid,
            tier,
            ..
        } => {
            let mut options = broker::BrokerOptions::new("", workspace);
            options.tier = tier_choice(tier, &house.folder)?;
            options.allowed_uids = vec![allowed_uid, rustix::process::geteuid().as_raw()];
            let listener = sockets
                .take_unix_listener(0)?
                .ok_or("no socket was passed")?;
            listener.set_nonblocking(true)?;
            let listener = tokio::net::UnixListener::from_std(listener)?;
            let (entropy, soft) = (house.entropy.clone(), life.soft());
            life.spawn_essential("broker", async move {
                broker::serve(options, Some(listener), entropy, soft)
                    .await
                    .map_err(Into::into)
            });
            Ready { ca: None }
        }
        Role::RunnerEgress { search } => runner_egress(&house, tcp(sockets, 0)?, search).await?,
        Role::RunnerApi {
            workspace,
            broker,
            shell,
        } => {
            let mut options = api::Options::new(workspace);
            options.shell = kazma_policy::argv::Profile {
                mutate: shell.mutate,
                archive: shell.archive,
                dev: shell.dev,
            };
            runner_api(&house, tcp(sockets, 0)?, options, broker).await?
        }
        Role::Agent => agent(&house, tcp(sockets, 0)?).await?,
        Role::Gateway(options) => {
            gateway(&house, tcp(sockets, 0)?, tcp(sockets, 1)?, *options).await?
        }
    };
    {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &ready)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(life.run(stop, GRACE).await)
}

/// Containers of one data folder have one owner, over every start.
fn tier_choice(tier: boot::Tier, folder: &Utf8Path) -> Result<broker::TierChoice, BoxError> {
    let digest = kazma_domain::Digest::of_bytes(folder.as_str().as_bytes()).to_string();
    let owner: String = digest
        .chars()
        .rev()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    let engines = |from: boot::Containers| -> Result<Vec<broker::EngineOptions>, BoxError> {
        let runtime = match from.runtime.as_str() {
            "runc" => broker::EngineRuntime::Runc,
            "runsc" => broker::EngineRuntime::Runsc,
            "kata" => broker::EngineRuntime::Kata,
            other => return Err(format!("no runtime is called {other}").into()),
        };
        let image = from
            .image
            .unwrap_or_else(|| broker::SANDBOX_IMAGE.to_owned());
        let engine = |socket: camino::Utf8PathBuf| {
            let mut options = broker::EngineOptions::new(socket, owner.clone());
            options.image.clone_from(&image);
            options.runtime = runtime;
            options
        };
        Ok(from.sockets.into_iter().map(engine).collect())
    };
    Ok(match tier {
        boot::Tier::Native => broker::TierChoice::Native,
        boot::Tier::Auto(from) => broker::TierChoice::Auto(engines(from)?),
        boot::Tier::Docker(from) => {
            let mut all = engines(from)?;
            let there = all.iter().position(|engine| engine.socket.exists());
            broker::TierChoice::Docker(all.swap_remove(there.unwrap_or(0)))
        }
    })
}

/// Ends with SIGTERM, or with the supervisor, whose end of our standard input closes with it.
fn stop_sign(soft: CancellationToken) -> impl Future<Output = ()> {
    let (closed, input_ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut sink = std::io::sink();
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut sink);
        let _ = closed.send(());
    });
    async move {
        let term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        let Ok(mut term) = term else {
            return soft.cancelled().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = input_ended => {}
        }
    }
}

/// What every service has.
struct House {
    service: Service,
    folder: camino::Utf8PathBuf,
    token: Option<String>,
    peers: Peers,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    meters: Meters,
    life: Lifecycle,
}

impl House {
    /// Joins the mesh, and stays in it.
    async fn enrol(&self) -> Result<Enrolment, BoxError> {
        let token = self.token.as_deref().map(JoinToken::parse).transpose()?;
        let keys = self.folder.join("keys");
        let registry = self.peers.registry;
        let enrolment = kazma_mesh::enrol(
            &keys,
            self.service,
            registry,
            token.as_ref(),
            self.clock.as_ref(),
        )
        .await?;
        self.show_expiry(&enrolment.identity)?;
        let (identity, clock) = (enrolment.identity.clone(), self.clock.clone());
        let stop = self.life.soft();
        self.life.spawn_essential("certificate", async move {
            kazma_mesh::keep_fresh(&keys, identity, registry, clock, stop)
                .await
                .map_err(Into::into)
        });
        Ok(enrolment)
    }

    fn show_expiry(&self, identity: &Arc<Identity>) -> Result<(), BoxError> {
        let (identity, clock) = (identity.clone(), self.clock.clone());
        Expiry::new(&self.meters)?.follow(&self.meters, identity, clock);
        Ok(())
    }

    fn client(&self, identity: &Arc<Identity>, to: Service) -> Result<Client, MeshError> {
        let at = match to {
            Service::Gateway => self.peers.gateway,
            Service::RunnerApi => self.peers.runner,
            Service::RunnerEgress => self.peers.egress,
            _ => self.peers.registry,
        };
        Client::new(identity, to, at)
    }

    /// Waits until this service answers on the mesh, as others would ask it.
    async fn answers(&self, identity: &Arc<Identity>, at: SocketAddr) -> Result<(), BoxError> {
        let own = Client::new(identity, self.service, at)?;
        let soft = self.life.soft();
        while own.get::<serde_json::Value>("/v1/health").await.is_err() {
            tokio::select! {
                () = soft.cancelled() => return Err("stopped before it served".into()),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
        Ok(())
    }
}

async fn registry(
    house: &House,
    listener: TcpListener,
    invitations: Vec<boot::Invitation>,
    (wait, server): (SignedDuration, Option<Server>),
) -> Result<Ready, BoxError> {
    let ca = Arc::new(Ca::load_or_create(
        &house.folder.join("ca"),
        house.clock.now(),
    )?);
    let identity = kazma_mesh::own_identity(&house.folder.join("keys"), &ca, house.clock.as_ref())?;
    house.show_expiry(&identity)?;
    let (own, authority, clock) = (identity.clone(), ca.clone(), house.clock.clone());
    let soft = house.life.soft();
    house.life.spawn_essential("certificate", async move {
        kazma_mesh::keep_own_fresh(own, authority, clock, soft)
            .await
            .map_err(Into::into)
    });
    let options = kazma_gate_registry::Options {
        folder: house.folder.clone(),
        tokens: invitations
            .into_iter()
            .map(|invitation| kazma_gate_registry::Token {
                service: invitation.service,
                digest: invitation.digest,
                expires_at: Some(invitation.expires_at),
            })
            .collect(),
        wait,
        server,
    };
    let at = listener.local_addr()?;
    // Before it serves: why it cannot is what whoever starts it must be told.
    let opening = kazma_gate_registry::open(
        options,
        ca.clone(),
        house.clock.clone(),
        house.entropy.clone(),
        house.life.soft(),
        &house.meters,
    );
    let soft = house.life.soft();
    let opened = tokio::select! {
        opened = opening => opened?,
        () = soft.cancelled() => return Err("stopped before it served".into()),
    };
    let (life, meters, own) = (house.life.clone(), house.meters.clone(), identity.clone());
    house.life.spawn_essential("registry", async move {
        kazma_gate_registry::serve_opened(opened, own, listener, &meters, life)
            .await
            .map_err(Into::into)
    });
    house.answers(&identity, at).await?;
    Ok(Ready {
        ca: Some(ca.digest()),
    })
}

async fn runner_egress(
    house: &House,
    listener: TcpListener,
    search: Option<Origin>,
) -> Result<Ready, BoxError> {
    let Enrolment {
        identity,
        permit_key,
    } = house.enrol().await?;
    let at = listener.local_addr()?;
    let deps = egress::Deps {
        identity: identity.clone(),
        listener,
        registry: Arc::new(executor::MeshRegistry(
            house.client(&identity, Service::GateRegistry)?,
        )),
        permit_key: VerifyingKey::from_base64(permit_key.trim())?,
        client: kazma_netguard::Client::new(
            Judge::default(),
            Limits::default(),
            Arc::new(SystemResolver),
        ),
        clock: house.clock.clone(),
        entropy: house.entropy.clone(),
        meters: house.meters.clone(),
    };
    let options = egress::Options {
        search,
        ..egress::Options::default()
    };
    let life = house.life.clone();
    house.life.spawn_essential("egress", async move {
        egress::serve(options, deps, life).await.map_err(Into::into)
    });
    house.answers(&identity, at).await?;
    Ok(Ready { ca: None })
}

async fn runner_api(
    house: &House,
    listener: TcpListener,
    options: api::Options,
    broker: camino::Utf8PathBuf,
) -> Result<Ready, BoxError> {
    let Enrolment {
        identity,
        permit_key,
    } = house.enrol().await?;
    let at = listener.local_addr()?;
    let deps = api::Deps {
        identity: identity.clone(),
        listener,
        registry: Arc::new(executor::MeshRegistry(
            house.client(&identity, Service::GateRegistry)?,
        )),
        permit_key: VerifyingKey::from_base64(permit_key.trim())?,
        code: Arc::new(broker::BrokerClient::new(broker)),
        meters: house.meters.clone(),
        clock: house.clock.clone(),
        entropy: house.entropy.clone(),
    };
    let life = house.life.clone();
    house.life.spawn_essential("runner", async move {
        api::serve(options, deps, life).await.map_err(Into::into)
    });
    house.answers(&identity, at).await?;
    Ok(Ready { ca: None })
}

async fn agent(house: &House, listener: TcpListener) -> Result<Ready, BoxError> {
    use kazma_agent::clients::{MeshModel, MeshRegistry, MeshRunner};
    let Enrolment { identity, .. } = house.enrol().await?;
    let at = listener.local_addr()?;
    let deps = kazma_agent::Deps {
        identity: identity.clone(),
        listener,
        clock: house.clock.clone(),
        entropy: house.entropy.clone(),
        registry: Arc::new(MeshRegistry(
            house.client(&identity, Service::GateRegistry)?,
        )),
        runner: Arc::new(MeshRunner(house.client(&identity, Service::RunnerApi)?)),
        egress: Arc::new(MeshRunner(house.client(&identity, Service::RunnerEgress)?)),
        model: Arc::new(MeshModel(house.client(&identity, Service::Gateway)?)),
        meters: house.meters.clone(),
    };
    let (options, life) = (
        kazma_agent::Options::new(house.folder.clone()),
        house.life.clone(),
    );
    house.life.spawn_essential("agent", async move {
        kazma_agent::serve(options, deps, life)
            .await
            .map_err(Into::into)
    });
    house.answers(&identity, at).await?;
    Ok(Ready { ca: None })
}

async fn gateway(
    house: &House,
    mesh: TcpListener,
    public: TcpListener,
    boot: boot::Gateway,
) -> Result<Ready, BoxError> {
    let Enrolment { identity, .. } = house.enrol().await?;
    let at = mesh.local_addr()?;
    let options = kazma_gateway::Options {
        folder: house.folder.clone(),
        public_url: boot.public_url,
        secret: boot.secret.map(Into::into),
        api_token: boot.api_token.into(),
        services_file: boot.services_file,
        trusted_proxies: boot
            .trusted_proxies
            .iter()
            .map(|net| net.parse())
            .collect::<Result<_, _>>()?,
        production: boot.production,
        model: match boot.model {
            boot::Model::None => ModelSettings::Unset,
            boot::Model::Demo => ModelSettings::Demo,
            boot::Model::OpenAi {
                base_url,
                name,
                api_key,
            } => ModelSettings::OpenAi {
                base_url,
                model: name,
                api_key: api_key.map(Into::into),
                context_bytes: CONTEXT_BYTES,
                limits: kazma_gateway::model::Limits::default(),
            },
        },
        rates: kazma_gateway::Rates::default(),
    };
    let deps = kazma_gateway::Deps {
        identity: identity.clone(),
        clock: house.clock.clone(),
        entropy: house.entropy.clone(),
        registry: house.client(&identity, Service::GateRegistry)?,
        runner: house.client(&identity, Service::RunnerApi)?,
        public,
        mesh,
        meters: house.meters.clone(),
    };
    let life = house.life.clone();
    house.life.spawn_essential("gateway", async move {
        kazma_gateway::serve(options, deps, life)
            .await
            .map_err(Into::into)
    });
    house.answers(&identity, at).await?;
    Ok(Ready { ca: None })
}

fn tcp(sockets: &mut ListenFd, index: usize) -> Result<TcpListener, BoxError> {
    Ok(sockets
        .take_tcp_listener(index)?
        .ok_or("no socket was passed")?)
}
