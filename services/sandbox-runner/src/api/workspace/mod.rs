//! The workspace: the one folder whose files tools may touch.
//!
//! It is opened once as a descriptor; everything else is opened beneath that by `openat2`, which follows
//! no link of any kind and never leaves the folder. A kernel without `openat2` gets no weaker check: the
//! workspace does not open.
//!
//! **Invariant:** nothing here changes a file without a [`crate::executor::Redeemed`], but for the
//! [word](Workspace::leave_canary) that no call has a part in.

mod diff;
mod list;
mod path;
mod pattern;
mod read;
mod write;

use std::{fs::File, os::fd::OwnedFd, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::{Digest, Entropy};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};

pub(crate) use list::PlannedList;
pub use path::RelPath;
pub use pattern::Pattern;
pub(crate) use read::{PlannedRead, Returned};
pub(crate) use write::{PlannedWrite, WriteFailed};

use crate::{executor::Refused, nonce};

/// How large things of the workspace may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The largest file that may be written or written over, in bytes.
    pub write_bytes: u64,
    /// The most characters that one read returns.
    pub read_chars: usize,
    /// The most entries that one listing shows; the rest is counted.
    pub list_entries: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            write_bytes: 1024 * 1024,
            read_chars: 32_000,
            list_entries: 1_000,
        }
    }
}

/// Why the workspace does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is not there, or not readable.
    #[error("the workspace {at} does not open")]
    Folder {
        /// Which folder.
        at: Utf8PathBuf,
        /// What the kernel says.
        #[source]
        source: Errno,
    },
    /// This kernel, or a filter around this process, has no `openat2`.
    #[error("this kernel offers no openat2, without which links cannot be refused safely")]
    NoOpenat2(#[source] Errno),
}

/// The workspace, open.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Arc<OwnedFd>,
    at: Utf8PathBuf,
    group: u32,
    bounds: Bounds,
    writer: Arc<tokio::sync::Mutex<()>>,
}

impl Workspace {
    /// Opens the folder `at`.
    ///
    /// # Errors
    ///
    /// When the folder is not there, or the kernel cannot open beneath it safely.
    pub fn open(at: &Utf8Path, bounds: Bounds) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Folder {
            at: at.to_owned(),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(at.as_std_path(), flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&root).map_err(failed)?;
        beneath(&root, ".", flags, Mode::empty()).map_err(OpenError::NoOpenat2)?;
        Ok(Self {
            root: Arc::new(root),
            at: at.to_owned(),
            group: stat.st_gid,
            bounds,
            writer: Arc::default(),
        })
    }

    /// The folder as it was named.
    pub fn at(&self) -> &Utf8Path {
        &self.at
    }

    /// The bounds that hold here.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Leaves a new random word in `.kazma-canary`, for a broker that has the workspace to be read alone
    /// ([`super::Options::leave_canary`]). Whoever may read what tools write may read it.
    ///
    /// # Errors
    ///
    /// What the kernel says, when nothing can be written there.
    pub fn leave_canary(&self, entropy: &dyn Entropy) -> std::io::Result<()> {
        let word = nonce::word(entropy);
        Ok(nonce::leave(
            &*self.root,
            &word,
            write::NEW_FILE,
            Some(self.group),
        )?)
    }

    /// Waits until nobody else writes. Held from the second look at the plan until the write is done.
    pub(crate) async fn writer(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.writer).lock_owned().await
    }

    /// Looks whether a database may be read: a regular file with one name, reached through no link, and no store of
    /// Kazma. Gives its path.
    pub(crate) fn database(&self, path: &RelPath) -> Result<String, Refused> {
        if kazma_python::is_store(path.as_str()) {
            return Err(Refused::new(
                "path-store",
                "Kazma keeps a store of its own by this name, which no tool reads. Ask for threads, memory or settings \
                 by the tools for them; a database of yours needs another name.",
            ));
        }
        if ["-wal", "-shm", "-journal"]
            .iter()
            .any(|end| path.as_str().ends_with(end))
        {
            return Err(Refused::new(
                "path-beside",
                "This is what SQLite keeps beside a database. Name the database itself.",
            ));
        }
        regular(&self.root, path.for_open()).map(|_| path.as_str().to_owned())
    }

    /// The digest of a file as it is now; none if there is none.
    pub(crate) fn digest(&self, path: &RelPath) -> Result<Option<Digest>, Refused> {
        match regular(&self.root, path.for_open()) {
            Ok((file, stat)) => {
                let bytes = self.whole(file, &stat)?;
                Ok(Some(Digest::of_bytes(&bytes)))
            }
            Err(refused) if refused.rule == NOT_FOUND => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// The bytes of a file that may be written over.
    fn whole(&self, file: File, stat: &Stat) -> Result<Vec<u8>, Refused> {
        use std::io::Read as _;

        let limit = self.bounds.write_bytes;
        let too_big = || {
            Refused::new(
                "file-too-big",
                format!(
                    "The present file is larger than {limit} bytes, too large to be shown as a change. \
                     Write to a new file instead."
                ),
            )
        };
        if u64::try_from(stat.st_size).is_ok_and(|size| size > limit) {
            return Err(too_big());
        }
        let mut bytes = Vec::new();
        file.take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| {
                Refused::new(
                    "file-unreadable",
                    format!("The file does not read: {error}."),
                )
            })?;
        if u64::try_from(bytes.len()).is_ok_and(|size| size > limit) {
            return Err(too_big());
        }
        Ok(bytes)
    }
}

/// The rule of a refusal because there is nothing of that name.
pub(crate) const NOT_FOUND: &str = "file-missing";

/// Opens `path` beneath `folder`, following no link and never leaving it.
fn beneath(folder: &OwnedFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // EAGAIN: something was renamed while the kernel looked; it cannot tell, so it asks to try again.
    let mut tries = 8;
    loop {
        match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => tries -= 1,
            other => return other,
        }
    }
}

/// Opens a folder beneath `folder`.
fn open_folder(folder: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    beneath(folder, path, flags, Mode::empty())
}

/// Opens a regular file with one name for reading.
///
/// What it is is looked up before it is opened, because merely opening a device can do something.
fn regular(folder: &OwnedFd, path: &str) -> Result<(File, Stat), Refused> {
    let probe = beneath(folder, path, OFlags::PATH, Mode::empty()).map_err(refused)?;
    let seen = rustix::fs::fstat(&probe).map_err(refused)?;
    refuse_special(&seen)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = beneath(folder, path, flags, Mode::empty()).map_err(refused)?;
    let stat = rustix::fs::fstat(&file).map_err(refused)?;
    refuse_special(&stat)?;
    if !same(&seen, &stat) {
        return Err(Refused::new(
            "file-changed",
            "The file was replaced while it was opened. Try again.",
        ));
    }
    Ok((File::from(file), stat))
}

/// Whether two looks saw the same file.
fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn refuse_special(stat: &Stat) -> Result<(), Refused> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(Refused::new(
            "path-hard-link",
            "The file has several names (hard links), and another may lie outside the workspace. Copy it \
             under a new name first.",
        )),
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Refused::new(
            "path-folder",
            "This is a folder. Name a file in it, or list it with file_list.",
        )),
        FileType::Symlink => Err(refused(Errno::LOOP)),
        _ => Err(Refused::new(
            "path-special",
            "This is no regular file but a pipe, socket or device. Tools do not touch these.",
        )),
    }
}

/// What the kernel's answer means, in words.
fn refused(errno: Errno) -> Refused {
    let (rule, reason) = match errno {
        Errno::NOENT => (
            NOT_FOUND,
            "There is no file or folder of that name in the workspace.",
        ),
        Errno::LOOP => (
            "path-symlink",
            "The path leads through a symbolic link, which tools do not follow. Name the file itself.",
        ),
        Errno::XDEV => ("path-outside", "The path leads out of the workspace."),
        Errno::NOTDIR => (
            "path-not-folder",
            "A part of the path is a file, not a folder.",
        ),
        Errno::ACCESS | Errno::PERM => (
            "path-denied",
            "The file's permissions do not let the tools of Kazma touch it.",
        ),
        Errno::NAMETOOLONG => ("path-long", "A part of the path is too long."),
        other => {
            return Refused::new(
                "file-unreadable",
                format!("The file does not open: {other}."),
            );
        }
    };
    Refused::new(rule, reason)
}

#[cfg(test)]
mod tests;
