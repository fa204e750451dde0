//! Structured logs on standard error.

use std::fmt::{self, Write as _};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Json, Writer},
    },
    registry::LookupSpan,
};

/// Libraries that say much, and at their finest levels headers and statements: they are heard from
/// warnings on, unless a filter names them.
const RESERVED: [&str; 9] = [
    "bollard",
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "sqlx",
    "tower",
    "tungstenite",
];

/// Sends logs to standard error as one JSON object a line, each with the name of the service.
///
/// `filter` is a `tracing` filter such as `info` or `kazma_agent=debug`; one that does not parse, or
/// none, means `info`. A second call changes nothing.
pub fn logging(service: &'static str, filter: Option<&str>) {
    let filter = filter
        .and_then(|text| EnvFilter::try_new(reserved(text)).ok())
        .unwrap_or_else(|| EnvFilter::new(reserved("info")));
    let format = Named {
        service,
        json: tracing_subscriber::fmt::format()
            .json()
            .with_current_span(true),
    };
    let installed = tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would tell of a log that takes nothing any more by a panic.
        .log_internal_errors(false)
        .event_format(format)
        .try_init();
    if installed.is_ok() {
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    }
}

/// The filter with a bound on each of [`RESERVED`] that it does not name.
fn reserved(text: &str) -> String {
    let mut filter = text.to_owned();
    for library in RESERVED {
        let named = text
            .split(',')
            .filter_map(|directive| directive.split(['=', '[', ':']).next())
            .any(|target| target.trim() == library);
        if !named {
            // Writing to a string cannot fail.
            let _ = write!(filter, ",{library}=warn");
        }
    }
    filter
}

/// JSON that begins with the service's name: the services of one machine share one standard error.
struct Named {
    service: &'static str,
    json: Format<Json>,
}

impl<S, N> FormatEvent<S, N> for Named
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.json
            .format_event(context, Writer::new(&mut line), event)?;
        match line.strip_prefix('{') {
            Some(rest) => write!(writer, "{{\"service\":\"{}\",{rest}", self.service),
            None => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex, PoisonError},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_names_its_service_and_the_spans_it_is_in() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_env_filter(EnvFilter::new(reserved("warn")))
            .with_writer(move || writer.clone())
            .event_format(Named {
                service: "agent",
                json: tracing_subscriber::fmt::format()
                    .json()
                    .with_current_span(true),
            })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::error_span!("request", request_id = "request_1");
            let _in = span.enter();
            tracing::info!("not heard");
            tracing::warn!(what = "a \"word\"\n{", "heard");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("{\"service\":\"agent\",\"timestamp\":"),
            "{text}"
        );
        assert!(text.contains("\"request_id\":\"request_1\""), "{text}");
        assert!(text.ends_with("}\n"), "{text}");
    }

    #[test]
    fn libraries_are_held_back_unless_they_are_named() {
        let filter = reserved("trace,h2=debug");
        assert!(filter.contains(",hyper=warn") && !filter.contains("h2=warn"));
        assert!(EnvFilter::try_new(filter).is_ok());
    }
}
