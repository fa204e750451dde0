//! A service's own key folder: what nobody else may read.

use std::{
    io::{ErrorKind, Read, Write},
    os::fd::OwnedFd,
};

use camino::Utf8Path;
use rustix::fs::{Mode, OFlags, openat, renameat};

use crate::MeshError;

/// A folder of mode 0700 whose files are of mode 0600.
#[derive(Debug)]
pub struct KeyFolder {
    folder: OwnedFd,
}

impl KeyFolder {
    /// Opens `path`; makes it where it is missing.
    ///
    /// # Errors
    ///
    /// Says what the operating system says.
    pub fn open(path: &Utf8Path) -> Result<Self, MeshError> {
        let failed = |source: std::io::Error| MeshError::Folder {
            what: format!("open {path}"),
            source,
        };
        match rustix::fs::mkdir(path.as_std_path(), Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path.as_std_path(), flags, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        Ok(Self { folder })
    }

    /// The content of a file; none where there is no such file.
    ///
    /// # Errors
    ///
    /// Says what the operating system says; refuses a file that is no text or over 64 KiB.
    pub fn read(&self, name: &str) -> Result<Option<String>, MeshError> {
        let failed = |source: std::io::Error| MeshError::Folder {
            what: format!("read {name}"),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => std::fs::File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut text = String::new();
        file.take(64 * 1024)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Ok(Some(text))
    }

    /// Puts a file in place, whole or not at all, and on disk before it returns.
    ///
    /// # Errors
    ///
    /// Says what the operating system says.
    pub fn write(&self, name: &str, content: &str) -> Result<(), MeshError> {
        let failed = |source: std::io::Error| MeshError::Folder {
            what: format!("write {name}"),
            source,
        };
        let temporary = format!(".{name}.new");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(
            &self.folder,
            temporary.as_str(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(|error| failed(error.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(content.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        renameat(&self.folder, temporary.as_str(), &self.folder, name)
            .and_then(|()| rustix::fs::fsync(&self.folder))
            .map_err(|error| failed(error.into()))
    }

    /// Takes a file away; fine where there is none.
    ///
    /// # Errors
    ///
    /// Says what the operating system says.
    pub fn remove(&self, name: &str) -> Result<(), MeshError> {
        let result = rustix::fs::unlinkat(&self.folder, name, rustix::fs::AtFlags::empty());
        match result.map_err(std::io::Error::from) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(MeshError::Folder {
                what: format!("remove {name}"),
                source: error,
            }),
            _ => Ok(()),
        }
    }
}
