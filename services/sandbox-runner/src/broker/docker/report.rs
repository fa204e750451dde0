//! What an engine says of itself, for an operator who asks whether it will do.

use crate::broker::canary::NotReady;

use super::{
    EngineOptions,
    engine::Engine,
    error::EngineError,
    facts::{self, CgroupVersion, Facts},
};

/// What was found at an engine's socket, judged as the broker judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// `Docker Engine 20.10.24` and the like; none where it does not answer.
    pub name: Option<String>,
    /// The API that it speaks, such as `1.41`.
    pub api: Option<String>,
    /// The runtimes that it knows.
    pub runtimes: Vec<String>,
    /// Which control groups it makes, 1 or 2; none where that is not known.
    pub cgroups: Option<u8>,
    /// Whether it runs without root.
    pub rootless: bool,
    /// The id of the image, where it has it.
    pub image: Option<String>,
    /// Why no sandbox can be made with it, and what to do; none where one can.
    pub trouble: Option<(String, String)>,
}

/// Asks the engine of `options`. Nothing is made or changed.
pub async fn engine_report(options: &EngineOptions) -> EngineReport {
    let mut report = EngineReport {
        name: None,
        api: None,
        runtimes: Vec::new(),
        cgroups: None,
        rootless: false,
        image: None,
        trouble: None,
    };
    if let Err(trouble) = fill(options, &mut report).await {
        report.trouble = Some(trouble);
    }
    report
}

async fn fill(options: &EngineOptions, report: &mut EngineReport) -> Result<(), (String, String)> {
    let told = |not_ready: NotReady| (not_ready.reason, not_ready.fix);
    let explained = |error: EngineError| told(facts::explain(&error, &options.image));
    let engine = Engine::connect(&options.socket).map_err(explained)?;
    let (version, info) = engine.facts().await.map_err(explained)?;
    report.name.clone_from(&version.version);
    report.api.clone_from(&version.api_version);
    report.runtimes = info
        .runtimes
        .iter()
        .flat_map(|all| all.keys().cloned())
        .collect();
    report.runtimes.sort();
    let facts = Facts::judge(&version, &info, options.runtime).map_err(told)?;
    report.name = Some(facts.name);
    report.cgroups = Some(match facts.cgroups {
        CgroupVersion::One => 1,
        CgroupVersion::Two => 2,
    });
    report.rootless = facts.rootless;
    let image = engine.image(&options.image).await.map_err(explained)?;
    report.image = Some(image.id);
    Ok(())
}
