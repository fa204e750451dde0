//! What every handler of the people's edge has at hand.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use camino::Utf8PathBuf;
use kazma_domain::{Clock, Entropy, ThreadId};
use kazma_store::{Database, StoreError, gateway as store};
use kazma_wire::{model::ModelInfo, runner::RunnerStatus};
use secrecy::SecretString;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    api::health::runner_status,
    guard::{
        layers::Connection,
        limits::{Limits, Rates, too_many},
        proxy::{Net, Proxies},
        site::{NotAPublicUrl, Site},
    },
    hub::Hub,
    people::People,
    upstream::{Registry, Runner},
};

/// How long what the runner said of itself holds for pages.
const LATELY: Duration = Duration::from_secs(3);
/// Forms that are remembered.
const BEGUN_MAX: usize = 256;

/// Settings of the people's edge.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The gateway's own folder; its database lies there.
    pub folder: Utf8PathBuf,
    /// Where people reach it, if not at the listening address: `https://kazma.example`.
    pub public_url: Option<String>,
    /// Whether the public listener speaks TLS itself.
    pub https: bool,
    /// The operator's shared secret (`KAZMA_SECRET`).
    pub secret: Option<SecretString>,
    /// The API token of the operator that lies in the data folder.
    pub api_token: SecretString,
    /// The supervisor's list of what runs.
    pub services_file: Utf8PathBuf,
    /// Peers whose forwarded headers are believed (`KAZMA_TRUSTED_PROXIES`).
    pub trusted_proxies: Vec<Net>,
    /// Whether this is a production deployment, which pages say.
    pub production: bool,
    /// How many requests are answered.
    pub rates: Rates,
    /// Event streams that one person may have open.
    pub streams_per_person: usize,
}

/// What the people's edge works with.
#[derive(Debug, Clone)]
pub struct Means {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The gate registry.
    pub registry: Arc<dyn Registry>,
    /// The runner.
    pub runner: Arc<dyn Runner>,
    /// The news.
    pub hub: Hub,
    /// Which model answers.
    pub model: ModelInfo,
    /// Cancelled when streams shall end.
    pub stop: CancellationToken,
}

/// Why the people's edge could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// The public URL.
    #[error(transparent)]
    PublicUrl(#[from] NotAPublicUrl),
    /// The database.
    #[error("the gateway's database cannot be used")]
    Store(#[from] StoreError),
}

/// The state of the people's edge. Clones share it.
#[derive(Debug, Clone)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    people: People,
    site: Site,
    proxies: Proxies,
    limits: Limits,
    means: Means,
    services_file: Utf8PathBuf,
    production: bool,
    listen: SocketAddr,
    streams: Arc<Mutex<HashMap<Uuid, usize>>>,
    streams_per_person: usize,
    runner_lately: tokio::sync::Mutex<Option<(tokio::time::Instant, Option<RunnerStatus>)>>,
    begun: tokio::sync::Mutex<Begun>,
    noted: watch::Sender<i64>,
}

/// Threads that forms began lately, so that a form sent twice begins one.
#[derive(Debug, Default)]
pub(crate) struct Begun(VecDeque<(String, ThreadId)>);

impl Begun {
    pub(crate) fn find(&self, key: &str) -> Option<ThreadId> {
        self.0
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, thread)| *thread)
    }

    pub(crate) fn remember(&mut self, key: String, thread: ThreadId) {
        if self.0.len() >= BEGUN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key, thread));
    }
}

impl App {
    /// Opens the people's edge, which listens on `listen`.
    ///
    /// # Errors
    ///
    /// Refuses a public URL that is none, and a database that cannot be used.
    pub async fn open(
        settings: Settings,
        means: Means,
        listen: SocketAddr,
    ) -> Result<Self, NotOpened> {
        let site = Site::new(settings.public_url.as_deref(), listen, settings.https)?;
        let db = Database::open(&settings.folder.join("gateway.db"), store::MIGRATIONS).await?;
        means.hub.begin_after(
            db.read::<_, StoreError, _>(|tx| Box::pin(store::cursor(tx)))
                .await?,
        );
        let people = People::open(
            db,
            Arc::clone(&means.clock),
            Arc::clone(&means.entropy),
            settings.secret,
            &settings.api_token,
        )
        .await?;
        Ok(Self(Arc::new(Inner {
            people,
            site,
            proxies: Proxies::new(settings.trusted_proxies),
            limits: Limits::new(settings.rates),
            means,
            services_file: settings.services_file,
            production: settings.production,
            listen,
            streams: Arc::default(),
            streams_per_person: settings.streams_per_person,
            runner_lately: tokio::sync::Mutex::default(),
            begun: tokio::sync::Mutex::default(),
            noted: watch::Sender::new(0),
        })))
    }

    pub(crate) fn people(&self) -> &People {
        &self.0.people
    }

    pub(crate) fn site(&self) -> &Site {
        &self.0.site
    }

    pub(crate) fn proxies(&self) -> &Proxies {
        &self.0.proxies
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn registry(&self) -> &dyn Registry {
        &*self.0.means.registry
    }

    pub(crate) fn runner(&self) -> &dyn Runner {
        &*self.0.means.runner
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.means.hub
    }

    pub(crate) fn model(&self) -> &ModelInfo {
        &self.0.means.model
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.means.stop
    }

    pub(crate) fn services_file(&self) -> &Utf8PathBuf {
        &self.0.services_file
    }

    pub(crate) fn is_production(&self) -> bool {
        self.0.production
    }

    /// What the runner said of itself within the last seconds; none where it does not answer.
    pub(crate) async fn runner_lately(&self) -> Option<RunnerStatus> {
        let mut lately = self.0.runner_lately.lock().await;
        if let Some((at, status)) = lately.as_ref()
            && at.elapsed() < LATELY
        {
            return status.clone();
        }
        let status = runner_status(self).await;
        *lately = Some((tokio::time::Instant::now(), status.clone()));
        status
    }

    pub(crate) async fn begun(&self) -> tokio::sync::MutexGuard<'_, Begun> {
        self.0.begun.lock().await
    }

    /// The connection of a request that came by none: a test's.
    pub(crate) fn nowhere(&self) -> Connection {
        Connection {
            peer: self.0.listen,
            local: self.0.listen,
            secure: false,
        }
    }

    /// A place for one more event stream of a person.
    pub(crate) fn stream_place(&self, person: Uuid) -> Result<StreamPlace, kazma_edge::ApiError> {
        let mut streams = self
            .0
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = streams.entry(person).or_default();
        if *open >= self.0.streams_per_person {
            return Err(too_many(5));
        }
        *open += 1;
        Ok(StreamPlace {
            streams: Arc::clone(&self.0.streams),
            person,
        })
    }

    /// How many event streams are open.
    pub(crate) fn streams(&self) -> usize {
        let streams = self
            .0
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        streams.values().sum()
    }

    /// Closes the database, so that another process may have it.
    pub async fn close(&self) {
        if let Err(error) = self.people().database().close().await {
            tracing::warn!(
                error = error.to_string(),
                "the database was not closed properly"
            );
        }
    }

    /// Waits until it is on disk that the event `seq` was told.
    pub async fn cursor_reaches(&self, seq: i64) {
        let mut noted = self.0.noted.subscribe();
        // The sender lives as long as `self`, so this ends with the number and not before.
        drop(noted.wait_for(|noted| *noted >= seq).await);
    }

    /// Tells the news until the end, and notes how far they were told.
    pub async fn follow(&self) {
        let (registry, stop) = (Arc::clone(&self.0.means.registry), self.stop().clone());
        // Before the first of them is told.
        let noted = self.hub().seen();
        tokio::join!(self.hub().follow(registry, stop), self.note_cursor(noted));
    }

    async fn note_cursor(&self, mut noted: i64) {
        while !self.stop().is_cancelled() {
            tokio::select! {
                () = self.stop().cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            let seen = self.hub().seen();
            if seen == noted {
                continue;
            }
            let kept: Result<(), StoreError> = self
                .people()
                .database()
                .write(move |tx| Box::pin(store::move_cursor(tx, seen)))
                .await;
            match kept {
                Ok(()) => {
                    noted = seen;
                    self.0.noted.send_replace(seen);
                }
                Err(error) => tracing::warn!(
                    error = error.to_string(),
                    "how far events were told was not kept"
                ),
            }
        }
    }
}

/// The place of one event stream; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    streams: Arc<Mutex<HashMap<Uuid, usize>>>,
    person: Uuid,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = streams.get_mut(&self.person) {
            *open -= 1;
            if *open == 0 {
                streams.remove(&self.person);
            }
        }
    }
}
