//! The process: the public listener for people, the mesh listener for the agent.

use std::{io, net::TcpListener, sync::Arc};

use axum::{Router, extract::DefaultBodyLimit, middleware::from_fn_with_state, routing::get};
use camino::Utf8PathBuf;
use kazma_domain::{Clock, Entropy};
use kazma_edge::Json;
use kazma_mesh::{
    Anyone, Caller, Client, Identity, Listeners, MeshError,
    https::{Greeting, Https, NotUsable, Pem},
};
use kazma_metrics::{Http, Meters, MetricError, count};
use kazma_runtime::Lifecycle;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    api,
    app::{App, Means, NotOpened, Settings},
    guard::{layers, limits::Rates, listen, proxy::Net},
    hub::Hub,
    metrics::Metrics,
    model::{self, ModelSettings, Models, NotABaseUrl},
    web,
};

/// Bytes of one request's body.
const BODY_MAX: usize = 1024 * 1024;
/// Event streams that one person may have open, unless set.
const STREAMS: usize = 16;

/// Settings of the gateway.
#[derive(Debug, Clone)]
pub struct Options {
    /// The gateway's own folder.
    pub folder: Utf8PathBuf,
    /// Where people reach it, if not at the listening address (`KAZMA_PUBLIC_URL`).
    pub public_url: Option<String>,
    /// The operator's shared secret (`KAZMA_SECRET`).
    pub secret: Option<SecretString>,
    /// The API token of the operator that lies in the data folder.
    pub api_token: SecretString,
    /// The supervisor's list of what runs, `DIR/run/services.json`.
    pub services_file: Utf8PathBuf,
    /// Peers whose forwarded headers are believed (`KAZMA_TRUSTED_PROXIES`).
    pub trusted_proxies: Vec<Net>,
    /// Whether this is a production deployment.
    pub production: bool,
    /// Which model answers.
    pub model: ModelSettings,
    /// How many requests are answered.
    pub rates: Rates,
}

/// What the gateway is given.
#[derive(Debug)]
pub struct Deps {
    /// Its identity in the mesh.
    pub identity: Arc<Identity>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Its way to the registry.
    pub registry: Client,
    /// Its way to the runner's api process.
    pub runner: Client,
    /// Where people come in.
    pub public: TcpListener,
    /// The certificate that is shown there, and what it is renewed by; none for plain HTTP.
    pub certificate: Option<watch::Receiver<Pem>>,
    /// Where the mesh comes in.
    pub mesh: Listeners,
    /// What is counted.
    pub meters: Meters,
}

/// Why the gateway could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The people's edge.
    #[error("the people's edge could not be opened")]
    Open(#[from] NotOpened),
    /// The model's address.
    #[error("the model cannot be used")]
    Model(#[from] NotABaseUrl),
    /// The certificate of the public listener.
    #[error(transparent)]
    Certificate(#[from] NotUsable),
    /// The public listener.
    #[error("the public listener failed")]
    Listen(#[from] io::Error),
    /// The mesh listener.
    #[error("the mesh listener failed")]
    Mesh(#[from] MeshError),
    /// What it counts.
    #[error("the gateway's metrics cannot be set up")]
    Metrics(#[from] MetricError),
}

/// Everything that people and programs of people may ask, with all that stands before it.
pub fn public_router(app: App) -> Router {
    web::router()
        .merge(api::router())
        .fallback(kazma_edge::fallback)
        .method_not_allowed_fallback(kazma_edge::method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(app.clone(), layers::pass))
        .with_state(app)
}

/// What the mesh may ask.
fn mesh_router(models: Arc<Models>) -> Router {
    model::router(models).route("/v1/health", get(health))
}

async fn health(_: Caller<Anyone>) -> Json<Value> {
    Json(json!({"status": "ready"}))
}

/// Serves people and the mesh until `lifecycle` ends.
///
/// # Errors
///
/// Says what could not be opened, or which listener failed.
pub async fn serve(options: Options, deps: Deps, lifecycle: Lifecycle) -> Result<(), Error> {
    let hub = Hub::default();
    let metrics = Metrics::new(&deps.meters)?;
    let models = Arc::new(Models::new(
        options.model,
        Arc::new(hub.clone()),
        Arc::clone(&deps.entropy),
        &metrics,
    )?);
    let http = Http::new(&deps.meters)?;
    let listen = deps.public.local_addr()?;
    let https = match &deps.certificate {
        Some(certificate) => Some(Https::new(&certificate.borrow())?),
        None => None,
    };
    let settings = Settings {
        folder: options.folder,
        public_url: options.public_url,
        https: https.is_some(),
        secret: options.secret,
        api_token: options.api_token,
        services_file: options.services_file,
        trusted_proxies: options.trusted_proxies,
        production: options.production,
        rates: options.rates,
        streams_per_person: STREAMS,
    };
    if let Some(https) = &https {
        metrics.show_expiry(&deps.meters, https.clone(), deps.clock.clone());
    }
    let means = Means {
        clock: deps.clock,
        entropy: deps.entropy,
        registry: Arc::new(deps.registry),
        runner: Arc::new(deps.runner),
        hub,
        model: models.info(),
        stop: lifecycle.soft(),
    };
    let app = App::open(settings, means, listen).await?;
    tracing::info!(%listen, "people come in");
    metrics.show(&deps.meters, app.clone(), Arc::clone(&models));
    let follow = async {
        app.follow().await;
        Ok(())
    };
    let greeting = https
        .as_ref()
        .map(|https| Greeting::new(https, listen, app.site().base()));
    let soft = lifecycle.soft();
    let renewed = async {
        if let Some((https, certificate)) = https.zip(deps.certificate) {
            tokio::select! {
                () = soft.cancelled() => {}
                () = https.follow(certificate) => {}
            }
        }
        Ok(())
    };
    let people = async {
        let listening = http.clone().on("public");
        let router = public_router(app.clone()).layer(from_fn_with_state(listening, count));
        listen::serve(deps.public, router, greeting, lifecycle.soft())
            .await
            .map_err(Error::from)
    };
    let mesh = async {
        let listening = http.clone().on("mesh");
        let router = mesh_router(models).layer(from_fn_with_state(listening, count));
        kazma_mesh::serve(deps.mesh, deps.identity, router, lifecycle.soft())
            .await
            .map_err(Error::from)
    };
    let served = tokio::try_join!(follow, people, mesh, renewed);
    app.close().await;
    served.map(|_| ())
}
