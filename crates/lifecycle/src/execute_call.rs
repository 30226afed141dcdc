//! The whole lifecycle of one call in one function: preview, permit, run, end.
//!
//! Both the middleware and the agent use [`execute_call()`]. A call ends exactly once and with a
//! reason, even if the tool panics, is dropped, or is cancelled with its turn (guarantees G2 and G4
//! in `ARCHITECTURE.md`).

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use acp_types::{CallEndReason, Content, ContentPatch, Image, Status, ToolCallPatch};
use callboard_text::escape_invisible;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::board::CallEnd;
use crate::handle::{CallHandle, OpenCall};
use crate::limits::{CANCEL_GRACE, MAX_PREVIEWS};
use crate::permission::{GrantKind, PermissionOutcome, UnansweredReason, UnaskedDenialReason};
use crate::rules::{ENGLISH_TITLES, Verdict};
use crate::title::Titles;
use crate::{Effects, Grant, PermissionSubject, PinnedPlan};

/// An operation that can be previewed, and that can be run after it was permitted.
pub trait CallExecutor: Send {
    /// The type of the plan, which the preview creates and the run executes.
    type Plan: Send;

    /// Returns which files the preview will read, as read effects: the files whose text the preview
    /// shows or quotes. The rules and the policy judge these effects before the preview begins. If
    /// an effect requires permission, permission is requested first.
    ///
    /// By default, the returned effects are empty. This default is correct for a preview that shows
    /// no text of files.
    fn read_effects_of_preview(
        &mut self,
        _call: &CallHandle,
    ) -> impl Future<Output = Result<Effects, CallFailure>> + Send {
        std::future::ready(Ok(Effects::empty()))
    }

    /// Determines the effects of the call without running the call.
    fn preview(
        &mut self,
        call: &CallHandle,
    ) -> impl Future<Output = Result<CallPreview<Self::Plan>, CallFailure>> + Send;

    /// Performs the permitted call. The future should return soon after `call.cancel_token()` is
    /// cancelled. One second after the cancellation, the future is dropped.
    ///
    /// If the run had no effect because the preview is outdated, the executor sets
    /// [`CallFailure::is_outdated`]. The call is then previewed again.
    fn run(
        &mut self,
        pinned: PinnedPlan<Self::Plan>,
        grant: Grant,
        call: &CallHandle,
    ) -> impl Future<Output = Result<CallSuccess, CallFailure>> + Send;
}

/// The result of a preview.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallPreview<P> {
    /// Changes of the report that the client shows, e.g. the title, the locations or the planned
    /// file change.
    pub patch: ToolCallPatch,
    /// The effects of the call.
    pub effects: Effects,
    /// Whether the client shows everything that will run. If the value is false, the client's
    /// answer cannot be remembered.
    pub is_shown_in_full: bool,
    /// The plan, which is locked until a [`Grant`] releases it.
    pub pinned: PinnedPlan<P>,
}

impl<P> CallPreview<P> {
    /// Creates a preview without further changes of the report. The preview is marked as shown in
    /// full.
    #[must_use]
    pub fn new(pinned: PinnedPlan<P>, effects: impl Into<Effects>) -> Self {
        Self {
            patch: ToolCallPatch::new(),
            effects: effects.into(),
            is_shown_in_full: true,
            pinned,
        }
    }

    /// Sets the changes of the report that the client shows.
    #[must_use]
    pub fn with_patch(self, patch: ToolCallPatch) -> Self {
        Self { patch, ..self }
    }
}

/// The result of a call that succeeded.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CallSuccess {
    /// The text of the result, for the model.
    pub text: String,
    /// Further images for a model that accepts images, in addition to the images in the patch.
    /// These images are too large to be shown in a call
    /// ([`with_max_content_bytes`](crate::SessionConfig::with_max_content_bytes)).
    pub images: Vec<Image>,
    /// Changes of the report that are sent with the end of the call.
    pub patch: ToolCallPatch,
}

impl CallSuccess {
    /// Creates the result of a call from its text for the model.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// The result of a call that failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallFailure {
    /// The text for the model: the error and the next step.
    pub text: String,
    /// A stable code for the error, such as `not_found`.
    pub code: String,
    /// The reason why the call ends.
    pub reason: CallEndReason,
    /// Note for the client, or `None` if the call already shows the error. The note is truncated to
    /// the maximum size of a result
    /// ([`with_max_shown_result_bytes`](crate::SessionConfig::with_max_shown_result_bytes)). `text`
    /// is not truncated.
    pub note: Option<String>,
    /// Whether the turn cannot continue.
    pub is_fatal: bool,
    /// Whether the call had no effect because its preview is outdated. The call is then previewed
    /// again. Permission is requested again if the subject or the effects have changed, or if files
    /// that the call may run were changed without a person's approval. After three previews, the
    /// failure is reported to the model.
    pub is_outdated: bool,
    /// Changes of the report that are sent with the end of the call.
    pub patch: ToolCallPatch,
}

impl CallFailure {
    /// Creates a failure that is reported to the model. The turn continues after this failure.
    #[must_use]
    pub fn recoverable(code: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            note: Some(text.clone()),
            text,
            code: code.into(),
            reason: CallEndReason::Error,
            is_fatal: false,
            is_outdated: false,
            patch: ToolCallPatch::new(),
        }
    }
}

/// The result of a call, for the turn that waits for the call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallOutcome {
    /// The final status.
    pub status: Status,
    /// The reason of the end, or `None` if the call completed.
    pub reason: Option<CallEndReason>,
    /// Text that is sent to the model.
    pub text: String,
    /// The images of a completed call, for a model that accepts images. The images that are shown
    /// with the end of the call come first. Images that are too large to be shown follow.
    pub images: Vec<Image>,
    /// Whether the turn is over, because the client ended or cancelled the turn.
    pub ends_turn: bool,
    /// Whether the turn cannot continue, because of an unrecoverable fault.
    pub is_fatal: bool,
}

impl CallOutcome {
    /// Creates an outcome without images. The turn continues after this outcome.
    #[must_use]
    pub fn new(status: Status, reason: Option<CallEndReason>, text: impl Into<String>) -> Self {
        let (text, images) = (text.into(), Vec::new());
        Self { status, reason, text, images, ends_turn: false, is_fatal: false }
    }
}

/// Runs an announced call to its end.
///
/// The preview and the run happen in the call's span. In both, [`CallHandle::current`] returns the
/// call.
pub async fn execute_call<E: CallExecutor>(open: OpenCall, executor: E) -> CallOutcome {
    let (call, span) = (open.handle().clone(), open.span().clone());
    CURRENT.scope(call, run_and_retry_outdated(open, executor)).instrument(span).await
}

tokio::task_local! {
    /// The call that this task previews or runs.
    static CURRENT: CallHandle;
}

impl CallHandle {
    /// Returns the call that the current task performs, for a tool that did not receive the handle
    /// of the call.
    ///
    /// Returns `None` outside of [`execute_call()`] and the middleware. Also returns `None` in a
    /// task that the tool spawned. To use the handle in a spawned task, pass a clone of the handle
    /// to the task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

async fn run_and_retry_outdated<E: CallExecutor>(open: OpenCall, mut executor: E) -> CallOutcome {
    let call = open.handle().clone();
    let (mut permitted, mut previews) = (PermittedEffects::default(), 0);
    loop {
        previews += 1;
        // All foreign code runs inside `catch_unwind`, so a panic becomes a normal failure.
        let attempt =
            AssertUnwindSafe(preview_permit_and_run(&call, &mut executor, &mut permitted));
        let done = attempt.catch_unwind().await;
        match done.unwrap_or_else(|_| Err(CallStopReason::Failed(Box::new(panic_failure())))) {
            Err(CallStopReason::Failed(failure))
                if failure.is_outdated && previews < MAX_PREVIEWS => {}
            Err(stop) => return stop.finish_call(open),
            Ok(success) => return complete_call(open, success),
        }
    }
}

/// The permissions that a call has received so far.
#[derive(Default)]
struct PermittedEffects {
    /// The read effects of the preview that were permitted.
    reads: Effects,
    /// The last permitted run.
    run: Option<LastPermittedRun>,
}

struct LastPermittedRun {
    subject: PermissionSubject,
    effects: Effects,
    kind: GrantKind,
}

/// Previews the call, requests permission and runs the call.
async fn preview_permit_and_run<E: CallExecutor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut PermittedEffects,
) -> Result<CallSuccess, CallStopReason> {
    let (pinned, grant) = tokio::select! {
        biased;
        () = call.cancel_token().cancelled() => return Err(CallStopReason::Cancelled { ran: HasRun::No }),
        released = preview_and_permit(call, executor, permitted) => released?,
    };
    // The call may have ended with its turn or its session during the request. A call that has
    // ended must not run.
    if call.cancel_token().is_cancelled() || !call.start() {
        return Err(CallStopReason::Cancelled { ran: HasRun::No });
    }
    let done = tokio::select! {
        done = executor.run(pinned, grant, call) => done,
        () = wait_for_cancel_and_grace(call) => return Err(CallStopReason::Cancelled { ran: HasRun::Yes }),
    };
    done.map_err(|failure| {
        if failure.is_outdated {
            call.undo_start();
        }
        CallStopReason::Failed(Box::new(failure))
    })
}

/// The reason why a call ends early.
enum CallStopReason {
    Cancelled { ran: HasRun },
    Rejected { by: Rejecter, reason: Option<String> },
    Denied(UnaskedDenialReason),
    Unanswered(UnansweredReason),
    TurnOver,
    Failed(Box<CallFailure>),
}

/// The side that rejected a call.
#[derive(Clone, Copy)]
enum Rejecter {
    User,
    Approver,
}

/// Whether a call had started to run.
#[derive(Clone, Copy)]
enum HasRun {
    Yes,
    No,
}

/// Previews the call and requests permission.
///
/// For a permitted call, permission is requested again only if the call has changed, or if files
/// that the call may run were changed without a person's approval.
async fn preview_and_permit<E: CallExecutor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut PermittedEffects,
) -> Result<(PinnedPlan<E::Plan>, Grant), CallStopReason> {
    let failed = |failure| CallStopReason::Failed(Box::new(failure));
    permit_preview_reads(
        call,
        executor.read_effects_of_preview(call).await.map_err(failed)?,
        permitted,
    )
    .await?;
    let preview = executor.preview(call).await;
    let CallPreview { patch, effects, is_shown_in_full: is_whole, pinned } =
        preview.map_err(failed)?;
    call.update(patch);
    let subject = pinned.subject().clone();
    if let Some(before) = permitted.run.take() {
        let is_same = before.subject == subject && before.effects.is_bytewise_equal(&effects);
        if is_same && call.is_still_permitted(&effects).map_err(CallStopReason::Denied)? {
            let grant = Grant::new(subject, before.kind);
            permitted.run = Some(before);
            return Ok((pinned, grant));
        }
        if !is_same {
            call.append_content(Content::from_text(
                session_translations(call).render_unescaped_with_counts("outdated", &[], &[]),
            ));
        }
    }
    let grant = grant_or_stop(call.request_permission(&effects, subject.clone(), is_whole).await)?;
    permitted.run = Some(LastPermittedRun { subject, effects, kind: grant.kind() });
    Ok((pinned, grant))
}

/// Requests permission for the files that a preview reads, if reading these files is not permitted
/// yet.
async fn permit_preview_reads(
    call: &CallHandle,
    reads: Effects,
    permitted: &mut PermittedEffects,
) -> Result<(), CallStopReason> {
    let verdict = call.judge_effects_with_denial_reason(&reads).map_err(CallStopReason::Denied)?;
    if reads.is_bytewise_equal(&permitted.reads) {
        return Ok(());
    }
    let asks = verdict == Verdict::Ask;
    let report = asks.then(|| call.session().call_report(call.id())).flatten();
    let content = report.map(|report| report.content);
    if asks {
        let note = session_translations(call).render_unescaped_with_counts("reads-first", &[], &[]);
        call.append_content(Content::from_text(note));
    }
    // The subject identifies a plan. A permission to read for a preview has no plan, so its subject
    // is empty.
    let subject = PermissionSubject::for_call("", &Value::Null, Path::new(""), &[]);
    grant_or_stop(call.request_permission(&reads, subject, true).await)?;
    permitted.reads = reads;
    // Remove the notes of this request, because the preview may show other content or no content.
    if let Some(content) = content {
        call.update(ToolCallPatch::new().with_content(content));
    }
    Ok(())
}

fn grant_or_stop(outcome: PermissionOutcome) -> Result<Grant, CallStopReason> {
    match outcome {
        PermissionOutcome::Granted(grant) => Ok(grant),
        PermissionOutcome::Rejected { reason } => {
            Err(CallStopReason::Rejected { by: Rejecter::User, reason })
        }
        PermissionOutcome::RejectedByApprover { reason } => {
            Err(CallStopReason::Rejected { by: Rejecter::Approver, reason })
        }
        PermissionOutcome::Denied(denial) => Err(CallStopReason::Denied(denial)),
        PermissionOutcome::Unanswered(why) => Err(CallStopReason::Unanswered(why)),
        PermissionOutcome::Cancelled => Err(CallStopReason::TurnOver),
        PermissionOutcome::Outdated => {
            let text = "Files that it may run changed during each permission request. \
                        It did not run.";
            let failure =
                CallFailure { is_outdated: true, ..CallFailure::recoverable("outdated", text) };
            Err(CallStopReason::Failed(Box::new(failure)))
        }
    }
}

/// Returns the messages in the language of a call's session.
fn session_translations(call: &CallHandle) -> Arc<Titles> {
    call.session().update(|session, _| session.localized_messages())
}

async fn wait_for_cancel_and_grace(call: &CallHandle) {
    call.cancel_token().cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn complete_call(open: OpenCall, success: CallSuccess) -> CallOutcome {
    let mut images = content_images(&success.patch.content);
    images.extend(success.images);
    open.finish(CallEnd::completed().with_patch(success.patch));
    CallOutcome { images, ..CallOutcome::new(Status::Completed, None, success.text) }
}

fn content_images(shown: &ContentPatch) -> Vec<Image> {
    let items = match shown {
        ContentPatch::Set(items) | ContentPatch::Append(items) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(Content::to_image).collect()
}

fn panic_failure() -> CallFailure {
    CallFailure::recoverable(
        "internal_error",
        "The tool failed because of an internal error. Do not repeat the call.",
    )
}

/// The end of a call, in the form that is reported to the client, the model and the turn.
struct EndReport {
    end: CallEnd,
    text: String,
    code: String,
    note: Option<String>,
    ends_turn: bool,
    is_fatal: bool,
}

impl CallStopReason {
    /// Ends the call and reports the end to the model.
    fn finish_call(self, open: OpenCall) -> CallOutcome {
        let (cancelled, titles) =
            (open.handle().cancel_reason(), session_translations(open.handle()));
        let EndReport { end, text, code, note, ends_turn, is_fatal } =
            self.end_report(cancelled, &titles);
        let mut patch =
            ToolCallPatch::new().with_raw_output(json!({ "error": text, "code": code }));
        if end.status == Status::Failed
            && let Some(note) = note
        {
            patch = patch.with_appended_content(Content::from_text(open.handle().fit_text(note)));
        }
        let (status, reason) = (end.status, end.reason);
        // The fields of `end.patch` take precedence, because the tool has set them.
        open.finish(CallEnd { patch: patch.then(end.patch), ..end });
        CallOutcome { ends_turn, is_fatal, ..CallOutcome::new(status, reason, text) }
    }

    fn end_report(self, cancelled: Option<CallEndReason>, titles: &Titles) -> EndReport {
        let with_note = |end, code: &str, text: &str, ends_turn| EndReport {
            end,
            text: text.to_owned(),
            code: code.to_owned(),
            note: Some(text.to_owned()),
            ends_turn,
            is_fatal: false,
        };
        // The text for the model is English. The note for the client is in the client's language.
        let not_run = |reason, code, key, texts: &[(&str, String)]| EndReport {
            note: Some(titles.render_unescaped_with_counts(key, texts, &[])),
            ..with_note(
                CallEnd::failed(reason),
                code,
                &ENGLISH_TITLES.render_unescaped_with_counts(key, texts, &[]),
                false,
            )
        };
        match self {
            Self::Failed(failure) => failure.end_report(cancelled),
            Self::Cancelled { ran } => {
                let reason = cancelled.unwrap_or(CallEndReason::Turn);
                let story = match ran {
                    HasRun::Yes => "It may have had effects already.",
                    HasRun::No => "It did not run.",
                };
                let text = format!("{} {story}", reason.description());
                with_note(CallEnd::cancelled(reason), "cancelled", &text, ends_turn(Some(reason)))
            }
            Self::TurnOver => {
                let text = "Cancelled by the user before it ran.";
                with_note(CallEnd::cancelled(CallEndReason::User), "cancelled", text, true)
            }
            Self::Denied(denial) => {
                let key = match denial {
                    UnaskedDenialReason::Rule => "denied-rule",
                    UnaskedDenialReason::Policy => "denied-mode",
                    UnaskedDenialReason::PolicyPanicked => "denied-fault",
                    UnaskedDenialReason::CallEnded => "denied-ended",
                };
                not_run(CallEndReason::Permission, "not_permitted", key, &[])
            }
            Self::Unanswered(why) => {
                let (key, error) = match why {
                    UnansweredReason::ClientFailed(error) => ("unanswered", error),
                    UnansweredReason::NotOffered => ("unanswered-void", String::new()),
                    UnansweredReason::Withdrawn => ("unanswered-withdrawn", String::new()),
                };
                let error = escape_invisible(error.trim_end_matches('.'));
                not_run(CallEndReason::Permission, "not_permitted", key, &[("error", error)])
            }
            Self::Rejected { by, reason } => {
                let key = match (by, &reason) {
                    (Rejecter::User, None) => "rejected",
                    (Rejecter::User, Some(_)) => "rejected-said",
                    (Rejecter::Approver, None) => "rejected-approver",
                    (Rejecter::Approver, Some(_)) => "rejected-approver-said",
                };
                let said = reason.map(|said| ("said", said));
                let reason = match by {
                    Rejecter::User => CallEndReason::User,
                    Rejecter::Approver => CallEndReason::Approver,
                };
                not_run(reason, "rejected", key, said.as_slice())
            }
        }
    }
}

/// Returns whether the cause of a call's cancellation also ends the call's turn.
fn ends_turn(cancelled: Option<CallEndReason>) -> bool {
    matches!(cancelled, Some(CallEndReason::Turn | CallEndReason::Shutdown))
}

impl CallFailure {
    fn end_report(self, cancelled: Option<CallEndReason>) -> EndReport {
        let end = match (self.reason, cancelled) {
            (reason @ (CallEndReason::Permission | CallEndReason::Timeout), _) => {
                CallEnd::failed(reason)
            }
            // A cancelled call ends with the reason of its cancellation, unless a pattern above
            // matches.
            (_, Some(reason)) => CallEnd::cancelled(reason),
            (
                reason @ (CallEndReason::User | CallEndReason::Turn | CallEndReason::Shutdown),
                None,
            ) => CallEnd::cancelled(reason),
            (reason, None) => CallEnd::failed(reason),
        };
        EndReport {
            end: end.with_patch(self.patch),
            text: self.text,
            code: self.code,
            note: self.note,
            ends_turn: ends_turn(cancelled),
            is_fatal: self.is_fatal,
        }
    }
}
