//! A service that nobody supervises but a container engine: settings from the environment, sockets of its own.

use std::{
    net::{TcpListener, ToSocketAddrs as _},
    process::ExitCode,
    time::Duration,
};

use camino::Utf8PathBuf;
use clap::Args;
use kazma_domain::Service;
use kazma_mesh::{Address, Listeners};
use kazma_runtime::{BoxError, Confinement};

use crate::{Invitation, Peers, Start, Stop, Usage};

/// How long a service may take to say that it is well.
const HEALTH_LIMIT: Duration = Duration::from_secs(4);

/// What every service in a container is told.
#[derive(Debug, Clone, Args)]
pub struct Contained {
    /// The data folder; the service has a folder of its name in it
    #[arg(
        long,
        env = "KAZMA_DATA_DIR",
        default_value = "/var/lib/kazma",
        value_name = "DIR"
    )]
    pub data_dir: Utf8PathBuf,
    /// Where the mesh calls it, with commas; a name is its own name in one of its networks, and it listens in
    /// that network alone
    #[arg(
        long,
        env = "KAZMA_MESH_LISTEN",
        default_value = "0.0.0.0:9440",
        value_delimiter = ',',
        value_name = "HOST:PORT,…"
    )]
    mesh_listen: Vec<Address>,
    /// Where it shows its metrics, with commas; nowhere unless set
    #[arg(
        long,
        env = "KAZMA_METRICS_LISTEN",
        default_value = "off",
        value_name = "HOST:PORT,…"
    )]
    metrics_listen: String,
    /// The file into which the registry writes the token to join with
    #[arg(
        long,
        env = "KAZMA_JOIN_TOKEN_FILE",
        default_value = "/run/kazma/join/token",
        value_name = "FILE"
    )]
    join_token_file: Utf8PathBuf,
    /// Where the gate registry is called
    #[arg(
        long,
        env = "KAZMA_REGISTRY_ADDR",
        default_value = "gate-registry:9440",
        value_name = "HOST:PORT"
    )]
    registry_addr: Address,
    /// Where the gateway is called
    #[arg(
        long,
        env = "KAZMA_GATEWAY_ADDR",
        default_value = "gateway:9440",
        value_name = "HOST:PORT"
    )]
    gateway_addr: Address,
    /// Where the runner's api is called
    #[arg(
        long,
        env = "KAZMA_RUNNER_ADDR",
        default_value = "runner-api:9440",
        value_name = "HOST:PORT"
    )]
    runner_addr: Address,
    /// Where the runner's egress is called
    #[arg(
        long,
        env = "KAZMA_EGRESS_ADDR",
        default_value = "runner-egress:9440",
        value_name = "HOST:PORT"
    )]
    egress_addr: Address,
    /// Which log lines to write, such as `info` or `kazma_agent=debug`
    #[arg(long, env = "KAZMA_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
}

/// What a health check needs to know of where the service listens.
#[derive(Debug, Clone, Args)]
pub struct Health {
    #[command(flatten)]
    contained: Contained,
}

impl Contained {
    /// The service's own folder.
    pub fn folder(&self, service: Service) -> Utf8PathBuf {
        self.data_dir.join(service.name())
    }

    /// Where the others are called. Nobody calls the agent.
    pub fn peers(&self) -> Result<Peers, Usage> {
        Ok(Peers {
            registry: self.registry_addr.clone(),
            gateway: self.gateway_addr.clone(),
            runner: self.runner_addr.clone(),
            egress: self.egress_addr.clone(),
            agent: self.own_address()?,
        })
    }

    /// The sockets that the mesh calls.
    ///
    /// # Errors
    ///
    /// Says which address cannot be listened at.
    pub fn mesh(&self) -> Result<Listeners, Usage> {
        Ok(listeners("KAZMA_MESH_LISTEN", &self.mesh_listen)?.into())
    }

    /// The ports that the mesh calls: a service asks itself there whether it serves.
    pub fn mesh_ports(&self) -> Vec<u16> {
        self.mesh_listen.iter().map(Address::port).collect()
    }

    fn own_address(&self) -> Result<Address, Usage> {
        self.mesh_listen
            .first()
            .cloned()
            .ok_or_else(|| Usage("KAZMA_MESH_LISTEN: name at least one HOST:PORT".to_owned()))
    }

    fn metrics(&self) -> Result<Vec<TcpListener>, Usage> {
        let list = self.metrics_listen.trim();
        if list.is_empty() || list == "off" {
            return Ok(Vec::new());
        }
        let addresses: Vec<Address> = list
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|error| Usage(format!("KAZMA_METRICS_LISTEN: {error}; or off")))?;
        listeners("KAZMA_METRICS_LISTEN", &addresses)
    }

    /// Makes the service's folder, and what its process is told.
    ///
    /// # Errors
    ///
    /// Says which setting cannot be, or why the folder cannot be made.
    pub fn start(&self, service: Service, mut confinement: Confinement) -> Result<Start, BoxError> {
        // The file may come later: its folder is what is opened to it.
        if let (Confinement::StartsNothing { read, .. }, Some(folder)) =
            (&mut confinement, self.join_token_file.parent())
            && folder.exists()
        {
            read.push(folder.to_owned());
        }
        // Modes are set where they matter; a caller's stricter mask would take away what they give.
        rustix::process::umask(rustix::fs::Mode::from_bits_retain(0o022));
        Ok(Start {
            service,
            log: Some(self.log.clone()),
            folder: self.make_folder(service)?,
            invitation: match service {
                Service::GateRegistry | Service::RunnerBroker => Invitation::None,
                _ => Invitation::File(self.join_token_file.clone()),
            },
            peers: self.peers()?,
            metrics: self.metrics()?,
            confinement,
            stop: Stop::Signal,
        })
    }

    /// Makes the service's own folder where it is missing, for nobody else to look into.
    ///
    /// # Errors
    ///
    /// Says why it cannot be made.
    pub fn make_folder(&self, service: Service) -> Result<Utf8PathBuf, Usage> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = self.folder(service);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| {
                Usage(format!(
                    "KAZMA_DATA_DIR: {folder} cannot be made: {error}; the volume must belong to user {}",
                    rustix::process::geteuid().as_raw()
                ))
            })?;
        Ok(folder)
    }
}

/// Binds to each of these. A name is looked up once: it is this container's own.
fn listeners(setting: &str, addresses: &[Address]) -> Result<Vec<TcpListener>, Usage> {
    let mut all = Vec::with_capacity(addresses.len());
    for address in addresses {
        let refused = |error: std::io::Error| {
            Usage(format!(
                "{setting}: {address}: {error}; name an address of this container, or its own name in one of its \
                 networks"
            ))
        };
        let at: Vec<_> = (address.host(), address.port())
            .to_socket_addrs()
            .map_err(refused)?
            .collect();
        all.push(TcpListener::bind(at.as_slice()).map_err(refused)?);
    }
    Ok(all)
}

/// Binds to one address, which may be a name of this container.
///
/// # Errors
///
/// Says which setting names what cannot be listened at.
pub fn listener(setting: &str, address: &Address) -> Result<TcpListener, Usage> {
    listeners(setting, std::slice::from_ref(address))?
        .pop()
        .ok_or_else(|| Usage(format!("{setting}: name a HOST:PORT")))
}

impl Health {
    /// Whether the service answers on the mesh with a certificate of this installation: the exit code.
    ///
    /// # Errors
    ///
    /// Says why it does not.
    pub fn run(&self, service: Service) -> Result<ExitCode, BoxError> {
        let folder = self.contained.folder(service);
        let own = folder.join(match service {
            Service::GateRegistry => "ca",
            _ => "keys",
        });
        let at = local(self.contained.own_address()?);
        kazma_mesh::install_crypto_provider();
        checked(async move { Ok(kazma_mesh::answers(&own, service, &at).await?) })
    }
}

/// Where a socket that listens everywhere is asked from inside.
fn local(at: Address) -> Address {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    match at.host().parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, at.port())).into(),
        _ => at,
    }
}

/// Runs a health check within its time.
///
/// # Errors
///
/// Says why the service is not well.
pub fn checked(check: impl Future<Output = Result<(), BoxError>>) -> Result<ExitCode, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match tokio::time::timeout(HEALTH_LIMIT, check).await {
            Ok(well) => well.map(|()| ExitCode::SUCCESS),
            Err(_) => Err(format!("no answer within {} s", HEALTH_LIMIT.as_secs()).into()),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        contained: Contained,
    }

    fn told(arguments: &[&str]) -> Contained {
        let all = ["kazma"].iter().chain(arguments);
        Program::try_parse_from(all).unwrap().contained
    }

    #[test]
    fn a_service_listens_where_it_is_told_and_nowhere_else() {
        let contained = told(&["--mesh-listen", "127.0.0.1:0,localhost:0"]);
        assert!(
            contained
                .mesh()
                .unwrap()
                .local_addr()
                .unwrap()
                .ip()
                .is_loopback()
        );
        assert_eq!(contained.mesh_ports(), [0, 0]);
        let Usage(refused) = told(&["--mesh-listen", "192.0.2.1:1"]).mesh().unwrap_err();
        assert!(
            refused.contains("KAZMA_MESH_LISTEN: 192.0.2.1:1"),
            "{refused}"
        );
    }

    #[test]
    fn metrics_are_shown_where_the_operator_says() {
        assert!(told(&[]).metrics().unwrap().is_empty());
        let shown = told(&["--metrics-listen", "127.0.0.1:0,127.0.0.1:0"]);
        assert_eq!(shown.metrics().unwrap().len(), 2);
        let Usage(refused) = told(&["--metrics-listen", "9464"]).metrics().unwrap_err();
        assert!(refused.contains("KAZMA_METRICS_LISTEN"), "{refused}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_names_its_setting() {
        let Usage(refused) = told(&["--data-dir", "/proc/nowhere"])
            .make_folder(Service::Agent)
            .unwrap_err();
        assert!(refused.contains("KAZMA_DATA_DIR"), "{refused}");
    }
}
