//! The api's side of the broker's socket.

use std::time::Duration;

use camino::Utf8PathBuf;
use kazma_domain::CallId;
use tokio::{net::UnixStream, time::timeout};

use super::{
    BrokerError, BrokerStatus, Chunk, Finished, Outcome, OutputStream, RunSpec,
    protocol::{Reply, Request, Wire},
};

/// How long the broker may take to accept or to answer a question.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How much longer than a run's own time its end may take: waiting for a jail, killing, clearing.
const PATIENCE: Duration = Duration::from_secs(150);

/// Asks the broker. Cheap to clone; each question has a connection of its own.
#[derive(Debug, Clone)]
pub struct BrokerClient {
    socket: Utf8PathBuf,
}

impl BrokerClient {
    /// A client of the broker at `socket`. Nothing is opened yet.
    pub fn new(socket: impl Into<Utf8PathBuf>) -> Self {
        Self {
            socket: socket.into(),
        }
    }

    async fn ask(&self, request: &Request) -> Result<Wire, BrokerError> {
        let unreachable = |source| BrokerError::Unreachable {
            path: self.socket.clone(),
            source,
        };
        let stream = timeout(ANSWER_LIMIT, UnixStream::connect(&self.socket))
            .await
            .map_err(|_| unreachable(std::io::ErrorKind::TimedOut.into()))?
            .map_err(unreachable)?;
        let mut wire = Wire::new(stream);
        wire.send(request).await?;
        Ok(wire)
    }

    async fn answer(&self, request: &Request) -> Result<Reply, BrokerError> {
        let mut wire = self.ask(request).await?;
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        match timeout(ANSWER_LIMIT, wire.next()).await {
            Ok(Some(Ok(Reply::Refused { reason }))) => Err(BrokerError::Refused(reason)),
            Ok(Some(reply)) => reply,
            Ok(None) => Err(gone().into()),
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    /// What the broker says about itself.
    pub async fn status(&self) -> Result<BrokerStatus, BrokerError> {
        match self.answer(&Request::Status).await? {
            Reply::Status(status) => Ok(*status),
            _ => Err(BrokerError::Malformed),
        }
    }

    /// Kills a run. Answers whether there was one; its own stream then ends with [`Outcome::Cancelled`].
    pub async fn cancel(&self, call_id: CallId) -> Result<bool, BrokerError> {
        match self.answer(&Request::Cancel { call_id }).await? {
            Reply::Cancelled { found } => Ok(found),
            _ => Err(BrokerError::Malformed),
        }
    }

    /// Asks for a run. It goes on until the stream says [`RunEvent::Finished`]; dropping the stream kills it.
    ///
    /// Fails only when the broker cannot be reached: then nothing ran. A broker that is lost later shows as
    /// [`Outcome::Lost`].
    pub async fn run(&self, spec: RunSpec) -> Result<RunStream, BrokerError> {
        if let Err(reason) = spec.check() {
            return Err(BrokerError::Refused(reason));
        }
        let patience = spec.timeout.saturating_add(PATIENCE);
        let wire = self.ask(&Request::Run(spec)).await?;
        Ok(RunStream {
            wire: Some(wire),
            patience,
        })
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// Output.
    Chunk(Chunk),
    /// The end; nothing follows.
    Finished(Finished),
}

/// A run that is going on.
#[derive(Debug)]
pub struct RunStream {
    /// `None` after the end.
    wire: Option<Wire>,
    /// The longest silence.
    patience: Duration,
}

/// All that a run said, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Standard output, up to the cap.
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    pub stderr: Vec<u8>,
    /// The end.
    pub finished: Finished,
}

impl RunStream {
    /// The next event; `None` after [`RunEvent::Finished`], which always comes. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<RunEvent> {
        let wire = self.wire.as_mut()?;
        let lost = match timeout(self.patience, wire.next::<Reply>()).await {
            Ok(Some(Ok(Reply::Chunk(chunk)))) => return Some(RunEvent::Chunk(chunk)),
            Ok(Some(Ok(Reply::Finished(finished)))) => {
                self.wire = None;
                return Some(RunEvent::Finished(finished));
            }
            Ok(Some(Ok(Reply::Refused { reason }))) => format!("the broker refused: {reason}"),
            Ok(Some(Ok(_) | Err(_))) => "the broker's answer cannot be read".to_owned(),
            Ok(None) => "the broker is gone".to_owned(),
            Err(_) => "the broker fell silent".to_owned(),
        };
        self.wire = None;
        let outcome = Outcome::Lost { reason: lost };
        Some(RunEvent::Finished(Finished::without_output(outcome)))
    }

    /// Reads to the end.
    pub async fn collect(mut self) -> Collected {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next().await {
                Some(RunEvent::Chunk(Chunk { stream, data })) => match stream {
                    OutputStream::Stdout => stdout.extend_from_slice(&data),
                    OutputStream::Stderr => stderr.extend_from_slice(&data),
                },
                Some(RunEvent::Finished(finished)) => {
                    return Collected {
                        stdout,
                        stderr,
                        finished,
                    };
                }
                None => {
                    let reason = "the run's end was read already".to_owned();
                    let finished = Finished::without_output(Outcome::Lost { reason });
                    return Collected {
                        stdout,
                        stderr,
                        finished,
                    };
                }
            }
        }
    }
}
