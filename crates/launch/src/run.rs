//! One service's process, from its start to its end.

use std::{
    io::{BufRead, Read as _},
    net::TcpListener,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use kazma_domain::{Clock, Service};
use kazma_metrics::Meters;
use kazma_runtime::{
    BoxError, Confinement, Connect, Ended, Held, Lifecycle, SystemClock, SystemEntropy,
};
use secrecy::SecretString;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::{Invitation, Member, Peers, metrics};

/// How long what runs may take to finish once the end is asked for.
const GRACE: Duration = Duration::from_secs(3);

/// Bytes of the longest line that a supervisor says.
const LINE_MAX: u64 = 4 * 1024 * 1024;

/// What a process is told before it begins.
#[derive(Debug)]
pub struct Start {
    /// Which service it is.
    pub service: Service,
    /// Which log lines it writes.
    pub log: Option<String>,
    /// The service's own folder.
    pub folder: Utf8PathBuf,
    /// How it gets its first certificate.
    pub invitation: Invitation,
    /// Where the others are.
    pub peers: Peers,
    /// Where it shows its metrics.
    pub metrics: Vec<TcpListener>,
    /// What the process may still do.
    pub confinement: Confinement,
    /// What ends it.
    pub stop: Stop,
}

/// What ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM or SIGINT.
    Signal,
    /// SIGTERM, or the end of its standard input, which closes with its supervisor.
    SignalOrInput,
}

/// The confinement of a service that starts no program: it writes its own folder and `more`.
pub fn starts_nothing(
    folder: &Utf8Path,
    read: Vec<Utf8PathBuf>,
    more: Option<&Utf8Path>,
    connect: Connect,
) -> Confinement {
    Confinement::StartsNothing {
        read,
        write: std::iter::once(folder)
            .chain(more)
            .map(Utf8Path::to_owned)
            .chain(faults())
            .collect(),
        connect,
    }
}

/// The folder through which a test says where to die.
#[cfg(feature = "faults")]
#[expect(
    clippy::disallowed_methods,
    reason = "a test says so by the environment"
)]
fn faults() -> Option<Utf8PathBuf> {
    std::env::var(kazma_faults::FOLDER)
        .ok()
        .map(Utf8PathBuf::from)
}

#[cfg(not(feature = "faults"))]
const fn faults() -> Option<Utf8PathBuf> {
    None
}

/// Runs one service: `work` starts its tasks and returns once it serves; then they run until the end is asked
/// for. To be called before the process makes its first thread.
///
/// # Errors
///
/// Says why it could not begin, or which task ended early.
pub fn run<F>(start: Start, work: impl FnOnce(Arc<Member>) -> F) -> Result<ExitCode, BoxError>
where
    F: Future<Output = Result<(), BoxError>>,
{
    kazma_runtime::logging(start.service.name(), start.log.as_deref());
    // Before any thread: what is taken away now is taken from all that are yet to come.
    let held = kazma_runtime::confine(&start.confinement)?;
    match held {
        Held::WithoutLandlock if start.service != Service::RunnerBroker => {
            tracing::warn!("this kernel has no Landlock; services of one user are less apart");
        }
        Held::All | Held::Partly | Held::WithoutLandlock => {}
    }
    kazma_mesh::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(live(start, held, work))?;
    // Blocking work that hangs must not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(200));
    match ended {
        Ended::Asked => Ok(ExitCode::SUCCESS),
        Ended::Early { task, cause } => {
            Err(cause.unwrap_or_else(|| format!("{task} ended early").into()))
        }
    }
}

async fn live<F>(
    start: Start,
    held: Held,
    work: impl FnOnce(Arc<Member>) -> F,
) -> Result<Ended, BoxError>
where
    F: Future<Output = Result<(), BoxError>>,
{
    let life = Lifecycle::new();
    let (hear, said) = watch::channel(None);
    let stop = asked(start.stop, life.soft(), hear);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let meters = Meters::default();
    let (service, began) = (start.service, clock.now().as_second());
    kazma_metrics::build(&meters, service.name(), env!("CARGO_PKG_VERSION"), began)?;
    metrics::confinement(&meters, Some(held))?;
    for listener in start.metrics {
        let (shown, soft) = (meters.clone(), life.soft());
        life.spawn_essential("metrics", async move {
            Ok(kazma_metrics::serve(listener, shown, soft).await?)
        });
    }
    let member = Arc::new(Member {
        service,
        folder: start.folder,
        invitation: start.invitation,
        peers: start.peers,
        clock,
        entropy: Arc::new(SystemEntropy),
        meters,
        said,
        life: life.clone(),
    });
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        started = work(member) => started?,
        () = &mut stop => {
            life.stop();
            return Ok(Ended::Asked);
        }
    }
    Ok(life.run(stop, GRACE).await)
}

/// The next line of `input`; none at its end. One that is too long comes in pieces, which nobody understands.
fn line(input: &mut impl BufRead) -> Option<SecretString> {
    let mut line = String::new();
    let read = input.take(LINE_MAX).read_line(&mut line).ok()?;
    (read > 0).then(|| line.into())
}

/// Ends when the process is asked to. What is said on standard input until then is heard.
fn asked(
    by: Stop,
    soft: CancellationToken,
    hear: watch::Sender<Option<SecretString>>,
) -> impl Future<Output = ()> {
    let (closed, input_ended) = tokio::sync::oneshot::channel::<()>();
    let kept = match by {
        Stop::Signal => Some(closed),
        Stop::SignalOrInput => {
            std::thread::spawn(move || {
                let mut input = std::io::stdin().lock();
                while let Some(line) = line(&mut input) {
                    hear.send_replace(Some(line));
                }
                let _ = closed.send(());
            });
            None
        }
    };
    let signals = signal(SignalKind::terminate()).and_then(|term| {
        let interrupt = match by {
            // A terminal's Ctrl-C goes to the supervisor, which ends the services in order.
            Stop::SignalOrInput => None,
            Stop::Signal => Some(signal(SignalKind::interrupt())?),
        };
        Ok((term, interrupt))
    });
    async move {
        let _kept = kept;
        let Ok((mut term, mut interrupt)) = signals else {
            return soft.cancelled().await;
        };
        let interrupted = async {
            match &mut interrupt {
                Some(interrupt) => {
                    interrupt.recv().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = term.recv() => {}
            () = interrupted => {}
            _ = input_ended => {}
        }
    }
}
