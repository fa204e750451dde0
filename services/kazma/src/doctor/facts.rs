//! What was found on the machine, before anything is made of it.

use std::net::SocketAddr;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use kazma_sandbox_runner::broker::EngineReport;

/// Everything that is looked at.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Whether root asks: then services get users of their own.
    pub(super) root: bool,
    pub(super) kernel: Kernel,
    pub(super) jail: Jail,
    pub(super) engines: Vec<(Utf8PathBuf, EngineReport)>,
    /// The runtime that containers are to be made with.
    pub(super) runtime: &'static str,
    pub(super) folder: Folder,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) port: (SocketAddr, Port),
    pub(super) running: Running,
}

/// What the kernel has.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// Such as `6.12.3`.
    pub(super) release: String,
    /// The newest Landlock ABI that services use, 0 for none.
    pub(super) landlock: u8,
    /// Whether system calls can be filtered.
    pub(super) filter: bool,
    /// Why an ordinary user may make no namespaces, by the setting that says so; none where they may.
    pub(super) namespaces_closed: Option<&'static str>,
    /// What control groups hold: memory, processes, CPU.
    pub(super) groups: [Group; 3],
}

/// Who can make control groups for one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// This user can.
    Ours(u8),
    /// The kernel has it, in this version, and this user may not use it.
    Theirs(u8),
    /// There is none.
    Missing,
}

/// What makes jails.
#[derive(Debug, Clone)]
pub(super) struct Jail {
    /// What `bwrap --version` says; none where there is none.
    pub(super) bubblewrap: Option<String>,
    /// What went wrong when a jail was tried; none where one was made.
    pub(super) refused: Option<String>,
    /// What `python3 --version` says; none where there is none.
    pub(super) python: Option<String>,
}

/// Where the data is.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) path: Utf8PathBuf,
    /// Whether it is there already.
    pub(super) exists: bool,
    /// The network file system that it is on.
    pub(super) remote: Option<&'static str>,
    /// Bytes that are free there; none where it cannot be looked at.
    pub(super) free: Option<u64>,
    /// Whether this user may write there.
    pub(super) writable: bool,
    /// A folder above it that is closed to other users.
    pub(super) closed_above: Option<Utf8PathBuf>,
}

/// Where the registry's database is.
#[derive(Debug, Clone)]
pub(super) enum Store {
    /// In a file in the data folder.
    File,
    /// On a server.
    Server {
        /// Which, as it is shown.
        place: String,
        /// What it says.
        said: kazma_store::Look,
    },
    /// On a server that cannot be used, and why.
    Nowhere(String),
}

/// What time it is said to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    /// When this user's data folder was last written, by the same clock.
    pub(super) last_written: Option<Timestamp>,
}

/// Whether the address can be served on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Port {
    Free,
    /// By the `kazma up` of this data folder.
    Ours,
    Taken(String),
}

/// What runs on this data folder.
#[derive(Debug, Clone)]
pub(super) enum Running {
    /// Nothing.
    No,
    /// Something that this user may not look at.
    Hidden(String),
    /// These.
    Yes(Vec<Seen>),
}

/// A service as it runs.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) name: String,
    /// What the kernel says of its process; none where it does not run.
    pub(super) process: Option<Process>,
    /// What it says of itself; none where it does not answer or shows nothing.
    pub(super) told: Option<Told>,
}

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) uid: u32,
    /// It can gain no rights by starting programs.
    pub(super) no_new_privileges: bool,
    /// Its system calls are filtered.
    pub(super) filtered: bool,
}

/// What a service says by its metrics.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    /// `all`, `partly` or `none`.
    pub(super) landlock: Option<String>,
    /// Seconds until its certificate ends.
    pub(super) certificate: Option<f64>,
    /// Whether code can run, where it is the one who knows.
    pub(super) sandbox: Option<bool>,
}
