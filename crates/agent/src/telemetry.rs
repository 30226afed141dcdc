//! Telemetry: a log on standard error, and spans for a collector (with the feature `otlp`).
//!
//! | span | target | level | fields |
//! |---|---|---|---|
//! | `session` | `callboard` | info | `id` |
//! | `turn` | `callboard` | info | `id`, `model`, `traceparent`, `stop_reason` |
//! | `call` | `acp_lifecycle` | debug | `id`, `tool`, `kind`, `status`, `reason`, `queued_ms`, `duration_ms`, `exit_code` |
//!
//! Fields contain only names and numbers. They never contain prompts, arguments, paths or output.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{FilterExt as _, LevelFilter, ParseError, Targets, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

use crate::log;

#[cfg(feature = "otlp")]
mod otlp;

/// Running telemetry. Call `export_remaining_spans` before the process exits.
#[derive(Debug)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

/// Starts logging of warnings, or of the targets in `CALLBOARD_LOG`. Also starts the export of
/// spans if the environment enables it. Call this function once per process.
///
/// Standard output is reserved for protocol messages, so the log and panics are written to standard
/// error.
pub(crate) fn start_telemetry() -> Telemetry {
    let mut env = callboard_process::env::own_env();
    let value = env.find_map(|(name, value)| (name == "CALLBOARD_LOG").then_some(value));
    let (filter, error) = log_filter(value.as_deref());
    let layer = fmt::layer()
        .with_writer(log::redacting_stderr_writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter);
    log::install_redacting_panic_hook();
    let registry = tracing_subscriber::registry().with(layer);
    #[cfg(feature = "otlp")]
    let telemetry = {
        let (spans, exporter) = otlp::create_export_layer();
        registry.with(spans).init();
        Telemetry { exporter: otlp::take_exporter_or_log_failure(exporter) }
    };
    #[cfg(not(feature = "otlp"))]
    let telemetry = {
        registry.init();
        Telemetry {}
    };
    if let Some(error) = error {
        tracing::warn!("CALLBOARD_LOG is ignored, because it is no valid filter: {error}");
    }
    telemetry
}

type LogFilter = Box<dyn Filter<Registry> + Send + Sync>;

/// Returns the filter of the log for a value of `CALLBOARD_LOG`. If the value is invalid, returns
/// the default filter and the error.
fn log_filter(value: Option<&str>) -> (LogFilter, Option<ParseError>) {
    match value.map(EnvFilter::try_new) {
        Some(Ok(filter)) => (Box::new(without_mcp_auth_target(filter)), None),
        Some(Err(error)) => (Box::new(default_log_targets()), Some(error)),
        None => (Box::new(default_log_targets()), None),
    }
}

/// Returns the user's filter without one target. The events of this target are never logged,
/// because the SDK of MCP writes the authorization codes of logins to this target.
fn without_mcp_auth_target(filter: EnvFilter) -> impl Filter<Registry> + Send + Sync {
    filter.and(filter_fn(|event| !event.target().starts_with("rmcp::transport::auth")))
}

/// Returns the default targets of the log. They are built without the parser of log filters,
/// because the parser would slow down every start.
fn default_log_targets() -> Targets {
    let ours = Targets::new().with_default(LevelFilter::WARN);
    // Failures of MCP servers are shown as notices in their sessions, so `rmcp` is not logged.
    ours.with_target("agent_client_protocol", LevelFilter::ERROR)
        .with_target("rmcp", LevelFilter::OFF)
}

impl Telemetry {
    /// Exports the remaining spans, within a short time limit.
    pub(crate) fn export_remaining_spans(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.export_remaining_spans();
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn an_invalid_filter_is_reported() {
        for (value, is_reported) in
            [(None, false), (Some("debug"), false), (Some("callboard=loud"), true)]
        {
            assert_eq!(log_filter(value).1.is_some(), is_reported, "{value:?}");
        }
    }

    #[test]
    fn logins_of_the_sdk_are_never_logged() {
        let filter = EnvFilter::new("trace,rmcp=trace,rmcp::transport::auth=trace");
        let layer =
            fmt::layer().with_writer(std::io::sink).with_filter(without_mcp_auth_target(filter));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(target: "rmcp::transport::auth", Level::ERROR));
            assert!(!tracing::enabled!(target: "rmcp::transport::auth::x", Level::DEBUG));
            assert!(tracing::enabled!(target: "rmcp::service", Level::DEBUG));
        });
    }
}
