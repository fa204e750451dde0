//! Where each service of `kazma up` shows its metrics.

use std::{
    fmt,
    net::{SocketAddr, TcpListener},
    str::FromStr,
};

use kazma_domain::Service;
use kazma_launch::Usage;

/// The services that show metrics, in the order of their ports. The broker, which has no network, shows
/// what it knows through the runner's api.
const SHOWING: [Service; 5] = [
    Service::Gateway,
    Service::Agent,
    Service::GateRegistry,
    Service::RunnerApi,
    Service::RunnerEgress,
];

/// `KAZMA_METRICS_LISTEN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nowhere.
    Off,
    /// The first service at this address, each further one a port above the one before; with port 0, each
    /// at a free one.
    From(SocketAddr),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" | "off" => Ok(Self::Off),
            text => text
                .parse()
                .map(Self::From)
                .map_err(|_| "use an address and a port such as 127.0.0.1:9464, or off".to_owned()),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::From(at) => at.fmt(f),
        }
    }
}

/// A listener for each service that shows metrics.
pub(crate) fn listeners(wanted: Wanted) -> Result<Vec<(Service, TcpListener)>, Usage> {
    let Wanted::From(first) = wanted else {
        return Ok(Vec::new());
    };
    let mut all = Vec::with_capacity(SHOWING.len());
    for (service, above) in SHOWING.into_iter().zip(0_u16..) {
        let mut at = first;
        if first.port() != 0 {
            let port = first.port().checked_add(above).ok_or_else(|| {
                Usage(format!(
                    "KAZMA_METRICS_LISTEN: {first}: {} ports are needed from there on",
                    SHOWING.len()
                ))
            })?;
            at.set_port(port);
        }
        let listener = TcpListener::bind(at).map_err(|error| {
            Usage(format!(
                "KAZMA_METRICS_LISTEN: {at} for {service}: {error}; choose another port, port 0 or off"
            ))
        })?;
        all.push((service, listener));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fmt::Write as _, fs};

    use kazma_metrics::{Described, Http, Meters, MetricError};

    use super::*;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    const INTRODUCTION: &str = "\
# Metrics

Every service but the broker shows its metrics in Prometheus's text format at `GET /metrics` on a listener
of its own: plain HTTP, no sign-in, and nothing in it that is secret. No label holds a name of a person,
words of a thread, a path or an id. What the broker knows, the runner's api asks it for over its socket.

Under `kazma up` the listeners are on loopback at free ports, which `run/services.json` in the data folder
names. `KAZMA_METRICS_LISTEN=127.0.0.1:9464` fixes them: the gateway there, and agent, gate-registry,
runner-api and runner-egress at the four ports above. `KAZMA_METRICS_LISTEN=off` closes them. On loopback a
request must name localhost or an address as its host, so that no page of another site can read them; on any
other address whoever reaches the port may look.

Counters begin at zero with their process. Numbers of cards, calls, turns and of the audit chain are read
from the registry's database at each scrape, and are missing while it cannot be read.

This list is made from what the services register:
`RENEW=1 cargo nextest run -p kazma the_committed_list_of_metrics_is_fresh`.
";

    /// What `service` registers when it starts.
    fn families(service: Service) -> Result<Vec<Described>, MetricError> {
        let meters = Meters::default();
        kazma_metrics::build(&meters, service.name(), "", 0)?;
        kazma_mesh::Expiry::new(&meters)?;
        Http::new(&meters)?;
        kazma_launch::show_confinement(&meters, None)?;
        match service {
            Service::Gateway => drop(kazma_gateway::Metrics::new(&meters)?),
            Service::Agent => drop(kazma_agent::Metrics::new(&meters)?),
            Service::GateRegistry => drop(kazma_gate_registry::Metrics::new(&meters)?),
            Service::RunnerApi => drop(kazma_sandbox_runner::api::Metrics::new(&meters)?),
            Service::RunnerEgress => drop(kazma_sandbox_runner::egress::Metrics::new(&meters)?),
            Service::RunnerBroker => {}
        }
        Ok(meters.described())
    }

    fn document() -> String {
        let mut known: BTreeMap<&str, (Described, Vec<&str>)> = BTreeMap::new();
        for service in SHOWING {
            for family in families(service).unwrap() {
                let entry = known
                    .entry(family.name)
                    .or_insert_with(|| (family.clone(), Vec::new()));
                assert_eq!(entry.0, family, "one name, one meaning");
                entry.1.push(service.name());
            }
        }
        let mut text = INTRODUCTION.to_owned();
        let mut section = |title: &str, here: &dyn Fn(&[&str]) -> bool| {
            let rows = known.values().filter(|(_, of)| here(of));
            write!(
                text,
                "\n## {title}\n\n| metric | kind | labels | what it says |\n| --- | --- | --- | --- |\n"
            )
            .unwrap();
            for (family, _) in rows {
                let labels: Vec<String> = family.labels.iter().map(|l| format!("`{l}`")).collect();
                writeln!(
                    text,
                    "| `{}` | {} | {} | {} |",
                    family.name,
                    family.kind.name(),
                    labels.join(", "),
                    family.help
                )
                .unwrap();
            }
        };
        section("Several services", &|of| of.len() > 1);
        for service in SHOWING {
            if known.values().any(|(_, of)| *of == [service.name()]) {
                section(service.name(), &|of| *of == [service.name()]);
            }
        }
        text
    }

    #[test]
    fn the_committed_list_of_metrics_is_fresh() {
        let fresh = document();
        if std::env::var_os("RENEW").is_some() {
            fs::write(PATH, &fresh).unwrap();
        }
        let committed = fs::read_to_string(PATH).unwrap_or_default();
        assert!(
            committed == fresh,
            "docs/metrics.md is not what the services register: renew it with\nRENEW=1 cargo nextest run -p kazma the_committed_list_of_metrics_is_fresh"
        );
    }

    #[test]
    fn names_follow_prometheus_s_rules() {
        for family in SHOWING.into_iter().flat_map(|s| families(s).unwrap()) {
            let total = family.name.ends_with("_total");
            let counter = family.kind == kazma_metrics::Kind::Counter;
            assert!(family.name.starts_with("kazma_"), "{}", family.name);
            assert_eq!(total, counter, "{}", family.name);
            assert!(family.help.ends_with('.'), "{}", family.name);
        }
    }

    #[test]
    fn ports_are_counted_from_the_first_one() {
        assert_eq!("off".parse(), Ok(Wanted::Off));
        assert!("9464".parse::<Wanted>().is_err());
        assert_eq!(listeners(Wanted::Off).unwrap().len(), 0);
        let free = listeners("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(free.len(), SHOWING.len());
        let high = "127.0.0.1:65534".parse().unwrap();
        let Usage(refused) = listeners(high).unwrap_err();
        assert!(refused.contains("KAZMA_METRICS_LISTEN"), "{refused}");
        let taken = free[0].1.local_addr().unwrap();
        let Usage(refused) = listeners(Wanted::From(taken)).unwrap_err();
        assert!(refused.contains("gateway"), "{refused}");
    }
}
