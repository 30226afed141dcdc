//! One call of a tool: previewed, permitted and run, as `acp_lifecycle` drives it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_lifecycle::{
    AnyPlan, CallHandle, Effect, Effects, Executor, Failure, Grant, Pinned, Preview, Subject,
    Success, Titles, Verdict,
};
use acp_types::{Content, ContentBlock, FileChange, Location, Operation, ToolCallPatch};
use serde_json::Value;

use super::arguments::Normalised;
use super::{Entry, changes, results};
use crate::error::{Code, ToolError};
use crate::files::stamp::Stamp;
use crate::files::workspace::{Resolved, Workspace, guard};
use crate::files::write::{PreImage, read_whole};
use crate::limits::FILE_BYTES;
use crate::note::Note;
use crate::tool::{Context, Draft, Invocation, Reach, Spec, Surface, end_patch};

/// One call of a tool, ready to be previewed, permitted and run.
#[derive(Debug)]
pub struct ToolCall {
    entry: Option<Arc<Entry>>,
    names: Vec<Cow<'static, str>>,
    name: String,
    /// As the model wrote them.
    args: Value,
    /// As the tool takes them, once they are, and whether its title shows all that they name.
    formed: Option<(Value, bool)>,
    /// What there is to tell it about them.
    notes: Vec<String>,
    context: Context,
    titles: Arc<Titles>,
    /// What an earlier preview showed is there, and may not hold any more.
    is_previewed: bool,
    /// The files of the session that hold what its request does not show, by their URIs. They go with
    /// a call that does not run.
    staged: Vec<String>,
}

impl Executor for ToolCall {
    type Plan = AnyPlan;

    async fn reads(&mut self, call: &CallHandle) -> Result<Effects, Failure> {
        let (entry, args, _) = self.prepared(call).await?;
        let paths =
            entry.tool.reads(args, &self.context).await.map_err(|error| failure(error, call))?;
        if paths.is_empty() {
            return Ok(Effects::none());
        }
        let shared = Arc::new(paths);
        let paths = shared.clone();
        let reads =
            self.context.on_files(move |workspace| Ok(reads_of(workspace, &paths, |_| true)));
        let reads = reads.await.map_err(|error| failure(error, call))?;
        if call.judge(&reads) != Verdict::Ask {
            return Ok(reads);
        }
        // What the session has read it knows.
        let unread = self.context.on_files(move |workspace| {
            Ok(reads_of(workspace, &shared, |at| !is_known(workspace, at)))
        });
        let unread = unread.await.map_err(|error| failure(error, call))?;
        if call.judge(&unread) == Verdict::Ask {
            // A note says so.
            self.is_previewed = true;
        }
        Ok(unread)
    }

    async fn preview(&mut self, call: &CallHandle) -> Result<Preview<AnyPlan>, Failure> {
        let (entry, args, is_told) = self.prepared(call).await?;
        let invocation = Invocation::new(call, &self.context);
        let draft = entry.tool.preview(args.clone(), invocation).await;
        let draft = draft.map_err(|error| self.noted_failure(failure(error, call)))?;
        let cwd = draft.cwd.as_deref().unwrap_or(self.context.workspace.cwd());
        let subject = Subject::of_call(&entry.spec.name, &args, cwd, &draft.pre_image);
        let effects = guard::judged(&self.context.workspace, told_effects(&entry.spec, &draft));
        let outside: Vec<_> = effects.outside().map(Path::to_owned).collect();
        let mut patch = ToolCallPatch::new();
        patch.locations = draft.locations.or_else(|| located(&outside));
        let titles = self.titles.clone();
        let (mut shown, is_shown) = changes::shown(draft.changes, &self.context, &titles).await;
        self.discard();
        self.staged.extend(shown.iter().filter_map(linked));
        let outside = outside.iter().map(|path| self.context.workspace.display(path));
        let outside = outside.map(|path| Note::new("outside").with("path", path));
        let notes = draft.notes.into_iter().chain(outside).map(|note| note.render(&titles));
        shown.extend(changes::notes(notes.collect()));
        if entry.spec.surface == Surface::Terminal {
            // Its terminal stays.
            patch = shown.into_iter().fold(patch, ToolCallPatch::append);
        } else if !shown.is_empty() || self.is_previewed {
            patch = patch.content(shown);
        }
        self.is_previewed = true;
        let pinned = Pinned::new(draft.plan, subject);
        let mut preview = Preview::new(pinned, effects).with_patch(patch);
        preview.is_whole = is_shown && is_told;
        Ok(preview)
    }

    async fn run(
        &mut self,
        pinned: Pinned<AnyPlan>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<Success, Failure> {
        let Some(entry) = &self.entry else { return Err(self.unknown()) };
        self.staged.clear();
        let invocation = Invocation::new(call, &self.context);
        let ran = entry.tool.run(pinned, grant, invocation).await;
        let mut output = ran.map_err(|error| self.noted_failure(failure(error, call)))?;
        if entry.spec.surface == Surface::Content {
            results::keep(&mut output, call, &self.context).await;
        }
        let (text, failed) = (self.noted(&output.text), output.failed);
        let images = std::mem::take(&mut output.images);
        let patch = end_patch(output);
        match failed {
            None => Ok(Success { text, images, patch }),
            Some((code, reason)) => {
                // The call shows already what went wrong.
                let failure = Failure::report(code.as_str(), text);
                Err(Failure { note: None, reason, patch, ..failure })
            }
        }
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        self.discard();
    }
}

impl ToolCall {
    /// Makes a call of a tool; `names` are those that there are, should there be none of its name.
    pub(super) fn new(
        entry: Option<Arc<Entry>>,
        names: Vec<Cow<'static, str>>,
        name: &str,
        args: Value,
        context: &Context,
        titles: &Arc<Titles>,
    ) -> Self {
        Self {
            entry,
            names,
            name: name.to_owned(),
            args,
            formed: None,
            notes: Vec::new(),
            context: context.clone(),
            titles: Arc::clone(titles),
            is_previewed: false,
            staged: Vec::new(),
        }
    }

    /// Tells the client what the call is about, and returns the tool and what it is given.
    async fn prepared(&mut self, call: &CallHandle) -> Result<(Arc<Entry>, Value, bool), Failure> {
        let Some(entry) = self.entry.clone() else {
            call.change(ToolCallPatch::new().raw_input(self.args.clone()));
            return Err(self.unknown());
        };
        if let Some((args, is_told)) = self.formed.clone() {
            return Ok((entry, args, is_told));
        }
        let formed = entry.normalise(&self.args);
        let args = formed.as_ref().map_or(&self.args, |formed| &formed.args);
        let is_told = entry.tell(&self.titles, call, (&self.args, args), &self.context);
        if !self.args.is_object() {
            let text = "The arguments have to be one JSON object.";
            return Err(Failure::report(Code::InvalidArguments.as_str(), text));
        }
        if entry.spec.reach != Reach::Nothing {
            self.context.recovered().await.map_err(|error| failure(error, call))?;
        }
        let Normalised { args, notes } = formed.map_err(|error| failure(error, call))?;
        self.notes = notes;
        self.formed = Some((args.clone(), is_told));
        Ok((entry, args, is_told))
    }

    fn discard(&mut self) {
        let outputs = self.context.workspace.outputs();
        self.staged.drain(..).for_each(|uri| outputs.remove(&uri));
    }

    /// Adds to a text for the model what there is to tell it about its arguments.
    fn noted(&self, text: &str) -> String {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        match &self.notes[..] {
            [] => text.to_owned(),
            notes => format!("{text}{end}{}", notes.join("\n")),
        }
    }

    fn noted_failure(&self, failure: Failure) -> Failure {
        Failure { text: self.noted(&failure.text), ..failure }
    }

    fn unknown(&self) -> Failure {
        let names = self.names.join(", ");
        let text = format!("There is no tool {:?}. The tools are: {names}.", self.name);
        Failure::report("unknown_tool", text)
    }
}

fn linked(content: &Content) -> Option<String> {
    match content {
        Content::Block(ContentBlock::ResourceLink(link)) => Some(link.uri.clone()),
        _ => None,
    }
}

/// Returns what reading those of the named files is that are meant. What has no place or does not
/// exist has no text either.
fn reads_of(
    workspace: &Workspace,
    paths: &[String],
    is_meant: impl Fn(&Resolved) -> bool,
) -> Effects {
    let found = paths.iter().filter_map(|path| workspace.look(path).ok()).filter(is_meant);
    let effects = found.flat_map(|at| {
        guard::looked_at(workspace, &at, Effect::Read).iter().cloned().collect::<Vec<_>>()
    });
    let distinct: BTreeSet<_> = effects.collect();
    guard::judged(workspace, distinct.into_iter().collect())
}

/// Whether the session has read a file as it is now.
fn is_known(workspace: &Workspace, at: &Resolved) -> bool {
    let Ok(PreImage::Bytes(bytes)) = read_whole(workspace, at, FILE_BYTES) else { return false };
    let real = workspace.settle(at);
    real.is_ok_and(|real| workspace.stamps().holds(real.path(), Stamp::of(&bytes)))
}

/// Returns what a call would do; a tool that can do anything, or would change something, and
/// tells of no effect, has an unknown one, which is always asked about.
pub(super) fn told_effects<P>(spec: &Spec, draft: &Draft<P>) -> Effects {
    let is_silent = draft.effects.iter().next().is_none();
    let changes = |change: &FileChange| {
        let is_same = change.operation == Operation::Modify && change.old_text == change.new_text;
        !is_same || !change.hunks.is_empty() || change.unlisted != (0, 0)
    };
    let acts = spec.reach == Reach::Anything || draft.changes.iter().any(changes);
    if is_silent && acts { Effects::from(Effect::Unknown) } else { draft.effects.clone() }
}

/// Returns files as locations, if there are any.
fn located(paths: &[PathBuf]) -> Option<Vec<Location>> {
    let located: Vec<_> = paths.iter().filter_map(|path| Location::try_new(path).ok()).collect();
    (!located.is_empty()).then_some(located)
}

/// Says what an error means for a call, with no name of a file that the call may not read.
fn failure(error: ToolError, call: &CallHandle) -> Failure {
    match error {
        ToolError::Report(mut report) => {
            let may_read =
                |path: &Path| call.judge(&Effect::Read(path.to_owned()).into()) == Verdict::Allow;
            report.suggest_only(may_read);
            Failure {
                is_outdated: report.code == Code::ChangedSincePreview,
                ..Failure::report(report.code.as_str(), report.to_string())
            }
        }
        ToolError::Fatal(source) => {
            Failure { is_fatal: true, ..Failure::report("internal_error", source.to_string()) }
        }
    }
}
