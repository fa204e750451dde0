//! Looking at the machine. Nothing is changed: what is tried is tried in a process that ends at once.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use kazma_domain::{Clock as _, Service};
use kazma_runtime::{BoxError, SystemClock};
use kazma_sandbox_runner::broker::{EngineOptions, EngineReport, EngineRuntime, engine_report};
use rustix::fs::{Access, access, statvfs};
use serde_json::Value;

use super::facts::{
    Clock, Facts, Folder, Group, Jail, Kernel, Port, Process, Running, Seen, Store, Told,
};
use crate::cli;

/// How long one engine, one service or one program may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a service's metrics.
const METRICS_MAX: u64 = 4 * 1024 * 1024;
/// Settings by which a kernel closes user namespaces to ordinary users, and the value that does.
const CLOSING: [(&str, &str); 3] = [
    ("kernel.unprivileged_userns_clone", "0"),
    ("user.max_user_namespaces", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

/// Looks at everything.
pub(super) fn facts(options: &cli::Doctor, data: &Utf8Path) -> Result<Facts, BoxError> {
    let root = rustix::process::geteuid().is_root();
    let running = running(data);
    Ok(Facts {
        root,
        kernel: kernel(root),
        jail: jail(),
        engines: engines(options)?,
        runtime: EngineRuntime::from(options.engine.runtime).name(),
        folder: folder(data, root),
        store: store(options, data)?,
        clock: clock(data),
        port: (options.listen, port(options.listen, data, &running)),
        running,
    })
}

fn kernel(root: bool) -> Kernel {
    let actions = read("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let closing = |(name, value): &(&'static str, &str)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        (read(path)?.trim() == *value).then_some(*name)
    };
    Kernel {
        release: read("/proc/sys/kernel/osrelease")
            .map_or_else(|| "?".to_owned(), |text| text.trim().to_owned()),
        landlock: kazma_runtime::landlock_abi(),
        filter: actions.split_whitespace().any(|action| action == "errno"),
        namespaces_closed: if root {
            None
        } else {
            CLOSING.iter().find_map(closing)
        },
        groups: groups(),
    }
}

/// Who may make control groups, by the mounted hierarchies and this process's own place in them.
fn groups() -> [Group; 3] {
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let own = read("/proc/self/cgroup").unwrap_or_default();
    ["memory", "pids", "cpu"].map(|name| group(name, &mounts, &own))
}

/// Source: proc(5), `/proc/pid/mountinfo`; cgroups(7), `/proc/pid/cgroup`.
fn group(name: &str, mounts: &str, own: &str) -> Group {
    let writable = |point: &str, path: &str| {
        let folder = Path::new(point).join(path.trim_start_matches('/'));
        let folder = if folder.is_dir() {
            folder
        } else {
            point.into()
        };
        access(&folder, Access::WRITE_OK).is_ok()
    };
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (place, rest) = line.split_once(" - ")?;
            let mut rest = rest.split(' ');
            let found = rest.next()?;
            let options = rest.nth(1).unwrap_or_default();
            let has = option.is_none_or(|option| options.split(',').any(|o| o == option));
            (found == kind && has).then(|| place.split(' ').nth(4))?
        })
    };
    let path_of = |controller: &str| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let controllers = fields.nth(1)?;
            let path = fields.next()?;
            controllers
                .split(',')
                .any(|one| one == controller)
                .then_some(path)
        })
    };
    if let (Some(point), Some(path)) = (mounted("cgroup", Some(name)), path_of(name)) {
        return if writable(point, path) {
            Group::Ours(1)
        } else {
            Group::Theirs(1)
        };
    }
    let (Some(point), Some(path)) = (mounted("cgroup2", None), path_of("")) else {
        return Group::Missing;
    };
    let own = Path::new(point).join(path.trim_start_matches('/'));
    let own = if own.is_dir() { own } else { point.into() };
    let offered = read(own.join("cgroup.controllers")).unwrap_or_default();
    let offers = offered.split_whitespace().any(|one| one == name);
    let anywhere = read(Path::new(point).join("cgroup.controllers")).unwrap_or_default();
    match (offers, writable(point, path)) {
        (true, true) => Group::Ours(2),
        (true, false) => Group::Theirs(2),
        (false, _) if anywhere.split_whitespace().any(|one| one == name) => Group::Theirs(2),
        (false, _) => Group::Missing,
    }
}

fn jail() -> Jail {
    let version = |program: &str| said(program, &["--version"]).ok();
    let tried = said(
        "bwrap",
        &[
            "--unshare-user",
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "/bin/true",
        ],
    );
    let bubblewrap = version("bwrap");
    Jail {
        refused: bubblewrap.as_ref().and_then(|_| tried.err()),
        bubblewrap,
        python: version("/usr/bin/python3"),
    }
}

/// What a program says that ends by itself; else why not, in its words.
#[expect(
    clippy::disallowed_methods,
    reason = "whether programs can be started is what is looked at"
)]
fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines().next().unwrap_or_default().trim().to_owned()
    };
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

fn engines(options: &cli::Doctor) -> Result<Vec<(Utf8PathBuf, EngineReport)>, BoxError> {
    let named = options
        .engine
        .host
        .as_deref()
        .is_some_and(|host| !host.is_empty());
    let mut all: Vec<Utf8PathBuf> = Vec::new();
    for socket in options.engine.sockets()? {
        // Two names of one socket are one engine; a named one that is not there is worth a word.
        let real = socket.canonicalize_utf8().unwrap_or(socket);
        if (named || real.exists()) && !all.contains(&real) {
            all.push(real);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let mut reports = Vec::new();
        for socket in all {
            let mut engine = EngineOptions::new(socket.clone(), "doctor");
            if let Some(image) = options.engine.image.as_ref().filter(|i| !i.is_empty()) {
                engine.image.clone_from(image);
            }
            engine.runtime = options.engine.runtime.into();
            reports.push((socket, engine_report(&engine).await));
        }
        reports
    }))
}

fn folder(data: &Utf8Path, root: bool) -> Folder {
    // The nearest folder that is there is where it would be made.
    let there = data.ancestors().find(|path| path.is_dir());
    let free = there.and_then(|path| {
        let stat = statvfs(path.as_std_path()).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    });
    let closed = |path: &&Utf8Path| {
        fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o001 == 0)
    };
    Folder {
        path: data.to_owned(),
        exists: there == Some(data),
        remote: there.and_then(|path| kazma_store::network_file_system(path).ok()?),
        free,
        writable: there.is_some_and(|path| access(path.as_std_path(), Access::WRITE_OK).is_ok()),
        closed_above: if root {
            let above = data.ancestors().skip(1).filter(|path| path.is_dir());
            above.into_iter().find(closed).map(ToOwned::to_owned)
        } else {
            None
        },
    }
}

fn store(options: &cli::Doctor, data: &Utf8Path) -> Result<Store, BoxError> {
    let server = match options.store.clone().server() {
        Ok(server) => server,
        Err(error) => return Ok(Store::Nowhere(error.to_string())),
    };
    let own = data.join(Service::GateRegistry.name());
    if let Err(moved) = kazma_gate_registry::place(&own, server.as_ref()) {
        return Ok(Store::Nowhere(moved.to_string()));
    }
    let Some(server) = server else {
        return Ok(Store::File);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let place = server.to_string();
    Ok(match runtime.block_on(server.look()) {
        Ok(said) => Store::Server { place, said },
        Err(error) => Store::Nowhere(format!("{place}: {error}")),
    })
}

fn clock(data: &Utf8Path) -> Clock {
    let written = fs::metadata(data.join("run/services.json")).and_then(|data| data.modified());
    Clock {
        now: SystemClock.now(),
        last_written: written.ok().and_then(|at| Timestamp::try_from(at).ok()),
    }
}

fn port(at: SocketAddr, data: &Utf8Path, running: &Running) -> Port {
    match TcpListener::bind(at) {
        Ok(_) => Port::Free,
        Err(_) if matches!(running, Running::Yes(_)) && serves(data, at) => Port::Ours,
        Err(error) => Port::Taken(error.to_string()),
    }
}

/// Whether the Kazma of this folder says that it serves there.
fn serves(data: &Utf8Path, at: SocketAddr) -> bool {
    let api = services_file(data).ok();
    let api = api.as_ref().and_then(|file| file.get("api")?.as_str());
    api.and_then(|url| url.rsplit_once(':')?.1.parse::<u16>().ok()) == Some(at.port())
}

fn services_file(data: &Utf8Path) -> io::Result<Value> {
    let text = fs::read_to_string(data.join("run/services.json"))?;
    serde_json::from_str(&text).map_err(io::Error::from)
}

fn running(data: &Utf8Path) -> Running {
    let file = match services_file(data) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Running::No,
        Err(error) => return Running::Hidden(error.to_string()),
    };
    let services = file.get("services").and_then(Value::as_array);
    let seen: Vec<Seen> = services.into_iter().flatten().filter_map(service).collect();
    // The file stays when Kazma ends.
    if seen.iter().all(|service| service.process.is_none()) {
        return Running::No;
    }
    Running::Yes(seen)
}

fn service(line: &Value) -> Option<Seen> {
    let name = line.get("name")?.as_str()?;
    let pid = line.get("pid")?.as_u64()?;
    let at = line.get("metrics").and_then(Value::as_str);
    let process = process(pid, name);
    Some(Seen {
        name: name.to_owned(),
        told: at
            .filter(|_| process.is_some())
            .and_then(|at| told(at.parse().ok()?).ok()),
        process,
    })
}

/// What the kernel says of process `pid`, if it is the service `name`. Source: proc(5),
/// `/proc/pid/status`.
fn process(pid: u64, name: &str) -> Option<Process> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0);
    // A number is given again, to others.
    if !words.any(|word| word == name.as_bytes()) {
        return None;
    }
    let status = read(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u32>().ok()
    };
    Some(Process {
        uid: field("Uid:")?,
        no_new_privileges: field("NoNewPrivs:") == Some(1),
        // Mode 2 is a filter.
        filtered: field("Seccomp:") == Some(2),
    })
}

/// What a service says by its metrics.
fn told(at: SocketAddr) -> io::Result<Told> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.take(METRICS_MAX).read_to_string(&mut text)?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Told {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<f64>().ok()
    };
    let landlock = text.lines().find_map(|line| {
        let rest = line.strip_prefix("kazma_confinement_info{landlock=\"")?;
        Some(rest.split('"').next()?.to_owned())
    });
    Told {
        landlock,
        certificate: number("kazma_certificate_expiry_seconds "),
        sandbox: number("kazma_sandbox_ready ").map(|ready| ready > 0.0),
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}
