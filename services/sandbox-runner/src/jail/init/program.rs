//! Starting what was asked for in place of Python.

use std::{
    fs,
    io::{self, ErrorKind},
    process::{Child, Command, Stdio},
};

use rustix::{fs::Mode, process::umask};

use crate::jail::task::{Place, Start};

/// What others may not do with what a command makes: as with what `file_write` makes.
const UMASK: u32 = 0o027;
/// Who goes first when memory runs out; the init must stay to report.
const OOM_SCORE: &str = "500";

/// Starts the program in the workspace, which is this process's own folder.
#[expect(clippy::disallowed_methods, reason = "it exists to start this program")]
pub(super) fn start(start: &Start, output: fn() -> Stdio) -> io::Result<Child> {
    start.places.iter().try_for_each(same)?;
    let (program, arguments) = start
        .argv
        .split_first()
        .ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    umask(Mode::from_raw_mode(UMASK));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&start.env)
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output());
    if !start.cwd.is_empty() {
        command.current_dir(&start.cwd);
    }
    let child = command.spawn()?;
    // One that has ended already needs no score.
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE);
    Ok(child)
}

/// Whether the place is still what the broker saw.
fn same(place: &Place) -> io::Result<()> {
    let path = if place.path.is_empty() {
        "."
    } else {
        place.path.as_str()
    };
    let found = rustix::fs::lstat(path)?;
    if (found.st_dev, found.st_ino) == (place.device, place.inode) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{path} is another file or folder than when it was mounted"
    )))
}
