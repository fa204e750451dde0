//! The one thread that starts children.
//!
//! A child asks the kernel to be killed when its parent *thread* ends (`PR_SET_PDEATHSIG`), and threads
//! of the runtime come and go. This one ends with the broker, and takes every jail with it.

use std::{io, process::Command, sync::mpsc, thread};

use tokio::{process::Child, runtime::Handle, sync::oneshot};
use tokio_util::task::TaskTracker;

struct Job {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts children on a thread of its own. Dropping it kills those that asked to die with their parent.
#[derive(Debug)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
    clearing: TaskTracker,
}

impl Spawner {
    /// Starts the thread. Fails when the system has no room for one.
    pub fn start(runtime: Handle) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("jail-spawner".to_owned())
            .spawn(move || {
                let _inside = runtime.enter();
                for Job { command, reply } in inbox {
                    let child = tokio::process::Command::from(command)
                        .kill_on_drop(true)
                        .spawn();
                    // Nobody waits any more: the child is dropped, and so killed.
                    let _ = reply.send(child);
                }
            })?;
        Ok(Self {
            jobs,
            clearing: TaskTracker::new(),
        })
    }

    /// Tracks the work of clearing ended jails away.
    pub(crate) fn clearing(&self) -> TaskTracker {
        self.clearing.clone()
    }

    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts jails has ended");
        self.jobs.send(Job { command, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
