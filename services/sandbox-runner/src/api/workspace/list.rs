//! Listing a folder.

use std::{collections::BTreeSet, fmt::Write as _, os::fd::OwnedFd};

use rustix::{
    fs::{AtFlags, Dir, FileType},
    io::Errno,
};

use super::{Pattern, Refused, RelPath, Returned, Workspace, open_folder, refused};
use crate::executor::Redeemed;

/// A folder, open, and which of its names would be listed.
#[derive(Debug)]
pub(crate) struct PlannedList {
    folder: OwnedFd,
    pattern: Option<Pattern>,
    most: usize,
}

impl Workspace {
    /// Opens what would be listed. No name in it is looked at.
    pub(crate) fn plan_list(
        &self,
        path: &RelPath,
        pattern: Option<Pattern>,
    ) -> Result<PlannedList, Refused> {
        let folder = open_folder(&self.root, path.for_open()).map_err(|errno| match errno {
            Errno::NOTDIR => Refused::new(
                "path-not-folder",
                "This, or a part of the path, is not a folder. Read a file with file_read.",
            ),
            other => refused(other),
        })?;
        Ok(PlannedList {
            folder,
            pattern,
            most: self.bounds.list_entries,
        })
    }
}

impl PlannedList {
    /// Lists. The permit is spent for it.
    pub(crate) fn list(self, _: &Redeemed) -> Result<Returned, String> {
        let unreadable = |errno: Errno| format!("the folder does not read: {errno}");
        // Only the first names in order are kept, so that a folder of millions costs no memory.
        let mut first = BTreeSet::new();
        let mut total = 0_usize;
        for entry in Dir::read_from(&self.folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || !self.wants(name) {
                continue;
            }
            total += 1;
            first.insert(name.to_vec());
            if first.len() > self.most {
                first.pop_last();
            }
        }
        let mut text = String::new();
        for name in &first {
            // One that vanished meanwhile is simply not there.
            if let Ok(line) = self.line(name) {
                text.push_str(&line);
            }
        }
        let rest = total - first.len();
        if total == 0 {
            text.push_str("(nothing)\n");
        }
        if rest > 0 {
            let _ = writeln!(
                text,
                "[cut here: {} of {total} entries shown; narrow it with pattern]",
                first.len()
            );
        }
        Ok(Returned {
            total_bytes: text.len() as u64,
            text,
            truncated: rest > 0,
            summary: format!("{total} {}", if total == 1 { "entry" } else { "entries" }),
        })
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.fits(&String::from_utf8_lossy(name)))
    }

    fn line(&self, name: &[u8]) -> Result<String, Errno> {
        let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let shown = shown(name);
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => format!("file {:>10} {shown}\n", stat.st_size),
            FileType::Directory => format!("folder        - {shown}/\n"),
            FileType::Symlink => format!("link          - {shown} (not followed)\n"),
            FileType::Fifo => format!("pipe          - {shown}\n"),
            FileType::Socket => format!("socket        - {shown}\n"),
            _ => format!("device        - {shown}\n"),
        })
    }
}

/// A name on one line: bytes that are no text, and characters that would break the line, are escaped.
fn shown(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}
