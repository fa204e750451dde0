//! Putting the registry together and serving it.

use std::{net::TcpListener, sync::Arc};

use axum::middleware::from_fn_with_state;
use camino::{Utf8Path, Utf8PathBuf};
use jiff::SignedDuration;
use kazma_domain::{Clock, Entropy};
use kazma_mesh::Identity;
use kazma_metrics::{Http, Meters, count};
use kazma_runtime::Lifecycle;
use kazma_signing::SigningKey;
use kazma_store::{Database, registry::MIGRATIONS};

use crate::{Error, LeafIssuer, Metrics, Parts, Registry, Token, router};

/// How the registry is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its own folder: the database and the signing key lie there.
    pub folder: Utf8PathBuf,
    /// Tokens by which services may join.
    pub tokens: Vec<Token>,
    /// How long a card waits; [`crate::WAIT`] unless set.
    pub wait: SignedDuration,
}

impl Options {
    /// Where the database lies.
    pub fn database(&self) -> Utf8PathBuf {
        database_file(&self.folder)
    }
}

/// Where the database of the registry lies whose own folder is `folder`.
pub fn database_file(folder: &Utf8Path) -> Utf8PathBuf {
    folder.join("registry.db")
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
    pub listener: TcpListener,
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
    let database = Database::open(&options.database(), &MIGRATIONS).await?;
    let key = SigningKey::load_or_generate(&options.folder.join("permit.key"))?;
    let registry = Registry::start(Parts {
        database,
        clock,
        entropy,
        key,
        issuer,
        wait: options.wait,
        stop,
        metrics: Metrics::new(meters)?,
    })
    .await?;
    registry.show(meters);
    registry.add_tokens(options.tokens).await?;
    Ok(registry)
}

/// Serves the registry until the process is asked to end.
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
    lifecycle.spawn_essential("sweep", Arc::clone(&registry).keep_sweeping());
    lifecycle.spawn_essential("audit heads", Arc::clone(&registry).keep_signing());
    let listening = Http::new(&deps.meters)?.on("mesh");
    let app = router(Arc::clone(&registry)).layer(from_fn_with_state(listening, count));
    kazma_mesh::serve(deps.listener, deps.identity, app, lifecycle.soft()).await?;
    registry.close().await
}
