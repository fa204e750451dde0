//! From a line of `shell_exec` to the program that would start: judged on the workspace as it is now.

use std::time::Duration;

use kazma_domain::Action;
use kazma_policy::argv::{self, Permitted, Tier, Verdict};
use kazma_workspace::Disk;

use super::planner::{Act, Planner};
use crate::{
    broker::{Command, OWN, Program},
    executor::Refused,
};

impl Planner {
    /// Plans a command line, or says why it will not be started.
    pub(super) async fn command(
        &self,
        line: String,
        timeout: Duration,
    ) -> Result<(Action, Act), Refused> {
        let permitted = self.judge(line).await?;
        let mut status = self.ready().await?;
        let runs_code = permitted.tier == Tier::SandboxExec;
        let command = in_place(permitted, |name| status.programs.remove(name))?;
        command.check_shape().map_err(|wrong| {
            Refused::new(
                "command-large",
                format!("What would be started is too large: {wrong}."),
            )
        })?;
        if let (false, Some(why)) = (command.writable.is_empty(), status.unwritable) {
            return Err(Refused::new(
                "workspace-unwritable",
                format!("Commands cannot write here: {why}."),
            ));
        }
        let mut sandbox = status.sandbox;
        sandbox.workspace = seen(&command.writable);
        let image = sandbox.image.clone();
        let action = Action::RunCommand {
            argv: command.argv.clone(),
            env: command.env.clone(),
            cwd: command.cwd.clone(),
            writable: command.writable.clone(),
            runs_code,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            sandbox,
        };
        let act = Act::Run {
            program: Program::Command(command),
            image,
            timeout,
        };
        Ok((action, act))
    }

    /// The verdict of the judge of argument lists, in a thread that may block.
    async fn judge(&self, line: String) -> Result<Permitted, Refused> {
        let (workspace, profile) = (self.workspace.at().to_owned(), self.shell);
        let judged = tokio::task::spawn_blocking(move || {
            let disk = Disk::open(workspace.as_std_path())?;
            Ok::<_, std::io::Error>(argv::judge_line(&line, None, &disk, profile))
        });
        let failed = || Refused::new("internal", "Planning failed. The log says more.");
        match judged.await.map_err(|_| failed())? {
            Ok(Verdict::Allow(permitted)) => Ok(permitted),
            Ok(Verdict::Refuse(refusal)) => Err(Refused::new(
                "command-refused",
                format!("The command is refused before it is shown: {refusal}."),
            )),
            Err(error) => {
                tracing::error!(%error, "the workspace cannot be looked at");
                Err(failed())
            }
        }
    }
}

/// What was permitted, with the program's path and the variables that every command has.
fn in_place(
    permitted: Permitted,
    find: impl FnOnce(&str) -> Option<String>,
) -> Result<Command, Refused> {
    let mut argv = permitted.argv;
    let name = argv.first().cloned().unwrap_or_default();
    let (Some(program), Some(path)) = (argv.first_mut(), find(&name)) else {
        return Err(Refused::new(
            "command-missing",
            format!(
                "{name} is not in the sandbox, does not work there, or is not where root alone could put it."
            ),
        ));
    };
    *program = path;
    let mut env = permitted.env;
    env.extend(OWN.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(Command {
        argv,
        env,
        cwd: permitted.cwd,
        writable: permitted.writable,
    })
}

/// How the command sees the workspace, in words.
fn seen(writable: &[String]) -> String {
    match writable {
        [] => "read-only".to_owned(),
        all if all.iter().any(String::is_empty) => "writable".to_owned(),
        parts => format!("read-only but for {}", parts.join(", ")),
    }
}
