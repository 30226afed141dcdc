//! The spans of sessions and turns. Each span contains only names and numbers: no prompt, no path,
//! no output.

use acp_types::TraceContext;
use tracing::Span;
use tracing::field::Empty;

/// Creates the span of a session.
pub(crate) fn session_span(id: &impl std::fmt::Display) -> Span {
    tracing::info_span!(target: TARGET, "session", %id)
}

/// Creates the span of a turn. Its parent is the span that the client sent. If the client sent no
/// span, its parent is the current span.
pub(crate) fn turn_span(id: &str, model: &str, trace: &TraceContext) -> Span {
    let traceparent = trace.traceparent.as_deref();
    let span =
        tracing::info_span!(target: TARGET, "turn", id, model, traceparent, stop_reason = Empty);
    #[cfg(feature = "otlp")]
    set_remote_parent(&span, trace);
    span
}

/// The target of these spans, for filters.
const TARGET: &str = "callboard";

/// If the client sent a span, makes it the parent of `span`.
#[cfg(feature = "otlp")]
fn set_remote_parent(span: &Span, trace: &TraceContext) {
    use std::collections::HashMap;

    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry::trace::TraceContextExt as _;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let pairs = [("traceparent", &trace.traceparent), ("tracestate", &trace.tracestate)];
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    let context = TraceContextPropagator::new().extract(&pairs.collect::<HashMap<_, _>>());
    if context.has_active_span() {
        // `set_parent` fails only if no exporter is configured.
        drop(span.set_parent(context));
    }
}
