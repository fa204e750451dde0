//! What `kazma up` says once it is ready.

use std::{io::Write, net::SocketAddr, time::Duration};

use camino::Utf8Path;
use kazma_operator::Api;
use kazma_runtime::BoxError;
use serde::Serialize;
use serde_json::Value;

/// How long the sandbox may take until it is known whether it works.
const SANDBOX_LIMIT: Duration = Duration::from_secs(30);

/// The line that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Announcement {
    pub(crate) url: String,
    /// Where the pages listen: what a reverse proxy is told.
    pub(crate) listen: SocketAddr,
    pub(crate) login_url: String,
    pub(crate) api_token: String,
    pub(crate) ready_ms: u64,
    pub(crate) sandbox: String,
    pub(crate) services: Vec<ServiceLine>,
}

/// One child.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServiceLine {
    pub(crate) name: &'static str,
    pub(crate) pid: u32,
    pub(crate) state: &'static str,
    /// Where it shows its metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<SocketAddr>,
}

/// The address that people type.
pub(crate) fn url(public: Option<&str>, listen: SocketAddr, https: bool) -> String {
    let scheme = if https { "https" } else { "http" };
    match public {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if listen.ip().is_loopback() => format!("{scheme}://localhost:{}", listen.port()),
        None => format!("{scheme}://{listen}"),
    }
}

/// What the runner says of its sandbox.
pub(crate) struct Sandbox {
    pub(crate) tier: String,
    /// Why code does not run, and what to do; none where it does.
    pub(crate) trouble: Option<String>,
}

/// Waits until it is known whether code can run.
pub(crate) async fn sandbox(api: &Api) -> Result<Sandbox, BoxError> {
    let deadline = tokio::time::Instant::now() + SANDBOX_LIMIT;
    loop {
        let details = api.get("/health/details").await;
        if let Ok(details) = &details {
            let runner = details.get("runner").cloned().unwrap_or_default();
            let text = |name: &str| {
                runner
                    .get(name)
                    .and_then(|v| v.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            let tier = text("tier");
            let is = |name: &str| runner.get(name).and_then(Value::as_bool) == Some(true);
            if is("ready") {
                return Ok(Sandbox {
                    tier,
                    trouble: None,
                });
            }
            if !runner.is_null() && !is("starting") {
                let trouble = format!("{} {}", text("reason"), text("fix"));
                return Ok(Sandbox {
                    tier,
                    trouble: Some(trouble.trim().to_owned()),
                });
            }
        }
        if tokio::time::Instant::now() >= deadline {
            details?;
            return Err("the runner does not say whether code can run".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Prints the announcement: one JSON line, or a few lines for a person.
pub(crate) fn print(
    announcement: &Announcement,
    json: bool,
    sandbox: &Sandbox,
    data_dir: &Utf8Path,
) -> Result<(), BoxError> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, announcement)?;
        writeln!(out)?;
    } else {
        writeln!(
            out,
            "\n  Kazma is ready after {} ms.\n",
            announcement.ready_ms
        )?;
        writeln!(out, "  Open     {}", announcement.login_url)?;
        writeln!(
            out,
            "           (once, within five minutes; `kazma login-link` makes a new one)"
        )?;
        match &sandbox.trouble {
            None => writeln!(out, "  Sandbox  {}", announcement.sandbox)?,
            Some(trouble) => writeln!(out, "  Sandbox  none: code does not run. {trouble}")?,
        }
        writeln!(out, "  Data     {data_dir}")?;
        writeln!(out, "  Stop     Ctrl-C\n")?;
    }
    out.flush()?;
    Ok(())
}
