//! The machine outside, as attempts could harm it.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{Ipv6Addr, TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::Clock;
use kazma_runtime::SystemClock;
use kazma_sandbox_runner::broker::Collected;
use serde_json::{Value, json};

use crate::house::{PATIENCE, marked, processes_with};

/// Settings of the kernel that attempts write to.
const SETTINGS: [&str; 9] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/net/ipv4/ip_forward",
    "/sys/kernel/uevent_helper",
    "/proc/swaps",
    "/proc/sys/kernel/perf_event_paranoid",
];
/// The key under which attempts make objects of System V, as the kernel lists it.
const SYSTEM_V_KEY: &str = "7037306";

/// All that an attempt could touch, and how it was before.
pub(super) struct Scene {
    workspace: Utf8PathBuf,
    marker: String,
    needle: String,
    secret: PathBuf,
    _secrets: tempfile::TempDir,
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    in_workspace: UnixListener,
    datagrams: UnixDatagram,
    hidden: UnixListener,
    abstract_name: String,
    victim: Victim,
    _turning: Turning,
    settings: BTreeMap<&'static str, Option<String>>,
    files: BTreeMap<String, Vec<u8>>,
    began: (Instant, jiff::Timestamp),
}

/// A process of the host that runs as the user that snippets are.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Turns a link in the workspace between a file there and the secret, over and over.
struct Turning {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Turning {
    fn start(workspace: &Utf8Path, secret: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (over, link, fresh) = (
            Arc::clone(&stop),
            workspace.join("turning"),
            workspace.join("turning.new"),
        );
        let targets = [
            workspace.join("kept").into_std_path_buf(),
            secret.to_owned(),
        ];
        let thread = std::thread::spawn(move || {
            for target in targets.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let _ = std::os::unix::fs::symlink(target, &fresh);
                let _ = std::fs::rename(&fresh, &link);
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn victim(needle: &str) -> Victim {
    let mut command = Command::new("/bin/sleep");
    command.arg("100000").env_clear().env("SECRET", needle);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    Victim(command.spawn().unwrap())
}

fn settings() -> BTreeMap<&'static str, Option<String>> {
    SETTINGS
        .into_iter()
        .map(|path| (path, std::fs::read_to_string(path).ok()))
        .collect()
}

/// What is in the workspace, without what turns.
fn files(workspace: &Utf8Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(workspace)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| !entry.file_name().to_str().unwrap().starts_with("turning"))
        .map(|entry| {
            let what = std::fs::symlink_metadata(entry.path()).unwrap();
            let mut all = format!("{:?} {:?}", what.permissions(), what.modified()).into_bytes();
            if what.is_file() {
                all.extend(std::fs::read(entry.path()).unwrap());
            }
            (entry.file_name().into_string().unwrap(), all)
        })
        .collect()
}

impl Scene {
    pub(super) fn set(workspace: &Utf8Path) -> Self {
        let (marker, needle) = (marked(), marked().replace("marker", "needle"));
        let secrets = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(secrets.path(), 0o755);
        let secret = secrets.path().join("secret");
        std::fs::write(&secret, &needle).unwrap();
        open(&secret, 0o644);
        std::fs::write(workspace.join("kept"), "kept").unwrap();
        open(workspace.join("kept").as_std_path(), 0o666);
        std::os::unix::fs::symlink(&secret, workspace.join("link")).unwrap();
        let quiet = |listener: UnixListener| {
            listener.set_nonblocking(true).unwrap();
            listener
        };
        let in_workspace = quiet(UnixListener::bind(workspace.join("host.sock")).unwrap());
        let datagrams = UnixDatagram::bind(workspace.join("host.dgram")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        for socket in ["host.sock", "host.dgram"] {
            open(workspace.join(socket).as_std_path(), 0o777);
        }
        let abstract_name = format!("kazma-{marker}");
        let at = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let hidden = quiet(UnixListener::bind_addr(&at).unwrap());
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let tcp6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok();
        if let Some(tcp6) = &tcp6 {
            tcp6.set_nonblocking(true).unwrap();
        }
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        Self {
            victim: victim(&needle),
            _turning: Turning::start(workspace, &secret),
            settings: settings(),
            files: files(workspace),
            began: (Instant::now(), SystemClock.now()),
            workspace: workspace.to_owned(),
            marker,
            needle,
            secret,
            _secrets: secrets,
            tcp,
            tcp6,
            udp,
            in_workspace,
            datagrams,
            hidden,
            abstract_name,
        }
    }

    /// What the snippet is told, so that it tries the real things.
    pub(super) fn facts(&self) -> Value {
        let first = |path: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let disk = rustix::fs::statvfs(self.workspace.as_str()).unwrap();
        let tcp6 = self
            .tcp6
            .as_ref()
            .map_or(1, |l| l.local_addr().unwrap().port());
        json!({
            "tcp": self.tcp.local_addr().unwrap().port(),
            "tcp6": tcp6,
            "udp": self.udp.local_addr().unwrap().port(),
            "addresses": addresses(),
            "workspace": self.workspace,
            "abstract": self.abstract_name,
            "secret": self.secret,
            "needle": self.needle,
            "marker": self.marker,
            "victim": self.victim.0.id(),
            "key": "kazma-no-such-key",
            "release": first("/proc/sys/kernel/osrelease"),
            "memory": first("/proc/meminfo"),
            "cmdline": first("/proc/cmdline"),
            "blocks": disk.f_blocks,
            "now": SystemClock.now().as_second(),
        })
    }

    /// Looks at everything that any attempt was after.
    pub(super) async fn unharmed(&self, group: &str, run: &Collected) {
        self.heard_nothing(group);
        self.stays_quiet(group).await;
        let alive = std::fs::read_to_string(format!("/proc/{}/stat", self.victim.0.id())).unwrap();
        let state = alive.rsplit(") ").next().unwrap().chars().next().unwrap();
        assert!(
            matches!(state, 'S' | 'R' | 'D'),
            "{group}: the victim is {alive}"
        );
        let said = [&run.stdout[..], &run.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            !said.contains(&self.needle),
            "{group}: the secret got in\n{said}"
        );
        assert_eq!(
            files(&self.workspace),
            self.files,
            "{group}: the workspace changed"
        );
        let secret = std::fs::read_to_string(&self.secret).unwrap();
        assert_eq!(secret, self.needle, "{group}: the secret was changed");
        assert_eq!(
            settings(),
            self.settings,
            "{group}: the kernel's settings changed"
        );
        self.kernel_has_nothing(group);
        let (begin, then) = self.began;
        let clock = SystemClock.now().as_second() - then.as_second();
        let counted = i64::try_from(begin.elapsed().as_secs()).unwrap();
        assert!((clock - counted).abs() < 120, "{group}: the clock was set");
        for folder in [
            "/", "/usr", "/usr/bin", "/etc", "/dev", "/run", "/var", "/lib", "/tmp",
        ] {
            let stray = Path::new(folder).join("escape");
            assert!(!stray.exists(), "{group}: {} is there", stray.display());
        }
    }

    fn heard_nothing(&self, group: &str) {
        let quiet = |what: &str, heard: std::io::Result<()>| {
            let kind = heard.expect_err(what).kind();
            assert_eq!(kind, ErrorKind::WouldBlock, "{group}: {what}");
        };
        let mut buffer = [0; 16];
        quiet("somebody came by TCP", self.tcp.accept().map(|_| ()));
        if let Some(tcp6) = &self.tcp6 {
            quiet("somebody came by TCP over IPv6", tcp6.accept().map(|_| ()));
        }
        quiet(
            "somebody sent by UDP",
            self.udp.recv(&mut buffer).map(|_| ()),
        );
        quiet(
            "somebody came by the workspace",
            self.in_workspace.accept().map(|_| ()),
        );
        quiet(
            "somebody sent by the workspace",
            self.datagrams.recv(&mut buffer).map(|_| ()),
        );
        quiet(
            "somebody came by an abstract name",
            self.hidden.accept().map(|_| ()),
        );
    }

    /// What was killed with a container is gone a moment later.
    async fn stays_quiet(&self, group: &str) {
        let stays = format!("{}-stays", self.marker);
        let gone = async {
            while processes_with(&stays) > 0 {
                crate::house::moment().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .unwrap_or_else(|_| panic!("{group}: something outlived its run"));
    }

    fn kernel_has_nothing(&self, group: &str) {
        for list in ["shm", "sem", "msg"] {
            let path = format!("/proc/sysvipc/{list}");
            let objects = std::fs::read_to_string(path).unwrap_or_default();
            let made = objects
                .lines()
                .any(|line| line.split_whitespace().next() == Some(SYSTEM_V_KEY));
            assert!(!made, "{group}: an object of System V was made\n{objects}");
        }
        let keys = std::fs::read_to_string("/proc/keys").unwrap_or_default();
        assert!(
            !keys.contains("user      escape"),
            "{group}: a key was made"
        );
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = |line: &str| line.split(' ').nth(4).map(str::to_owned);
        assert!(
            !mounts
                .lines()
                .filter_map(at)
                .any(|point| point == self.workspace),
            "{group}: something was mounted on the workspace"
        );
        let stray = walk_groups(Path::new("/sys/fs/cgroup"), 0);
        assert_eq!(stray, None, "{group}: a control group was made");
    }
}

/// A control group that an attempt made.
fn walk_groups(at: &Path, depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(at).ok()?;
    entries.flatten().find_map(|entry| {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) || depth > 8 {
            return None;
        }
        if entry.file_name() == "escape" {
            return Some(entry.path());
        }
        walk_groups(&entry.path(), depth + 1)
    })
}

/// The addresses of this machine, as its routes know them.
fn addresses() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found: Vec<_> = table
        .lines()
        .zip(table.lines().skip(1))
        .filter(|(_, below)| below.contains("/32 host LOCAL"))
        .filter_map(|(line, _)| line.split_whitespace().last())
        .filter(|address| !address.starts_with("127."))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}
