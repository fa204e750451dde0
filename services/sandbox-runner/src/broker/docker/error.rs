//! What goes wrong between the broker and an engine.

use std::time::Duration;

use bollard::errors::Error as ApiError;
use camino::Utf8Path;

/// What was asked of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Connect,
    Facts,
    Image,
    Create,
    Attach,
    Start,
    Kill,
    Wait,
    State,
    Own,
    Remove,
    List,
}

impl Step {
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Facts => "describe itself",
            Self::Image => "look for the image",
            Self::Create => "create a container",
            Self::Attach => "attach to a container",
            Self::Start => "start a container",
            Self::Kill => "kill a container",
            Self::Wait => "wait for a container",
            Self::State => "look at a container",
            Self::Own => "look at the broker's container",
            Self::Remove => "remove a container",
            Self::List => "list containers",
        }
    }

    /// How long the engine may take. A start is most of what a container costs, and on a busy machine
    /// seconds.
    pub(super) const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Connect | Self::Facts | Self::Image => 5,
            Self::Attach | Self::State | Self::Own | Self::Kill | Self::List => 10,
            Self::Create | Self::Wait => 20,
            Self::Start | Self::Remove => 30,
        })
    }
}

/// A container could not be made or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EngineError {
    /// There is no engine.
    #[error("the container engine cannot be reached at {socket}: {said}")]
    Unreachable { socket: String, said: String },
    /// It does not answer.
    #[error("the container engine did not {} within {} seconds", step.verb(), step.limit().as_secs())]
    Slow { step: Step },
    /// What was asked for is not there.
    #[error("the container engine has no {what}")]
    Missing { what: String },
    /// It will not.
    #[error("the container engine would not {}: {said}", step.verb())]
    Refused { step: Step, said: String },
    /// It warned that a limit will not hold.
    #[error("the container engine will not hold what it was asked to: {0}")]
    Warned(String),
    /// Our own second check found a request that must not be made.
    #[error("a request to the engine was held back: {0}")]
    HeldBack(String),
    /// The init could not lock the container down, or there is none in the image.
    #[error("the container could not be locked down: {0}")]
    LockDown(String),
    /// The folder inside is not the folder outside.
    #[error("the container sees another workspace than the broker")]
    OtherWorkspace,
    /// What it shall write cannot be mounted so.
    #[error("the workspace cannot be written to: {0}")]
    Access(#[from] crate::jail::AccessError),
    /// It ended while it waited for work.
    #[error("the container ended before it was used")]
    Died,
    /// Nothing has been found out about the engine yet, or it no longer holds.
    #[error("the container engine is not known yet")]
    NotPrepared,
}

impl EngineError {
    pub(super) fn of(step: Step, socket: &Utf8Path, error: &ApiError) -> Self {
        match error {
            ApiError::DockerResponseServerError {
                status_code: 404,
                message,
            } => Self::missing(message),
            ApiError::DockerResponseServerError { message, .. } => Self::Refused {
                step,
                said: message.clone(),
            },
            ApiError::RequestTimeoutError => Self::Slow { step },
            other => Self::Unreachable {
                socket: socket.to_string(),
                said: innermost(other),
            },
        }
    }

    /// What an engine says of something that is not there: `No such container: x`, or Podman's longer words.
    pub(super) fn missing(message: &str) -> Self {
        Self::Missing {
            what: message.trim_start_matches("No such ").to_owned(),
        }
    }

    /// Whether what was found out about the engine has to be found out anew.
    pub(super) const fn unsettles(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Missing { .. })
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
