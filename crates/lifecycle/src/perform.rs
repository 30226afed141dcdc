//! The whole life of one call in one function: preview, permit, run, end.
//!
//! The middleware and the agent use it alike. However a call ends, by itself, by a panic, by a
//! cancelled turn or by nobody waiting for it, it ends once and says why (G2, G4).

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use acp_types::{Content, ContentPatch, Image, Reason, Status, ToolCallPatch};
use callboard_text::visible;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::board::End;
use crate::handle::{CallHandle, OpenCall};
use crate::limits::{CANCEL_GRACE, PREVIEWS};
use crate::permission::{Denial, NoAnswer, Outcome};
use crate::rules::{ENGLISH, Verdict};
use crate::title::Titles;
use crate::{Effects, Grant, Pinned, Subject};

/// Something that can be previewed and, once permitted, run.
pub trait Executor: Send {
    /// What the preview decided and the run will do.
    type Plan: Send;

    /// Returns what the preview reports of the world: the files whose text it shows or quotes. This
    /// is judged before the preview begins, and asked about where reading is.
    ///
    /// Nothing by default: right for a preview that only names things.
    fn reads(
        &mut self,
        _call: &CallHandle,
    ) -> impl Future<Output = Result<Effects, Failure>> + Send {
        std::future::ready(Ok(Effects::none()))
    }

    /// Finds out what would be done, without doing it.
    fn preview(
        &mut self,
        call: &CallHandle,
    ) -> impl Future<Output = Result<Preview<Self::Plan>, Failure>> + Send;

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
    ) -> impl Future<Output = Result<Success, Failure>> + Send;
}

/// What would be done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Preview<P> {
    /// What the client is shown of it: title, locations, the change that would be made.
    pub patch: ToolCallPatch,
    /// What it would do to the world.
    pub effects: Effects,
    /// Whether the client is shown everything that will run; if not, its answer holds once.
    pub is_whole: bool,
    /// What will run.
    pub pinned: Pinned<P>,
}

impl<P> Preview<P> {
    /// Makes a preview of which the client is shown everything, in what the call tells already.
    #[must_use]
    pub fn new(pinned: Pinned<P>, effects: impl Into<Effects>) -> Self {
        Self { patch: ToolCallPatch::new(), effects: effects.into(), is_whole: true, pinned }
    }

    /// Adds what the client is shown.
    #[must_use]
    pub fn with_patch(self, patch: ToolCallPatch) -> Self {
        Self { patch, ..self }
    }
}

/// A call that did what it was asked to.
#[derive(Debug, Clone, Default)]
pub struct Success {
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
pub struct Failure {
    /// What went wrong and what to do next, as the model reads it.
    pub text: String,
    /// A stable word for it, such as `not_found`.
    pub code: String,
    /// Why the call ends.
    pub reason: Reason,
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

impl Failure {
    /// Makes a failure that the model is told about and can act on.
    #[must_use]
    pub fn report(code: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            note: Some(text.clone()),
            text,
            code: code.into(),
            reason: Reason::Error,
            is_fatal: false,
            is_outdated: false,
            patch: ToolCallPatch::new(),
        }
    }
}

/// How a call ended, for the turn that waits for it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// The final status.
    pub status: Status,
    /// Why, unless it completed.
    pub reason: Option<Reason>,
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

impl Ended {
    /// Makes an end that shows no image, and after which the turn goes on.
    #[must_use]
    pub fn new(status: Status, reason: Option<Reason>, text: impl Into<String>) -> Self {
        let (text, images) = (text.into(), Vec::new());
        Self { status, reason, text, images, ends_turn: false, is_fatal: false }
    }
}

/// Lives the life of an announced call to its end.
///
/// Preview and run happen in the call's span, and while they do,
/// [`CallHandle::current`] is the call.
pub async fn perform<E: Executor>(open: OpenCall, executor: E) -> Ended {
    let (call, span) = (open.handle().clone(), open.span().clone());
    CURRENT.scope(call, live(open, executor)).instrument(span).await
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

async fn live<E: Executor>(open: OpenCall, mut executor: E) -> Ended {
    let call = open.handle().clone();
    let (mut permitted, mut previews) = (Permitted::default(), 0);
    loop {
        previews += 1;
        // All that is foreign happens in it: a panic is a failure like any other.
        let attempt = AssertUnwindSafe(attempt(&call, &mut executor, &mut permitted));
        let done = attempt.catch_unwind().await;
        match done.unwrap_or_else(|_| Err(Stop::Failed(Box::new(panicked())))) {
            Err(Stop::Failed(failure)) if failure.is_outdated && previews < PREVIEWS => {}
            Err(stop) => return stop.end(open),
            Ok(success) => return succeed(open, success),
        }
    }
}

/// What a call was permitted so far.
#[derive(Default)]
struct Permitted {
    /// What its preview may report.
    reads: Effects,
    /// What it may do, where it was permitted to last.
    run: Option<(Subject, Effects)>,
}

/// Previews, asks and runs.
async fn attempt<E: Executor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut Permitted,
) -> Result<Success, Stop> {
    let (pinned, grant) = tokio::select! {
        biased;
        () = call.cancel().cancelled() => return Err(Stop::Cancelled { ran: Ran::No }),
        released = permit(call, executor, permitted) => released?,
    };
    // A call that ended meanwhile, with its turn or its session, must not run.
    if call.cancel().is_cancelled() || !call.start() {
        return Err(Stop::Cancelled { ran: Ran::No });
    }
    let done = tokio::select! {
        done = executor.run(pinned, grant, call) => done,
        () = out_of_grace(call) => return Err(Stop::Cancelled { ran: Ran::Yes }),
    };
    done.map_err(|failure| {
        if failure.is_outdated {
            call.take_back();
        }
        Stop::Failed(Box::new(failure))
    })
}

/// Why a call ends before it is done.
enum Stop {
    Cancelled { ran: Ran },
    Rejected { by: Rejecter, reason: Option<String> },
    Denied(Denial),
    Unanswered(NoAnswer),
    TurnOver,
    Failed(Box<Failure>),
}

/// The side that rejected a call.
#[derive(Clone, Copy)]
enum Rejecter {
    User,
    Approver,
}

/// Whether a call had begun to run.
#[derive(Clone, Copy)]
enum Ran {
    Yes,
    No,
}

/// Previews and asks.
///
/// What was permitted already and is the same still is not asked about again.
async fn permit<E: Executor>(
    call: &CallHandle,
    executor: &mut E,
    permitted: &mut Permitted,
) -> Result<(Pinned<E::Plan>, Grant), Stop> {
    let failed = |failure| Stop::Failed(Box::new(failure));
    permit_reads(call, executor.reads(call).await.map_err(failed)?, permitted).await?;
    let preview = executor.preview(call).await;
    let Preview { patch, effects, is_whole, pinned } = preview.map_err(failed)?;
    call.change(patch);
    let subject = pinned.subject().clone();
    if let Some((before, did)) = permitted.run.take() {
        let is_same = before == subject && did.is_exactly(&effects);
        if is_same && call.stays_permitted(&effects).map_err(Stop::Denied)? {
            permitted.run = Some((before, did));
            return Ok((pinned, Grant::new(subject)));
        }
        if !is_same {
            call.append(Content::text(titles(call).sentence("outdated", &[], &[])));
        }
    }
    let grant = granted(call.permit(&effects, subject.clone(), is_whole).await)?;
    permitted.run = Some((subject, effects));
    Ok((pinned, grant))
}

/// Asks for what a preview reports, unless that was permitted before.
async fn permit_reads(
    call: &CallHandle,
    reads: Effects,
    permitted: &mut Permitted,
) -> Result<(), Stop> {
    let verdict = call.decide(&reads).map_err(Stop::Denied)?;
    if !reads.is_exactly(&permitted.reads) {
        if verdict == Verdict::Ask {
            call.append(Content::text(titles(call).sentence("reads-first", &[], &[])));
        }
        // Nothing is pinned by it.
        let subject = Subject::of_call("", &Value::Null, Path::new(""), &[]);
        granted(call.permit(&reads, subject, true).await)?;
        permitted.reads = reads;
    }
    Ok(())
}

fn granted(outcome: Outcome) -> Result<Grant, Stop> {
    match outcome {
        Outcome::Granted(grant) => Ok(grant),
        Outcome::Rejected { reason } => Err(Stop::Rejected { by: Rejecter::User, reason }),
        Outcome::RejectedByApprover { reason } => {
            Err(Stop::Rejected { by: Rejecter::Approver, reason })
        }
        Outcome::Denied(denial) => Err(Stop::Denied(denial)),
        Outcome::Unanswered(why) => Err(Stop::Unanswered(why)),
        Outcome::Cancelled => Err(Stop::TurnOver),
        Outcome::Outdated => {
            let text = "Files that it may run were changed each time it was asked about. \
                        It did not run.";
            let failure = Failure { is_outdated: true, ..Failure::report("outdated", text) };
            Err(Stop::Failed(Box::new(failure)))
        }
    }
}

/// Returns the messages in the language of a call's session.
fn titles(call: &CallHandle) -> Arc<Titles> {
    call.session().with(|session, _| session.titles())
}

async fn out_of_grace(call: &CallHandle) {
    call.cancel().cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn succeed(open: OpenCall, success: Success) -> Ended {
    let mut images = images(&success.patch.content);
    images.extend(success.images);
    open.finish(End::completed().with(success.patch));
    Ended { images, ..Ended::new(Status::Completed, None, success.text) }
}

fn images(shown: &ContentPatch) -> Vec<Image> {
    let items = match shown {
        ContentPatch::Set(items) | ContentPatch::Append(items) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(Content::to_image).collect()
}

fn panicked() -> Failure {
    Failure::report("internal_error", "The tool failed by a fault of its own. Do not repeat it.")
}

/// What an end means for the client, the model and the turn.
struct Told {
    end: End,
    text: String,
    code: String,
    note: Option<String>,
    ends_turn: bool,
    is_fatal: bool,
}

impl Stop {
    /// Ends the call and tells the model what that means.
    fn end(self, open: OpenCall) -> Ended {
        let (cancelled, titles) = (open.handle().cancelled_by(), titles(open.handle()));
        let Told { end, text, code, note, ends_turn, is_fatal } = self.told(cancelled, &titles);
        let mut patch = ToolCallPatch::new().raw_output(json!({ "error": text, "code": code }));
        if end.status == Status::Failed
            && let Some(note) = note
        {
            patch = patch.append(Content::text(note));
        }
        let (status, reason) = (end.status, end.reason);
        // What the tool itself says of its end wins.
        open.finish(End { patch: patch.then(end.patch), ..end });
        Ended { ends_turn, is_fatal, ..Ended::new(status, reason, text) }
    }

    fn told(self, cancelled: Option<Reason>, titles: &Titles) -> Told {
        let told = |end, code: &str, text: &str, ends_turn| Told {
            end,
            text: text.to_owned(),
            code: code.to_owned(),
            note: Some(text.to_owned()),
            ends_turn,
            is_fatal: false,
        };
        // The model reads it in English.
        let not_run = |reason, code, key, texts: &[(&str, String)]| Told {
            note: Some(titles.sentence(key, texts, &[])),
            ..told(End::failed(reason), code, &ENGLISH.sentence(key, texts, &[]), false)
        };
        match self {
            Self::Failed(failure) => failure.told(cancelled),
            Self::Cancelled { ran } => {
                let reason = cancelled.unwrap_or(Reason::Turn);
                let story = match ran {
                    Ran::Yes => "It may have had effects already.",
                    Ran::No => "It did not run.",
                };
                let text = format!("{} {story}", reason.sentence());
                told(End::cancelled(reason), "cancelled", &text, ends_turn(Some(reason)))
            }
            Self::TurnOver => {
                let text = "Cancelled by the user before it ran.";
                told(End::cancelled(Reason::User), "cancelled", text, true)
            }
            Self::Denied(denial) => {
                let key = match denial {
                    Denial::Rule => "denied-rule",
                    Denial::Policy => "denied-mode",
                    Denial::Fault => "denied-fault",
                    Denial::Ended => "denied-ended",
                };
                not_run(Reason::Permission, "not_permitted", key, &[])
            }
            Self::Unanswered(why) => {
                let (key, error) = match why {
                    NoAnswer::Failed(error) => ("unanswered", error),
                    NoAnswer::NotOffered => ("unanswered-void", String::new()),
                    NoAnswer::Withdrawn => ("unanswered-withdrawn", String::new()),
                };
                let error = visible(error.trim_end_matches('.'));
                not_run(Reason::Permission, "not_permitted", key, &[("error", error)])
            }
            Self::Rejected { by, reason } => {
                let key = match (by, &reason) {
                    (Rejecter::User, None) => "rejected",
                    (Rejecter::User, Some(_)) => "rejected-said",
                    (Rejecter::Approver, None) => "rejected-approver",
                    (Rejecter::Approver, Some(_)) => "rejected-approver-said",
                };
                let said = reason.map(|said| ("said", said));
                not_run(Reason::User, "rejected", key, said.as_slice())
            }
        }
    }
}

/// Whether what cancelled a call ends its turn too.
fn ends_turn(cancelled: Option<Reason>) -> bool {
    matches!(cancelled, Some(Reason::Turn | Reason::Shutdown))
}

impl Failure {
    fn told(self, cancelled: Option<Reason>) -> Told {
        let end = match (self.reason, cancelled) {
            (reason @ (Reason::Permission | Reason::Timeout), _) => End::failed(reason),
            // A cancelled call ends because it was cancelled, whatever else it says.
            (_, Some(reason)) => End::cancelled(reason),
            (reason @ (Reason::User | Reason::Turn | Reason::Shutdown), None) => {
                End::cancelled(reason)
            }
            (reason, None) => End::failed(reason),
        };
        Told {
            end: end.with(self.patch),
            text: self.text,
            code: self.code,
            note: self.note,
            ends_turn: ends_turn(cancelled),
            is_fatal: self.is_fatal,
        }
    }
}
