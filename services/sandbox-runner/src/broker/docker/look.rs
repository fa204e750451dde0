//! Looking at containers: the two questions whose answers hold words that engines add to.
//!
//! bollard reads a container's state into a closed list, and fails on all of a list for one word that is not
//! in it: Podman says `stopped`, `initialized` and more. Only what counts here is read.

use std::collections::HashMap;

use camino::Utf8Path;
use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::net::UnixStream;

use super::error::{EngineError, Step};

/// Bytes of one answer: a thousand containers and more.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// A container as the engine lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    pub(super) id: String,
    #[serde(default)]
    pub(super) names: Vec<String>,
    #[serde(default)]
    pub(super) labels: HashMap<String, String>,
}

/// How a container is, as far as that decides what its run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct State {
    pub(super) running: bool,
    #[serde(rename = "OOMKilled")]
    pub(super) oom_killed: bool,
    pub(super) exit_code: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    pub(super) state: State,
}

/// What engines say when they will not.
#[derive(Debug, Deserialize)]
struct Said {
    message: String,
}

/// Asks once, over a connection of its own. The caller limits the time.
pub(super) async fn get<T: DeserializeOwned>(
    step: Step,
    socket: &Utf8Path,
    path: &str,
) -> Result<T, EngineError> {
    let unreachable = |said: &dyn std::fmt::Display| EngineError::Unreachable {
        socket: socket.to_string(),
        said: said.to_string(),
    };
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| unreachable(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(&error))?;
    let request = Request::get(path)
        .header(HOST, "engine")
        .body(Empty::<Bytes>::new())
        .map_err(|error| unreachable(&error))?;
    let asked = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| unreachable(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX)
            .collect()
            .await
            .map_err(|error| unreachable(&error))?
            .to_bytes();
        read(step, status, &body)
    };
    tokio::select! {
        answer = asked => answer,
        // Done before the answer is: the engine hung up.
        ended = connection => Err(match ended {
            Ok(()) => unreachable(&"it hung up"),
            Err(error) => unreachable(&error),
        }),
    }
}

/// Whether this process sees who listens at the socket. The kernel keeps who that was, and gives its number as it is
/// among this process's own; none, which is 0, for one outside of them (unix(7), `SO_PEERCRED`; `pid_namespaces(7)`).
pub(super) async fn listener(socket: &Utf8Path) -> Result<bool, EngineError> {
    let unreachable = |error: std::io::Error| EngineError::Unreachable {
        socket: socket.to_string(),
        said: error.to_string(),
    };
    let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    let listener = stream.peer_cred().map_err(unreachable)?;
    Ok(listener.pid().is_some_and(|number| number > 0))
}

fn read<T: DeserializeOwned>(
    step: Step,
    status: StatusCode,
    body: &[u8],
) -> Result<T, EngineError> {
    let said = || {
        serde_json::from_slice(body).map_or_else(|_| status.to_string(), |said: Said| said.message)
    };
    match status {
        StatusCode::OK => serde_json::from_slice(body).map_err(|error| EngineError::Refused {
            step,
            said: format!("its answer cannot be read: {error}"),
        }),
        StatusCode::NOT_FOUND => Err(EngineError::missing(&said())),
        _ => Err(EngineError::Refused { step, said: said() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_nobody_has_heard_of_is_no_trouble() {
        let listed: Vec<Listed> = read(
            Step::List,
            StatusCode::OK,
            br#"[{"Id":"a","Names":["/x"],"State":"stopped","Labels":{"k":"v"}},{"Id":"b","State":"new"}]"#,
        )
        .unwrap();
        assert_eq!(listed.len(), 2);
        let Inspected { state } = read(
            Step::State,
            StatusCode::OK,
            br#"{"State":{"Status":"initialized","Running":false,"OOMKilled":true,"ExitCode":137}}"#,
        )
        .unwrap();
        assert!(state.oom_killed && !state.running && state.exit_code == 137);
    }

    #[test]
    fn what_an_engine_will_not_is_told_in_its_words() {
        let answer =
            |status, body: &[u8]| read::<Inspected>(Step::State, status, body).unwrap_err();
        assert_eq!(
            answer(
                StatusCode::NOT_FOUND,
                br#"{"message":"No such container: x"}"#
            ),
            EngineError::Missing {
                what: "container: x".to_owned()
            }
        );
        let refused = answer(StatusCode::INTERNAL_SERVER_ERROR, b"not JSON");
        assert!(refused.to_string().contains("500"), "{refused}");
        assert!(matches!(
            answer(StatusCode::OK, b"[]"),
            EngineError::Refused { .. }
        ));
    }
}
