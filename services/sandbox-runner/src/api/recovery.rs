//! After a start: what becomes of the calls that an earlier process had begun. Nothing is run again.

use kazma_domain::{Action, Digest};
use kazma_wire::executor::Claim;
use tokio_util::sync::CancellationToken;

use super::{
    execute::{Executor, Finish, failed, settled_write},
    retry::Retry,
    workspace::RelPath,
};

impl Executor {
    /// Asks for the claims of an earlier process. None when the process stops first.
    pub(crate) async fn old_claims(&self, stop: CancellationToken) -> Option<Vec<Claim>> {
        match Retry::until(stop)
            .until_answered("claims", || self.registry.claims())
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
            let finish = self.what_became_of(&claim).await;
            tracing::warn!(call = %claim.call.id, ?finish, "found begun by an earlier process");
            self.conclude(claim.call.id, finish).await;
        }
    }

    async fn what_became_of(&self, claim: &Claim) -> Finish {
        match &claim.plan.action {
            Action::RunPython { .. } => {
                // The jail died with its parent; this makes sure of it before it is said.
                if let Err(error) = self.planner.code.cancel(claim.call.id).await {
                    tracing::warn!(
                        error = error.to_string(),
                        "an old run could not be cancelled"
                    );
                }
                Finish::Lost("The jail died with its parent; the outcome is unknown.".to_owned())
            }
            Action::WriteFile {
                path,
                before,
                after,
                ..
            } => {
                self.what_became_of_write(claim, path, before.as_ref(), after)
                    .await
            }
            Action::ReadFile { .. } | Action::ListFolder { .. } => failed(
                "interrupted: the runner was started anew while it read; nothing was changed",
            ),
        }
    }

    async fn what_became_of_write(
        &self,
        claim: &Claim,
        path: &str,
        before: Option<&Digest>,
        after: &Digest,
    ) -> Finish {
        let workspace = self.planner.workspace.clone();
        let Ok(path) = RelPath::parse_file(path, workspace.at()) else {
            return Finish::Lost(
                "The runner was started anew while it wrote; the path is not readable.".to_owned(),
            );
        };
        let call = claim.call.id;
        let _writer = workspace.writer().await;
        let look = workspace.clone();
        let now = tokio::task::spawn_blocking(move || {
            look.sweep(&path, call);
            look.digest(&path)
        })
        .await;
        match now {
            Ok(Ok(Some(now))) if now == *after => {
                settled_write(if before.is_some() { "overwritten" } else { "created" }, after)
            }
            Ok(Ok(now)) if now.as_ref() == before => {
                failed("not written: the runner was started anew before it wrote")
            }
            Ok(Ok(_)) => Finish::Lost(
                "The runner was started anew while it wrote, and the file is neither the old nor the new one."
                    .to_owned(),
            ),
            Ok(Err(refused)) => Finish::Lost(format!(
                "The runner was started anew while it wrote, and the file cannot be compared: {refused}"
            )),
            Err(_) => Finish::Lost("The runner was started anew while it wrote.".to_owned()),
        }
    }
}
