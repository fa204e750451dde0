//! Beginning and ending in order: first nothing new, then nothing at all.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Any error, at the top of a task.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The life of one process: its tasks and the two steps of its end.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: Arc<Mutex<JoinSet<Task>>>,
}

/// What a task comes to: its name, and how it ended.
type Task = (&'static str, Result<(), BoxError>);

/// How a process ended.
#[derive(Debug)]
pub enum Ended {
    /// Because it was asked to.
    Asked,
    /// Because a task that it cannot be without ended early.
    Early {
        /// The task.
        task: &'static str,
        /// Why, if it said so.
        cause: Option<BoxError>,
    },
}

impl Lifecycle {
    /// A new life.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when nothing new shall begin.
    pub fn soft(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Cancelled when what still runs shall stop at once.
    pub fn hard(&self) -> CancellationToken {
        self.hard.clone()
    }

    /// Asks the process to end.
    pub fn stop(&self) {
        self.soft.cancel();
    }

    /// Runs a task that the process cannot be without: when it ends early, the process ends.
    pub fn spawn_essential<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spawn(async move { (name, task.await) });
    }

    /// Waits for `stop` or for a task that ends early, then ends the rest: `grace` to finish, then hard.
    pub async fn run(&self, stop: impl Future<Output = ()>, grace: Duration) -> Ended {
        let ended = tokio::select! {
            // Who ended because the end was asked for did not end early.
            biased;
            () = stop => Ended::Asked,
            () = self.soft.cancelled() => Ended::Asked,
            early = self.next() => early,
        };
        self.soft.cancel();
        if tokio::time::timeout(grace, self.drain()).await.is_err() {
            self.hard.cancel();
        }
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
        ended
    }

    async fn next(&self) -> Ended {
        let ended = std::future::poll_fn(|context| {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.poll_join_next(context)
        })
        .await;
        match ended {
            // Nothing was spawned: then only `stop` ends it.
            None => std::future::pending().await,
            Some(Ok((task, result))) => {
                if let Err(error) = &result {
                    tracing::error!(task, error = error.to_string(), "ended early");
                }
                Ended::Early {
                    task,
                    cause: result.err(),
                }
            }
            Some(Err(panicked)) => Ended::Early {
                task: "task",
                cause: Some(panicked.into()),
            },
        }
    }

    async fn drain(&self) {
        std::future::poll_fn(|context| {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                match tasks.poll_join_next(context) {
                    std::task::Poll::Ready(Some(_)) => {}
                    std::task::Poll::Ready(None) => return std::task::Poll::Ready(()),
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                }
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_ends_the_rest() {
        let life = Lifecycle::new();
        let soft = life.soft();
        life.spawn_essential("patient", async move {
            soft.cancelled().await;
            Ok(())
        });
        life.spawn_essential("broken", async { Err("no".into()) });
        let ended = life
            .run(std::future::pending(), Duration::from_secs(5))
            .await;
        assert!(
            matches!(
                ended,
                Ended::Early {
                    task: "broken",
                    cause: Some(_)
                }
            ),
            "{ended:?}"
        );
        assert!(life.soft().is_cancelled());
        assert!(!life.hard().is_cancelled());
    }

    #[tokio::test]
    async fn who_ends_because_it_was_asked_to_did_not_end_early() {
        // Whichever of the two is looked at first must not decide.
        for _ in 0..64 {
            let life = Lifecycle::new();
            life.spawn_essential("quick", async { Ok(()) });
            tokio::task::yield_now().await;
            life.stop();
            let ended = life
                .run(std::future::pending(), Duration::from_secs(5))
                .await;
            assert!(matches!(ended, Ended::Asked), "{ended:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_finish_in_time_is_stopped_hard() {
        let life = Lifecycle::new();
        life.spawn_essential("stubborn", std::future::pending());
        let ended = life
            .run(std::future::ready(()), Duration::from_secs(5))
            .await;
        assert!(matches!(ended, Ended::Asked));
        assert!(life.hard().is_cancelled());
    }
}
