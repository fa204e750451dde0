//! Putting the registry together and serving it.

use std::{sync::Arc, time::Duration};

use axum::middleware::from_fn_with_state;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::SignedDuration;
use kazma_domain::{Clock, Entropy};
use kazma_mesh::{Identity, Listeners};
use kazma_metrics::{Http, Meters, count};
use kazma_runtime::Lifecycle;
use kazma_signing::SigningKey;
use kazma_store::{Database, Place, Server, StoreError, registry::SCHEMA};

use crate::{Error, LeafIssuer, Metrics, Parts, Registry, Token, backup, router};

/// How the registry is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its own folder: the signing key lies there, and the database unless a server has it.
    pub folder: Utf8PathBuf,
    /// The server that has the database; none for a file in the folder.
    pub server: Option<Server>,
    /// Tokens by which services may join.
    pub tokens: Vec<Token>,
    /// How long a card waits; [`crate::WAIT`] unless set.
    pub wait: SignedDuration,
}

/// The schema of the registry on a server.
pub const SERVER_SCHEMA: &str = "registry";
/// How long a start waits for a server that is not there.
const AWAY: Duration = Duration::from_secs(10);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(250);
/// Lies in the folder of a registry whose database is on a server.
const ELSEWHERE: &str = "registry.elsewhere";

/// Where the database of the registry is whose own folder is `folder`.
///
/// # Errors
///
/// A registry that has its state in the one place does not begin anew in the other without a word: cards that
/// wait there would be forgotten.
pub fn place(folder: &Utf8Path, server: Option<&Server>) -> Result<Place, Error> {
    let file = folder.join("registry.db");
    let elsewhere = folder.join(ELSEWHERE);
    match server {
        Some(server) if file.exists() => Err(Error::Moved {
            way: format!(
                "unset KAZMA_REGISTRY_DATABASE_URL, or begin anew there by moving {file} away"
            ),
            from: file.into(),
            to: server.to_string(),
        }),
        Some(server) => Ok(Place::Server(server.clone())),
        None if elsewhere.exists() => Err(Error::Moved {
            from: std::fs::read_to_string(&elsewhere)
                .map_or_else(|_| "a server".to_owned(), |text| text.trim().to_owned()),
            to: file.into(),
            way: format!(
                "set KAZMA_REGISTRY_DATABASE_URL again, or begin anew in a file by moving {elsewhere} away"
            ),
        }),
        None => Ok(Place::File(file)),
    }
}

async fn database(options: &Options) -> Result<Database, Error> {
    let place = place(&options.folder, options.server.as_ref())?;
    let until = tokio::time::Instant::now() + AWAY;
    let database = loop {
        match Database::open_at(&place, &SCHEMA).await {
            // It may be starting too.
            Err(StoreError::Unreachable { why }) if tokio::time::Instant::now() < until => {
                tracing::warn!(why, "the database server is not there yet");
                tokio::time::sleep(PAUSE).await;
            }
            opened => break opened?,
        }
    };
    if let Place::Server(server) = place {
        let path = options.folder.join(ELSEWHERE);
        std::fs::write(&path, format!("{server}\n"))
            .map_err(|error| Error::Folder { path, error })?;
    }
    Ok(database)
}

/// What the registry is given.
#[derive(Debug)]
pub struct Deps {
    /// Who it is in the mesh.
    pub identity: Arc<Identity>,
    /// Issues leaves.
    pub issuer: Arc<dyn LeafIssuer>,
    /// The clock that decides every expiry.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and salts.
    pub entropy: Arc<dyn Entropy>,
    /// Where it listens.
    pub listener: Listeners,
    /// What is counted.
    pub meters: Meters,
}

/// Opens database and key and takes up the state.
///
/// # Errors
///
/// Says why the folder cannot be used.
pub async fn open(
    options: Options,
    issuer: Arc<dyn LeafIssuer>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    stop: tokio_util::sync::CancellationToken,
    meters: &Meters,
) -> Result<Arc<Registry>, Error> {
    let database = database(&options).await?;
    let key = SigningKey::load_or_generate(&options.folder.join("permit.key"))?;
    let metrics = Metrics::new(meters)?;
    backup::show(metrics.backup(), options.folder.join(backup::STAMP), meters);
    let registry = Registry::start(Parts {
        database,
        clock,
        entropy,
        key,
        issuer,
        wait: options.wait,
        stop,
        metrics,
    })
    .await?;
    registry.show(meters);
    registry.add_tokens(options.tokens).await?;
    Ok(registry)
}

/// Opens the registry and serves it until the process is asked to end.
///
/// # Errors
///
/// Says why it could not begin or had to end.
pub async fn serve(options: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    let registry = open(
        options,
        deps.issuer,
        deps.clock,
        deps.entropy,
        lifecycle.soft(),
        &deps.meters,
    )
    .await?;
    serve_opened(
        registry,
        deps.identity,
        deps.listener,
        &deps.meters,
        lifecycle,
    )
    .await
}

/// Serves a registry that was opened, until the process is asked to end.
///
/// # Errors
///
/// Says why it had to end.
pub async fn serve_opened(
    registry: Arc<Registry>,
    identity: Arc<Identity>,
    listener: Listeners,
    meters: &Meters,
    lifecycle: Lifecycle,
) -> Result<(), Error> {
    lifecycle.spawn_essential("sweep", Arc::clone(&registry).keep_sweeping());
    lifecycle.spawn_essential("audit heads", Arc::clone(&registry).keep_signing());
    let listening = Http::new(meters)?.on("mesh");
    let app = router(Arc::clone(&registry)).layer(from_fn_with_state(listening, count));
    kazma_mesh::serve(listener, identity, app, lifecycle.soft()).await?;
    registry.close().await
}
