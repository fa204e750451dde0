//! Asking again: waits that grow, are bounded, and do not fall together.

use std::time::Duration;

use kazma_domain::Entropy;

use crate::clients::{Answer, ClientError};

/// How long to wait between attempts.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Before the first repetition; each further one waits twice as long.
    pub first: Duration,
    /// At most this long.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            most: Duration::from_secs(5),
        }
    }
}

impl Backoff {
    /// Waits before repetition `n`, counted from 0: between half and all of the full wait.
    pub(crate) async fn wait(self, n: u32, entropy: &dyn Entropy) {
        let full = self.first.saturating_mul(1 << n.min(16)).min(self.most);
        let mut random = [0_u8; 1];
        entropy.fill(&mut random);
        tokio::time::sleep(full / 2 + full.mul_f64(f64::from(random[0]) / 510.0)).await;
    }

    /// Asks until there is an answer, yes or no. There is no end to this but the caller's.
    pub(crate) async fn insist<'a, T>(
        self,
        entropy: &dyn Entropy,
        what: &'static str,
        ask: impl Fn() -> Answer<'a, T>,
    ) -> Result<T, Box<kazma_wire::Problem>> {
        let mut n = 0;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(ClientError::Refused(problem)) => return Err(problem),
                Err(ClientError::Silent(cause)) => {
                    tracing::warn!(
                        what,
                        attempt = n,
                        cause = cause.to_string(),
                        "no answer; asking again"
                    );
                }
            }
            self.wait(n, entropy).await;
            n = n.saturating_add(1);
        }
    }
}
