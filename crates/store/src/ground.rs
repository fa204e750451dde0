//! The ground a database stands on: a local file system, and one process at a time.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::{
    fs::{FlockOperation, flock, statfs},
    io::Errno,
};

use crate::StoreError;

/// File system types (`f_type` of statfs(2)) whose locks or syncs cannot be relied on.
const REMOTE: [(u32, &str); 12] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x786f_4256, "a shared folder of VirtualBox"),
];

/// The name of a file system type that is refused.
pub(crate) fn refused(kind: u32) -> Option<&'static str> {
    REMOTE
        .iter()
        .find(|(magic, _)| *magic == kind)
        .map(|(_, name)| *name)
}

/// The name of the network file system that `folder` is on; none where it is on a local one.
///
/// # Errors
///
/// Says why the folder cannot be looked at.
pub fn network_file_system(folder: &Utf8Path) -> Result<Option<&'static str>, StoreError> {
    let found = statfs(folder.as_std_path()).map_err(|errno| io(folder, errno.into()))?;
    // The kernel's word is 32 bits wide; the type of the field differs between architectures.
    let kind = u32::try_from(i128::from(found.f_type) & 0xffff_ffff).unwrap_or(0);
    Ok(refused(kind))
}

/// Refuses folders on network file systems.
pub(crate) fn check(folder: &Utf8Path) -> Result<(), StoreError> {
    match network_file_system(folder)? {
        Some(kind) => Err(StoreError::NetworkFileSystem {
            path: folder.to_owned(),
            kind,
        }),
        None => Ok(()),
    }
}

/// The lock that keeps other processes away for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not read: closing it unlocks")] File);

/// Locks the database at `path`.
pub(crate) fn lock(path: &Utf8Path) -> Result<Lock, StoreError> {
    let path = Utf8PathBuf::from(format!("{path}.lock"));
    let file = private(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Lock(file)),
        Err(Errno::WOULDBLOCK) => Err(StoreError::Locked { path }),
        Err(errno) => Err(io(&path, errno.into())),
    }
}

/// Opens a file that only this user may read, made if it is not there.
pub(crate) fn private(path: &Utf8Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| io(path, error))
}

fn io(path: &Utf8Path, source: std::io::Error) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_and_local_ones_are_not() {
        for kind in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546] {
            assert!(refused(kind).is_some(), "{kind:#x}");
        }
        // ext4, btrfs, xfs, overlayfs, tmpfs, zfs.
        for kind in [
            0xef53,
            0x9123_683e,
            0x5846_5342,
            0x794c_7630,
            0x0102_1994,
            0x2fc1_2fc1,
        ] {
            assert_eq!(refused(kind), None, "{kind:#x}");
        }
    }
}
