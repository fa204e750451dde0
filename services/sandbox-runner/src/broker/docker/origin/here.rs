//! What the kernel shows a process of the container that it may be in. Nothing here is believed before an engine
//! has said the same.

use std::{
    fs::File,
    io::{self, Read},
};

use camino::{Utf8Path, Utf8PathBuf};

/// Bytes of a file of `/proc` that are read: tens of thousands of mounts.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// Digits of a container's id.
const ID: usize = 64;
/// Digits of an id that engines make a container's host name of.
const SHORT_ID: usize = 12;
/// Files that engines mount into each container from the folder that they keep for it.
const OF_THE_ENGINE: [&str; 4] = [
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/.containerenv",
];

/// One mount of this process's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mounted {
    /// What of its file system is mounted.
    pub(super) root: Utf8PathBuf,
    /// Where.
    pub(super) place: Utf8PathBuf,
    pub(super) read_only: bool,
}

/// What a process finds around itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Here {
    pub(super) mounts: Vec<Mounted>,
    /// Whole ids of containers that this may be, the likeliest first.
    pub(super) ids: Vec<String>,
    /// The host name, where it could be the beginning of an id.
    pub(super) short_id: Option<String>,
}

impl Here {
    /// Looks around.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub(super) fn look() -> io::Result<Self> {
        Ok(Self::parse(
            &read("/proc/self/mountinfo")?,
            // A kernel without control groups has none.
            &read("/proc/self/cgroup").unwrap_or_default(),
            read("/proc/sys/kernel/hostname").unwrap_or_default().trim(),
        ))
    }

    /// The same from the contents of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`) and `/proc/self/cgroup`
    /// (cgroups(7)), and from the host name.
    pub(super) fn parse(mountinfo: &str, cgroup: &str, hostname: &str) -> Self {
        let mounts: Vec<Mounted> = mountinfo.lines().filter_map(mounted).collect();
        let own_files = mounts
            .iter()
            .filter(|mount| OF_THE_ENGINE.contains(&mount.place.as_str()))
            .filter_map(|mount| kept_for(&mount.root));
        let mut ids: Vec<String> = Vec::new();
        for id in cgroup.lines().filter_map(grouped).chain(own_files) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let short = (SHORT_ID..=ID).contains(&hostname.len()) && is_hex(hostname);
        Self {
            mounts,
            ids,
            short_id: short.then(|| hostname.to_owned()),
        }
    }

    /// The mount at `place`: of several the one on top, which came last.
    pub(super) fn at(&self, place: &Utf8Path) -> Option<&Mounted> {
        self.mounts.iter().rev().find(|mount| mount.place == place)
    }

    /// The mount that `path` lies on.
    pub(super) fn under(&self, path: &Utf8Path) -> Option<&Mounted> {
        path.ancestors().find_map(|place| self.at(place))
    }
}

fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `36 35 98:0 /root /place ro,noatime master:1 - ext4 /dev/x rw`.
fn mounted(line: &str) -> Option<Mounted> {
    let mut fields = line.split(' ').skip(3);
    let (root, place, options) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Mounted {
        root: unescaped(root)?.into(),
        place: unescaped(place)?.into(),
        read_only: options.split(',').any(|option| option == "ro"),
    })
}

/// Spaces, tabs, ends of lines and backslashes are written as a backslash and three octal digits.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(3)?;
        bytes.push(u8::from_str_radix(digits, 8).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// The container that an engine keeps a folder for: Docker's `…/containers/ID/…`, Podman's
/// `…/overlay-containers/ID/userdata/…`.
fn kept_for(root: &Utf8Path) -> Option<String> {
    let names: Vec<&str> = root.as_str().split('/').collect();
    names.windows(2).rev().find_map(|pair| match pair {
        [folder, id] if *folder == "containers" || folder.ends_with("-containers") => {
            is_id(id).then(|| (*id).to_owned())
        }
        _ => None,
    })
}

/// The container of a line `4:memory:/docker/ID`; of `docker-ID.scope`, `libpod-ID` and the like. The innermost.
fn grouped(line: &str) -> Option<String> {
    let path = line.splitn(3, ':').nth(2)?;
    path.split('/').rev().find_map(|name| {
        let name = name.strip_suffix(".scope").unwrap_or(name);
        let id = name.rsplit('-').next().unwrap_or(name);
        is_id(id).then(|| id.to_owned())
    })
}

fn is_id(text: &str) -> bool {
    text.len() == ID && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
