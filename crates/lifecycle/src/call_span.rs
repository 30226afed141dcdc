//! The `tracing` span of a call, from its announcement to its end, and the events of its start and
//! its end.
//!
//! They hold names and numbers only: no arguments, no titles, no paths, no output. While nobody
//! listens at the level `debug`, each costs one comparison.

use acp_types::{ToolCallId, ToolCallReport};
use serde::Serialize;
use tracing::Span;
use tracing::field::Empty;

/// Makes the span of a call that is announced, beneath the one that is current.
pub(crate) fn new_span(id: &ToolCallId, tool: &str) -> Span {
    tracing::debug_span!(
        "call",
        id = %id,
        tool,
        kind = Empty,
        status = Empty,
        reason = Empty,
        queued_ms = Empty,
        duration_ms = Empty,
        exit_code = Empty,
        // What OpenTelemetry calls the status of a span.
        otel.status_code = Empty,
    )
}

/// Logs that a call starts to run, in the span that is current: its own. `tool` is asked for only
/// if somebody listens.
pub(crate) fn log_start(id: &ToolCallId, tool: impl FnOnce() -> Option<String>) {
    tracing::debug!(call = %id, tool = tool(), "call started");
}

/// Notes on a call's span how the call ended, and logs it.
///
/// Whoever listens is foreign code, and must not be called under the session's lock; `report` is
/// asked for only if somebody does.
pub(crate) fn finish_span(
    span: &Span,
    id: &ToolCallId,
    report: impl FnOnce() -> Option<ToolCallReport>,
) {
    if span.is_disabled() {
        return;
    }
    // Of very many calls, the oldest are forgotten.
    let Some(report) = report() else {
        return tracing::debug!(parent: span, call = %id, "call ended");
    };
    let meta = &report.meta;
    // Before the span has the same fields, which a line of the log begins with.
    tracing::debug!(
        parent: span,
        call = %id,
        tool = report.name,
        status = serialized_name(&report.status),
        reason = meta.reason.as_ref().map(serialized_name),
        duration_ms = meta.duration_ms,
        "call ended"
    );
    record_fields(span, &report);
}

fn record_fields(span: &Span, report: &ToolCallReport) {
    let meta = &report.meta;
    span.record("kind", serialized_name(&report.kind));
    span.record("status", serialized_name(&report.status));
    span.record("reason", meta.reason.as_ref().map(serialized_name));
    // OpenTelemetry has signed numbers only.
    let millis = |millis: Option<u64>| millis.and_then(|millis| i64::try_from(millis).ok());
    span.record("queued_ms", millis(meta.queued_ms));
    span.record("duration_ms", millis(meta.duration_ms));
    span.record("exit_code", meta.exit_code);
    if report.status == acp_types::Status::Failed {
        span.record("otel.status_code", "ERROR");
    }
}

/// The word that the wire has for a value.
fn serialized_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
