//! One control group per jail, where this process may make them.
//!
//! Both kinds work, also mixed as on hybrid machines: each controller is looked for on its own. Whatever is
//! not to be had stays with the rlimits, and [`Enforcement`] says so.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{EnforcedBy, Enforcement, Limits};

mod layout;

use layout::Layout;

/// The folder that holds the groups of all jails.
const FOLDER: &str = "kazma";
/// Microseconds over which the CPU share is measured.
const PERIOD_MICROS: u64 = 100_000;
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// Whether to use control groups at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupChoice {
    /// Where they can be had.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// Which of the two interfaces a folder speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// A folder under which groups for one controller can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) controller: Controller,
    pub(crate) version: Version,
    pub(crate) folder: PathBuf,
}

/// The places where this process can make groups. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Cgroups(Arc<Vec<Place>>);

impl Cgroups {
    /// Looks for places by making, limiting and removing a group in each.
    pub fn detect(choice: CgroupChoice) -> Self {
        let places = match choice {
            CgroupChoice::Off => Vec::new(),
            CgroupChoice::Auto => Layout::read().map(|l| l.places()).unwrap_or_default(),
        };
        Self::usable(places)
    }

    fn usable(places: Vec<Place>) -> Self {
        let limits = Limits::default();
        let usable = places
            .into_iter()
            .filter_map(|place| {
                let folder = place.folder.join(FOLDER);
                let place = Place { folder, ..place };
                match place.try_out(&limits) {
                    Ok(()) => Some(place),
                    Err(error) => {
                        tracing::info!(
                            controller = place.controller.name(),
                            folder = %place.folder.display(),
                            %error,
                            "no control group here; rlimits alone hold this limit"
                        );
                        None
                    }
                }
            })
            .collect();
        Self(Arc::new(usable))
    }

    fn by(&self, controller: Controller) -> EnforcedBy {
        match self.0.iter().find(|p| p.controller == controller) {
            Some(Place {
                version: Version::One,
                ..
            }) => EnforcedBy::CgroupV1,
            Some(Place {
                version: Version::Two,
                ..
            }) => EnforcedBy::CgroupV2,
            None => EnforcedBy::Rlimit,
        }
    }

    /// What holds each limit of the jails made with these groups.
    pub fn enforcement(&self) -> Enforcement {
        Enforcement::new(
            self.by(Controller::Memory),
            self.by(Controller::Pids),
            self.by(Controller::Cpu),
        )
    }

    pub(crate) fn holds(&self, controller: Controller) -> bool {
        self.by(controller) != EnforcedBy::Rlimit
    }

    /// Makes the groups of one jail and puts `pid` into them.
    pub(crate) fn enclose(&self, name: &str, limits: &Limits, pid: i32) -> io::Result<JailGroups> {
        let mut groups = JailGroups(Vec::new());
        for place in self.0.iter() {
            let group = place.make(name)?;
            groups.0.push(group.clone());
            group.limit(limits)?;
            group.write("cgroup.procs", &pid.to_string())?;
        }
        Ok(groups)
    }

    /// Removes the groups that brokers which are gone left behind.
    pub(crate) fn sweep(&self) {
        for place in self.0.iter() {
            let Ok(entries) = fs::read_dir(&place.folder) else {
                continue;
            };
            for entry in entries.flatten() {
                if owner_is_gone(&entry.file_name().to_string_lossy()) {
                    // A group with processes in it refuses to go; it is not empty, so not ours to remove.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }
}

/// Group names are `jail-PID-N`, with the broker's process id.
fn owner_is_gone(name: &str) -> bool {
    name.strip_prefix("jail-")
        .and_then(|rest| rest.split_once('-'))
        .and_then(|(pid, _)| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

impl Place {
    fn make(&self, name: &str) -> io::Result<Self> {
        let folder = self.folder.join(name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Self {
            folder,
            ..self.clone()
        })
    }

    fn try_out(&self, limits: &Limits) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        if self.version == Version::Two {
            self.write(
                "cgroup.subtree_control",
                &format!("+{}", self.controller.name()),
            )?;
        }
        let name = format!(
            "jail-{}-probe-{}",
            std::process::id(),
            self.controller.name()
        );
        let probe = self.make(&name)?;
        let tried = probe.limit(limits);
        fs::remove_dir(&probe.folder)?;
        tried
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        // Never created: a missing control file must be an error.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))?;
        io::Write::write_all(&mut file, value.as_bytes())
    }

    fn limit(&self, limits: &Limits) -> io::Result<()> {
        let memory = limits.memory_bytes.to_string();
        let quota = limits.cpu_millis.saturating_mul(PERIOD_MICROS) / 1000;
        match (self.controller, self.version) {
            (Controller::Memory, Version::One) => {
                self.write("memory.limit_in_bytes", &memory)?;
                // Absent where the kernel does not count swap.
                match self.write("memory.memsw.limit_in_bytes", &memory) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            (Controller::Memory, Version::Two) => {
                self.write("memory.max", &memory)?;
                match self.write("memory.swap.max", "0") {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            (Controller::Pids, _) => self.write("pids.max", &limits.pids.to_string()),
            (Controller::Cpu, Version::One) => {
                self.write("cpu.cfs_period_us", &PERIOD_MICROS.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
            (Controller::Cpu, Version::Two) => {
                self.write("cpu.max", &format!("{quota} {PERIOD_MICROS}"))
            }
        }
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// The number behind `key` in a file of `key number` lines.
    fn counter(&self, file: &str, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == key).then(|| value.trim().parse().ok())?
        })
    }
}

/// The groups of one jail.
#[derive(Debug)]
pub(crate) struct JailGroups(Vec<Place>);

impl JailGroups {
    fn of(&self, controller: Controller) -> Option<&Place> {
        self.0.iter().find(|p| p.controller == controller)
    }

    /// How often the kernel killed a process here for want of memory. `None` where nobody counts.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let memory = self.of(Controller::Memory)?;
        match memory.version {
            Version::One => memory.counter("memory.oom_control", "oom_kill"),
            Version::Two => memory.counter("memory.events", "oom_kill"),
        }
    }

    /// The most memory that was in use at once, in bytes.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let memory = self.of(Controller::Memory)?;
        match memory.version {
            Version::One => memory.number("memory.max_usage_in_bytes"),
            Version::Two => memory.number("memory.peak"),
        }
    }

    /// How often a new process was refused.
    pub(crate) fn pids_refused(&self) -> Option<u64> {
        self.of(Controller::Pids)?.counter("pids.events", "max")
    }
}

impl JailGroups {
    fn try_remove(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        self.0.retain(|place| match fs::remove_dir(&place.folder) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                result = Err(error);
                true
            }
        });
        result
    }

    /// Removes the groups. The kernel lets go of an ended process's group a moment after the process.
    pub(crate) async fn remove(mut self) {
        for _ in 0..REMOVE_TRIES {
            if self.try_remove().is_ok() {
                return;
            }
            tokio::time::sleep(REMOVE_PAUSE).await;
        }
    }
}

impl Drop for JailGroups {
    fn drop(&mut self) {
        if let Err(error) = self.try_remove() {
            tracing::warn!(%error, "a jail's control group was left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(controller: Controller, version: Version, folder: &Path) -> Place {
        Place {
            controller,
            version,
            folder: folder.to_owned(),
        }
    }

    fn with_files(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(folder.path().join(file), "").unwrap();
        }
        folder
    }

    fn read(folder: &tempfile::TempDir, file: &str) -> String {
        fs::read_to_string(folder.path().join(file)).unwrap()
    }

    #[test]
    fn version_two_gets_no_swap_and_one_cpu() {
        let folder = with_files(&["memory.max", "memory.swap.max", "cpu.max", "pids.max"]);
        for controller in Controller::ALL {
            place(controller, Version::Two, folder.path())
                .limit(&Limits::default())
                .unwrap();
        }
        assert_eq!(read(&folder, "memory.max"), "536870912");
        assert_eq!(read(&folder, "memory.swap.max"), "0");
        assert_eq!(read(&folder, "cpu.max"), "100000 100000");
        assert_eq!(read(&folder, "pids.max"), "64");
    }

    #[test]
    fn version_one_counts_swap_as_memory() {
        let folder = with_files(&["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]);
        place(Controller::Memory, Version::One, folder.path())
            .limit(&Limits::default())
            .unwrap();
        assert_eq!(read(&folder, "memory.memsw.limit_in_bytes"), "536870912");
    }

    #[test]
    fn a_missing_control_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let memory = place(Controller::Memory, Version::Two, folder.path());
        assert!(memory.limit(&Limits::default()).is_err());
    }

    #[test]
    fn counters_are_read_from_both_kinds() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("memory.events"),
            "low 0\noom 2\noom_kill 1\n",
        )
        .unwrap();
        fs::write(folder.path().join("pids.events"), "max 7\n").unwrap();
        let groups = std::mem::ManuallyDrop::new(JailGroups(vec![
            place(Controller::Memory, Version::Two, folder.path()),
            place(Controller::Pids, Version::One, folder.path()),
        ]));
        assert_eq!(groups.oom_kills(), Some(1));
        assert_eq!(groups.pids_refused(), Some(7));
        assert_eq!(groups.peak_memory(), None);
    }

    #[test]
    fn only_groups_of_dead_brokers_are_swept() {
        assert!(!owner_is_gone(&format!("jail-{}-3", std::process::id())));
        assert!(owner_is_gone("jail-4194304-3"));
        assert!(!owner_is_gone("somebody-else"));
    }
}
