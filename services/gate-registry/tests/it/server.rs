//! The PostgreSQL server that tests run on.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use kazma_gate_registry::Server;
use secrecy::SecretString;

/// The URL of the server that the whole suite is to run on, if it is.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are told by the environment"
)]
pub(crate) fn given() -> Option<String> {
    std::env::var("KAZMA_TEST_POSTGRES").ok()
}

/// A schema of a test's own.
pub(crate) fn own_schema(url: &str) -> Server {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let began = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("t_{}_{number}_{began}", std::process::id());
    Server::new(&SecretString::from(url), &name).unwrap()
}

/// A server of a test's own, which it may kill. Gone with it.
pub(crate) struct OwnServer {
    folder: PathBuf,
    pub(crate) url: String,
}

impl OwnServer {
    pub(crate) fn start(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            url: postgres("start", folder),
        }
    }

    /// Kills all of its processes at once.
    pub(crate) fn kill(&self) {
        postgres("kill", &self.folder);
    }

    /// Starts it again on what is left.
    pub(crate) fn again(&self) {
        assert_eq!(postgres("start", &self.folder), self.url);
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        postgres("stop", &self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "a server is what is tried")]
fn postgres(what: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let done = std::process::Command::new(program)
        .arg(what)
        .arg(folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "scripts/postgres {what}: {told}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}
