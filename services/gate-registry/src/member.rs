//! The registry as a process: what it is told, what it may do, and its start.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kazma_domain::{Digest, Service};
use kazma_launch::{Member, Usage, starts_nothing};
use kazma_mesh::{Ca, Listeners};
use kazma_runtime::{BoxError, Confinement, Connect};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::{Options, SERVER_SCHEMA, Server, Token, open, serve_opened};

/// The port of name servers, which are asked over TCP where an answer is long.
const NAMES: u16 = 53;

/// Where the registry's database is, if it is not in the data folder.
#[derive(Debug, Clone, Args)]
pub struct Store {
    /// A PostgreSQL server, such as `postgres://kazma:PASSWORD@db.lan/kazma`
    #[arg(
        id = "registry_database_url",
        long = "registry-database-url",
        env = "KAZMA_REGISTRY_DATABASE_URL",
        hide_env_values = true,
        hide = true
    )]
    url: Option<SecretString>,
    /// A file that holds the URL of a PostgreSQL server for the registry
    #[arg(
        id = "registry_database_url_file",
        long = "registry-database-url-file",
        env = "KAZMA_REGISTRY_DATABASE_URL_FILE",
        value_name = "FILE"
    )]
    url_file: Option<Utf8PathBuf>,
}

impl Store {
    /// The URL; none where none is set.
    ///
    /// # Errors
    ///
    /// Refuses what names no server, and both ways of setting it at once.
    pub fn url(self) -> Result<Option<SecretString>, Usage> {
        let file = self.url_file.as_deref();
        let url = kazma_launch::secret(self.url, file, "KAZMA_REGISTRY_DATABASE_URL")?;
        if let Some(url) = &url {
            server(url)?;
        }
        Ok(url)
    }

    /// The server; none where none is set.
    ///
    /// # Errors
    ///
    /// As [`Store::url`].
    pub fn server(self) -> Result<Option<Server>, Usage> {
        self.url()?.as_ref().map(server).transpose()
    }
}

fn server(url: &SecretString) -> Result<Server, Usage> {
    Server::new(url, SERVER_SCHEMA)
        .map_err(|error| Usage(format!("KAZMA_REGISTRY_DATABASE_URL: {error}")))
}

/// How long cards wait.
#[derive(Debug, Clone, Copy, Args)]
pub struct Approval {
    /// How long a card waits for an answer, in seconds: 60 to 2592000 (30 days)
    #[arg(
        long = "approval-timeout",
        env = "KAZMA_APPROVAL_TIMEOUT_SECONDS",
        default_value_t = 86_400,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(60..=2_592_000)
    )]
    pub seconds: u32,
}

/// What the registry's process is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Whom it lets into the mesh.
    pub invitations: Vec<Invitation>,
    /// Seconds that a card waits for an answer.
    pub approval_timeout: u32,
    /// The URL of the server that has the database; none for a file.
    #[serde(default)]
    pub database: Option<String>,
}

/// A join token as the registry knows it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Invitation {
    /// Whom it lets in.
    pub service: Service,
    /// The digest of the secret's text.
    pub digest: Digest,
    /// Not good from then on.
    pub expires_at: Timestamp,
}

impl Settings {
    fn server(&self) -> Result<Option<Server>, Usage> {
        let url = self.database.clone().map(SecretString::from);
        url.as_ref().map(server).transpose()
    }

    /// What the process may still do: it connects to its database alone, and to itself at `ports`.
    pub fn confinement(
        &self,
        folder: &Utf8Path,
        ports: &[u16],
        more: Option<&Utf8Path>,
    ) -> Confinement {
        let server = self.server().ok().flatten();
        let mut ports = ports.to_vec();
        // A server elsewhere has a name to be found first.
        ports.extend(
            server
                .as_ref()
                .and_then(Server::port)
                .into_iter()
                .flat_map(|port| [port, NAMES]),
        );
        let certificates = server.map(|server| server.files().to_vec());
        starts_nothing(
            folder,
            certificates.unwrap_or_default(),
            more,
            Connect::Ports(ports),
        )
    }
}

/// Starts the registry; it serves when this returns. The digest of its CA, which join tokens name.
///
/// # Errors
///
/// Says why it cannot begin.
pub async fn start(
    member: &Member,
    listeners: Listeners,
    settings: Settings,
) -> Result<Digest, BoxError> {
    let ca = Arc::new(Ca::load_or_create(
        &member.folder.join("ca"),
        member.clock.now(),
    )?);
    let identity = kazma_mesh::own_identity(&member.keys(), &ca, member.clock.as_ref())?;
    member.show_expiry(&identity)?;
    let (own, authority, clock) = (identity.clone(), ca.clone(), member.clock.clone());
    let soft = member.life.soft();
    member.life.spawn_essential("certificate", async move {
        kazma_mesh::keep_own_fresh(own, authority, clock, soft)
            .await
            .map_err(Into::into)
    });
    let at = listeners.local_addr()?;
    let options = Options {
        folder: member.folder.clone(),
        server: settings.server()?,
        wait: SignedDuration::from_secs(i64::from(settings.approval_timeout)),
        tokens: settings
            .invitations
            .into_iter()
            .map(|invitation| Token {
                service: invitation.service,
                digest: invitation.digest,
                expires_at: Some(invitation.expires_at),
            })
            .collect(),
    };
    // Before it serves: why it cannot is what whoever starts it must be told.
    let opening = open(
        options,
        ca.clone(),
        member.clock.clone(),
        member.entropy.clone(),
        member.life.soft(),
        &member.meters,
    );
    let soft = member.life.soft();
    let opened = tokio::select! {
        opened = opening => opened?,
        () = soft.cancelled() => return Err("stopped before it served".into()),
    };
    let (life, meters, own) = (member.life.clone(), member.meters.clone(), identity.clone());
    member.life.spawn_essential("registry", async move {
        serve_opened(opened, own, listeners, &meters, life)
            .await
            .map_err(Into::into)
    });
    member.answers(&identity, at).await?;
    Ok(ca.digest())
}
