//! What the facts mean. Pure: the same facts, the same findings.

use jiff::{SignedDuration, Timestamp};

use super::{
    Finding, State,
    facts::{Facts, Group, Jail, Kernel, Port, Running, Seen, Store},
};

/// The Landlock ABI that has every rule that services use. Source: `kazma_runtime::confine`.
const LANDLOCK_WHOLE: u8 = 6;
/// The one from which on ports are restricted.
const LANDLOCK_PORTS: u8 = 4;
/// Below this much free space it is time to act; below the second, nothing can be kept.
const ROOM: u64 = 1 << 30;
const ROOM_LEAST: u64 = 64 << 20;
/// Nothing of Kazma is older.
const FIRST_DAY: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// How far a clock may have gone back.
const BACK: SignedDuration = SignedDuration::from_mins(2);
/// A certificate is renewed when 8 hours are left; below this, renewing fails.
const RENEWAL_FAILS: f64 = 4.0 * 3600.0;

const OURS: &str = "The broker stays root: it gives each jail its user and its limits";

/// All findings, in the order in which they are read.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![
        landlock(&facts.kernel, facts.root),
        filter(&facts.kernel),
        users(facts.root),
        groups(&facts.kernel),
    ];
    all.extend(code(facts));
    all.extend([folder(facts), store(facts), clock(facts), port(facts)]);
    all.extend(running(facts));
    all
}

fn finding(
    id: &'static str,
    what: &'static str,
    state: State,
    found: impl Into<String>,
    means: &'static str,
    fix: impl Into<String>,
) -> Finding {
    let (means, fix) = match state {
        State::Ok => ("", String::new()),
        State::Weaker | State::Broken => (means, fix.into()),
    };
    Finding {
        id,
        state,
        what,
        found: found.into(),
        means,
        fix,
    }
}

fn landlock(kernel: &Kernel, root: bool) -> Finding {
    let (state, found) = match kernel.landlock {
        LANDLOCK_WHOLE.. => (State::Ok, format!("ABI {} or newer", kernel.landlock)),
        0 => (State::Weaker, "none".to_owned()),
        abi => (State::Weaker, format!("ABI {abi} of {LANDLOCK_WHOLE}")),
    };
    let means = match (kernel.landlock, root) {
        (0, true) => {
            "Services are kept apart by their users alone: one may open what everybody may, and connect anywhere."
        }
        (0, false) => {
            "All services are this user, so each could read the others' files: the agent could read the registry's key."
        }
        (abi, _) if abi < LANDLOCK_PORTS => {
            "Services keep to their own folders, but may connect to any port and signal each other."
        }
        _ => {
            "Services keep to their own folders and ports; a few rules for devices and signals are missing."
        }
    };
    let fix = format!(
        "Use Linux 6.12 or newer with `landlock` in the kernel's `lsm=`; this is {}.",
        kernel.release
    );
    finding("landlock", "Landlock", state, found, means, fix)
}

fn filter(kernel: &Kernel) -> Finding {
    let (state, found) = if kernel.filter {
        (State::Ok, "there")
    } else {
        (State::Broken, "missing")
    };
    finding(
        "seccomp",
        "System call filters (seccomp)",
        state,
        found,
        "Services do not start without it, and no sandbox is made.",
        "Use a kernel with CONFIG_SECCOMP_FILTER.",
    )
}

fn users(root: bool) -> Finding {
    let (state, found) = if root {
        (State::Ok, "each service gets a user of its own".to_owned())
    } else {
        (
            State::Weaker,
            "all services would be this ordinary user".to_owned(),
        )
    };
    finding(
        "users",
        "Users",
        state,
        found,
        "What keeps services apart is Landlock, no-dump and the filter, not users.",
        "Start `kazma up` as root.",
    )
}

fn groups(kernel: &Kernel) -> Finding {
    let names = ["memory", "processes", "CPU"];
    let each = kernel.groups.iter().zip(names);
    let said: Vec<String> = each
        .map(|(group, name)| match group {
            Group::Ours(version) => format!("{name} by version {version}"),
            Group::Theirs(version) => format!("{name} of version {version} not delegated"),
            Group::Missing => format!("{name} not there"),
        })
        .collect();
    let all = kernel
        .groups
        .iter()
        .all(|group| matches!(group, Group::Ours(_)));
    let state = if all { State::Ok } else { State::Weaker };
    let delegated = kernel
        .groups
        .iter()
        .any(|group| matches!(group, Group::Theirs(_)));
    finding(
        "cgroups",
        "Control groups",
        state,
        said.join(", "),
        "A jail's limits hold for each of its processes, not for all together.",
        if delegated {
            "Start `kazma up` as root, or by `systemd-run --user --scope -p Delegate=yes`."
        } else {
            "Mount control groups with memory, pids and cpu."
        },
    )
}

/// Jails, containers, and whether either can run code.
fn code(facts: &Facts) -> Vec<Finding> {
    let trouble = jail_trouble(&facts.jail, &facts.kernel);
    let engine = facts
        .engines
        .iter()
        .any(|(_, report)| report.trouble.is_none());
    let missing = if engine { State::Weaker } else { State::Broken };
    let jails = match &trouble {
        None => finding(
            "jails",
            "Jails (bubblewrap)",
            State::Ok,
            format!(
                "{}, with {}",
                facts.jail.bubblewrap.as_deref().unwrap_or_default(),
                facts.jail.python.as_deref().unwrap_or_default()
            ),
            "",
            "",
        ),
        Some((found, fix)) => finding(
            "jails",
            "Jails (bubblewrap)",
            missing,
            found.clone(),
            if engine {
                "Code runs in containers alone."
            } else {
                "No code can run."
            },
            *fix,
        ),
    };
    let mut all = vec![jails];
    if facts.engines.is_empty() {
        all.push(finding(
            "engine",
            "Container engine",
            State::Ok,
            "none listens; jails are used",
            "",
            "",
        ));
    }
    for (socket, report) in &facts.engines {
        let name = report.name.as_deref().unwrap_or("an engine");
        let found = match &report.trouble {
            Some((reason, _)) => format!("{name} at {socket}: {reason}"),
            None => format!(
                "{name} at {socket}, API {}, control groups of version {}, runtimes {}, image there",
                report.api.as_deref().unwrap_or("?"),
                report.cgroups.unwrap_or_default(),
                report.runtimes.join(", ")
            ),
        };
        let state = match (&report.trouble, &trouble) {
            (None, _) => State::Ok,
            (Some(_), None) => State::Weaker,
            (Some(_), Some(_)) => State::Broken,
        };
        let fix = report.trouble.as_ref().map(|(_, fix)| fix.clone());
        all.push(finding(
            "engine",
            "Container engine",
            state,
            found,
            "Code does not run in containers.",
            fix.unwrap_or_default(),
        ));
    }
    let strong = facts.runtime != "runc";
    let kernel_of_its_own = engine && strong;
    all.push(finding(
        "boundary",
        "What stands around code",
        if kernel_of_its_own { State::Ok } else { State::Weaker },
        match (engine, trouble.is_none()) {
            (true, _) => format!("containers by {}", facts.runtime),
            (false, true) => "jails of this kernel".to_owned(),
            (false, false) => "nothing: code does not run".to_owned(),
        },
        "Code that breaks this machine's kernel is out. docs/sandbox.md has what was tried.",
        "For a kernel of its own install gVisor in the engine and set KAZMA_CODE_EXEC_RUNTIME=runsc.",
    ));
    all
}

fn jail_trouble(jail: &Jail, kernel: &Kernel) -> Option<(String, &'static str)> {
    if jail.bubblewrap.is_none() {
        return Some((
            "not installed".to_owned(),
            "Install bubblewrap (`apt install bubblewrap`).",
        ));
    }
    if let Some(said) = &jail.refused {
        return Some(match kernel.namespaces_closed {
            Some(setting) => (
                format!("no jail can be made: {setting} closes user namespaces ({said})"),
                "Open user namespaces to this user, or start `kazma up` as root.",
            ),
            None => (
                format!("no jail can be made: {said}"),
                "In a container, start it with what bubblewrap needs, or mount an engine's socket.",
            ),
        });
    }
    if jail.python.is_none() {
        return Some((
            "there is no /usr/bin/python3".to_owned(),
            "Install Python (`apt install python3`).",
        ));
    }
    None
}

fn folder(facts: &Facts) -> Finding {
    let folder = &facts.folder;
    let line = |state, found: String, means, fix: &str| {
        finding(
            "data",
            "Data folder",
            state,
            format!("{} {found}", folder.path),
            means,
            fix,
        )
    };
    if let Some(kind) = folder.remote {
        return line(
            State::Broken,
            format!("is on {kind}"),
            "Locks and syncs of network file systems cannot be relied on, so databases are refused there.",
            "Name a folder on a local disk by --data-dir.",
        );
    }
    if let Some(above) = &folder.closed_above {
        return line(
            State::Broken,
            format!("lies beneath {above}, which is closed to other users"),
            "The services, which have users of their own when root starts them, cannot reach it.",
            "Name a folder such as /var/lib/kazma by --data-dir.",
        );
    }
    if !folder.writable && matches!(facts.running, Running::Yes(_)) {
        return line(
            State::Ok,
            "is another user's, whose Kazma runs there".to_owned(),
            "",
            "",
        );
    }
    if !folder.writable {
        return line(
            State::Broken,
            "cannot be written by this user".to_owned(),
            "Kazma does not start there.",
            "Name another folder by --data-dir, or ask as the user that runs Kazma.",
        );
    }
    let Some(free) = folder.free else {
        return line(
            State::Weaker,
            "cannot be looked at".to_owned(),
            "How much room there is is not known.",
            "Ask as the user that runs Kazma.",
        );
    };
    let mib = free >> 20;
    match free {
        ..ROOM_LEAST => line(
            State::Broken,
            format!("has {mib} MiB left"),
            "When the disk is full nothing can be decided: calls are refused, none is lost.",
            "Make room.",
        ),
        ROOM_LEAST..ROOM => line(
            State::Weaker,
            format!("has {mib} MiB left"),
            "When the disk is full nothing can be decided: calls are refused, none is lost.",
            "Make room.",
        ),
        _ if folder.exists => line(State::Ok, "is on a local disk with room".to_owned(), "", ""),
        _ => line(
            State::Ok,
            "is not there yet; its disk has room".to_owned(),
            "",
            "",
        ),
    }
}

fn store(facts: &Facts) -> Finding {
    let line = |state, found: String, means, fix: &str| {
        finding("registry-store", "Registry", state, found, means, fix)
    };
    let (place, said) = match &facts.store {
        Store::File => {
            let found = "keeps its state in SQLite, in the data folder";
            return line(State::Ok, found.to_owned(), "", "");
        }
        Store::Nowhere(why) => {
            return line(
                State::Broken,
                format!("cannot use its database: {why}"),
                "Nothing can be decided, so nothing that needs a decision runs. What was kept is safe.",
                "Start the server, or correct KAZMA_REGISTRY_DATABASE_URL.",
            );
        }
        Store::Server { place, said } => (place, said),
    };
    let found = format!("keeps its state in PostgreSQL {}: {place}", said.version);
    match &said.holder {
        Some(by) if matches!(facts.running, Running::No) => line(
            State::Broken,
            format!("{found}; used by {by}"),
            "One registry at a time: another one is refused.",
            "Stop that one, or name another database by KAZMA_REGISTRY_DATABASE_URL.",
        ),
        _ => line(State::Ok, found, "", ""),
    }
}

fn clock(facts: &Facts) -> Finding {
    let now = facts.clock.now;
    let back = facts
        .clock
        .last_written
        .is_some_and(|at| at.duration_since(now) > BACK);
    let (state, found) = if now < FIRST_DAY {
        (State::Broken, format!("says {now:.0}, which is long past"))
    } else if back {
        (
            State::Broken,
            format!("says {now:.0}, and was further when the data folder was written"),
        )
    } else {
        (State::Ok, "plausible".to_owned())
    };
    finding(
        "clock",
        "Clock",
        state,
        found,
        "Cards, permits and certificates expire by it: too early, too late, or never.",
        "Set the clock and keep it by NTP.",
    )
}

fn port(facts: &Facts) -> Finding {
    let (at, port) = &facts.port;
    let (state, found) = match port {
        Port::Free => (State::Ok, format!("{at} is free")),
        Port::Ours => (State::Ok, format!("{at} is served by this Kazma")),
        Port::Taken(said) => (State::Broken, format!("{at} cannot be had: {said}")),
    };
    finding(
        "port",
        "Port of the pages",
        state,
        found,
        "`kazma up` does not start there.",
        "Stop what listens there, or choose another by --listen.",
    )
}

fn running(facts: &Facts) -> Vec<Finding> {
    let services = match &facts.running {
        Running::No => {
            return vec![finding(
                "services",
                "Services",
                State::Ok,
                "none runs on this data folder, so none could be looked at",
                "",
                "",
            )];
        }
        Running::Hidden(said) => {
            return vec![finding(
                "services",
                "Services",
                State::Weaker,
                format!("cannot be looked at: {said}"),
                "Whether they are confined is not known.",
                "Ask as the user that runs Kazma.",
            )];
        }
        Running::Yes(services) => services,
    };
    let mut all = Vec::new();
    for service in services {
        all.push(confined(service, facts.kernel.landlock));
    }
    all.extend(services.iter().filter_map(sandbox));
    all.push(shared(services));
    all.push(certificates(services));
    all
}

/// How a service is confined as it really runs.
fn confined(service: &Seen, kernel: u8) -> Finding {
    let line = |state, found: String, means, fix: &str| {
        finding(
            "confinement",
            "Confinement",
            state,
            format!("{} {found}", service.name),
            means,
            fix,
        )
    };
    let Some(process) = service.process else {
        return line(
            State::Broken,
            "does not run".to_owned(),
            "What it does is not done.",
            "Its log says why; `kazma up` starts it again.",
        );
    };
    if !process.no_new_privileges || !process.filtered {
        return line(
            State::Broken,
            "runs without its filter".to_owned(),
            "It could look into other processes and start programs.",
            "Start Kazma again; if it stays so, this is a fault to be told.",
        );
    }
    if service.name == "runner-broker" {
        return line(
            State::Ok,
            "is filtered (it mounts, so it has no Landlock)".to_owned(),
            "",
            "",
        );
    }
    let told = service
        .told
        .as_ref()
        .and_then(|told| told.landlock.as_deref());
    match told {
        Some("all") => line(
            State::Ok,
            "is filtered and held by all of Landlock".to_owned(),
            "",
            "",
        ),
        Some("partly") => line(
            State::Weaker,
            "is filtered and held by part of Landlock".to_owned(),
            "What is missing is said above, under Landlock.",
            "Use a newer kernel.",
        ),
        Some(_) if kernel == 0 => line(
            State::Weaker,
            "is filtered, without Landlock".to_owned(),
            "What that means is said above, under Landlock.",
            "Use a kernel with Landlock.",
        ),
        Some(_) => line(
            State::Broken,
            "runs without Landlock, which this kernel has".to_owned(),
            "It may read and write whatever its user may.",
            "Start Kazma again; if it stays so, this is a fault to be told.",
        ),
        None => line(
            State::Weaker,
            "is filtered; whether Landlock holds it was not told".to_owned(),
            "Its metrics are off or it does not answer.",
            "Leave KAZMA_METRICS_LISTEN as it is, and ask again.",
        ),
    }
}

/// Whether code can run now, from the one who knows.
fn sandbox(service: &Seen) -> Option<Finding> {
    let ready = service.told.as_ref()?.sandbox?;
    let (state, found) = if ready {
        (State::Ok, "ready")
    } else {
        (State::Broken, "not ready")
    };
    Some(finding(
        "sandbox",
        "Sandbox as it runs",
        state,
        found,
        "Calls that run code fail; nothing else is weaker for it.",
        "The page of the service and the log of the broker say why.",
    ))
}

/// Whether services share a user.
fn shared(services: &[Seen]) -> Finding {
    let mut uids: Vec<u32> = services
        .iter()
        .filter_map(|s| Some(s.process?.uid))
        .collect();
    let there = uids.len();
    uids.sort_unstable();
    uids.dedup();
    let apart = uids.len() == there;
    finding(
        "apart",
        "Users as they run",
        if apart { State::Ok } else { State::Weaker },
        if apart {
            format!("{there} services of {there} users. {OURS}")
        } else {
            format!("{there} services of {} user", uids.len())
        },
        "Landlock, no-dump and the filter alone keep them from each other.",
        "Start `kazma up` as root.",
    )
}

fn certificates(services: &[Seen]) -> Finding {
    let left: Vec<(&str, f64)> = services
        .iter()
        .filter_map(|s| Some((s.name.as_str(), s.told.as_ref()?.certificate?)))
        .collect();
    let soonest = left.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let (state, found) = match soonest {
        None => (State::Weaker, "were not told".to_owned()),
        Some((name, left)) if left <= 0.0 => (State::Broken, format!("that of {name} has ended")),
        Some((name, left)) if left < RENEWAL_FAILS => (
            State::Weaker,
            format!(
                "that of {name} ends in {:.0} minutes, and should have been renewed",
                left / 60.0
            ),
        ),
        Some((name, left)) => (
            State::Ok,
            format!(
                "hold; the first to end, of {name}, for {:.0} hours",
                left / 3600.0
            ),
        ),
    };
    finding(
        "certificates",
        "Certificates of the mesh",
        state,
        found,
        "A service whose certificate has ended is not listened to.",
        "See whether the registry runs and its clock is right; certificates renew by themselves.",
    )
}
