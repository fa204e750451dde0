//! With the feature `armed`.

use std::{path::PathBuf, sync::LazyLock};

use rustix::process::{Signal, getpid, kill_process};

use crate::{Check, FOLDER, Point, SABOTAGE};

#[expect(
    clippy::disallowed_methods,
    reason = "a test says by the environment what shall go wrong"
)]
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A step of a call's way. Where a test wants it, the process is killed here and now.
pub fn reach(point: Point) {
    static AT: LazyLock<Option<PathBuf>> = LazyLock::new(|| told(FOLDER).map(PathBuf::from));
    let Some(folder) = &*AT else {
        return;
    };
    // Taking the file away is what makes it happen once, whichever process comes first.
    if std::fs::remove_file(folder.join(point.name())).is_ok() {
        let _ = kill_process(getpid(), Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

fn is_off(check: Check) -> bool {
    static OFF: LazyLock<Option<String>> = LazyLock::new(|| told(SABOTAGE));
    OFF.as_deref() == Some(check.name())
}

/// Whether something is wrong: as it was seen, unless a test has switched this check off.
#[must_use]
pub fn wrong(check: Check, seen: bool) -> bool {
    seen && !is_off(check)
}

/// What a check decides: `value`, unless a test has switched the check off.
pub fn instead<T>(check: Check, value: T, without: impl FnOnce() -> T) -> T {
    if is_off(check) { without() } else { value }
}
