//! The flags, parsed into what can be run. What may not be is refused here, with the fix.

use std::net::SocketAddr;

use camino::{Utf8Path, Utf8PathBuf};
use kazma_netguard::Origin;
use kazma_policy::argv::Profile;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    boot,
    cli::{self, Usage},
    metrics::Wanted,
    up::{default_data_dir, tier},
};

/// What `kazma up` shall do.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) tier: boot::Tier,
    pub(crate) data_dir: Utf8PathBuf,
    pub(crate) workspace: Option<Utf8PathBuf>,
    /// Seconds that a card waits for an answer.
    pub(crate) approval_timeout: u32,
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) secret: Option<SecretString>,
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) model: Model,
    /// Where searches go.
    pub(crate) search: Option<Origin>,
    /// The URL of the server that has the registry's database.
    pub(crate) registry_database: Option<SecretString>,
    pub(crate) production: bool,
    pub(crate) shell: boot::Shell,
    pub(crate) json: bool,
    pub(crate) metrics: Wanted,
    pub(crate) log: Option<String>,
}

/// Which model, with its key kept from view.
#[derive(Debug)]
pub(crate) enum Model {
    None,
    Demo,
    OpenAi {
        base_url: String,
        name: String,
        api_key: Option<SecretString>,
    },
}

impl Model {
    /// The same as it travels to the gateway.
    pub(crate) fn boot(&self) -> boot::Model {
        match self {
            Self::None => boot::Model::None,
            Self::Demo => boot::Model::Demo,
            Self::OpenAi {
                base_url,
                name,
                api_key,
            } => boot::Model::OpenAi {
                base_url: base_url.clone(),
                name: name.clone(),
                api_key: api_key.as_ref().map(|key| key.expose_secret().to_owned()),
            },
        }
    }
}

impl TryFrom<cli::Up> for Settings {
    type Error = Usage;

    fn try_from(up: cli::Up) -> Result<Self, Usage> {
        let local = up.listen.ip().is_loopback();
        let secret = up
            .secret
            .filter(|secret| !secret.expose_secret().is_empty());
        if !local && secret.is_none() {
            return Err(Usage(format!(
                "--listen {}: set KAZMA_SECRET to serve on any other address than loopback",
                up.listen
            )));
        }
        if secret
            .as_ref()
            .is_some_and(|secret| secret.expose_secret().len() < 16)
        {
            return Err(Usage("KAZMA_SECRET: use at least 16 characters".to_owned()));
        }
        if up.demo && up.production {
            return Err(Usage(
                "--demo is for trying out; take it away, or unset KAZMA_PRODUCTION".into(),
            ));
        }
        if up.demo && !local {
            return Err(Usage(
                "--demo serves on loopback alone; take away --demo or --listen".into(),
            ));
        }
        if up.shell.host == Some(true) {
            return Err(Usage(
                "KAZMA_HOST_SHELL: programs outside of the sandbox are not in this version; unset it, shell_exec runs in \
                 the sandbox"
                    .into(),
            ));
        }
        let registry_database = up.store.url()?;
        if let Some(url) = &registry_database {
            cli::server(url)?;
        }
        Ok(Self {
            registry_database,
            tier: tier::chosen(up.sandbox, up.engine)?,
            data_dir: absolute(&up.place.data_dir.unwrap_or_else(default_data_dir))?,
            workspace: up.workspace.as_deref().map(absolute).transpose()?,
            approval_timeout: up.approval_timeout,
            listen: up.listen,
            public_url: up.public_url.filter(|url| !url.is_empty()),
            secret,
            trusted_proxies: proxies(&up.trusted_proxies)?,
            model: model(up.model, up.demo)?,
            search: search(up.searxng_url.as_deref())?,
            production: up.production,
            shell: shell(up.shell, up.production),
            json: up.json,
            metrics: up.metrics_listen,
            log: up.log,
        })
    }
}

/// The search service's origin, with the base path it answers beneath.
fn search(url: Option<&str>) -> Result<Option<Origin>, Usage> {
    let set = url.map(str::trim).filter(|url| !url.is_empty());
    set.map(|url| Origin::read(url).map_err(|error| Usage(format!("KAZMA_SEARXNG_URL: {error}"))))
        .transpose()
}

fn shell(shell: cli::Shell, production: bool) -> boot::Shell {
    let Profile {
        mutate,
        archive,
        dev,
    } = Profile::new(production, shell.strict, shell.mutate, shell.archive);
    boot::Shell {
        mutate,
        archive,
        dev,
    }
}

fn absolute(path: &Utf8Path) -> Result<Utf8PathBuf, Usage> {
    camino::absolute_utf8(path).map_err(|error| Usage(format!("{path}: {error}")))
}

/// The declared proxies: addresses and CIDRs. `*` would trust everybody, which is nobody's wish.
fn proxies(list: &str) -> Result<Vec<String>, Usage> {
    let nets = list.split(',').map(str::trim).filter(|net| !net.is_empty());
    nets.map(|net| match net.parse::<kazma_gateway::Net>() {
        Ok(_) => Ok(net.to_owned()),
        Err(error) => Err(Usage(format!("KAZMA_TRUSTED_PROXIES: {net}: {error}"))),
    })
    .collect()
}

fn model(model: cli::Model, demo: bool) -> Result<Model, Usage> {
    if demo {
        return Ok(Model::Demo);
    }
    let Some(base_url) = model.base_url.filter(|url| !url.is_empty()) else {
        return Ok(Model::None);
    };
    let name = model.name.filter(|name| !name.is_empty()).ok_or_else(|| {
        Usage("KAZMA_MODEL: name the model to use at KAZMA_MODEL_BASE_URL".to_owned())
    })?;
    let file = model.api_key_file.as_deref();
    let api_key = cli::secret(model.api_key, file, "KAZMA_MODEL_API_KEY")?;
    Ok(Model::OpenAi {
        base_url,
        name,
        api_key,
    })
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
