//! The executor of one foreign call: previews it, runs the tool, and turns its result into content.

use std::fmt::Display;
use std::time::Duration;

use acp_types::{CallEndReason, Content, ContentPatch, ToolCallPatch};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use super::ToolMiddleware;
use crate::effects::Effects;
use crate::execute_call::{CallExecutor, CallFailure, CallPreview, CallSuccess};
use crate::handle::CallHandle;
use crate::permission::{Grant, PermissionSubject, PinnedPlan};

/// A boxed call of a tool. The call is boxed because the compiler cannot prove that a future with a
/// closure over `&'a str` is `Send` in a spawned task
/// (<https://github.com/rust-lang/rust/issues/110338>).
pub(super) type BoxTool<'a, T, E> =
    Box<dyn FnOnce(Value) -> BoxFuture<'a, Result<T, E>> + Send + 'a>;

pub(super) struct ForeignCallExecutor<'a, 'm, T, E> {
    pub(super) middleware: &'m ToolMiddleware,
    pub(super) name: &'a str,
    /// The arguments with resolved paths.
    pub(super) args: Result<Value, String>,
    /// The tool, or `None` after the tool was started.
    pub(super) tool: Option<BoxTool<'a, T, E>>,
    /// The text that identifies the last preview.
    pub(super) last_preview: String,
    /// The slot in which the caller receives the tool's result.
    pub(super) result: &'m mut Option<T>,
}

impl<T, E> CallExecutor for ForeignCallExecutor<'_, '_, T, E>
where
    T: Serialize + Send,
    E: Display + Send,
{
    type Plan = Value;

    async fn read_effects_of_preview(&mut self, _: &CallHandle) -> Result<Effects, CallFailure> {
        let args = self.args.as_ref().map_err(failure_from_error)?;
        Ok(match (self.middleware.previews)(self.name, args) {
            Some(_) => self.middleware.effects_of(self.name, args).to_preview_reads(),
            None => Effects::empty(),
        })
    }

    async fn preview(&mut self, _: &CallHandle) -> Result<CallPreview<Value>, CallFailure> {
        let args = self.args.as_ref().map_err(failure_from_error)?;
        let (effects, mut patch, look) = self.middleware.preview_call(self.name, args).await?;
        // The subject contains the preview's text, so a changed preview requires another
        // permission.
        let subject = PermissionSubject::for_call(self.name, args, "".as_ref(), look.as_bytes());
        let pinned = PinnedPlan::new(args.clone(), subject);
        self.last_preview = look;
        // Replace the content, because the content of an earlier preview may be outdated.
        if let ContentPatch::Append(shown) = patch.content {
            patch.content = ContentPatch::Set(shown);
        }
        Ok(CallPreview::new(pinned, effects).with_patch(patch))
    }

    async fn run(
        &mut self,
        pinned: PinnedPlan<Value>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<CallSuccess, CallFailure> {
        let args = pinned
            .release(grant)
            .map_err(|fault| CallFailure::recoverable("fault", fault.to_string()))?;
        let timeout = self.middleware.timeout;
        let (.., look) = tokio::select! {
            biased;
            () = call.cancel_token().cancelled() => return Err(cancelled_before_run_failure()),
            look = self.middleware.preview_call(self.name, &args) => look?,
        };
        if look != self.last_preview {
            let text = "The preview changed each time before the call ran. Nothing was done.";
            return Err(CallFailure {
                is_outdated: true,
                ..CallFailure::recoverable("outdated", text)
            });
        }
        let tool =
            self.tool.take().ok_or_else(|| CallFailure::recoverable("fault", "It ran before."))?;
        let done = tokio::select! {
            biased;
            () = call.cancel_token().cancelled() => return Err(cancelled_while_running_failure()),
            done = tool(args) => done,
            () = wait_for_timeout_or_forever(timeout) => return Err(timeout_failure(timeout.unwrap_or_default())),
        };
        let value = done.map_err(|error| failure_from_error(&error))?;
        let success = success_from_value(&value, |text| call.fit_text(text));
        *self.result = Some(value);
        Ok(success)
    }
}

pub(super) async fn wait_for_timeout_or_forever(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Converts a result to text, truncated by `fit`, and to raw output with the JSON shape of the
/// result.
fn success_from_value(value: &impl Serialize, fit: impl FnOnce(String) -> String) -> CallSuccess {
    // A value that cannot be serialised is not shown, but the caller receives it.
    let raw = serde_json::to_value(value).unwrap_or_default();
    let text = match &raw {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut patch = ToolCallPatch::new();
    if !text.is_empty() {
        patch = patch.with_appended_content(Content::from_text(fit(text.clone())));
    }
    CallSuccess { text, patch: patch.with_raw_output(raw), ..CallSuccess::default() }
}

pub(super) fn failure_from_error(error: &impl ToString) -> CallFailure {
    CallFailure::recoverable("failed", error.to_string())
}

fn cancelled_while_running_failure() -> CallFailure {
    let text = "Cancelled while it ran. It may have had effects already.";
    CallFailure {
        reason: CallEndReason::Turn,
        note: None,
        ..CallFailure::recoverable("cancelled", text)
    }
}

fn cancelled_before_run_failure() -> CallFailure {
    let text = "Cancelled before it ran.";
    CallFailure {
        reason: CallEndReason::Turn,
        note: None,
        ..CallFailure::recoverable("cancelled", text)
    }
}

fn timeout_failure(timeout: Duration) -> CallFailure {
    let text = format!("Stopped after {timeout:?}. It may have had effects already.");
    CallFailure { reason: CallEndReason::Timeout, ..CallFailure::recoverable("timeout", text) }
}
