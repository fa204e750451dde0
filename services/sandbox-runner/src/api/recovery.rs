//! After a start: how a call ended that an earlier process had begun. Nothing is run again.

use kazma_domain::{Action, Digest};
use kazma_wire::executor::Claim;

use super::{
    execute::{Workbench, settled_write},
    workspace::RelPath,
};
use crate::executor::{Finish, failed};

impl Workbench {
    /// How a call ended, as far as can be told now.
    pub(super) async fn look_back(&self, claim: &Claim) -> Finish {
        match &claim.plan.action {
            Action::RunPython { .. } | Action::RunCommand { .. } => {
                // The jail died with its parent; this makes sure of it before it is said.
                if let Err(error) = self.planner.code.cancel(claim.call.id).await {
                    tracing::warn!(
                        error = error.to_string(),
                        "an old run could not be cancelled"
                    );
                }
                Finish::Lost(match &claim.plan.action {
                    Action::RunCommand { writable, .. } if !writable.is_empty() => {
                        "The jail died with its parent; what it wrote until then is there, and the outcome is unknown."
                    }
                    _ => "The jail died with its parent; the outcome is unknown.",
                }
                .to_owned())
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
            Action::QuerySqlite { .. } => {
                if let Err(error) = self.planner.code.cancel(claim.call.id).await {
                    tracing::warn!(
                        error = error.to_string(),
                        "an old run could not be cancelled"
                    );
                }
                failed(
                    "interrupted: the runner was started anew while it read; nothing was changed",
                )
            }
            Action::ReadFile { .. } | Action::ListFolder { .. } => failed(
                "interrupted: the runner was started anew while it read; nothing was changed",
            ),
            Action::FetchUrl { .. } | Action::SearchWeb { .. } => {
                Finish::Lost("Nothing that leaves the house is done by this process.".to_owned())
            }
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
