//! What of the workspace one sandbox may write, looked at just before it is mounted.

use std::os::fd::OwnedFd;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2},
    io::Errno,
};

use super::Place;

/// The most folders that one run may write.
pub const WRITABLE_MAX: usize = 8;

/// What one sandbox may write beyond its own `/tmp`. Without it, all of the workspace is read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Folders from the workspace, none beneath another, in order; an empty path is all of it.
    pub(crate) folders: Vec<String>,
    /// What they were.
    pub(crate) places: Vec<Place>,
    /// Who writes: the workspace's owner, so that what is made belongs to who made the rest.
    pub(crate) writer: Writer,
}

/// The user and group that a run with write access has outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Why a folder cannot be made writable for a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No run may be root.
    #[error("{0} belongs to root, and no run may be root; give the folder to another user")]
    Root(Utf8PathBuf),
    /// The path could lead somewhere else.
    #[error("{0:?} is no plain path beneath the workspace")]
    Path(String),
    /// Too many.
    #[error("more than {WRITABLE_MAX} folders")]
    Many,
    /// It is not there, or is reached through a link.
    #[error("{path} cannot be opened beneath the workspace: {error}")]
    Closed {
        /// Which.
        path: String,
        /// What the kernel said.
        error: Errno,
    },
    /// It is a file or something else.
    #[error("{0} is not a folder")]
    NoFolder(String),
}

impl Writer {
    /// Who writes in this workspace.
    ///
    /// # Errors
    ///
    /// When it belongs to root, or cannot be looked at.
    pub(crate) fn of(workspace: &Utf8Path) -> Result<Self, AccessError> {
        let found =
            rustix::fs::lstat(workspace.as_std_path()).map_err(closed(workspace.as_str()))?;
        if found.st_uid == 0 {
            return Err(AccessError::Root(workspace.to_owned()));
        }
        Ok(Self {
            uid: found.st_uid,
            gid: found.st_gid,
        })
    }
}

impl Access {
    /// Looks at the folders that a run shall write.
    ///
    /// # Errors
    ///
    /// Says which one cannot be, and why.
    pub fn look(workspace: &Utf8Path, folders: &[String]) -> Result<Self, AccessError> {
        if folders.len() > WRITABLE_MAX {
            return Err(AccessError::Many);
        }
        if let Some(bad) = folders.iter().find(|path| !is_plain(path)) {
            return Err(AccessError::Path(bad.clone()));
        }
        let writer = Writer::of(workspace)?;
        let root = folder(
            rustix::fs::CWD,
            workspace.as_str(),
            ResolveFlags::NO_SYMLINKS,
        )?;
        let folders = outermost(folders);
        let places = folders
            .iter()
            .map(|path| {
                let name = if path.is_empty() { "." } else { path };
                let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let found = folder(&root, name, beneath)?;
                let found = fstat(&found).map_err(closed(path))?;
                Ok(Place {
                    path: path.clone(),
                    device: found.st_dev,
                    inode: found.st_ino,
                })
            })
            .collect::<Result<_, AccessError>>()?;
        Ok(Self {
            folders,
            places,
            writer,
        })
    }
}

/// Whether a path is empty, or plain names with a slash between.
pub(crate) fn is_plain(path: &str) -> bool {
    path.is_empty()
        || path.len() < 4096
            && !path.contains('\0')
            && Utf8Path::new(path)
                .components()
                .all(|part| matches!(part, Utf8Component::Normal(_)))
            && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// The folders without those that lie in another, in order.
fn outermost(folders: &[String]) -> Vec<String> {
    let mut all: Vec<&str> = folders.iter().map(String::as_str).collect();
    all.sort_unstable();
    all.dedup();
    let lies_in = |path: &str, other: &str| {
        other != path && (other.is_empty() || Utf8Path::new(path).starts_with(other))
    };
    all.iter()
        .filter(|path| !all.iter().any(|other| lies_in(path, other)))
        .map(|path| (*path).to_owned())
        .collect()
}

fn folder(
    at: impl std::os::fd::AsFd,
    path: &str,
    resolve: ResolveFlags,
) -> Result<OwnedFd, AccessError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(at, path, flags, Mode::empty(), resolve).map_err(closed(path))?;
    let kind = fstat(&found).map_err(closed(path))?.st_mode;
    if FileType::from_raw_mode(kind) == FileType::Directory {
        Ok(found)
    } else {
        Err(AccessError::NoFolder(path.to_owned()))
    }
}

fn closed(path: &str) -> impl FnOnce(Errno) -> AccessError + use<> {
    let path = path.to_owned();
    move |error| AccessError::Closed { path, error }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn owned(folders: &[&str]) -> Vec<String> {
        folders.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn only_plain_paths_are_plain() {
        for good in ["", "a", "a/b c", ".git", "-x"] {
            assert!(is_plain(good), "{good:?}");
        }
        for bad in ["/", "/a", ".", "..", "a/..", "a/./b", "a//b", "a/", "a\0b"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }

    #[test]
    fn what_lies_in_another_is_not_named_twice() {
        assert_eq!(
            outermost(&owned(&["b", "a/x", "a", "ab", "a"])),
            ["a", "ab", "b"]
        );
        assert_eq!(outermost(&owned(&["a", ""])), [""]);
    }

    #[test]
    fn a_link_a_file_and_what_is_missing_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        std::fs::create_dir(workspace.join("real")).unwrap();
        std::fs::write(workspace.join("file"), "").unwrap();
        symlink("/etc", workspace.join("link")).unwrap();
        symlink("real", workspace.join("inner")).unwrap();
        let look = |path: &str| Access::look(&workspace, &owned(&[path]));
        if std::fs::metadata(&workspace).unwrap().uid() == 0 {
            assert_eq!(look("real"), Err(AccessError::Root(workspace.clone())));
            std::os::unix::fs::chown(&workspace, Some(61_102), Some(65_534)).unwrap();
        }
        let access = look("real").unwrap();
        let found = std::fs::metadata(workspace.join("real")).unwrap();
        assert_eq!(
            access.places,
            [Place {
                path: "real".to_owned(),
                device: found.dev(),
                inode: found.ino()
            }]
        );
        assert!(look("").is_ok());
        for bad in ["link", "inner", "file", "missing", "real/..", "/etc"] {
            assert!(look(bad).is_err(), "{bad}");
        }
    }
}
