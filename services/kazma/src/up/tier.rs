//! Which tier runs code, from the flags and the variables that people know.

use camino::Utf8PathBuf;

use crate::{
    boot::{Containers, Tier},
    cli::{self, Usage},
};

/// Where engines listen unless `DOCKER_HOST` says otherwise. Podman's socket is not among them: it has to
/// be asked for by name.
const SOCKETS: [&str; 2] = ["/run/docker.sock", "/var/run/docker.sock"];

/// What the flags ask for.
pub(super) fn chosen(sandbox: cli::Sandbox, engine: cli::Engine) -> Result<Tier, Usage> {
    let wish = engine.docker.as_deref().map(wish).transpose()?.flatten();
    let sandbox = match (sandbox, wish) {
        (cli::Sandbox::Auto, Some(true)) => cli::Sandbox::Docker,
        (cli::Sandbox::Auto, Some(false)) => cli::Sandbox::Native,
        (cli::Sandbox::Docker, Some(false)) => {
            return Err(Usage(
                "--sandbox docker: KAZMA_CODE_EXEC_DOCKER says the opposite; keep one".into(),
            ));
        }
        (cli::Sandbox::Native, Some(true)) => {
            return Err(Usage(
                "--sandbox native: KAZMA_CODE_EXEC_DOCKER asks for containers; keep one".into(),
            ));
        }
        (sandbox, _) => sandbox,
    };
    match sandbox {
        cli::Sandbox::Native => Ok(Tier::Native),
        cli::Sandbox::Docker => Ok(Tier::Docker(containers(engine)?)),
        cli::Sandbox::Auto => Ok(Tier::Auto(containers(engine)?)),
        cli::Sandbox::Kubernetes | cli::Sandbox::E2b => Err(Usage(
            "--sandbox: this version has no such tier; use auto, docker or native".into(),
        )),
        cli::Sandbox::Local => Err(Usage(
            "--sandbox local: code without isolation is not in this version; use auto, docker or native"
                .into(),
        )),
    }
}

/// Whether containers are demanded, refused, or left open.
fn wish(text: &str) -> Result<Option<bool>, Usage> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "auto" => Ok(None),
        "1" | "true" | "on" | "yes" | "docker" | "force" | "required" => Ok(Some(true)),
        "0" | "false" | "off" | "no" | "local" => Ok(Some(false)),
        other => Err(Usage(format!(
            "KAZMA_CODE_EXEC_DOCKER: {other} is none of auto, 1 and 0"
        ))),
    }
}

/// Where engines are looked for.
pub(crate) fn sockets(engine: &cli::Engine) -> Result<Vec<Utf8PathBuf>, Usage> {
    Ok(
        match engine.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => vec![socket(host)?],
            None => SOCKETS.map(Utf8PathBuf::from).to_vec(),
        },
    )
}

fn containers(engine: cli::Engine) -> Result<Containers, Usage> {
    Ok(Containers {
        sockets: sockets(&engine)?,
        image: engine.image.filter(|image| !image.is_empty()),
        runtime: engine.runtime.name().to_owned(),
    })
}

fn socket(host: &str) -> Result<Utf8PathBuf, Usage> {
    match host.strip_prefix("unix://").map(Utf8PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(path),
        _ => Err(Usage(format!(
            "DOCKER_HOST: {host}: the broker speaks to unix sockets alone, as in unix:///run/docker.sock"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn tier(arguments: &[&str]) -> Result<Tier, Usage> {
        let all = ["kazma", "up"].iter().chain(arguments);
        match cli::Cli::try_parse_from(all).unwrap().command {
            cli::Command::Up(up) => chosen(up.sandbox, up.engine),
            _ => panic!("not up"),
        }
    }

    #[test]
    fn the_flag_and_the_variable_mean_the_same() {
        for off in ["0", "false", "off", "no", "LOCAL"] {
            assert!(matches!(
                tier(&["--code-exec-docker", off]),
                Ok(Tier::Native)
            ));
        }
        for force in ["1", "true", "yes", "docker", "force", "required"] {
            assert!(matches!(
                tier(&["--code-exec-docker", force]),
                Ok(Tier::Docker(_))
            ));
        }
        assert!(matches!(
            tier(&["--code-exec-docker", "auto"]),
            Ok(Tier::Auto(_))
        ));
        assert!(matches!(tier(&["--sandbox", "native"]), Ok(Tier::Native)));
        assert!(tier(&["--sandbox", "native", "--code-exec-docker", "1"]).is_err());
        assert!(tier(&["--sandbox", "docker", "--code-exec-docker", "0"]).is_err());
        assert!(tier(&["--code-exec-docker", "maybe"]).is_err());
    }

    #[test]
    fn an_engine_elsewhere_is_refused() {
        assert!(tier(&["--docker-host", "tcp://10.0.0.1:2375"]).is_err());
        let Ok(Tier::Auto(here)) = tier(&[
            "--docker-host",
            "unix:///x/d.sock",
            "--sandbox-image",
            "mine",
            "--sandbox-runtime",
            "runsc",
        ]) else {
            panic!("not taken");
        };
        assert_eq!(here.sockets, ["/x/d.sock"]);
        assert_eq!(
            (here.image.as_deref(), &*here.runtime),
            (Some("mine"), "runsc")
        );
    }
}
