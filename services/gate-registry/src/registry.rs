//! The registry itself: the database, the clock, the key, and those who wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Clock, Entropy, Moment, Service, limits};
use kazma_mesh::{Ca, IssuedLeaf, MeshError};
use kazma_signing::SigningKey;
use kazma_store::{Database, StoreError, Tx, registry::events};
use kazma_wire::{
    events::Event,
    poll::{Polled, WAIT_MAX_MS},
};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Error, Metrics,
    step::{Change, Step},
};

/// Changes that a waiting poll may be behind before it simply looks again.
pub(crate) const CHANGES: usize = 1024;
/// Pieces of output that a slow follower may be behind; older ones are gone for it.
pub(crate) const OUTPUTS: usize = 1024;

/// Issues leaves of the mesh. The CA of this installation does; so can another one.
pub trait LeafIssuer: Send + Sync + std::fmt::Debug {
    /// Issues a leaf for `service` to the key that signed `csr` (PKCS #10, DER).
    ///
    /// # Errors
    ///
    /// Refuses a request that does not parse or is not signed by its own key.
    fn issue(&self, csr: &[u8], service: Service, now: Timestamp) -> Result<IssuedLeaf, MeshError>;

    /// The CA's certificate, PEM.
    fn ca(&self) -> &str;
}

impl LeafIssuer for Ca {
    fn issue(&self, csr: &[u8], service: Service, now: Timestamp) -> Result<IssuedLeaf, MeshError> {
        Self::issue(self, csr, service, now)
    }

    fn ca(&self) -> &str {
        self.pem()
    }
}

/// What a registry is made of.
#[derive(Debug)]
pub struct Parts {
    /// Its database, opened with [`kazma_store::registry::SCHEMA`].
    pub database: Database,
    /// The clock that decides every expiry.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and salts.
    pub entropy: Arc<dyn Entropy>,
    /// Signs permits and audit heads.
    pub key: SigningKey,
    /// Issues leaves.
    pub issuer: Arc<dyn LeafIssuer>,
    /// How long a card waits.
    pub wait: SignedDuration,
    /// Cancelled when long polls and streams shall end.
    pub stop: CancellationToken,
    /// What is counted.
    pub metrics: Metrics,
}

/// The gate registry. Every operation is one transaction; nothing is told before its commit.
#[derive(Debug)]
pub struct Registry {
    pub(crate) database: Database,
    pub(crate) key: SigningKey,
    pub(crate) issuer: Arc<dyn LeafIssuer>,
    pub(crate) wait: SignedDuration,
    pub(crate) stop: CancellationToken,
    pub(crate) outputs: broadcast::Sender<Event>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    started: Timestamp,
    pub(crate) herald: Arc<Herald>,
}

/// Tells what changed, once it is durable.
#[derive(Debug)]
pub(crate) struct Herald {
    seq: watch::Sender<i64>,
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) metrics: Metrics,
    /// When the sweep wakes by itself, in microseconds.
    pub(crate) wakes_at: AtomicI64,
    /// Woken when something is due before that.
    pub(crate) sooner: Notify,
    /// Whether somebody is about to look at what became of a commit.
    looking: AtomicBool,
}

impl Registry {
    /// Takes up the state in the database. Pending cards stay as they are.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn start(parts: Parts) -> Result<Arc<Self>, Error> {
        let last = parts
            .database
            .read(|tx| Box::pin(async move { Ok::<_, Error>(events::last(tx).await?) }))
            .await?;
        let started = whole(parts.clock.now());
        Ok(Arc::new(Self {
            database: parts.database,
            key: parts.key,
            issuer: parts.issuer,
            wait: parts.wait,
            stop: parts.stop,
            outputs: broadcast::channel(OUTPUTS).0,
            clock: parts.clock,
            entropy: parts.entropy,
            started,
            herald: Arc::new(Herald {
                seq: watch::channel(last).0,
                changes: broadcast::channel(CHANGES).0,
                metrics: parts.metrics,
                wakes_at: AtomicI64::new(i64::MIN),
                sooner: Notify::new(),
                looking: AtomicBool::new(false),
            }),
        }))
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment {
            now: whole(self.clock.now()),
            started: self.started,
        }
    }

    /// The registry's key for permits and audit heads: the public half.
    pub fn verifying_key(&self) -> kazma_signing::VerifyingKey {
        self.key.verifying_key()
    }

    /// Runs `f` in one transaction, judged at the moment it runs, and tells what changed once it is
    /// durable.
    pub(crate) async fn write<T, F>(&self, f: F) -> Result<T, Error>
    where
        F: for<'c> FnOnce(&'c mut Tx, &'c mut Step) -> BoxFuture<'c, Result<T, Error>>
            + Send
            + 'static,
        T: Send + 'static,
    {
        let (clock, entropy, started) = (
            Arc::clone(&self.clock),
            Arc::clone(&self.entropy),
            self.started,
        );
        let (database, herald) = (self.database.clone(), Arc::clone(&self.herald));
        let ending = self.stop.clone();
        // A caller who hangs up drops its request, but not what was committed for it: that is told all
        // the same, or whoever waits for it would wait out a whole poll.
        let telling = async move {
            let written = database
                .write(move |tx| {
                    Box::pin(async move {
                        let moment = Moment {
                            now: whole(clock.now()),
                            started,
                        };
                        let mut step = Step::new(moment, entropy);
                        let value = f(tx, &mut step).await?;
                        Ok::<_, Error>((value, step))
                    })
                })
                .await;
            if matches!(&written, Err(Error::Store(error)) if error.is_unknown()) {
                herald.look_again(database, ending);
            }
            let (value, step) = written?;
            herald.announce(step);
            Ok(value)
        };
        let told = tokio::spawn(telling.in_current_span());
        told.await.map_err(|error| Error::Task(error.into()))?
    }

    /// Runs `f` on one consistent view.
    pub(crate) async fn read<T, F>(&self, f: F) -> Result<T, Error>
    where
        F: for<'c> FnOnce(&'c mut Tx) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        self.database.read(f).await
    }

    /// Finishes what waits and lets go of the database.
    ///
    /// # Errors
    ///
    /// Fails when the files could not be closed properly; what was committed is safe.
    pub async fn close(&self) -> Result<(), Error> {
        self.stop.cancel();
        Ok(self.database.close().await?)
    }

    /// The last event, as it grows.
    pub(crate) fn sequence(&self) -> watch::Receiver<i64> {
        self.herald.seq.subscribe()
    }

    /// Looks until there is something, or `wait_ms` is over, or the registry stops. Looks again only
    /// when something changed that `concerns` it.
    pub(crate) async fn poll<T, F>(
        &self,
        wait_ms: u64,
        concerns: impl Fn(&Change) -> bool + Send,
        look: F,
    ) -> Result<Polled<T>, Error>
    where
        F: Fn() -> BoxFuture<'static, Result<Polled<T>, Error>> + Send,
    {
        let mut changes = self.herald.changes.subscribe();
        let until = tokio::time::Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MAX_MS));
        loop {
            let polled = look().await?;
            if !polled.items.is_empty() || wait_ms == 0 {
                return Ok(polled);
            }
            loop {
                tokio::select! {
                    change = changes.recv() => match change {
                        Ok(change) if change != Change::Anything && !concerns(&change) => {}
                        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => break,
                        Err(broadcast::error::RecvError::Closed) => return Ok(polled),
                    },
                    () = tokio::time::sleep_until(until) => return Ok(polled),
                    () = self.stop.cancelled() => return Ok(polled),
                }
            }
        }
    }
}

impl Herald {
    /// The last event is at least this one.
    fn reach(&self, last: i64) {
        self.seq.send_if_modified(|seq| {
            let newer = last > *seq;
            *seq = last.max(*seq);
            newer
        });
    }

    /// What became of a commit is not known. Once it is, whoever waits for what it may have changed is told to
    /// look.
    fn look_again(self: &Arc<Self>, database: Database, stop: CancellationToken) {
        if self.looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let herald = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                // Before it looks: what is lost while it looks needs another look.
                herald.looking.store(false, Ordering::SeqCst);
                // As a write: that can begin only once the lost one has ended.
                let last = database.write::<_, StoreError, _>(|tx| Box::pin(events::last(tx)));
                match last.await {
                    Ok(last) => {
                        herald.reach(last);
                        drop(herald.changes.send(Change::Anything));
                        herald.sooner.notify_one();
                        return;
                    }
                    Err(StoreError::Closed) => return,
                    Err(_) => tokio::select! {
                        () = tokio::time::sleep(Duration::from_secs(1)) => {}
                        () = stop.cancelled() => return,
                    },
                }
            }
        });
    }

    fn announce(&self, step: Step) {
        self.reach(step.last);
        self.metrics.count(step.counts);
        for change in step.changes {
            // Nobody waits: then nobody is told.
            drop(self.changes.send(change));
        }
        if step
            .due
            .is_some_and(|due| due.as_microsecond() < self.wakes_at.load(Ordering::SeqCst))
        {
            self.sooner.notify_one();
        }
    }
}

/// How long a card waits unless set.
pub const WAIT: SignedDuration = limits::PARKED_WAIT;

/// Whole microseconds: what the database keeps, so that a time read back is the time that was judged.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
