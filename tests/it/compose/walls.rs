//! Who reaches whom, and what each container may do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{Clone, SERVICES, namespace::within};

/// The mesh, people, and metrics.
const PORTS: [u16; 3] = [9440, 9090, 9464];
/// Who may call whom, by section 1 of the architecture: (caller, called, port).
const ALLOWED: [(&str, &str, u16); 8] = [
    ("agent", "gate-registry", 9440),
    ("agent", "gateway", 9440),
    ("agent", "runner-api", 9440),
    ("agent", "runner-egress", 9440),
    ("gateway", "gate-registry", 9440),
    ("gateway", "runner-api", 9440),
    ("runner-api", "gate-registry", 9440),
    ("runner-egress", "gate-registry", 9440),
];
/// Who has a way out of the house.
const OUTWARD: [&str; 2] = ["gateway", "runner-egress"];
/// How long a connection may take that nobody answers.
const SILENCE: Duration = Duration::from_millis(700);

/// A running container as the host sees it.
struct Running {
    pid: u64,
    addresses: Vec<IpAddr>,
    told: Value,
}

impl Running {
    fn of(clone: &Clone, service: &str) -> Self {
        let told = clone.inspect(&clone.container(service));
        let networks = told["NetworkSettings"]["Networks"].as_object().unwrap();
        let addresses = networks
            .values()
            .filter_map(|one| one["IPAddress"].as_str());
        Self {
            pid: told["State"]["Pid"].as_u64().unwrap(),
            addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
            told,
        }
    }

    fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.pid).into()
    }

    /// Whether one of its own processes could connect.
    fn connects(&self, to: SocketAddr) -> bool {
        within(&self.network(), || TcpStream::connect_timeout(&to, SILENCE)).is_ok()
    }

    /// Where it listens, by the kernel's table.
    fn listens(&self) -> BTreeSet<SocketAddr> {
        let table = |name| fs::read_to_string(format!("/proc/{}/net/{name}", self.pid)).unwrap();
        // Over both: nothing may listen on IPv6 that is not named here.
        let six = table("tcp6");
        assert_eq!(
            six.lines()
                .skip(1)
                .filter(|line| line.contains(" 0A "))
                .count(),
            0,
            "{six}"
        );
        table("tcp")
            .lines()
            .skip(1)
            .filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let (ip, port) = fields[1].split_once(':').unwrap();
                let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).unwrap().swap_bytes());
                let port = u16::from_str_radix(port, 16).unwrap();
                (fields[3] == "0A").then_some((ip, port).into())
            })
            .collect()
    }
}

/// Somewhere outside of all containers where something listens.
fn with_outside<T>(clone: &Clone, work: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = within(&clone.network, || TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    // The one address of the engine's namespace that is no bridge.
    let out = within(&clone.network, || {
        let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        probe.connect("192.0.2.1:9").unwrap();
        probe.local_addr().unwrap().ip()
    });
    work((out, port).into())
}

#[test]
fn the_walls_between_the_containers_stand() {
    let clone = Clone::fresh(&[]);
    clone.up();
    each_service_reaches_what_the_architecture_allows_and_nothing_else(&clone);
    only_the_gateway_and_the_egress_have_a_way_out(&clone);
    each_service_listens_in_the_network_of_its_caller_alone(&clone);
    each_container_may_do_what_it_must_and_nothing_else(&clone);
    the_engine_s_socket_and_every_volume_are_where_they_belong(&clone);
    a_probe_finds_what_listens_in_every_network(&clone);
}

fn each_service_reaches_what_the_architecture_allows_and_nothing_else(clone: &Clone) {
    let all: BTreeMap<&str, Running> = SERVICES.map(|name| (name, Running::of(clone, name))).into();
    let mut reached = BTreeSet::new();
    thread::scope(|scope| {
        let mut probes = Vec::new();
        for (&from, caller) in &all {
            for (&to, called) in &all {
                if from != to {
                    probes.push(scope.spawn(move || {
                        let ports = PORTS.into_iter().filter(|port| {
                            called
                                .addresses
                                .iter()
                                .any(|ip| caller.connects((*ip, *port).into()))
                        });
                        ports.map(|port| (from, to, port)).collect::<Vec<_>>()
                    }));
                }
            }
        }
        for probe in probes {
            reached.extend(probe.join().unwrap());
        }
    });
    assert_eq!(reached, BTreeSet::from(ALLOWED));
}

fn only_the_gateway_and_the_egress_have_a_way_out(clone: &Clone) {
    let all: BTreeMap<&str, Running> = SERVICES.map(|name| (name, Running::of(clone, name))).into();
    with_outside(clone, |outside| {
        for (name, service) in &all {
            assert_eq!(
                service.connects(outside),
                OUTWARD.contains(name),
                "{name} to {outside}"
            );
        }
        // Nor does any of the others reach the host by the bridge of a network that it is in.
        for (name, service) in all.iter().filter(|(name, _)| !OUTWARD.contains(*name)) {
            for network in service.told["NetworkSettings"]["Networks"]
                .as_object()
                .unwrap()
                .values()
            {
                let gateway = network["Gateway"].as_str().unwrap_or_default();
                if let Ok(ip) = gateway.parse::<IpAddr>() {
                    assert!(
                        !service.connects((ip, outside.port()).into()),
                        "{name} to {ip}"
                    );
                }
            }
        }
    });
}

fn each_service_listens_in_the_network_of_its_caller_alone(clone: &Clone) {
    for name in SERVICES {
        let service = Running::of(clone, name);
        // 127.0.0.11 is the engine's resolver.
        let listens: BTreeSet<_> = service
            .listens()
            .into_iter()
            .filter(|at| at.ip() != IpAddr::from([127, 0, 0, 11]))
            .collect();
        let networks = service.told["NetworkSettings"]["Networks"]
            .as_object()
            .unwrap();
        let at = |network: &str, port: u16| -> SocketAddr {
            let ip = networks[&format!("kazma_{network}")]["IPAddress"]
                .as_str()
                .unwrap();
            (ip.parse::<IpAddr>().unwrap(), port).into()
        };
        let expected: BTreeSet<SocketAddr> = match name {
            "gateway" => [at("front", 9090), at("agent-gateway", 9440)].into(),
            "agent" => [SocketAddr::from(([127, 0, 0, 1], 9440))].into(),
            "gate-registry" => [
                "gateway-registry",
                "agent-registry",
                "runner-registry",
                "egress-registry",
            ]
            .map(|network| at(network, 9440))
            .into(),
            "runner-api" => [at("agent-runner", 9440), at("gateway-runner", 9440)].into(),
            "runner-egress" => [at("agent-egress", 9440)].into(),
            _ => BTreeSet::new(),
        };
        assert_eq!(listens, expected, "{name}");
    }
}

/// A line of `/proc/PID/status`.
fn status(pid: u64, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn each_container_may_do_what_it_must_and_nothing_else(clone: &Clone) {
    let users = BTreeMap::from([
        ("gateway", 10001),
        ("agent", 10002),
        ("gate-registry", 10003),
        ("runner-api", 10004),
        ("runner-broker", 0),
        ("runner-egress", 10005),
    ]);
    for name in SERVICES {
        let Running { pid, told, .. } = Running::of(clone, name);
        let host = &told["HostConfig"];
        assert_eq!(host["ReadonlyRootfs"], true, "{name}");
        assert_eq!(host["Privileged"], false, "{name}");
        assert_eq!(host["CapAdd"], Value::Null, "{name}");
        assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]), "{name}");
        assert_eq!(host["RestartPolicy"]["Name"], "unless-stopped", "{name}");
        for (limit, most) in [
            ("Memory", 512 << 20),
            ("PidsLimit", 128),
            ("NanoCpus", 2_000_000_000_u64),
        ] {
            let set = host[limit].as_u64().unwrap();
            assert!(set > 0 && set <= most, "{name}: {limit} is {set}");
        }
        assert_eq!(host["MemorySwap"], host["Memory"], "{name}");
        // And as the kernel has it.
        let user = users[name];
        assert_eq!(
            status(pid, "Uid"),
            format!("{user} {user} {user} {user}"),
            "{name}"
        );
        assert_eq!(
            status(pid, "Gid"),
            format!("{user} {user} {user} {user}"),
            "{name}"
        );
        assert_eq!(status(pid, "NoNewPrivs"), "1", "{name}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status(pid, set), "0000000000000000", "{name}: {set}");
        }
        let groups = if name == "runner-broker" {
            "10004 65534"
        } else {
            ""
        };
        let more: Vec<String> = status(pid, "Groups")
            .split(' ')
            .filter(|group| *group != user.to_string())
            .map(str::to_owned)
            .collect();
        assert_eq!(more.join(" "), groups, "{name}");
    }
}

/// What, where, and whether it can be written.
type Mount = (&'static str, &'static str, bool);

/// What is mounted where, and whether it can be written, without what only this service has.
fn shared(told: &Value) -> BTreeSet<(String, String, bool)> {
    let mounts = told["Mounts"].as_array().unwrap().iter();
    mounts
        .map(|mount| {
            let text = |name: &str| mount[name].as_str().unwrap_or_default().to_owned();
            let what = if mount["Type"] == "volume" {
                text("Name")
            } else {
                text("Source")
            };
            (
                what.trim_start_matches("kazma_").to_owned(),
                text("Destination"),
                mount["RW"] == true,
            )
        })
        .collect()
}

fn the_engine_s_socket_and_every_volume_are_where_they_belong(clone: &Clone) {
    let expected: [(&str, &[Mount]); 6] = [
        (
            "gateway",
            &[
                ("gateway", "/var/lib/kazma", true),
                ("join-gateway", "/run/kazma/join", false),
            ],
        ),
        (
            "agent",
            &[
                ("agent", "/var/lib/kazma", true),
                ("join-agent", "/run/kazma/join", false),
            ],
        ),
        (
            "gate-registry",
            &[
                ("gate-registry", "/var/lib/kazma", true),
                ("join-gateway", "/run/kazma/join/gateway", true),
                ("join-agent", "/run/kazma/join/agent", true),
                ("join-runner-api", "/run/kazma/join/runner-api", true),
                ("join-runner-egress", "/run/kazma/join/runner-egress", true),
            ],
        ),
        (
            "runner-api",
            &[
                ("runner-api", "/var/lib/kazma", true),
                ("join-runner-api", "/run/kazma/join", false),
                ("broker", "/run/kazma/broker", true),
                ("workspace", "/workspace", true),
            ],
        ),
        (
            "runner-broker",
            &[
                ("SOCKET", "/var/run/docker.sock", true),
                ("runner-broker", "/var/lib/kazma-broker", true),
                ("broker", "/run/kazma/broker", true),
                ("workspace", "/workspace", false),
            ],
        ),
        (
            "runner-egress",
            &[
                ("runner-egress", "/var/lib/kazma-egress", true),
                ("join-runner-egress", "/run/kazma/join-egress", false),
            ],
        ),
    ];
    for (name, mounts) in expected {
        let told = clone.inspect(&clone.container(name));
        let wanted: BTreeSet<_> = mounts
            .iter()
            .map(|(what, at, write)| {
                let what = if *what == "SOCKET" {
                    &clone.socket
                } else {
                    *what
                };
                (what.to_owned(), (*at).to_owned(), *write)
            })
            .collect();
        assert_eq!(shared(&told), wanted, "{name}");
    }
}

/// The probes can tell: where something listens for all, a neighbour gets through.
fn a_probe_finds_what_listens_in_every_network(clone: &Clone) {
    let [registry, gateway] = ["gate-registry", "gateway"].map(|name| Running::of(clone, name));
    let through = || {
        gateway
            .addresses
            .iter()
            .any(|ip| registry.connects((*ip, 9999).into()))
    };
    let listener = within(&gateway.network(), || TcpListener::bind("0.0.0.0:9999")).unwrap();
    assert!(through());
    drop(listener);
    assert!(!through());
}
