//! Which tier runs code, from the flags and the variables that people know.

use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use kazma_launch::Usage;
use serde::{Deserialize, Serialize};

use crate::broker::EngineRuntime;

/// Where engines listen unless `DOCKER_HOST` says otherwise. Podman's socket is not among them: it has to
/// be asked for by name.
const SOCKETS: [&str; 2] = ["/run/docker.sock", "/var/run/docker.sock"];

/// Which container engine, and what containers are made of.
#[derive(Debug, Args)]
pub struct Engine {
    /// Whether code runs in containers: auto, 1 or 0
    #[arg(
        long = "code-exec-docker",
        env = "KAZMA_CODE_EXEC_DOCKER",
        value_name = "WISH",
        hide = true
    )]
    pub docker: Option<String>,
    /// The image that sandboxes are made from; `scripts/images` makes the default
    #[arg(
        long = "sandbox-image",
        env = "KAZMA_CODE_EXEC_IMAGE",
        value_name = "IMAGE"
    )]
    pub image: Option<String>,
    /// What makes the boundary of a container
    #[arg(long = "sandbox-runtime", env = "KAZMA_CODE_EXEC_RUNTIME", value_enum, default_value_t = Runtime::Runc)]
    pub runtime: Runtime,
    /// The engine's socket
    #[arg(long = "docker-host", env = "DOCKER_HOST", value_name = "unix:///PATH")]
    pub host: Option<String>,
    /// The workspace's folder on the engine's machine, where the broker cannot find it out
    #[arg(
        long = "workspace-source",
        env = "KAZMA_WORKSPACE_SOURCE",
        value_name = "DIR",
        hide = true
    )]
    pub workspace_source: Option<String>,
}

/// What makes the boundary of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// Namespaces of this machine's kernel.
    Runc,
    /// gVisor.
    Runsc,
    /// A virtual machine; accepted, and untested.
    Kata,
}

impl From<Runtime> for EngineRuntime {
    fn from(runtime: Runtime) -> Self {
        match runtime {
            Runtime::Runc => Self::Runc,
            Runtime::Runsc => Self::Runsc,
            Runtime::Kata => Self::Kata,
        }
    }
}

/// What runs code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    /// The strongest that is there.
    Auto,
    /// Sibling containers.
    Docker,
    /// Namespaces and seccomp by bubblewrap.
    Native,
    /// Pods.
    Kubernetes,
    /// Virtual machines of E2B.
    E2b,
    /// No isolation.
    Local,
}

/// Which tier runs code.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Jails.
    Native,
    /// Containers, or nothing.
    Docker(Containers),
    /// Containers where they can be had at the start, else jails.
    Auto(Containers),
}

/// Where containers come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Containers {
    /// Where an engine may listen, in this order.
    pub sockets: Vec<Utf8PathBuf>,
    /// The image, if it is another than the usual one.
    pub image: Option<String>,
    /// What makes their boundary.
    pub runtime: Runtime,
    /// The workspace's folder on the engine's machine, where it is not found out.
    #[serde(default)]
    pub workspace_source: Option<Utf8PathBuf>,
}

impl Sandbox {
    /// The tier that the flags ask for.
    ///
    /// # Errors
    ///
    /// Refuses what contradicts itself, and what this version does not have.
    pub fn tier(self, engine: Engine) -> Result<Tier, Usage> {
        chosen(self, engine)
    }
}

fn chosen(sandbox: Sandbox, engine: Engine) -> Result<Tier, Usage> {
    let wish = engine.docker.as_deref().map(wish).transpose()?.flatten();
    let sandbox = match (sandbox, wish) {
        (Sandbox::Auto, Some(true)) => Sandbox::Docker,
        (Sandbox::Auto, Some(false)) => Sandbox::Native,
        (Sandbox::Docker, Some(false)) => {
            return Err(Usage(
                "--sandbox docker: KAZMA_CODE_EXEC_DOCKER says the opposite; keep one".into(),
            ));
        }
        (Sandbox::Native, Some(true)) => {
            return Err(Usage(
                "--sandbox native: KAZMA_CODE_EXEC_DOCKER asks for containers; keep one".into(),
            ));
        }
        (sandbox, _) => sandbox,
    };
    match sandbox {
        Sandbox::Native => Ok(Tier::Native),
        Sandbox::Docker => Ok(Tier::Docker(containers(engine)?)),
        Sandbox::Auto => Ok(Tier::Auto(containers(engine)?)),
        Sandbox::Kubernetes | Sandbox::E2b => Err(Usage(
            "--sandbox: this version has no such tier; use auto, docker or native".into(),
        )),
        Sandbox::Local => Err(Usage(
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
fn sockets(engine: &Engine) -> Result<Vec<Utf8PathBuf>, Usage> {
    Ok(
        match engine.host.as_deref().filter(|host| !host.is_empty()) {
            Some(host) => vec![socket(host)?],
            None => SOCKETS.map(Utf8PathBuf::from).to_vec(),
        },
    )
}

impl Engine {
    /// Where engines are looked for.
    ///
    /// # Errors
    ///
    /// Refuses an engine that is not reached by a unix socket.
    pub fn sockets(&self) -> Result<Vec<Utf8PathBuf>, Usage> {
        sockets(self)
    }
}

fn containers(engine: Engine) -> Result<Containers, Usage> {
    Ok(Containers {
        sockets: sockets(&engine)?,
        image: engine.image.filter(|image| !image.is_empty()),
        runtime: engine.runtime,
        workspace_source: engine
            .workspace_source
            .filter(|folder| !folder.is_empty())
            .map(Utf8PathBuf::from),
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

    #[derive(Debug, Parser)]
    struct Program {
        #[arg(long, value_enum, default_value_t = Sandbox::Auto)]
        sandbox: Sandbox,
        #[command(flatten)]
        engine: Engine,
    }

    fn tier(arguments: &[&str]) -> Result<Tier, Usage> {
        let all = ["kazma"].iter().chain(arguments);
        let told = Program::try_parse_from(all).unwrap();
        told.sandbox.tier(told.engine)
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
            (here.image.as_deref(), here.runtime),
            (Some("mine"), Runtime::Runsc)
        );
    }
}
