//! The whole life of one call in one function: preview, permit, run, end.
//!
//! The middleware and the agent use it alike. However a call ends, by itself, by a panic, by a
//! cancelled turn or by nobody waiting for it, it ends once and says why (G2, G4).

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use acp_types::{CallEndReason, Content, ContentPatch, Image, Status, ToolCallPatch};
use callboard_text::visible;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::board::CallEnd;
use crate::handle::{CallHandle, OpenCall};
use crate::limits::{CANCEL_GRACE, MAX_PREVIEWS};
use crate::permission::{DenialReason, PermissionOutcome, UnansweredReason};
use crate::rules::{ENGLISH_TITLES, Verdict};
use crate::title::Titles;
use crate::{Effects, Grant, PermissionSubject, Pinned};

/// Something that can be previewed and, once permitted, run.
pub trait CallExecutor: Send {
    /// What the preview decided and the run will do.
    type Plan: Send;

    /// Returns what the preview reports of the world: the files whose text it shows or quotes. This
    /// is judged before the preview begins, and asked about where reading is.
    ///
    /// Nothing by default: right for a preview that only names things.
    fn preview_reads(
        &mut self,
        _call: &CallHandle,
    ) -> impl Future<Output = Result<Effects, CallFailure>> + Send {
        std::future::ready(Ok(Effects::empty()))
    }

    /// Finds out what would be done, without doing it.
    fn preview(
        &mut self,
        call: &CallHandle,
    ) -> impl Future<Output = Result<CallPreview<Self::Plan>, CallFailure>> + Send;

    /// Does what was permitted. It should end soon after `call.cancel()` says so; after 1 s it
    /// is dropped.
    ///
    /// Where it did nothing, because what the preview found is not there any more, it says so by
    /// [`Failure::is_outdated`] and is previewed again.
    fn run(
        &mut self,
        pinned: Pinned<Self::Plan>,
        grant: Grant,
        call: &CallHandle,
    ) -> impl Future<Output = Result<CallSuccess, CallFailure>> + Send;
}

/// What would be done.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallPreview<P> {
    /// What the client is shown of it: title, locations, the change that would be made.
    pub patch: ToolCallPatch,
    /// What it would do to the world.
    pub effects: Effects,
    /// Whether the client is shown everything that will run; if not, its answer holds once.
    pub is_shown_in_full: bool,
    /// What will run.
    pub pinned: Pinned<P>,
}

impl<P> CallPreview<P> {
    /// Makes a preview of which the client is shown everything, in what the call tells already.
    #[must_use]
    pub fn new(pinned: Pinned<P>, effects: impl Into<Effects>) -> Self {
        Self {
            patch: ToolCallPatch::new(),
            effects: effects.into(),
            is_shown_in_full: true,
            pinned,
        }
    }

    /// Adds what the client is shown.
    #[must_use]
    pub fn with_patch(self, patch: ToolCallPatch) -> Self {
        Self { patch, ..self }
    }
}

/// A call that did what it was asked to.
#[derive(Debug, Clone, Default)]
pub struct CallSuccess {
    /// The result as the model reads it.
    pub text: String,
    /// What a model is to see that takes images, beside those that the patch shows: images that are
    /// too large for a call to show ([`with_content_bytes`](crate::SessionConfig::with_content_bytes)).
    pub images: Vec<Image>,
    /// What changes in the document with the end.
    pub patch: ToolCallPatch,
}

/// A call that did not do what it was asked to.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFailure {
    /// What went wrong and what to do next, as the model reads it.
    pub text: String,
    /// A stable word for it, such as `not_found`.
    pub code: String,
    /// Why the call ends.
    pub reason: CallEndReason,
    /// What the client is shown of it, unless the call shows it already.
    pub note: Option<String>,
    /// Whether the turn cannot go on.
    pub is_fatal: bool,
    /// Whether nothing was done because the preview holds no more. The call is previewed again
    /// then, and asked about again unless it would do just what was permitted: its subject and its
    /// effects are the same. After three of them the model is told.
    pub is_outdated: bool,
    /// What changes in the document with the end.
    pub patch: ToolCallPatch,
}

impl CallFailure {
    /// Makes a failure that the model is told about and can act on.
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

/// How a call ended, for the turn that waits for it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallOutcome {
    /// The final status.
    pub status: Status,
    /// Why, unless it completed.
    pub reason: Option<CallEndReason>,
    /// What the model is told.
    pub text: String,
    /// The images of a completed call, for a model that takes any: those that it shows with its end,
    /// then those that are too large to be shown.
    pub images: Vec<Image>,
    /// Whether the turn is over, because the client or its cancellation said so.
    pub ends_turn: bool,
    /// Whether the turn cannot go on, because of a fault that nobody can mend.
    pub is_fatal: bool,
}

impl CallOutcome {
    /// Makes an end that shows no image, and after which the turn goes on.
    #[must_use]
    pub fn new(status: Status, reason: Option<CallEndReason>, text: impl Into<String>) -> Self {
        let (text, images) = (text.into(), Vec::new());
        Self { status, reason, text, images, ends_turn: false, is_fatal: false }
    }
}

/// Lives the life of an announced call to its end.
///
/// Preview and run happen in the call's span, and while they do,
/// [`CallHandle::current`] is the call.
pub async fn execute_call<E: CallExecutor>(open: OpenCall, executor: E) -> CallOutcome {
    let (call, span) = (open.handle().clone(), open.span().clone());
    CURRENT.scope(call, run_until_settled(open, executor)).instrument(span).await
}

tokio::task_local! {
    /// The call whose preview or run this task is in.
    static CURRENT: CallHandle;
}

impl CallHandle {
    /// Returns the call that the current task performs: for a tool that was not given its handle.
    ///
    /// There is none outside of [`perform()`] and the middleware, and none in a task that the
    /// tool spawned; hand such a task a clone.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

async fn run_until_settled<E: CallExecutor>(open: OpenCall, mut executor: E) -> CallOutcome {
    let call = open.handle().clone();
    let (mut permitted, mut previews) = (PermittedEffects::default(), 0);
    loop {
        previews += 1;
        // All that is foreign happens in it: a panic is a failure like any other.
        let attempt = AssertUnwindSafe(attempt_run(&call, &mut executor, &mut permitted));
        let done = attempt.catch_unwind().await;
        match done.unwrap_or_else(|_| Err(CallStop::Failed(Box::new(panic_failure())))) {
            Err(CallStop::Failed(failure)) if failure.is_outdated && previews < MAX_PREVIEWS => {}
            Err(stop) => return stop.finish_call(open),
            Ok(success) => return finish_success(open, success),
        }
    }
}

/// What a call was permitted so far.
#[derive(Default)]
struct PermittedEffects {
    /// What its preview may report.
    reads: Effects,
    /// What it may do, where it was permitted to last.
    run: Option<(PermissionSubject, Effects)>,
}

/// Previews, asks and runs.
async fn attempt_run<E: CallExecutor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut PermittedEffects,
) -> Result<CallSuccess, CallStop> {
    let (pinned, grant) = tokio::select! {
        biased;
        () = call.cancel_token().cancelled() => return Err(CallStop::Cancelled { ran: HasRun::No }),
        released = preview_and_permit(call, executor, permitted) => released?,
    };
    // A call that ended meanwhile, with its turn or its session, must not run.
    if call.cancel_token().is_cancelled() || !call.start() {
        return Err(CallStop::Cancelled { ran: HasRun::No });
    }
    let done = tokio::select! {
        done = executor.run(pinned, grant, call) => done,
        () = wait_cancel_grace(call) => return Err(CallStop::Cancelled { ran: HasRun::Yes }),
    };
    done.map_err(|failure| {
        if failure.is_outdated {
            call.return_to_pending();
        }
        CallStop::Failed(Box::new(failure))
    })
}

/// Why a call ends before it is done.
enum CallStop {
    Cancelled { ran: HasRun },
    Rejected { by: Rejecter, reason: Option<String> },
    Denied(DenialReason),
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

/// Whether a call had begun to run.
#[derive(Clone, Copy)]
enum HasRun {
    Yes,
    No,
}

/// Previews and asks.
///
/// What was permitted already and is the same still is not asked about again.
async fn preview_and_permit<E: CallExecutor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut PermittedEffects,
) -> Result<(Pinned<E::Plan>, Grant), CallStop> {
    let failed = |failure| CallStop::Failed(Box::new(failure));
    permit_reads(call, executor.preview_reads(call).await.map_err(failed)?, permitted).await?;
    let preview = executor.preview(call).await;
    let CallPreview { patch, effects, is_shown_in_full: is_whole, pinned } =
        preview.map_err(failed)?;
    call.update(patch);
    let subject = pinned.subject().clone();
    if let Some((before, did)) = permitted.run.take() {
        let is_same = before == subject && did.is_identical(&effects);
        if is_same && call.is_still_permitted(&effects).map_err(CallStop::Denied)? {
            permitted.run = Some((before, did));
            return Ok((pinned, Grant::new(subject)));
        }
        if !is_same {
            call.append_content(Content::text(session_titles(call).sentence("outdated", &[], &[])));
        }
    }
    let grant = grant_or_stop(call.request_permission(&effects, subject.clone(), is_whole).await)?;
    permitted.run = Some((subject, effects));
    Ok((pinned, grant))
}

/// Asks for what a preview reports, unless that was permitted before.
async fn permit_reads(
    call: &CallHandle,
    reads: Effects,
    permitted: &mut PermittedEffects,
) -> Result<(), CallStop> {
    let verdict = call.try_judge(&reads).map_err(CallStop::Denied)?;
    if !reads.is_identical(&permitted.reads) {
        if verdict == Verdict::Ask {
            call.append_content(Content::text(session_titles(call).sentence(
                "reads-first",
                &[],
                &[],
            )));
        }
        // Nothing is pinned by it.
        let subject = PermissionSubject::for_call("", &Value::Null, Path::new(""), &[]);
        grant_or_stop(call.request_permission(&reads, subject, true).await)?;
        permitted.reads = reads;
    }
    Ok(())
}

fn grant_or_stop(outcome: PermissionOutcome) -> Result<Grant, CallStop> {
    match outcome {
        PermissionOutcome::Granted(grant) => Ok(grant),
        PermissionOutcome::Rejected { reason } => {
            Err(CallStop::Rejected { by: Rejecter::User, reason })
        }
        PermissionOutcome::RejectedByApprover { reason } => {
            Err(CallStop::Rejected { by: Rejecter::Approver, reason })
        }
        PermissionOutcome::Denied(denial) => Err(CallStop::Denied(denial)),
        PermissionOutcome::Unanswered(why) => Err(CallStop::Unanswered(why)),
        PermissionOutcome::Cancelled => Err(CallStop::TurnOver),
        PermissionOutcome::Outdated => {
            let text = "Files that it may run were changed each time it was asked about. \
                        It did not run.";
            let failure =
                CallFailure { is_outdated: true, ..CallFailure::recoverable("outdated", text) };
            Err(CallStop::Failed(Box::new(failure)))
        }
    }
}

/// Returns the messages in the language of a call's session.
fn session_titles(call: &CallHandle) -> Arc<Titles> {
    call.session().update(|session, _| session.titles())
}

async fn wait_cancel_grace(call: &CallHandle) {
    call.cancel_token().cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn finish_success(open: OpenCall, success: CallSuccess) -> CallOutcome {
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
        "The tool failed by a fault of its own. Do not repeat it.",
    )
}

/// What an end means for the client, the model and the turn.
struct EndReport {
    end: CallEnd,
    text: String,
    code: String,
    note: Option<String>,
    ends_turn: bool,
    is_fatal: bool,
}

impl CallStop {
    /// Ends the call and tells the model what that means.
    fn finish_call(self, open: OpenCall) -> CallOutcome {
        let (cancelled, titles) = (open.handle().cancel_reason(), session_titles(open.handle()));
        let EndReport { end, text, code, note, ends_turn, is_fatal } =
            self.end_report(cancelled, &titles);
        let mut patch = ToolCallPatch::new().raw_output(json!({ "error": text, "code": code }));
        if end.status == Status::Failed
            && let Some(note) = note
        {
            patch = patch.append(Content::text(note));
        }
        let (status, reason) = (end.status, end.reason);
        // What the tool itself says of its end wins.
        open.finish(CallEnd { patch: patch.then(end.patch), ..end });
        CallOutcome { ends_turn, is_fatal, ..CallOutcome::new(status, reason, text) }
    }

    fn end_report(self, cancelled: Option<CallEndReason>, titles: &Titles) -> EndReport {
        let told = |end, code: &str, text: &str, ends_turn| EndReport {
            end,
            text: text.to_owned(),
            code: code.to_owned(),
            note: Some(text.to_owned()),
            ends_turn,
            is_fatal: false,
        };
        // The model reads it in English.
        let not_run = |reason, code, key, texts: &[(&str, String)]| EndReport {
            note: Some(titles.sentence(key, texts, &[])),
            ..told(CallEnd::failed(reason), code, &ENGLISH_TITLES.sentence(key, texts, &[]), false)
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
                told(CallEnd::cancelled(reason), "cancelled", &text, ends_turn(Some(reason)))
            }
            Self::TurnOver => {
                let text = "Cancelled by the user before it ran.";
                told(CallEnd::cancelled(CallEndReason::User), "cancelled", text, true)
            }
            Self::Denied(denial) => {
                let key = match denial {
                    DenialReason::Rule => "denied-rule",
                    DenialReason::Policy => "denied-mode",
                    DenialReason::PolicyPanicked => "denied-fault",
                    DenialReason::CallEnded => "denied-ended",
                };
                not_run(CallEndReason::Permission, "not_permitted", key, &[])
            }
            Self::Unanswered(why) => {
                let (key, error) = match why {
                    UnansweredReason::ClientFailed(error) => ("unanswered", error),
                    UnansweredReason::NotOffered => ("unanswered-void", String::new()),
                    UnansweredReason::Withdrawn => ("unanswered-withdrawn", String::new()),
                };
                let error = visible(error.trim_end_matches('.'));
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
                not_run(CallEndReason::User, "rejected", key, said.as_slice())
            }
        }
    }
}

/// Whether what cancelled a call ends its turn too.
fn ends_turn(cancelled: Option<CallEndReason>) -> bool {
    matches!(cancelled, Some(CallEndReason::Turn | CallEndReason::Shutdown))
}

impl CallFailure {
    fn end_report(self, cancelled: Option<CallEndReason>) -> EndReport {
        let end = match (self.reason, cancelled) {
            (reason @ (CallEndReason::Permission | CallEndReason::Timeout), _) => {
                CallEnd::failed(reason)
            }
            // A cancelled call ends because it was cancelled, whatever else it says.
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
