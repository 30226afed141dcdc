//! Export of spans to an OpenTelemetry collector, by OTLP over HTTP without TLS.
//!
//! Spans are exported only if the environment names a collector: `OTEL_EXPORTER_OTLP_ENDPOINT` or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. The other variables are specified at
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>. Log lines are never exported.

use std::env;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, SpanExporter,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use crate::limits::{EXPORT_FLUSH_TIMEOUT, MAX_EXPORT_RESPONSE_BYTES};

/// An exporter that sends spans on a separate thread.
#[derive(Debug)]
pub(super) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Exports the remaining spans within [`EXPORT_FLUSH_TIMEOUT`]. Spans that are not exported in
    /// time are lost.
    pub(super) fn export_remaining_spans(self) {
        if let Err(error) = self.0.shutdown_with_timeout(EXPORT_FLUSH_TIMEOUT) {
            tracing::warn!(%error, "not every span was exported");
        }
    }
}

/// The exporter, `None` if the environment does not enable it, or the reason why it failed to
/// start.
type ExporterResult = Result<Option<Exporter>, String>;

/// Creates the layer that exports spans, if the environment enables the export.
pub(super) fn create_export_layer<S>() -> (Option<impl Layer<S>>, ExporterResult)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if !is_export_enabled() {
        return (None, Ok(None));
    }
    let provider = match build_tracer_provider() {
        Ok(provider) => provider,
        Err(error) => return (None, Err(error)),
    };
    let ours = filter_fn(|of| {
        let target = of.target();
        of.is_span() && (target.starts_with("callboard") || target.starts_with("acp_"))
    });
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("callboard"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(ours.and(LevelFilter::DEBUG));
    (Some(layer), Ok(Some(Exporter(provider))))
}

/// Returns the exporter, or logs the error of a failed start. Call this function after the log is
/// initialized.
pub(super) fn take_exporter_or_log_failure(started: ExporterResult) -> Option<Exporter> {
    started.unwrap_or_else(|error| {
        tracing::warn!(%error, "spans are not exported");
        None
    })
}

fn is_export_enabled() -> bool {
    let is =
        |name: &str, value: &str| env::var(name).is_ok_and(|it| it.eq_ignore_ascii_case(value));
    let names_a_collector = |name| env::var(name).is_ok_and(|endpoint| !endpoint.is_empty());
    !is("OTEL_SDK_DISABLED", "true")
        && !is("OTEL_TRACES_EXPORTER", "none")
        && [OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT]
            .into_iter()
            .any(names_a_collector)
}

fn build_tracer_provider() -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder().with_http().with_http_client(UreqClient::new()).build();
    let exporter = exporter.map_err(|error| error.to_string())?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(build_resource())
        .build())
}

/// Returns the resource attributes from the environment. The default service name is `callboard`.
fn build_resource() -> Resource {
    let resource = Resource::builder().build();
    let name = resource.get(&"service.name".into());
    match name.is_none_or(|name| name.as_str().starts_with("unknown_service")) {
        true => Resource::builder().with_service_name("callboard").build(),
        false => resource,
    }
}

/// The exporter's HTTP client. It runs on the exporter's thread, and may block that thread.
#[derive(Debug)]
struct UreqClient(ureq::Agent);

impl UreqClient {
    fn new() -> Self {
        let millis = |name| env::var(name).ok()?.parse().ok().map(Duration::from_millis);
        let timeout = millis(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)
            .or_else(|| millis(OTEL_EXPORTER_OTLP_TIMEOUT))
            .unwrap_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT);
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0);
        Self(config.build().into())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.run(request.map(|body| body.to_vec())).inspect_err(|error| {
            tracing::warn!(%error, "cannot reach the collector");
        })?;
        let (parts, mut body) = answer.into_parts();
        let body = body.with_config().limit(MAX_EXPORT_RESPONSE_BYTES).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}

impl HttpClient for UreqClient {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> BoxFuture<'f, Result<Response<Bytes>, HttpError>>
    where
        'a: 'f,
    {
        async move { self.send(request) }.boxed()
    }
}
