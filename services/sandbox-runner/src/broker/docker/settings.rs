//! What the operator decides about the `docker` tier.

use std::time::Duration;

use camino::Utf8PathBuf;

/// The image unless another is named. `scripts/images` makes it.
pub const SANDBOX_IMAGE: &str = "kazma-sandbox";

/// The setting that is [`EngineOptions::workspace_source`], as people know it.
pub(super) const WORKSPACE_SOURCE: &str = "KAZMA_WORKSPACE_SOURCE";

/// What makes the boundary of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineRuntime {
    /// Namespaces of this kernel.
    #[default]
    Runc,
    /// gVisor: a kernel of its own in user space.
    Runsc,
    /// A virtual machine. Accepted by name and never tried by our tests.
    Kata,
}

impl EngineRuntime {
    /// The name by which people and cards call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runc => "runc",
            Self::Runsc => "runsc",
            Self::Kata => "kata",
        }
    }

    /// The names under which engines know it.
    pub(super) const fn known_as(self) -> &'static [&'static str] {
        match self {
            Self::Runc => &["runc", "crun", "io.containerd.runc.v2"],
            Self::Runsc => &["runsc", "io.containerd.runsc.v1"],
            Self::Kata => &["kata", "kata-runtime", "io.containerd.kata.v2"],
        }
    }

    /// Whether the snippet's kernel is the machine's own, so that its files under `/proc` and `/sys` say what
    /// the machine holds it to.
    pub(super) const fn shows_the_machine(self) -> bool {
        matches!(self, Self::Runc)
    }
}

/// Where the engine is and what containers are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// The engine's socket.
    pub socket: Utf8PathBuf,
    /// The image, by name or id. It is never fetched.
    pub image: String,
    /// What makes the boundary.
    pub runtime: EngineRuntime,
    /// Whose containers these are: brokers that share an engine have different owners, a broker that is
    /// started anew has the one it had. Letters, digits and dashes.
    pub owner: String,
    /// How often strays are looked for, and whether the engine and the image are still the same.
    pub look_every: Duration,
    /// The workspace's folder on the engine's machine, where that is another than the broker's path to it and the
    /// broker cannot find it out: an absolute path. None: the broker's own path, or, where the broker is a container
    /// of this engine, what the engine says of that container's mounts. Setting `KAZMA_WORKSPACE_SOURCE`.
    pub workspace_source: Option<Utf8PathBuf>,
}

impl EngineOptions {
    /// `runc` and the usual image behind `socket`.
    pub fn new(socket: impl Into<Utf8PathBuf>, owner: impl Into<String>) -> Self {
        Self {
            socket: socket.into(),
            image: SANDBOX_IMAGE.to_owned(),
            runtime: EngineRuntime::default(),
            owner: owner.into(),
            look_every: Duration::from_secs(30),
            workspace_source: None,
        }
    }
}
