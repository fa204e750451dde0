//! Writing a file: planned with the present file open, done by one rename.

use std::{fs::File, io::Write as _, os::fd::OwnedFd};

use kazma_domain::{CallId, Digest};
use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

use super::{
    NOT_FOUND, Refused, RelPath, Workspace, beneath, diff, open_folder, refused, regular, same,
};
use crate::executor::Redeemed;

/// The mode of a file that was not there before.
pub(super) const NEW_FILE: u32 = 0o640;
/// The mode of a folder that was not there before.
const NEW_FOLDER: u32 = 0o750;
/// The bit that hands a folder's group on to what is made in it.
const SET_GROUP: u32 = 0o2000;

/// A write as it would happen, with the folder that it would happen in open.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    workspace: Workspace,
    path: RelPath,
    folder: OwnedFd,
    /// The folders beneath `folder` that would be made.
    missing: Vec<String>,
    name: String,
    content: Vec<u8>,
    mode: u32,
    group: u32,
    /// The digest of the present file; none if there is none.
    pub(crate) before: Option<Digest>,
    /// The digest of what would be written.
    pub(crate) after: Digest,
    /// The whole change.
    pub(crate) diff: String,
}

/// Why nothing was written, or why it is not sure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteFailed {
    /// The file is as it was.
    #[error("not written: {0}")]
    Nothing(String),
    /// The new content is in place, but the disk did not confirm it.
    #[error("written, but the disk did not confirm it: {0}")]
    Unsure(String),
}

impl From<Refused> for WriteFailed {
    fn from(refused: Refused) -> Self {
        Self::Nothing(refused.reason)
    }
}

impl Workspace {
    /// Looks at what a write would come to. Nothing is changed.
    pub(crate) fn plan_write(
        &self,
        path: RelPath,
        content: String,
    ) -> Result<PlannedWrite, Refused> {
        path.refuse_git()?;
        self.refuse_content(&content)?;
        let (folders, name) = path.folders_and_name();
        let name = name.to_owned();
        let mut folder = open_folder(&self.root, ".").map_err(refused)?;
        let mut missing: Vec<String> = Vec::new();
        for next in folders {
            if !missing.is_empty() {
                missing.push(next.to_owned());
                continue;
            }
            refuse_git_folder(&folder, next)?;
            match open_folder(&folder, next) {
                Ok(inner) => folder = inner,
                Err(Errno::NOENT) => missing.push(next.to_owned()),
                Err(errno) => return Err(refused(errno)),
            }
        }
        // A folder that is yet to be made would hold this one name, and one makes no repository.
        if missing.is_empty() {
            refuse_git_folder(&folder, &name)?;
        }
        let present = if missing.is_empty() {
            self.present(&folder, &name)?
        } else {
            None
        };
        let (mode, group) = match &present {
            Some(present) => (present.stat.st_mode & 0o777, present.stat.st_gid),
            None => (NEW_FILE, self.group),
        };
        let diff = diff::unified(
            path.as_str(),
            present.as_ref().map(|p| p.bytes.as_slice()),
            &content,
        );
        Ok(PlannedWrite {
            workspace: self.clone(),
            folder,
            missing,
            name,
            mode,
            group,
            before: present.map(|p| Digest::of_bytes(&p.bytes)),
            after: Digest::of_bytes(content.as_bytes()),
            content: content.into_bytes(),
            diff,
            path,
        })
    }

    fn refuse_content(&self, content: &str) -> Result<(), Refused> {
        let limit = self.bounds.write_bytes;
        if content.len() as u64 > limit {
            return Err(Refused::new(
                "content-too-big",
                format!("The content is larger than {limit} bytes. Write it in several files."),
            ));
        }
        if content.contains('\0') {
            return Err(Refused::new(
                "content-binary",
                "The content holds a NUL character, so it is no text. file_write writes text alone.",
            ));
        }
        Ok(())
    }

    fn present(&self, folder: &OwnedFd, name: &str) -> Result<Option<Present>, Refused> {
        match regular(folder, name) {
            Ok((file, stat)) => Ok(Some(Present {
                bytes: self.whole(file, &stat)?,
                stat,
            })),
            Err(refused) if refused.rule == NOT_FOUND => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Removes what an interrupted write of `call` may have left beside `path`.
    pub(crate) fn sweep(&self, path: &RelPath, call: CallId) {
        let (folders, _) = path.folders_and_name();
        let folder = if folders.is_empty() {
            ".".to_owned()
        } else {
            folders.join("/")
        };
        if let Ok(folder) = open_folder(&self.root, &folder) {
            // Not there is the usual case; anything else is only an odd file left behind.
            let _ = rustix::fs::unlinkat(&folder, beside(call), AtFlags::empty());
        }
    }
}

/// The file that would be written over.
struct Present {
    bytes: Vec<u8>,
    stat: Stat,
}

/// The name under which the new content waits in the folder until it takes its place.
fn beside(call: CallId) -> String {
    format!(".kazma-{}.tmp", call.uuid().simple())
}

/// Refuses a folder that holds a repository's data under whatever name, as a bare repository does, or
/// would with `next` in it.
///
/// Git takes a folder for a repository that has `HEAD`, and either `objects` and `refs` or a `commondir`
/// that names where those are (gitrepository-layout(5)).
fn refuse_git_folder(folder: &OwnedFd, next: &str) -> Result<(), Refused> {
    let has = |name: &str| {
        next.eq_ignore_ascii_case(name)
            || rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    if has("HEAD") && (has("commondir") || has("objects") && has("refs")) {
        return Err(Refused::new(
            "path-git",
            "The folder holds a git repository's own data, or would with this file in it. No tool may \
             write that: hooks and settings there would run outside the sandbox.",
        ));
    }
    Ok(())
}

impl PlannedWrite {
    /// Writes. The permit is spent for it.
    ///
    /// The new content is complete and on disk beside the file before it takes its place, and takes it
    /// only if the file is still the one that the plan names.
    pub(crate) fn write(mut self, permit: &Redeemed) -> Result<(), WriteFailed> {
        self.make_folders()
            .map_err(|e| nothing("a folder could not be made", e))?;
        self.check_folder()?;
        let beside = beside(permit.call());
        let result = self.replace(&beside);
        if matches!(result, Err(WriteFailed::Nothing(_))) {
            let _ = rustix::fs::unlinkat(&self.folder, &beside, AtFlags::empty());
        }
        result
    }

    fn make_folders(&mut self) -> Result<(), Errno> {
        for name in std::mem::take(&mut self.missing) {
            match rustix::fs::mkdirat(&self.folder, name.as_str(), Mode::from(NEW_FOLDER)) {
                Ok(()) => {
                    rustix::fs::fsync(&self.folder)?;
                    self.folder = open_folder(&self.folder, &name)?;
                    // The mode above is cut by this process's mask; this one is not. It is set only where
                    // that has happened: who is not in the folder's group takes the bit that hands it on
                    // away by setting any mode (chmod(2)), and could then give no file to the group.
                    let made = rustix::fs::fstat(&self.folder)?.st_mode;
                    if made & 0o777 != NEW_FOLDER {
                        rustix::fs::fchmod(
                            &self.folder,
                            Mode::from(NEW_FOLDER | made & SET_GROUP),
                        )?;
                    }
                }
                // Somebody made it meanwhile; it is looked at like any other.
                Err(Errno::EXIST) => self.folder = open_folder(&self.folder, &name)?,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The folder must still be what its path leads to: it may have been moved away, with a link or
    /// another folder in its place.
    fn check_folder(&self) -> Result<(), WriteFailed> {
        let (folders, _) = self.path.folders_and_name();
        let path = if folders.is_empty() {
            ".".to_owned()
        } else {
            folders.join("/")
        };
        let now = open_folder(&self.workspace.root, &path).map_err(refused)?;
        let stats = (rustix::fs::fstat(&now), rustix::fs::fstat(&self.folder));
        match stats {
            (Ok(now), Ok(held)) if same(&now, &held) => Ok(()),
            _ => Err(WriteFailed::Nothing(
                "the folder was moved meanwhile".to_owned(),
            )),
        }
    }

    fn replace(&self, beside: &str) -> Result<(), WriteFailed> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let new = beneath(&self.folder, beside, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| nothing("the folder takes no new file", e))?;
        let mut new = File::from(new);
        new.write_all(&self.content)
            .map_err(|error| WriteFailed::Nothing(format!("the disk does not take it: {error}")))?;
        self.dress(&new)
            .map_err(|e| nothing("its mode or group could not be set", e))?;
        rustix::fs::fsync(&new).map_err(|e| nothing("the disk does not confirm it", e))?;
        // The last look, as late as can be.
        let present = self.workspace.present(&self.folder, &self.name)?;
        if present.as_ref().map(|p| Digest::of_bytes(&p.bytes)) != self.before {
            return Err(WriteFailed::Nothing(
                "the file was changed by somebody else meanwhile".to_owned(),
            ));
        }
        // A file that was not there must still not be there; one that was is replaced.
        let flags = if present.is_some() {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        rustix::fs::renameat_with(
            &self.folder,
            beside,
            &self.folder,
            self.name.as_str(),
            flags,
        )
        .map_err(|e| nothing("it could not take its place", e))?;
        rustix::fs::fsync(&self.folder).map_err(|e| WriteFailed::Unsure(e.to_string()))
    }

    fn dress(&self, file: &File) -> Result<(), Errno> {
        if rustix::fs::fstat(file)?.st_gid != self.group {
            rustix::fs::fchown(file, None, Some(Gid::from_raw(self.group)))?;
        }
        rustix::fs::fchmod(file, Mode::from(self.mode))
    }
}

fn nothing(what: &str, errno: Errno) -> WriteFailed {
    WriteFailed::Nothing(format!("{what}: {errno}"))
}
