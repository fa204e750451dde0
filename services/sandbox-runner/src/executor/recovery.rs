//! After a start: what becomes of the calls that an earlier process had begun. Nothing is run again.

use kazma_wire::executor::Claim;
use tokio_util::sync::CancellationToken;

use super::{Executor, Hands, retry::Retry};

impl<H: Hands> Executor<H> {
    /// Asks for the claims of an earlier process. None when the process stops first.
    pub(crate) async fn old_claims(&self, stop: CancellationToken) -> Option<Vec<Claim>> {
        match Retry::until(stop)
            .until_answered("claims", || self.on.registry.claims())
            .await?
        {
            Ok(claims) => Some(claims),
            Err(error) => {
                tracing::error!(
                    error = error.to_string(),
                    "the registry does not tell what was begun"
                );
                Some(Vec::new())
            }
        }
    }

    /// Settles what can be told, and says of the rest that it is lost.
    pub(crate) async fn recover(&self, claims: Vec<Claim>) {
        for claim in claims {
            // One that this very process holds is none of an earlier one.
            let Some(working) = self.begun.begin(claim.call.id) else {
                continue;
            };
            working.hold();
            let finish = self.hands.what_became_of(&claim).await;
            tracing::warn!(call = %claim.call.id, ?finish, "found begun by an earlier process");
            self.conclude(claim.call.id, finish).await;
        }
    }
}
