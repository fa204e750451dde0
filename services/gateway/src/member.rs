//! The gateway as a process: what it is told, what it may do, and its start.

use std::net::{SocketAddr, TcpListener};

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use kazma_domain::Service;
use kazma_launch::{Member, Usage, starts_nothing, switch};
use kazma_mesh::{
    Enrolment, Listeners,
    https::{Files, NotUsable, Pem},
};
use kazma_runtime::{BoxError, Confinement, Connect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    Deps, Net, Options, Rates,
    model::{Limits, ModelSettings},
    serve,
};

/// How much of a conversation a model is sent unless it says otherwise: about 32,000 tokens.
const CONTEXT_BYTES: usize = 128 * 1024;
/// The shortest secret that the operator may set, in bytes.
const SECRET_MIN: usize = 16;

/// What the operator decides about the people's edge.
#[derive(Debug, Args)]
pub struct Edge {
    /// The shared operator secret; any other address than loopback needs it
    #[arg(long, env = "KAZMA_SECRET", hide_env_values = true, hide = true)]
    pub secret: Option<SecretString>,
    /// A file that holds the shared operator secret
    #[arg(long, env = "KAZMA_SECRET_FILE", value_name = "FILE", hide = true)]
    pub secret_file: Option<Utf8PathBuf>,
    /// The address that people type, if it is another, such as `https://kazma.example`
    #[arg(long, env = "KAZMA_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Reverse proxies whose forwarded headers are believed: addresses and CIDRs, with commas
    #[arg(
        long,
        env = "KAZMA_TRUSTED_PROXIES",
        value_name = "LIST",
        default_value = ""
    )]
    pub trusted_proxies: String,
    /// The certificate to serve HTTPS with, its chain behind it (PEM)
    #[arg(long, env = "KAZMA_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<Utf8PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, env = "KAZMA_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<Utf8PathBuf>,
    /// Strict posture
    #[arg(long, env = "KAZMA_PRODUCTION", action = clap::ArgAction::Set, value_parser = switch, default_value = "0", hide = true)]
    pub production: bool,
}

impl Edge {
    /// The operator's secret; none where none is set.
    ///
    /// # Errors
    ///
    /// Refuses one that is too short to be one.
    pub fn secret(&self) -> Result<Option<SecretString>, Usage> {
        let file = self.secret_file.as_deref();
        let secret = kazma_launch::secret(self.secret.clone(), file, "KAZMA_SECRET")?;
        match secret {
            Some(secret) if secret.expose_secret().len() < SECRET_MIN => Err(Usage(format!(
                "KAZMA_SECRET: use at least {SECRET_MIN} characters"
            ))),
            secret => Ok(secret),
        }
    }

    /// The declared proxies: addresses and CIDRs. `*` would trust everybody, which is nobody's wish.
    ///
    /// # Errors
    ///
    /// Names what is neither.
    pub fn proxies(&self) -> Result<Vec<String>, Usage> {
        let nets = self.trusted_proxies.split(',').map(str::trim);
        nets.filter(|net| !net.is_empty())
            .map(|net| match net.parse::<Net>() {
                Ok(_) => Ok(net.to_owned()),
                Err(error) => Err(Usage(format!("KAZMA_TRUSTED_PROXIES: {net}: {error}"))),
            })
            .collect()
    }

    /// The certificate that people are shown, and where a renewed one will lie; none for plain HTTP.
    ///
    /// # Errors
    ///
    /// Refuses half a pair, one that cannot be used, and a public URL that is not https.
    pub fn certificate(&self) -> Result<Option<(Files, Pem)>, Usage> {
        let usage = |error: NotUsable| Usage(error.to_string());
        let files = Files::new(self.tls_cert.as_deref(), self.tls_key.as_deref()).map_err(usage)?;
        let Some(files) = files else { return Ok(None) };
        if self
            .public_url()
            .is_some_and(|url| url.starts_with("http://"))
        {
            return Err(Usage(
                "KAZMA_PUBLIC_URL: use https://, or unset KAZMA_TLS_CERT and KAZMA_TLS_KEY"
                    .to_owned(),
            ));
        }
        let pem = files.read().map_err(usage)?;
        Ok(Some((files, pem)))
    }

    /// The address that people type; none where none is set.
    pub fn public_url(&self) -> Option<String> {
        self.public_url.clone().filter(|url| !url.is_empty())
    }
}

/// Where a real model is.
#[derive(Debug, Args)]
pub struct Endpoint {
    /// Any OpenAI-compatible endpoint, such as `http://localhost:11434/v1`
    #[arg(
        long = "model-base-url",
        env = "KAZMA_MODEL_BASE_URL",
        value_name = "URL"
    )]
    base_url: Option<String>,
    /// The model's name there
    #[arg(long = "model", env = "KAZMA_MODEL", value_name = "NAME")]
    name: Option<String>,
    /// The key, if the endpoint wants one
    #[arg(
        long = "model-api-key",
        env = "KAZMA_MODEL_API_KEY",
        hide_env_values = true,
        hide = true
    )]
    api_key: Option<SecretString>,
    /// A file that holds the key
    #[arg(
        long = "model-api-key-file",
        env = "KAZMA_MODEL_API_KEY_FILE",
        value_name = "FILE"
    )]
    api_key_file: Option<Utf8PathBuf>,
}

impl Endpoint {
    /// Which model that is; `demo` asks for the scripted one.
    ///
    /// # Errors
    ///
    /// Refuses an endpoint without a model's name, and two keys.
    pub fn model(self, demo: bool) -> Result<Model, Usage> {
        if demo {
            return Ok(Model::Demo);
        }
        let Some(base_url) = self.base_url.filter(|url| !url.is_empty()) else {
            return Ok(Model::None);
        };
        let name = self.name.filter(|name| !name.is_empty()).ok_or_else(|| {
            Usage("KAZMA_MODEL: name the model to use at KAZMA_MODEL_BASE_URL".to_owned())
        })?;
        let file = self.api_key_file.as_deref();
        let api_key = kazma_launch::secret(self.api_key, file, "KAZMA_MODEL_API_KEY")?;
        Ok(Model::OpenAi {
            base_url,
            name,
            api_key,
        })
    }
}

/// Which model the gateway speaks to.
#[derive(Debug, Clone)]
pub enum Model {
    /// None is set: the pages say so.
    None,
    /// The scripted one.
    Demo,
    /// An OpenAI-compatible endpoint.
    OpenAi {
        /// Where.
        base_url: String,
        /// The model's name there.
        name: String,
        /// The key.
        api_key: Option<SecretString>,
    },
}

/// What the gateway's process is told. Its secrets are plain here: this travels through a pipe, and is never
/// shown.
#[derive(Serialize, Deserialize)]
pub struct Settings {
    /// Where people come in, as the supervisor knows it.
    pub public_url: Option<String>,
    /// The operator's API token.
    pub api_token: String,
    /// The operator's shared secret.
    pub secret: Option<String>,
    /// The list of what runs.
    pub services_file: Utf8PathBuf,
    /// Whose forwarded headers are believed.
    pub trusted_proxies: Vec<String>,
    /// Whether this is a production deployment.
    pub production: bool,
    /// Which model answers.
    pub model: PlainModel,
    /// The certificate to serve HTTPS with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Pem>,
}

/// A [`Model`] as it travels.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlainModel {
    /// See [`Model::None`].
    None,
    /// See [`Model::Demo`].
    Demo,
    /// See [`Model::OpenAi`].
    OpenAi {
        /// Where.
        base_url: String,
        /// The model's name there.
        name: String,
        /// The key.
        api_key: Option<String>,
    },
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("public_url", &self.public_url)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("production", &self.production)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PlainModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Demo => "Demo",
            Self::OpenAi { .. } => "OpenAi",
        })
    }
}

impl From<&Model> for PlainModel {
    fn from(model: &Model) -> Self {
        match model {
            Model::None => Self::None,
            Model::Demo => Self::Demo,
            Model::OpenAi {
                base_url,
                name,
                api_key,
            } => Self::OpenAi {
                base_url: base_url.clone(),
                name: name.clone(),
                api_key: api_key.as_ref().map(|key| key.expose_secret().to_owned()),
            },
        }
    }
}

impl From<PlainModel> for ModelSettings {
    fn from(model: PlainModel) -> Self {
        match model {
            PlainModel::None => Self::Unset,
            PlainModel::Demo => Self::Demo,
            PlainModel::OpenAi {
                base_url,
                name,
                api_key,
            } => Self::OpenAi {
                base_url,
                model: name,
                api_key: api_key.map(Into::into),
                context_bytes: CONTEXT_BYTES,
                limits: Limits::default(),
            },
        }
    }
}

impl Settings {
    /// What the process may still do. It connects wherever a model is, and reads a renewed certificate where
    /// `files` lie.
    pub fn confinement(&self, folder: &Utf8Path, files: Option<&Files>) -> Confinement {
        let run = self.services_file.parent().map(ToOwned::to_owned);
        let read = run
            .into_iter()
            .chain(files.map(Files::folders).into_iter().flatten());
        starts_nothing(folder, read.collect(), None, Connect::Anywhere)
    }
}

/// Where commands on this machine reach a gateway that listens at `at`: in plain, also where it serves HTTPS.
pub fn api_url(mut at: SocketAddr) -> String {
    if at.ip().is_unspecified() {
        at.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    format!("http://{at}")
}

/// Starts the gateway; it serves when this returns. Renewed certificates come by `renewed`, if any can.
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start(
    member: &Member,
    mesh: Listeners,
    public: TcpListener,
    settings: Settings,
    renewed: Option<watch::Receiver<Pem>>,
) -> Result<(), BoxError> {
    let Enrolment { identity, .. } = member.enrol().await?;
    let at = mesh.local_addr()?;
    let options = Options {
        folder: member.folder.clone(),
        public_url: settings.public_url,
        secret: settings.secret.map(Into::into),
        api_token: settings.api_token.into(),
        services_file: settings.services_file,
        trusted_proxies: settings
            .trusted_proxies
            .iter()
            .map(|net| net.parse())
            .collect::<Result<_, _>>()?,
        production: settings.production,
        model: settings.model.into(),
        rates: Rates::default(),
    };
    let deps = Deps {
        identity: identity.clone(),
        clock: member.clock.clone(),
        entropy: member.entropy.clone(),
        registry: member.client(&identity, Service::GateRegistry)?,
        runner: member.client(&identity, Service::RunnerApi)?,
        public,
        certificate: renewed.or_else(|| settings.certificate.map(|pem| watch::channel(pem).1)),
        mesh,
        meters: member.meters.clone(),
    };
    let life = member.life.clone();
    member.life.spawn_essential("gateway", async move {
        serve(options, deps, life).await.map_err(Into::into)
    });
    member.answers(&identity, at).await
}
