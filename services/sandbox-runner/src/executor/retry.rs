//! Asking until an answer comes.

use std::{future::Future, time::Duration};

use tokio_util::sync::CancellationToken;

use super::registry::RegistryError;

/// The first wait after a lost answer.
const FIRST: Duration = Duration::from_millis(50);
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(5);

/// Asks again after lost answers, ever more slowly, until the process must stop.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    stop: CancellationToken,
}

impl Retry {
    /// Gives up only once `stop` is cancelled.
    pub(crate) const fn until(stop: CancellationToken) -> Self {
        Self { stop }
    }

    /// Repeats `ask` until the registry answers, be it with a refusal. None when the process stops first.
    pub(crate) async fn until_answered<T, F>(
        &self,
        what: &'static str,
        mut ask: impl FnMut() -> F,
    ) -> Option<Result<T, RegistryError>>
    where
        F: Future<Output = Result<T, RegistryError>>,
    {
        let mut wait = FIRST;
        loop {
            let answer = tokio::select! {
                answer = ask() => answer,
                () = self.stop.cancelled() => return None,
            };
            match answer {
                Err(error) if error.is_transient() => {
                    tracing::warn!(
                        what,
                        wait_ms = wait.as_millis(),
                        "no answer from the registry; asking again"
                    );
                }
                answer => return Some(answer),
            }
            if !self.pause(wait).await {
                return None;
            }
            wait = (wait * 2).min(LONGEST);
        }
    }

    /// Waits; false when the process stops first.
    pub(crate) async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.stop.cancelled() => false,
        }
    }
}
