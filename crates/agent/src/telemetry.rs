//! What this process tells of itself: a log on standard error and, built with the feature `otlp`,
//! spans to a collector.
//!
//! | span | target | level | fields |
//! |---|---|---|---|
//! | `session` | `callboard` | info | `id` |
//! | `turn` | `callboard` | info | `id`, `model`, `traceparent`, `stop_reason` |
//! | `call` | `acp_lifecycle` | debug | `id`, `tool`, `kind`, `status`, `reason`, `queued_ms`, `duration_ms`, `exit_code` |
//!
//! Each holds names and numbers: no prompt, no arguments, no path, no output.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

use crate::log;

#[cfg(feature = "otlp")]
mod otlp;

/// What has to be ended with the process.
#[derive(Debug)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

/// Starts to log warnings, or what `CALLBOARD_LOG` says, and to export where the environment asks
/// for it. Once a process.
///
/// Standard output is the protocol's; what there is to log goes to standard error, panics too.
pub(crate) fn start() -> Telemetry {
    let filter: Box<dyn Filter<Registry> + Send + Sync> =
        match EnvFilter::try_from_env("CALLBOARD_LOG") {
            Ok(filter) => Box::new(filter),
            Err(_) => Box::new(default_targets()),
        };
    let layer = fmt::layer()
        .with_writer(log::stderr_writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter);
    log::install_panic_hook();
    let registry = tracing_subscriber::registry().with(layer);
    #[cfg(feature = "otlp")]
    {
        let (spans, exporter) = otlp::start();
        registry.with(spans).init();
        Telemetry { exporter: otlp::log_failure(exporter) }
    }
    #[cfg(not(feature = "otlp"))]
    {
        registry.init();
        Telemetry {}
    }
}

/// What is logged where nobody says what. Made without a parser: it is made at every start.
fn default_targets() -> Targets {
    let ours = Targets::new().with_default(LevelFilter::WARN);
    ours.with_target("agent_client_protocol", LevelFilter::ERROR)
}

impl Telemetry {
    /// Sends what is not exported yet, for a short time at most.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.finish();
        }
    }
}
