//! The broker's socket.

use std::{
    collections::HashMap,
    io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use camino::Utf8Path;
use kazma_domain::{CallId, Entropy};
use kazma_runtime::SystemClock;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc::unbounded_channel},
    time::timeout,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{
    BrokerError, BrokerOptions, DockerTier, EngineOptions, NativeTier, RunSpec, Tier, TierChoice,
    docker::available,
    protocol::{Reply, Request, Wire},
};

/// How long a caller may take to say what it wants.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How long a caller may take to read one frame.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long killed jails may take to be cleared away at the end.
const CLEAR_LIMIT: Duration = Duration::from_secs(10);

/// Listens on the options' socket, in place of whatever listened there before.
///
/// Anyone may connect as far as the file goes: who is served is decided by the peer's uid, and who comes near by the
/// folder. A broker without capabilities cannot give the file to anybody, and needs no more than a folder of its own.
pub fn listen(path: &Utf8Path) -> Result<UnixListener, BrokerError> {
    let failed = |source| BrokerError::Listen {
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(|source| BrokerError::Stale {
                path: path.to_owned(),
                uid: rustix::process::geteuid().as_raw(),
                source,
            })?;
        }
        Ok(_) => return Err(BrokerError::Taken(path.to_owned())),
        // Not there is the usual case; what else it may be, binding says.
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener)
}

/// Runs the broker with the tier that the options choose until `stop`; then every sandbox is killed.
///
/// `listener` is one that somebody bound already; without it, the options' socket is bound.
pub async fn serve(
    options: BrokerOptions,
    listener: Option<UnixListener>,
    entropy: Arc<dyn Entropy>,
    stop: CancellationToken,
) -> Result<(), BrokerError> {
    let listener = match listener {
        Some(listener) => listener,
        None => listen(&options.socket)?,
    };
    let (engine, note) = match options.tier.clone() {
        TierChoice::Native => (None, String::new()),
        TierChoice::Docker(engine) => (Some(engine), String::new()),
        TierChoice::Auto(engines) => first_available(engines).await,
    };
    if let Some(engine) = engine {
        let clock = Arc::new(SystemClock);
        let tier = DockerTier::start(&options, engine, note, clock, entropy, stop.clone())?;
        let tier = Arc::new(tier);
        serve_tier(Arc::clone(&tier), &options, listener, stop).await;
        clear(tier.cleared()).await;
    } else {
        let tier = Arc::new(NativeTier::chosen(&options, note, entropy, stop.clone())?);
        serve_tier(Arc::clone(&tier), &options, listener, stop).await;
        clear(tier.cleared()).await;
    }
    Ok(())
}

/// The first engine that has the image; none where none has, and why not.
async fn first_available(engines: Vec<EngineOptions>) -> (Option<EngineOptions>, String) {
    let mut reasons = Vec::new();
    for engine in engines {
        match available(&engine).await {
            Ok(()) => {
                let note = format!(
                    "The engine at {} has the image {}.",
                    engine.socket, engine.image
                );
                return (Some(engine), note);
            }
            Err(reason) => reasons.push(reason),
        }
    }
    (None, format!("No containers: {}.", reasons.join("; ")))
}

async fn clear(cleared: impl Future<Output = ()>) {
    if timeout(CLEAR_LIMIT, cleared).await.is_err() {
        tracing::error!("some sandboxes were not cleared away");
    }
}

/// Serves any tier until `stop`, and returns when all its runs have ended.
pub async fn serve_tier<T: Tier>(
    tier: Arc<T>,
    options: &BrokerOptions,
    listener: UnixListener,
    stop: CancellationToken,
) {
    let desk = Arc::new(Desk {
        tier,
        runs: Mutex::new(HashMap::new()),
        stop: stop.clone(),
    });
    let room = Arc::new(Semaphore::new(options.max_connections));
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of descriptors, most likely: turning at full speed would not help.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        match admitted(&stream, &options.allowed_uids) {
            Ok(()) => {}
            Err(uid) => {
                tracing::warn!(
                    ?uid,
                    "refused a connection from a user that may not use the broker"
                );
                continue;
            }
        }
        let place = Arc::clone(&room).try_acquire_owned().ok();
        connections.spawn(attend(Arc::clone(&desk), stream, place));
    }
    connections.close();
    connections.wait().await;
}

/// Whether the process at the other end may speak; else its uid, if known.
fn admitted(stream: &UnixStream, allowed: &[u32]) -> Result<(), Option<u32>> {
    match stream.peer_cred() {
        Ok(peer) if allowed.contains(&peer.uid()) => Ok(()),
        Ok(peer) => Err(Some(peer.uid())),
        Err(_) => Err(None),
    }
}

#[derive(Debug)]
struct Desk<T> {
    tier: Arc<T>,
    /// What is running, by call.
    runs: Mutex<HashMap<CallId, CancellationToken>>,
    stop: CancellationToken,
}

async fn attend<T: Tier>(
    desk: Arc<Desk<T>>,
    stream: UnixStream,
    place: Option<OwnedSemaphorePermit>,
) {
    let mut wire = Wire::new(stream);
    if place.is_none() {
        say(&mut wire, &refused("too many connections")).await;
        return;
    }
    let asked = timeout(REQUEST_LIMIT, wire.next::<Request>());
    match desk.stop.run_until_cancelled(asked).await {
        Some(Ok(Some(Ok(Request::Status)))) => {
            say(&mut wire, &Reply::Status(Box::new(desk.tier.status()))).await;
        }
        Some(Ok(Some(Ok(Request::Cancel { call_id })))) => {
            let found = desk.cancel(call_id);
            say(&mut wire, &Reply::Cancelled { found }).await;
        }
        Some(Ok(Some(Ok(Request::Run(spec))))) => run(&desk, &mut wire, spec).await,
        Some(Ok(Some(Err(_)))) => say(&mut wire, &refused("the request cannot be read")).await,
        // Nobody is there, or we are going.
        Some(Ok(None) | Err(_)) | None => {}
    }
}

fn refused(reason: impl Into<String>) -> Reply {
    Reply::Refused {
        reason: reason.into(),
    }
}

/// Sends what can be sent; a caller that does not read finds out by itself.
async fn say(wire: &mut Wire, reply: &Reply) {
    let _ = send(wire, reply).await;
}

async fn send(wire: &mut Wire, reply: &Reply) -> Result<(), BrokerError> {
    timeout(WRITE_LIMIT, wire.send(reply))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn run<T: Tier>(desk: &Arc<Desk<T>>, wire: &mut Wire, spec: RunSpec) {
    if let Err(reason) = spec.check() {
        return say(wire, &refused(reason)).await;
    }
    let Some(entry) = desk.enter(spec.call_id) else {
        return say(wire, &refused("this call is running already")).await;
    };
    let cancel = entry.cancel.clone();
    // Whatever ends this connection, this function included, kills the jail.
    let _kill = cancel.clone().drop_guard();
    let (chunks, mut inbox) = unbounded_channel();
    let tier = Arc::clone(&desk.tier);
    let stop = cancel.clone();
    // Apart from the connection, so that a caller who reads slowly holds nothing up.
    let running = AbortOnDropHandle::new(tokio::spawn(async move {
        tier.run(&spec, &chunks, &stop).await
    }));
    loop {
        let chunk = tokio::select! {
            chunk = inbox.recv() => chunk,
            // Nothing more is expected from the caller, so anything here means that it is gone.
            _ = wire.next::<Request>() => {
                cancel.cancel();
                break;
            }
        };
        let Some(chunk) = chunk else { break };
        if send(wire, &Reply::Chunk(chunk)).await.is_err() {
            cancel.cancel();
            break;
        }
    }
    let ended = running.await;
    // Before the caller learns of the end, so that it finds the call gone.
    drop(entry);
    match ended {
        Ok(finished) => say(wire, &Reply::Finished(finished)).await,
        Err(error) => {
            tracing::error!(%error, "a run broke");
            say(wire, &refused("the broker broke while it ran this")).await;
        }
    }
}

impl<T> Desk<T> {
    fn enter(self: &Arc<Self>, call: CallId) -> Option<Entry<T>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.contains_key(&call) {
            return None;
        }
        let cancel = self.stop.child_token();
        runs.insert(call, cancel.clone());
        Some(Entry {
            desk: Arc::clone(self),
            call,
            cancel,
        })
    }

    fn cancel(&self, call: CallId) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let run = runs.get(&call);
        if let Some(run) = run {
            run.cancel();
        }
        run.is_some()
    }
}

/// A run's place in the list, until dropped.
#[derive(Debug)]
struct Entry<T> {
    desk: Arc<Desk<T>>,
    call: CallId,
    cancel: CancellationToken,
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let mut runs = self
            .desk
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        runs.remove(&self.call);
    }
}
