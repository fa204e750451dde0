//! The data folder: who owns which part of it.

use std::{fs, io, os::unix::fs::PermissionsExt};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::{Entropy, Service};
use kazma_launch::Place;
use rustix::{
    fs::{FlockOperation, Gid, Mode, OFlags, Uid},
    io::Errno,
};

/// The uid and gid that sandboxed code runs as (`nobody` and `nogroup` on Debian).
pub(crate) const NOBODY: u32 = 65534;
/// The first of the uids that services get when root starts them, one each. The range 60578 to 61183
/// is left free by Debian and systemd (systemd: Users, Groups, UIDs and GIDs).
const FIRST_UID: u32 = 61101;

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("{path}: {what}")]
    Io {
        path: Utf8PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(
        "another kazma uses the data folder {0}; stop it, or name another folder by --data-dir"
    )]
    InUse(Utf8PathBuf),
    #[error(
        "{parent} is closed to other users, so the services, which have users of their own when root \
         starts them, cannot reach {path}; name another folder by --data-dir, such as /var/lib/kazma"
    )]
    Closed {
        parent: Utf8PathBuf,
        path: Utf8PathBuf,
    },
}

/// Whether the services get users of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Root starts them: each its own.
    Separate,
    /// An ordinary user starts them: all are that user.
    Same(u32),
}

impl Owners {
    /// By who runs this process.
    pub(crate) fn current() -> Self {
        let uid = rustix::process::geteuid();
        if uid.is_root() {
            Self::Separate
        } else {
            Self::Same(uid.as_raw())
        }
    }

    /// The uid of a service. The broker stays root: it gives each jail its user and its limits.
    pub(crate) fn uid(self, service: Service) -> u32 {
        match (self, service) {
            (Self::Same(uid), _) => uid,
            (Self::Separate, Service::RunnerBroker) => 0,
            (Self::Separate, Service::GateRegistry) => FIRST_UID,
            (Self::Separate, Service::RunnerApi) => FIRST_UID + 1,
            (Self::Separate, Service::RunnerEgress) => FIRST_UID + 2,
            (Self::Separate, Service::Agent) => FIRST_UID + 3,
            (Self::Separate, Service::Gateway) => FIRST_UID + 4,
        }
    }
}

/// The data folder, ready for the services.
#[derive(Debug)]
pub(crate) struct DataFolder {
    pub(crate) path: Utf8PathBuf,
    pub(crate) owners: Owners,
    /// Held for as long as this process lives.
    _lock: fs::File,
}

impl DataFolder {
    /// Makes what is missing, and gives each part to its owner.
    pub(crate) fn prepare(path: &Utf8Path) -> Result<Self, FolderError> {
        let owners = Owners::current();
        fs::create_dir_all(path).map_err(io_at(path, "could not be made"))?;
        let path = path
            .canonicalize_utf8()
            .map_err(io_at(path, "could not be resolved"))?;
        let me = Self {
            _lock: lock(&path)?,
            owners,
            path,
        };
        close_to(&me.path, 0o711)?;
        if owners == Owners::Separate {
            reachable(&me.path)?;
        }
        for service in Service::ALL {
            let folder = me.of(service);
            make(&folder)?;
            me.own(&folder, service, None)?;
            close_to(&folder, 0o700)?;
        }
        Ok(me)
    }

    /// A service's own folder.
    pub(crate) fn of(&self, service: Service) -> Utf8PathBuf {
        self.path.join(service.name())
    }

    /// Where the runner's api reaches the broker.
    pub(crate) fn broker_socket(&self) -> Utf8PathBuf {
        self.path.join("run/broker.sock")
    }

    /// What runs, for the gateway to show.
    pub(crate) fn services_file(&self) -> Utf8PathBuf {
        Place::services_file(&self.path)
    }

    /// The workspace: the runner's, readable by sandboxed code through its group. A folder that was
    /// there before and that the operator named stays theirs: what is missing, the runner says.
    pub(crate) fn workspace(&self, set: Option<&Utf8Path>) -> Result<Utf8PathBuf, FolderError> {
        let default = self.path.join("workspace");
        let path = set.unwrap_or(&default);
        let theirs = set.is_some() && path.exists();
        make(path)?;
        let path = path
            .canonicalize_utf8()
            .map_err(io_at(path, "could not be resolved"))?;
        if self.owners == Owners::Separate {
            reachable(&path)?;
            if !theirs {
                self.own(&path, Service::RunnerApi, Some(NOBODY))?;
                close_to(&path, 0o2750)?;
            }
        }
        Ok(path)
    }

    /// The API token: kept from the first start on, readable by the operator alone.
    pub(crate) fn token(&self, entropy: &dyn Entropy) -> Result<String, FolderError> {
        let failed = io_at(&Place::token_file(&self.path), "could not be kept");
        Place::token(&self.path, entropy).map_err(failed)
    }

    fn own(&self, path: &Utf8Path, service: Service, gid: Option<u32>) -> Result<(), FolderError> {
        if self.owners != Owners::Separate {
            return Ok(());
        }
        let uid = self.owners.uid(service);
        let gid = gid.unwrap_or(uid);
        rustix::fs::chown(
            path.as_std_path(),
            Some(Uid::from_raw(uid)),
            Some(Gid::from_raw(gid)),
        )
        .map_err(|error| io_at(path, "could not be given to its service")(error.into()))
    }

    /// Gives the broker's socket to the runner's api, and to nobody else.
    pub(crate) fn own_socket(&self, path: &Utf8Path) -> Result<(), FolderError> {
        self.own(path, Service::RunnerApi, None)?;
        close_to(path, 0o600)
    }
}

fn close_to(path: &Utf8Path, mode: u32) -> Result<(), FolderError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(io_at(path, "could not be closed to others"))
}

/// Refuses a folder whose parents other users may not pass.
fn reachable(path: &Utf8Path) -> Result<(), FolderError> {
    for parent in path.ancestors().skip(1).filter(|p| !p.as_str().is_empty()) {
        let mode = fs::metadata(parent)
            .map_err(io_at(parent, "could not be looked at"))?
            .permissions()
            .mode();
        if mode & 0o001 == 0 {
            return Err(FolderError::Closed {
                parent: parent.to_owned(),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

fn make(path: &Utf8Path) -> Result<(), FolderError> {
    fs::create_dir_all(path).map_err(io_at(path, "could not be made"))
}

fn lock(path: &Utf8Path) -> Result<fs::File, FolderError> {
    let run = path.join("run");
    make(&run)?;
    let file = run.join("lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = rustix::fs::open(file.as_std_path(), flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| io_at(&file, "could not be opened")(error.into()))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock.into()),
        Err(Errno::WOULDBLOCK) => Err(FolderError::InUse(path.to_owned())),
        Err(error) => Err(io_at(&file, "could not be locked")(error.into())),
    }
}

fn io_at(path: &Utf8Path, what: &'static str) -> impl FnOnce(io::Error) -> FolderError + use<> {
    let path = path.to_owned();
    move |source| FolderError::Io { path, what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_services_share_a_user_when_root_starts_them() {
        let mut uids: Vec<u32> = Service::ALL
            .iter()
            .map(|service| Owners::Separate.uid(*service))
            .collect();
        uids.sort_unstable();
        uids.dedup();
        assert_eq!(uids.len(), Service::ALL.len());
        assert!(!uids.contains(&NOBODY));
    }

    #[test]
    fn a_second_kazma_is_refused_the_folder() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        let first = DataFolder::prepare(path).unwrap();
        assert!(matches!(
            DataFolder::prepare(path),
            Err(FolderError::InUse(_))
        ));
        drop(first);
        DataFolder::prepare(path).unwrap();
    }
}
