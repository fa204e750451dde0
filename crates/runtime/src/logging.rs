//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;

/// Sends logs to standard error as one JSON object a line.
///
/// `filter` is a `tracing` filter such as `info` or `kazma_agent=debug`; one that does not parse, or
/// none, means `info`. A second call changes nothing.
pub fn logging(service: &str, filter: Option<&str>) {
    let filter = filter
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new("info"));
    let installed = tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_current_span(true)
        // It would tell of a log that takes nothing any more by a panic.
        .log_internal_errors(false)
        .try_init();
    if installed.is_ok() {
        tracing::info!(service, version = env!("CARGO_PKG_VERSION"), "starting");
    }
}
