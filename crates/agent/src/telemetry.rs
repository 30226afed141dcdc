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

use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
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
    let filter: Box<dyn Filter<Registry> + Send + Sync> =
        match EnvFilter::try_from_env("CALLBOARD_LOG") {
            Ok(filter) => Box::new(without_secrets(filter)),
            Err(_) => Box::new(default_log_targets()),
        };
    let layer = fmt::layer()
        .with_writer(log::redacting_stderr_writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter);
    log::install_redacting_panic_hook();
    let registry = tracing_subscriber::registry().with(layer);
    #[cfg(feature = "otlp")]
    {
        let (spans, exporter) = otlp::create_export_layer();
        registry.with(spans).init();
        Telemetry { exporter: otlp::log_start_failure(exporter) }
    }
    #[cfg(not(feature = "otlp"))]
    {
        registry.init();
        Telemetry {}
    }
}

/// Returns the user's filter without one target. The events of this target are never logged,
/// because the SDK of MCP writes the authorization codes of logins to this target.
fn without_secrets(filter: EnvFilter) -> impl Filter<Registry> + Send + Sync {
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
    fn logins_of_the_sdk_are_never_logged() {
        let filter = EnvFilter::new("trace,rmcp=trace,rmcp::transport::auth=trace");
        let layer = fmt::layer().with_writer(std::io::sink).with_filter(without_secrets(filter));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::enabled!(target: "rmcp::transport::auth", Level::ERROR));
            assert!(!tracing::enabled!(target: "rmcp::transport::auth::x", Level::DEBUG));
            assert!(tracing::enabled!(target: "rmcp::service", Level::DEBUG));
        });
    }
}
