//! All that is ever asked of an engine. Every call has its own time limit, creates go through the guard,
//! and nothing here can run a command, build, fetch or change anything but our own containers.

use std::{sync::Arc, time::Duration};

use bollard::{
    API_DEFAULT_VERSION, BollardRequest, Docker,
    container::AttachContainerResults,
    errors::Error as ApiError,
    models::{ContainerCreateBody, SystemInfo, SystemVersion},
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, KillContainerOptionsBuilder,
        RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptions,
    },
};
use camino::Utf8Path;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{
    error::{EngineError, Step},
    guard,
    look::{self, Inspected, Listed, State},
    origin::Described,
    template::LABEL_MANAGED,
};

/// Longer than any [`Step::limit`], which are what counts.
const CLIENT_TIMEOUT_SECONDS: u64 = 120;

/// A removal that is refused is tried again after this, then after twice as long and so on.
const REMOVE_AGAIN: Duration = Duration::from_millis(50);
const REMOVE_AGAIN_MOST: Duration = Duration::from_secs(2);

/// Containers in any state with the label [`LABEL_MANAGED`]: `{"label":["kazma.sandbox=1"]}`.
const EVERY_ONE_OF_OURS: &str =
    "/containers/json?all=true&filters=%7B%22label%22%3A%5B%22kazma.sandbox%3D1%22%5D%7D";

/// A name that [`super`] has given a container. Only such names reach the engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name(Arc<str>);

impl Name {
    /// The name of the container `number` of a broker's start.
    pub(super) fn new(broker: &str, number: u64) -> Self {
        Self(format!("kazma-sandbox-{broker}-{number}").into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) id: String,
    /// Folders that it wants volumes for.
    pub(super) volumes: Vec<String>,
}

/// A connection to an engine. Cheap to clone; it opens a socket for each question.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    docker: Docker,
    socket: Arc<Utf8Path>,
    /// What comes before a path, such as `/v1.41`.
    version: String,
}

impl Engine {
    pub(super) fn connect(socket: &Utf8Path) -> Result<Self, EngineError> {
        let docker =
            Docker::connect_with_unix(socket.as_str(), CLIENT_TIMEOUT_SECONDS, API_DEFAULT_VERSION)
                .map_err(|error| EngineError::of(Step::Connect, socket, &error))?;
        Ok(Self {
            docker,
            socket: socket.into(),
            version: String::new(),
        })
    }

    /// The same engine, spoken to in one version of its API from now on.
    pub(super) fn speaking(mut self, (major, minor): (u32, u32)) -> Self {
        self.version = format!("/v{major}.{minor}");
        self.docker = self
            .docker
            .with_request_modifier(move |request| in_version(request, major, minor));
        self
    }

    async fn limited<T>(
        &self,
        step: Step,
        asked: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, EngineError> {
        match timeout(step.limit(), asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(EngineError::of(step, &self.socket, &error)),
            Err(_) => Err(EngineError::Slow { step }),
        }
    }

    pub(super) async fn facts(&self) -> Result<(SystemVersion, SystemInfo), EngineError> {
        let both = async { Ok((self.docker.version().await?, self.docker.info().await?)) };
        self.limited(Step::Facts, both).await
    }

    pub(super) async fn image(&self, reference: &str) -> Result<Image, EngineError> {
        let found = self
            .limited(Step::Image, self.docker.inspect_image(reference))
            .await?;
        let volumes = found.config.and_then(|config| config.volumes);
        Ok(Image {
            id: found.id.unwrap_or_default(),
            volumes: volumes.unwrap_or_default(),
        })
    }

    /// Creates a container, unless the guard holds the request back.
    pub(super) async fn create(
        &self,
        name: &Name,
        body: ContainerCreateBody,
        policy: &guard::Policy<'_>,
    ) -> Result<(), EngineError> {
        guard::check(&body, policy).map_err(|wrong| EngineError::HeldBack(wrong.to_string()))?;
        let options = CreateContainerOptionsBuilder::new()
            .name(name.as_str())
            .build();
        let created = self
            .limited(
                Step::Create,
                self.docker.create_container(Some(options), body),
            )
            .await?;
        match created.warnings.join("; ") {
            warnings if warnings.is_empty() => Ok(()),
            warnings => Err(EngineError::Warned(warnings)),
        }
    }

    pub(super) async fn attach(&self, name: &Name) -> Result<AttachContainerResults, EngineError> {
        let options = AttachContainerOptionsBuilder::new()
            .stream(true)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .build();
        self.limited(
            Step::Attach,
            self.docker.attach_container(name.as_str(), Some(options)),
        )
        .await
    }

    pub(super) async fn start(&self, name: &Name) -> Result<(), EngineError> {
        let start = self
            .docker
            .start_container(name.as_str(), None::<StartContainerOptions>);
        self.limited(Step::Start, start).await
    }

    pub(super) async fn kill(&self, name: &Name) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let kill = self.docker.kill_container(name.as_str(), Some(options));
        self.limited(Step::Kill, kill).await
    }

    /// Waits for the end. Answers with the exit code.
    pub(super) async fn wait(&self, name: &Name) -> Result<i64, EngineError> {
        let mut answers = self
            .docker
            .wait_container(name.as_str(), None::<WaitContainerOptions>);
        let ended = async {
            match answers.next().await {
                Some(Ok(answer)) => Ok(answer.status_code),
                // How bollard says that the code was not 0.
                Some(Err(ApiError::DockerContainerWaitError { code, .. })) => Ok(code),
                Some(Err(error)) => Err(error),
                None => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            }
        };
        self.limited(Step::Wait, ended).await
    }

    pub(super) async fn state(&self, name: &Name) -> Result<State, EngineError> {
        let path = format!("/containers/{}/json", name.as_str());
        let Inspected { state } = self.look(Step::State, &path).await?;
        Ok(state)
    }

    /// Whether the engine runs on this machine as this process sees it, and not outside of the container that this
    /// process is in.
    pub(super) async fn is_beside_us(&self) -> Result<bool, EngineError> {
        let step = Step::Connect;
        timeout(step.limit(), look::listener(&self.socket))
            .await
            .unwrap_or(Err(EngineError::Slow { step }))
    }

    /// A container of anybody's, by its id or the beginning of that.
    pub(super) async fn describe(&self, id: &str) -> Result<Described, EngineError> {
        self.look(Step::Own, &format!("/containers/{id}/json"))
            .await
    }

    async fn look<T: DeserializeOwned>(&self, step: Step, path: &str) -> Result<T, EngineError> {
        let path = format!("{}{path}", self.version);
        match timeout(step.limit(), look::get(step, &self.socket, &path)).await {
            Ok(answer) => answer,
            Err(_) => Err(EngineError::Slow { step }),
        }
    }

    /// Removes a container of ours with its anonymous volumes. One that is gone already is removed.
    pub(super) async fn remove(&self, name: &Name) -> Result<(), EngineError> {
        self.remove_any(name.as_str()).await
    }

    /// Removes what [`Engine::list`] listed.
    pub(super) async fn remove_listed(&self, listed: &Listed) -> Result<(), EngineError> {
        self.remove_any(&listed.id).await
    }

    async fn remove_any(&self, container: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        let mut pause = REMOVE_AGAIN;
        loop {
            let remove = self
                .docker
                .remove_container(container, Some(options.clone()));
            match self.limited(Step::Remove, remove).await {
                Err(EngineError::Missing { .. }) => return Ok(()),
                // Podman will not while a container is on its way from one state to the next.
                Err(EngineError::Refused { .. }) if pause <= REMOVE_AGAIN_MOST => {
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2);
                }
                other => return other,
            }
        }
    }

    /// Every container that carries our label, running or not.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let all: Vec<Listed> = self.look(Step::List, EVERY_ONE_OF_OURS).await?;
        // The filter is the engine's; what is removed is for us to judge.
        let ours = all.into_iter().filter(|listed| {
            listed
                .labels
                .get(LABEL_MANAGED)
                .is_some_and(|set| set == "1")
        });
        Ok(ours.collect())
    }
}

/// bollard leaves the version out of its paths, and then an engine takes its newest.
fn in_version(mut request: BollardRequest, major: u32, minor: u32) -> BollardRequest {
    let uri = request.uri().to_string();
    if let Some((host, path)) = split(&uri)
        && let Ok(versioned) = format!("{host}/v{major}.{minor}{path}").parse()
    {
        *request.uri_mut() = versioned;
    }
    request
}

/// `unix://HOST` and `/path?query`.
fn split(uri: &str) -> Option<(&str, &str)> {
    let after_scheme = uri.find("://")?.checked_add(3)?;
    let slash = uri
        .get(after_scheme..)?
        .find('/')?
        .checked_add(after_scheme)?;
    Some((uri.get(..slash)?, uri.get(slash..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_goes_before_the_path() {
        assert_eq!(
            split("unix://2f72/containers/create?name=x"),
            Some(("unix://2f72", "/containers/create?name=x"))
        );
        assert_eq!(split("nothing"), None);
    }
}
