//! The flags, parsed into what can be run. What may not be is refused here, with the fix.

use std::net::SocketAddr;

use camino::{Utf8Path, Utf8PathBuf};
use kazma_gateway::member::Model;
use kazma_launch::Usage;
use kazma_mesh::https::{Files, Pem};
use kazma_netguard::Origin;
use kazma_sandbox_runner::member::{Tier, api::Groups};
use secrecy::SecretString;

use crate::{cli, metrics::Wanted};

/// What `kazma up` shall do.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) tier: Tier,
    pub(crate) data_dir: Utf8PathBuf,
    pub(crate) workspace: Option<Utf8PathBuf>,
    /// Seconds that a card waits for an answer.
    pub(crate) approval_timeout: u32,
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) secret: Option<SecretString>,
    pub(crate) trusted_proxies: Vec<String>,
    /// The certificate to serve HTTPS with, and where a renewed one will lie.
    pub(crate) certificate: Option<(Files, Pem)>,
    pub(crate) model: Model,
    /// Where searches go.
    pub(crate) search: Option<Origin>,
    /// The URL of the server that has the registry's database.
    pub(crate) registry_database: Option<SecretString>,
    pub(crate) production: bool,
    pub(crate) shell: Groups,
    pub(crate) json: bool,
    pub(crate) metrics: Wanted,
    pub(crate) log: Option<String>,
}

impl TryFrom<cli::Up> for Settings {
    type Error = Usage;

    fn try_from(up: cli::Up) -> Result<Self, Usage> {
        let local = up.listen.ip().is_loopback();
        let secret = up.edge.secret()?;
        if !local && secret.is_none() {
            return Err(Usage(format!(
                "--listen {}: set KAZMA_SECRET to serve on any other address than loopback",
                up.listen
            )));
        }
        if up.demo && up.edge.production {
            return Err(Usage(
                "--demo is for trying out; take it away, or unset KAZMA_PRODUCTION".into(),
            ));
        }
        if up.demo && !local {
            return Err(Usage(
                "--demo serves on loopback alone; take away --demo or --listen".into(),
            ));
        }
        Ok(Self {
            registry_database: up.store.url()?,
            tier: up.sandbox.tier(up.engine)?,
            data_dir: absolute(&up.place.path())?,
            workspace: up.workspace.as_deref().map(absolute).transpose()?,
            approval_timeout: up.approval.seconds,
            listen: up.listen,
            public_url: up.edge.public_url(),
            secret,
            trusted_proxies: up.edge.proxies()?,
            certificate: up.edge.certificate()?,
            model: up.endpoint.model(up.demo)?,
            search: up.search.origin()?,
            production: up.edge.production,
            shell: up.shell.groups(up.edge.production)?,
            json: up.json,
            metrics: up.metrics_listen,
            log: up.log,
        })
    }
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Usage> {
    camino::absolute_utf8(path).map_err(|error| Usage(format!("{path}: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, Usage> {
        let all = ["kazma", "up", "--data-dir", "/tmp/x"]
            .iter()
            .chain(arguments);
        match cli::Cli::try_parse_from(all).unwrap().command {
            cli::Command::Up(up) => Settings::try_from(*up),
            _ => panic!("not up"),
        }
    }

    #[test]
    fn what_may_not_be_is_refused_with_the_setting_s_name() {
        for (arguments, name) in [
            (&["--listen", "0.0.0.0:1"][..], "KAZMA_SECRET"),
            (&["--secret", "short"], "KAZMA_SECRET"),
            (&["--demo", "--production", "1"], "--demo"),
            (
                &[
                    "--demo",
                    "--listen",
                    "0.0.0.0:1",
                    "--secret",
                    "0123456789abcdef",
                ],
                "--demo",
            ),
            (&["--sandbox", "local"], "--sandbox"),
            (&["--host-shell", "1"], "KAZMA_HOST_SHELL"),
            (&["--trusted-proxies", "*"], "KAZMA_TRUSTED_PROXIES"),
            (&["--tls-cert", "/nowhere"], "KAZMA_TLS_KEY: set it too"),
            (&["--tls-key", "/nowhere"], "KAZMA_TLS_CERT: set it too"),
            (
                &["--tls-cert", "/nowhere", "--tls-key", "/nowhere"],
                "KAZMA_TLS_CERT: /nowhere",
            ),
            (
                &[
                    "--tls-cert",
                    "/nowhere",
                    "--tls-key",
                    "/nowhere",
                    "--public-url",
                    "http://kazma.example",
                ],
                "KAZMA_PUBLIC_URL: use https",
            ),
            (
                &["--searxng-url", "http://u:p@search.lan"],
                "KAZMA_SEARXNG_URL",
            ),
            (
                &["--model-base-url", "http://localhost:1/v1"],
                "KAZMA_MODEL",
            ),
            (
                &["--registry-database-url", "mysql://k:secret@db.lan/k"],
                "KAZMA_REGISTRY_DATABASE_URL",
            ),
            (
                &["--registry-database-url-file", "/nowhere"],
                "KAZMA_REGISTRY_DATABASE_URL_FILE",
            ),
        ] {
            let refused = settings(arguments).unwrap_err().to_string();
            assert!(refused.contains(name), "{arguments:?}: {refused}");
        }
    }

    #[test]
    fn production_takes_programs_away_unless_they_are_asked_for() {
        let groups = |arguments: &[&str]| {
            let shell = settings(arguments).unwrap().shell;
            (shell.mutate, shell.archive, shell.dev)
        };
        assert_eq!(groups(&[]), (true, true, true));
        assert_eq!(groups(&["--production", "1"]), (false, false, false));
        assert_eq!(
            groups(&["--production", "1", "--allow-mutate", "1", "--strict", "0"]),
            (true, true, false)
        );
        assert_eq!(groups(&["--allow-archive", "0"]), (true, false, true));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let url = "postgres://k:hunter2@db.lan/k";
        let settings = settings(&[
            "--secret",
            "0123456789abcdef",
            "--registry-database-url",
            url,
        ]);
        let shown = format!("{:?}", settings.unwrap());
        assert!(!shown.contains("0123456789abcdef"));
        assert!(!shown.contains("hunter2"));
    }
}
