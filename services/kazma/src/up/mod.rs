//! `kazma up`: every service as its own process, started, supervised, restarted, stopped.

mod announce;
mod child;
mod folder;
mod settings;
mod supervisor;

use std::process::ExitCode;

use kazma_runtime::BoxError;

use crate::cli;

/// Runs until a signal ends it.
pub(crate) fn run(options: Box<cli::Up>) -> Result<ExitCode, BoxError> {
    let settings = settings::Settings::try_from(*options)?;
    let filter = settings.log.clone().unwrap_or_else(|| "warn".to_owned());
    kazma_runtime::logging("supervisor", Some(&filter));
    kazma_mesh::install_crypto_provider();
    // Modes are set where they matter; a caller's stricter mask would take away what they give.
    rustix::process::umask(rustix::fs::Mode::from_bits_retain(0o022));
    // What the caller left open is none of a service's business.
    close_fds::set_fds_cloexec(3, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(supervisor::supervise(settings))
}
