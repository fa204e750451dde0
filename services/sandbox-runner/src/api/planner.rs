//! From a call to what exactly would be done: the plan for the card, and the open things behind it.
//!
//! The same function makes the plan that people see and the one that is compared just before it runs.

use std::{sync::Arc, time::Duration};

use kazma_domain::{Action, Plan, plan::Window};
use kazma_policy::argv::Profile;

use super::{
    arguments::Request,
    code::{CodeRunner, CodeStatus},
    workspace::{Pattern, PlannedList, PlannedRead, PlannedWrite, RelPath, Workspace},
};
use crate::{broker::Program, executor::Refused};

/// A whole file is read as this window: far behind the cap on what one read returns.
const WHOLE: Window = Window::Bytes {
    offset: 0,
    limit: (1 << 53) - 1,
};

/// Makes plans. Changes nothing.
#[derive(Debug, Clone)]
pub(crate) struct Planner {
    pub(crate) workspace: Workspace,
    pub(crate) code: Arc<dyn CodeRunner>,
    /// The longest program, in bytes.
    pub(crate) code_bytes: usize,
    /// Which programs commands have.
    pub(crate) shell: Profile,
}

/// What carries a plan out: open descriptors, not names.
#[derive(Debug)]
pub(crate) enum Act {
    Run {
        program: Program,
        image: Option<String>,
        timeout: Duration,
    },
    Read(PlannedRead),
    List(PlannedList),
    Write(Box<PlannedWrite>),
}

impl Planner {
    /// What exactly a call would do, or why it will not be done.
    pub(crate) async fn plan(&self, request: Request) -> Result<(Action, Act), Refused> {
        match request {
            Request::Python { code, timeout } => self.python(code, timeout).await,
            Request::Command { line, timeout } => self.command(line, timeout).await,
            Request::Query {
                path,
                query,
                parameters,
                limit,
            } => self.query(path, query, parameters, limit).await,
            request => {
                let workspace = self.workspace.clone();
                tokio::task::spawn_blocking(move || on_files(&workspace, request))
                    .await
                    .map_err(|_| Refused::new("internal", "Planning failed. The log says more."))?
            }
        }
    }

    async fn python(&self, code: String, timeout: Duration) -> Result<(Action, Act), Refused> {
        if code.trim().is_empty() {
            return Err(Refused::new(
                "code-empty",
                "The code is empty. Give a whole program.",
            ));
        }
        if code.len() > self.code_bytes {
            return Err(Refused::new(
                "code-long",
                format!(
                    "The code is longer than {} bytes. Split it into several calls.",
                    self.code_bytes
                ),
            ));
        }
        if code.contains('\0') {
            return Err(Refused::new(
                "code-nul",
                "The code holds a NUL character, which Python refuses.",
            ));
        }
        let judged = code.clone();
        tokio::task::spawn_blocking(move || kazma_python::judge(&judged))
            .await
            .map_err(|_| Refused::new("internal", "Planning failed. The log says more."))?
            .map_err(|refusal| {
                Refused::new(
                    "code-refused",
                    format!("The code is refused before it is shown: {refusal}."),
                )
            })?;
        let status = self.ready().await?;
        let image = status.sandbox.image.clone();
        let action = Action::RunPython {
            code: code.clone(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            sandbox: status.sandbox,
        };
        Ok((
            action,
            Act::Run {
                program: Program::Python { code },
                image,
                timeout,
            },
        ))
    }

    /// What runs code now, or why nothing does.
    pub(super) async fn ready(&self) -> Result<CodeStatus, Refused> {
        let status = self.code.status().await.map_err(|error| {
            Refused::new(
                "runner-not-ready",
                format!("No code can run now: {error}. The status in /health/details says why."),
            )
        })?;
        match status.trouble {
            None => Ok(status),
            Some(trouble) => Err(Refused::new(
                "runner-not-ready",
                format!(
                    "No code can run now: {}. {}",
                    trouble.reason.trim_end_matches('.'),
                    trouble.fix
                ),
            )),
        }
    }
}

fn on_files(workspace: &Workspace, request: Request) -> Result<(Action, Act), Refused> {
    match request {
        Request::Read { path, window } => {
            let path = RelPath::parse_file(&path, workspace.at())?;
            let window = window.unwrap_or(WHOLE);
            let read = workspace.plan_read(&path, window.clone())?;
            Ok((
                Action::ReadFile {
                    path: path.as_str().to_owned(),
                    window,
                },
                Act::Read(read),
            ))
        }
        Request::List { path, pattern } => {
            let path = match path.as_str() {
                "" => RelPath::workspace(),
                path => RelPath::parse(path, workspace.at())?,
            };
            let parsed = pattern.as_deref().map(Pattern::parse).transpose()?;
            let list = workspace.plan_list(&path, parsed)?;
            Ok((
                Action::ListFolder {
                    path: path.as_str().to_owned(),
                    pattern,
                },
                Act::List(list),
            ))
        }
        Request::Write { path, content } => {
            let path = RelPath::parse_file(&path, workspace.at())?;
            let name = path.as_str().to_owned();
            let bytes = content.len() as u64;
            let write = workspace.plan_write(path, content)?;
            let action = Action::WriteFile {
                path: name,
                before: write.before,
                after: write.after,
                bytes,
                diff: write.diff.clone(),
            };
            Ok((action, Act::Write(Box::new(write))))
        }
        Request::Python { .. } | Request::Command { .. } | Request::Query { .. } => {
            Err(Refused::new("internal", "Code is not planned here."))
        }
    }
}

/// What is another now than when the plan was filed, in words.
pub(crate) fn what_changed(filed: &Plan, now: &Plan) -> String {
    match (&filed.action, &now.action) {
        (Action::RunPython { sandbox: then, .. }, Action::RunPython { sandbox: now, .. })
        | (Action::RunCommand { sandbox: then, .. }, Action::RunCommand { sandbox: now, .. })
        | (Action::QuerySqlite { sandbox: then, .. }, Action::QuerySqlite { sandbox: now, .. })
            if then != now =>
        {
            if then.tier != now.tier || then.runtime != now.runtime {
                format!(
                    "The sandbox is {} by {} now; the card said {} by {}.",
                    now.tier, now.runtime, then.tier, then.runtime
                )
            } else if then.image != now.image {
                "The sandbox's image is another now than on the card.".to_owned()
            } else if then.enforcement != now.enforcement {
                format!(
                    "The sandbox's limits are now {}; the card said {}.",
                    now.enforcement.join(", "),
                    then.enforcement.join(", ")
                )
            } else {
                "What the sandbox does not stop, or sees, is another than on the card.".to_owned()
            }
        }
        (Action::RunCommand { .. }, Action::RunCommand { .. }) => {
            "The command comes to something else now: a link, a file or a setting that it goes by was changed since \
             the card was made."
                .to_owned()
        }
        (
            Action::WriteFile {
                path, before: then, ..
            },
            Action::WriteFile { before: now, .. },
        ) if then != now => match (then, now) {
            (None, Some(_)) => {
                format!("The file {path} is there now; the card said it would be created.")
            }
            (Some(_), None) => format!("The file {path} is gone; the card showed a change of it."),
            _ => format!("The file {path} was changed since the card was made."),
        },
        _ => "What would run now is not what the card showed.".to_owned(),
    }
}
