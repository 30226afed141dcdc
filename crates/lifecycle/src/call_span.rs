//! The `tracing` span of a call, from its announcement to its end.
//!
//! The span and its events contain only names and numbers, but no arguments, titles, paths or
//! output. If no subscriber enables the level `debug`, the span and each event cost one comparison.

use acp_types::{ToolCallId, ToolCallReport};
use serde::Serialize;
use tracing::Span;
use tracing::field::Empty;

/// Creates the span of an announced call, as a child of the current span.
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
        // The OpenTelemetry field for the status of a span.
        otel.status_code = Empty,
    )
}

/// Logs that a call starts to run. The call's span must be the current span. `tool` is called only
/// if the event is enabled.
pub(crate) fn log_start(id: &ToolCallId, tool: impl FnOnce() -> Option<String>) {
    tracing::debug!(call = %id, tool = tool(), "call started");
}

/// Records on a call's span how the call ended, and logs the end.
///
/// The caller must not hold the lock of the session, because this function runs the code of
/// subscribers. `report` is called only if the span is enabled.
pub(crate) fn record_and_log_call_end(
    span: &Span,
    id: &ToolCallId,
    report: impl FnOnce() -> Option<ToolCallReport>,
) {
    if span.is_disabled() {
        return;
    }
    // The history has a limited size, so it may already have dropped the call.
    let Some(report) = report() else {
        return tracing::debug!(parent: span, call = %id, "call ended");
    };
    let meta = &report.meta;
    // Log the event before recording the fields in the span. Log lines begin with the recorded
    // fields of the span. If the fields were recorded first, the log line would contain each field
    // twice.
    tracing::debug!(
        parent: span,
        call = %id,
        tool = report.name,
        status = serialized_name(&report.status),
        reason = meta.reason.as_ref().map(serialized_name),
        duration_ms = meta.duration_ms,
        "call ended"
    );
    record_end_fields(span, &report);
}

fn record_end_fields(span: &Span, report: &ToolCallReport) {
    let meta = &report.meta;
    span.record("kind", serialized_name(&report.kind));
    span.record("status", serialized_name(&report.status));
    span.record("reason", meta.reason.as_ref().map(serialized_name));
    // OpenTelemetry has only signed integers.
    let millis = |millis: Option<u64>| millis.and_then(|millis| i64::try_from(millis).ok());
    span.record("queued_ms", millis(meta.queued_ms));
    span.record("duration_ms", millis(meta.duration_ms));
    span.record("exit_code", meta.exit_code);
    if report.status == acp_types::Status::Failed {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the serialized name of a value, as in protocol messages.
fn serialized_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
