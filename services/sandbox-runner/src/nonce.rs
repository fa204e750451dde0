//! The word in the workspace by which two know that they see the same one.
//!
//! The broker reads it on one way and a sandbox on the other. Who leaves it is who can write there: the broker itself,
//! for the time of one look; or, where the broker has the workspace to be read alone, the runner's api whenever it
//! starts.
//!
//! It is no secret and nothing hangs on who reads it: every sandbox may, tools list it like any file, and who may
//! write in the workspace may change it, for both see the change. It shows that two folders are one. It would be
//! fooled by a copy of the workspace, the word in it; where the kernel is the machine's own, device and inode are
//! compared as well, and they are not copied.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsFd,
};

use camino::Utf8Path;
use kazma_domain::Entropy;
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags},
    io::Errno,
};

/// The file's name in the workspace.
pub(crate) const FILE: &str = ".kazma-canary";
/// Where the next one is written before it takes its place, so that nobody reads half a word.
const NEXT: &str = ".kazma-canary.next";
/// Characters of a word: hexadecimal digits.
const LENGTH: u8 = 32;

/// Why there is no word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoWord {
    /// The file does not open.
    #[error("{0}")]
    Closed(Errno),
    /// It is a link or a folder, or holds something else.
    #[error("it is not a file with {LENGTH} hexadecimal digits and nothing else")]
    Odd,
}

/// A word that nobody has said before.
pub(crate) fn word(entropy: &dyn Entropy) -> String {
    let mut random = [0_u8; LENGTH as usize / 2];
    entropy.fill(&mut random);
    hex::encode(random)
}

/// Leaves `word` in `folder`, in place of whatever file or link had the name. No link is followed.
///
/// # Errors
///
/// What the kernel says, when nothing can be written there.
pub(crate) fn leave(
    folder: impl AsFd,
    word: &str,
    mode: u32,
    group: Option<u32>,
) -> Result<(), Errno> {
    let folder = folder.as_fd();
    // One that a killed process left half written. A name that cannot be taken away is met again below.
    let _ = rustix::fs::unlinkat(folder, NEXT, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let next = rustix::fs::openat(folder, NEXT, flags, Mode::RUSR | Mode::WUSR)?;
    let left = fill(&mut File::from(next), word, mode, group)
        .and_then(|()| rustix::fs::renameat(folder, NEXT, folder, FILE));
    if left.is_err() {
        let _ = rustix::fs::unlinkat(folder, NEXT, AtFlags::empty());
    }
    left
}

fn fill(file: &mut File, word: &str, mode: u32, group: Option<u32>) -> Result<(), Errno> {
    file.write_all(word.as_bytes())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let has = rustix::fs::fstat(&*file)?.st_gid;
    if let Some(group) = group.filter(|group| *group != has) {
        rustix::fs::fchown(&*file, None, Some(Gid::from_raw(group)))?;
    }
    // The umask may have taken from a mode that is given when a file is made.
    rustix::fs::fchmod(&*file, Mode::from(mode))
}

/// Takes the word away again.
pub(crate) fn take_away(folder: impl AsFd) {
    // Not there, or not ours any more: then there is nothing to take.
    let _ = rustix::fs::unlinkat(folder, FILE, AtFlags::empty());
}

/// The word that somebody else has left in the workspace.
///
/// # Errors
///
/// When there is none, or something else is in its place.
pub(crate) fn read(workspace: &Utf8Path) -> Result<String, NoWord> {
    // A pipe in its place would otherwise wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = workspace.join(FILE);
    let file = rustix::fs::open(path.as_std_path(), flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| match errno {
            Errno::LOOP => NoWord::Odd,
            other => NoWord::Closed(other),
        })?;
    let found = rustix::fs::fstat(&file).map_err(NoWord::Closed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(NoWord::Odd);
    }
    let mut word = String::new();
    File::from(file)
        .take(u64::from(LENGTH) + 1)
        .read_to_string(&mut word)
        .map_err(|_| NoWord::Odd)?;
    if is_word(&word) {
        Ok(word)
    } else {
        Err(NoWord::Odd)
    }
}

/// Whether it has the form of a word.
pub(crate) fn is_word(text: &str) -> bool {
    text.len() == usize::from(LENGTH)
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use camino::Utf8PathBuf;
    use kazma_runtime::SystemEntropy;

    use super::*;

    fn ground() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
        (folder, path)
    }

    fn left(at: &Utf8Path, word: &str) -> Result<(), Errno> {
        leave(File::open(at).unwrap(), word, 0o640, None)
    }

    #[test]
    fn what_one_leaves_another_reads() {
        let (_folder, at) = ground();
        assert_eq!(read(&at), Err(NoWord::Closed(Errno::NOENT)));
        let (one, two) = (word(&SystemEntropy), word(&SystemEntropy));
        assert!(one != two && is_word(&one), "{one} {two}");
        for said in [one, two] {
            left(&at, &said).unwrap();
            assert_eq!(read(&at), Ok(said));
        }
        let found = std::fs::metadata(at.join(FILE)).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 1);
        take_away(File::open(&at).unwrap());
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    }

    #[test]
    fn the_folders_group_gets_it() {
        if !rustix::process::geteuid().is_root() {
            // Nobody else may give a file to a group that is not theirs.
            return;
        }
        let (_folder, at) = ground();
        let word = word(&SystemEntropy);
        leave(File::open(&at).unwrap(), &word, 0o640, Some(65_534)).unwrap();
        assert_eq!(std::fs::metadata(at.join(FILE)).unwrap().gid(), 65_534);
    }

    #[test]
    fn no_link_is_followed_to_write() {
        let (_folder, at) = ground();
        let (_other, elsewhere) = ground();
        let target = elsewhere.join("target");
        std::fs::write(&target, "as it was").unwrap();
        for name in [FILE, NEXT] {
            symlink(&target, at.join(name)).unwrap();
        }
        let word = word(&SystemEntropy);
        left(&at, &word).unwrap();
        assert_eq!(read(&at), Ok(word));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "as it was");
    }

    #[test]
    fn a_folder_in_its_place_is_left_alone() {
        let (_folder, at) = ground();
        std::fs::create_dir_all(at.join(FILE).join("full")).unwrap();
        assert!(left(&at, &word(&SystemEntropy)).is_err());
        assert_eq!(read(&at), Err(NoWord::Odd));
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 1);
    }

    #[test]
    fn whatever_else_is_there_is_no_word() {
        let (_folder, at) = ground();
        let file = at.join(FILE);
        let good = word(&SystemEntropy);
        for bad in [
            "",
            &good[1..],
            &format!("{good}\n"),
            &format!("{good}0"),
            &good.replace(|_: char| true, "G"),
            &format!("{}é", &good[2..]),
        ] {
            std::fs::write(&file, bad).unwrap();
            assert_eq!(read(&at), Err(NoWord::Odd), "{bad:?}");
        }
        std::fs::write(&file, [0xff_u8; 32]).unwrap();
        assert_eq!(read(&at), Err(NoWord::Odd));
        std::fs::remove_file(&file).unwrap();
        std::fs::write(at.join("word"), &good).unwrap();
        symlink(at.join("word"), &file).unwrap();
        assert_eq!(read(&at), Err(NoWord::Odd));
        std::fs::remove_file(&file).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, file.as_std_path(), FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read(&at), Err(NoWord::Odd));
    }
}
