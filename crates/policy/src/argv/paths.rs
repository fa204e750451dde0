//! Where a path really leads.

use std::fmt::Debug;

use super::{Refusal, verdict::refuse};

/// Links on the way of one path, as many as Linux follows.
const LINKS: u32 = 40;
/// The longest path, in bytes, as in Linux.
const LONGEST: usize = 4096;

/// The workspace's files. Given by who calls the judge; the judge itself opens nothing.
pub trait Tree: Debug {
    /// The workspace: absolute, without links, `.` or `..`, without a slash at its end.
    fn root(&self) -> &str;

    /// What is at an absolute path beneath the root. The path's last name is not followed, and no other name in it is
    /// a link.
    fn entry(&self, path: &str) -> Entry;

    /// The whole content of a file beneath the root, if it can be read and is not longer than `limit` bytes.
    fn read(&self, path: &str, limit: usize) -> Option<Vec<u8>>;

    /// The names in a folder beneath the root, if it can be read and has not more than `limit`.
    fn list(&self, path: &str, limit: usize) -> Option<Vec<String>>;
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A folder.
    Folder,
    /// An ordinary file.
    File,
    /// A symbolic link, with what is written in it.
    Link(String),
    /// A device, pipe or socket, or what could not be looked at.
    Other,
}

/// The workspace, seen from the folder the command starts in.
#[derive(Debug, Clone)]
pub(super) struct Workspace<'a> {
    pub(super) tree: &'a dyn Tree,
    /// Absolute, without links.
    pub(super) cwd: String,
}

/// A path, followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Absolute, without links, beneath the root or the root itself.
    pub(super) path: String,
    /// Never a link.
    pub(super) entry: Entry,
}

impl<'a> Workspace<'a> {
    /// Starts in `cwd`.
    pub(super) fn enter(tree: &'a dyn Tree, cwd: Option<&str>) -> Result<Self, Refusal> {
        let root = Self {
            tree,
            cwd: tree.root().to_owned(),
        };
        match cwd {
            None => Ok(root),
            Some(cwd) => root.within(cwd),
        }
    }

    /// The same workspace, seen from another folder in it.
    pub(super) fn within(&self, folder: &str) -> Result<Self, Refusal> {
        let place = self.follow(folder)?;
        if place.entry != Entry::Folder {
            return refuse!("`{folder}` is not a folder in the workspace");
        }
        Ok(Self {
            tree: self.tree,
            cwd: place.path,
        })
    }

    /// Follows a path, with every link in it.
    pub(super) fn follow(&self, path: &str) -> Result<Place, Refusal> {
        self.walk(path, true)
    }

    /// Follows a path up to its last name, which may be a link.
    pub(super) fn follow_parents(&self, path: &str) -> Result<Place, Refusal> {
        self.walk(path, path.ends_with('/'))
    }

    /// A path that is to be read.
    pub(super) fn readable(&self, path: &str) -> Result<Place, Refusal> {
        let place = self.follow(path)?;
        if place.entry == Entry::Other {
            return refuse!("`{path}` is neither a file nor a folder");
        }
        Ok(place)
    }

    /// A path that is to be written: beneath the workspace, and not in what steers git.
    pub(super) fn writable(&self, path: &str) -> Result<Place, Refusal> {
        let place = self.readable(path)?;
        self.not_git(path, &place.path)?;
        Ok(place)
    }

    /// Refuses a place in a git folder: what is written there is run by git, here or on the person's own machine.
    pub(super) fn not_git(&self, said: &str, path: &str) -> Result<(), Refusal> {
        if self
            .below_root(path)
            .split('/')
            .any(|name| name.eq_ignore_ascii_case(".git"))
        {
            return refuse!("`{said}` is in a .git folder, which steers what git runs");
        }
        Ok(())
    }

    /// A path from the root, without a slash before it.
    pub(super) fn below_root<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.tree.root())
            .unwrap_or(path)
            .trim_start_matches('/')
    }

    /// Whether no link beneath `folder` leads out of the workspace, or from elsewhere into a git folder. Looks at no more
    /// than `limit` entries, and says no when there are more.
    pub(super) fn keeps_inside(&self, folder: &str, limit: usize) -> bool {
        let mut open = vec![folder.to_owned()];
        let mut left = limit;
        while let Some(folder) = open.pop() {
            let Some(names) = self.tree.list(&folder, left) else {
                return false;
            };
            left = left.saturating_sub(names.len());
            for name in names {
                let path = format!("{folder}/{name}");
                match self.tree.entry(&path) {
                    Entry::Folder => open.push(path),
                    Entry::Link(_) if !self.link_keeps_inside(&path) => return false,
                    Entry::Link(_) | Entry::File | Entry::Missing => {}
                    Entry::Other => return false,
                }
            }
        }
        true
    }

    fn link_keeps_inside(&self, link: &str) -> bool {
        self.follow(link).is_ok_and(|place| {
            self.not_git(link, &place.path).is_ok() || self.not_git(link, link).is_err()
        })
    }

    /// Whether a `.git` is anywhere beneath a folder, or could be: there is more than `limit` to look at.
    pub(super) fn may_hold_git(&self, folder: &str, limit: usize) -> bool {
        let mut open = vec![folder.to_owned()];
        let mut left = limit;
        while let Some(folder) = open.pop() {
            if self.tree.entry(&folder) != Entry::Folder {
                continue;
            }
            let Some(names) = self.tree.list(&folder, left) else {
                return true;
            };
            if names.iter().any(|name| name.eq_ignore_ascii_case(".git")) {
                return true;
            }
            left = left.saturating_sub(names.len());
            open.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
        }
        false
    }

    fn walk(&self, path: &str, last: bool) -> Result<Place, Refusal> {
        let outside = || {
            Refusal::new(format_args!(
                "`{}` leads out of the workspace",
                path.escape_debug()
            ))
        };
        if path.is_empty() {
            return refuse!("an empty path");
        }
        if path.len() > LONGEST {
            return refuse!("a path of more than {LONGEST} bytes");
        }
        let root = self.tree.root();
        let mut at = if path.starts_with('/') {
            root.to_owned()
        } else {
            self.cwd.clone()
        };
        // Names still to come, the next one last.
        let mut names: Vec<String> = beneath(root, path)
            .ok_or_else(outside)?
            .rev()
            .map(str::to_owned)
            .collect();
        let mut links = 0;
        let mut entry = Entry::Folder;
        while let Some(name) = names.pop() {
            if name == ".." {
                if entry != Entry::Folder || at == root {
                    return Err(outside());
                }
                at.truncate(at.rfind('/').ok_or_else(outside)?);
                continue;
            }
            match entry {
                Entry::Folder | Entry::Missing => {}
                _ => return refuse!("`{path}` goes through what is not a folder"),
            }
            at = format!("{at}/{name}");
            if entry == Entry::Missing {
                continue;
            }
            entry = self.tree.entry(&at);
            if let Entry::Link(target) = &entry {
                if names.is_empty() && !last {
                    break;
                }
                links += 1;
                if links > LINKS {
                    return refuse!("`{path}` has too many links");
                }
                if target.starts_with('/') {
                    root.clone_into(&mut at);
                } else {
                    at.truncate(at.rfind('/').ok_or_else(outside)?);
                }
                let more = beneath(root, target).ok_or_else(outside)?.rev();
                names.extend(more.map(str::to_owned));
                entry = Entry::Folder;
            }
        }
        Ok(Place { path: at, entry })
    }
}

/// The names of a path: all of them of a relative one, those beneath the root of an absolute one.
fn beneath<'p>(root: &str, path: &'p str) -> Option<impl DoubleEndedIterator<Item = &'p str>> {
    let inner = if path.starts_with('/') {
        // Compared name by name, so that doubled slashes and dots on the way do not matter.
        let mut rest = path;
        for wanted in root.split('/').filter(|name| !name.is_empty()) {
            rest = rest.trim_start_matches('/');
            while let Some(after) = rest.strip_prefix("./") {
                rest = after.trim_start_matches('/');
            }
            let after = rest.strip_prefix(wanted)?;
            if !after.is_empty() && !after.starts_with('/') {
                return None;
            }
            rest = after;
        }
        rest
    } else {
        path
    };
    Some(
        inner
            .split('/')
            .filter(|name| !name.is_empty() && *name != "."),
    )
}
