//! Where the kernel shows this process its control groups.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Controller, Place, Version};

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// Which part of the hierarchy is mounted.
    root: String,
    point: PathBuf,
    /// `None` for version two.
    controllers: Option<Vec<String>>,
}

/// The hierarchies that are mounted, and where in each this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    mounts: Vec<Mount>,
    /// Controllers of a line of `/proc/self/cgroup`, and the path. No controllers: version two.
    own: Vec<(Vec<String>, String)>,
}

impl Layout {
    pub(super) fn read() -> io::Result<Self> {
        Ok(Self::parse(
            &fs::read_to_string("/proc/self/mountinfo")?,
            &fs::read_to_string("/proc/self/cgroup")?,
        ))
    }

    fn parse(mountinfo: &str, own: &str) -> Self {
        Self {
            mounts: mountinfo.lines().filter_map(mount).collect(),
            own: own.lines().filter_map(own_group).collect(),
        }
    }

    /// For each controller the folder of this process's own group, version one first: where both are
    /// mounted, a controller belongs to one of them.
    pub(super) fn places(&self) -> Vec<Place> {
        Controller::ALL
            .into_iter()
            .filter_map(|controller| {
                self.version_one(controller)
                    .or_else(|| self.version_two(controller))
            })
            .collect()
    }

    fn version_one(&self, controller: Controller) -> Option<Place> {
        let name = controller.name().to_owned();
        let mount = self
            .mounts
            .iter()
            .find(|m| m.controllers.as_ref().is_some_and(|c| c.contains(&name)))?;
        let (_, own) = self.own.iter().find(|(c, _)| c.contains(&name))?;
        Some(Place {
            controller,
            version: Version::One,
            folder: mount.folder_of(own),
        })
    }

    fn version_two(&self, controller: Controller) -> Option<Place> {
        let mount = self.mounts.iter().find(|m| m.controllers.is_none())?;
        let (_, own) = self.own.iter().find(|(c, _)| c.is_empty())?;
        let folder = mount.folder_of(own);
        let offered = fs::read_to_string(folder.join("cgroup.controllers")).ok()?;
        if !offered.split_whitespace().any(|c| c == controller.name()) {
            return None;
        }
        hand_down(&folder, controller).ok()?;
        Some(Place {
            controller,
            version: Version::Two,
            folder,
        })
    }
}

impl Mount {
    /// In a container the mounted part may begin at, or beside, this process's own group.
    fn folder_of(&self, own: &str) -> PathBuf {
        let inside = if self.root == "/" {
            Some(own)
        } else {
            own.strip_prefix(self.root.as_str())
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let relative = inside.unwrap_or("").trim_start_matches('/');
        let folder = self.point.join(relative);
        if folder.is_dir() {
            folder
        } else {
            self.point.clone()
        }
    }
}

/// Version two lets a group share a controller out only while no process is in the group itself. When this
/// process is alone there, it moves one level down; other people's processes are left where they are.
fn hand_down(folder: &Path, controller: Controller) -> io::Result<()> {
    let share = || {
        fs::write(
            folder.join("cgroup.subtree_control"),
            format!("+{}", controller.name()),
        )
    };
    match share() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let here = fs::read_to_string(folder.join("cgroup.procs"))?;
            let me = std::process::id().to_string();
            if here.lines().any(|pid| pid != me) {
                return Err(error);
            }
            let leaf = folder.join("kazma-broker");
            if !leaf.is_dir() {
                fs::create_dir(&leaf)?;
            }
            fs::write(leaf.join("cgroup.procs"), me)?;
            share()
        }
        other => other,
    }
}

fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let controllers = match after.next()? {
        "cgroup2" => None,
        "cgroup" => Some(after.next_back()?.split(',').map(str::to_owned).collect()),
        _ => return None,
    };
    Some(Mount {
        root: root.to_owned(),
        point: PathBuf::from(point),
        controllers,
    })
}

fn own_group(line: &str) -> Option<(Vec<String>, String)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let controllers = controllers
        .split(',')
        .filter(|c| !c.is_empty())
        .map(str::to_owned)
        .collect();
    Some((controllers, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_machine_gives_each_controller_its_own_folder() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().display();
        for folder in ["memory/app", "pids", "cpu"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let mountinfo = format!(
            "30 29 0:26 / {at}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
             33 29 0:29 / {at}/memory rw,relatime shared:1 - cgroup cgroup rw,memory\n\
             36 29 0:32 / {at}/pids rw,relatime - cgroup cgroup rw,pids\n\
             39 29 0:35 / {at}/unified rw,relatime - cgroup2 cgroup2 rw\n"
        );
        let own = "8:pids:/\n4:memory:/app\n1:cpu,cpuacct:/\n0::/\n";
        let places = Layout::parse(&mountinfo, own).places();
        let folders: Vec<_> = places.iter().map(|p| p.folder.clone()).collect();
        assert_eq!(
            folders,
            [
                root.path().join("memory/app"),
                root.path().join("pids"),
                root.path().join("cpu")
            ]
        );
        assert!(places.iter().all(|p| p.version == Version::One));
    }

    #[test]
    fn version_two_takes_only_what_is_offered() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("box");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("cgroup.controllers"), "memory pids\n").unwrap();
        fs::write(own.join("cgroup.subtree_control"), "").unwrap();
        let mountinfo = format!(
            "39 29 0:35 / {} rw,relatime - cgroup2 cgroup2 rw\n",
            root.path().display()
        );
        let places = Layout::parse(&mountinfo, "0::/box\n").places();
        let controllers: Vec<_> = places.iter().map(|p| p.controller).collect();
        assert_eq!(controllers, [Controller::Memory, Controller::Pids]);
        assert!(
            places
                .iter()
                .all(|p| p.folder == own && p.version == Version::Two)
        );
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        let root = tempfile::tempdir().unwrap();
        let mount = Mount {
            root: "/docker/abc".to_owned(),
            point: root.path().to_owned(),
            controllers: None,
        };
        assert_eq!(mount.folder_of("/docker/abc"), root.path());
        assert_eq!(mount.folder_of("/docker/abcdef"), root.path());
    }
}
