//! The workspace as it lies on disk, for the judge of argument lists.
//!
//! **Invariant:** it only looks. What it says is true when it looks; the jail's own view of the workspace is what keeps
//! a command inside when a file changes afterwards.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use kazma_policy::argv::{Entry, Tree};

/// A folder on disk.
#[derive(Debug, Clone)]
pub struct Disk {
    root: String,
}

impl Disk {
    /// Opens a workspace.
    ///
    /// # Errors
    ///
    /// It is not a folder, its path is not UTF-8, or it is the whole machine.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let root = folder.canonicalize()?;
        if !root.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "the workspace is not a folder",
            ));
        }
        match root.to_str() {
            Some("/") => Err(io::Error::other("the whole machine cannot be a workspace")),
            Some(root) => Ok(Self {
                root: root.to_owned(),
            }),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the workspace's path is not UTF-8",
            )),
        }
    }
}

impl Tree for Disk {
    fn root(&self) -> &str {
        &self.root
    }

    fn entry(&self, path: &str) -> Entry {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::read_link(path)
                .ok()
                .and_then(|target| target.into_os_string().into_string().ok())
                .map_or(Entry::Other, Entry::Link),
            Ok(found) if found.is_dir() => Entry::Folder,
            Ok(found) if found.is_file() => Entry::File,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Entry::Missing,
            Ok(_) | Err(_) => Entry::Other,
        }
    }

    fn read(&self, path: &str, limit: usize) -> Option<Vec<u8>> {
        // A pipe that took the file's place would block for ever.
        if !fs::symlink_metadata(path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).ok()?.saturating_add(1);
        File::open(path)
            .ok()?
            .take(most)
            .read_to_end(&mut bytes)
            .ok()?;
        (bytes.len() <= limit).then_some(bytes)
    }

    fn list(&self, path: &str, limit: usize) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).ok()? {
            if names.len() == limit {
                return None;
            }
            names.push(entry.ok()?.file_name().into_string().ok()?);
        }
        Some(names)
    }
}
