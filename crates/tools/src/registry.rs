//! The one list of a session's tools: names, schemas, titles and dispatch come from it.

pub(crate) mod arguments;
mod changes;
mod partial;
mod results;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_lifecycle::{
    AnyPlan, Arriving, CallHandle, Digest, Effect, Effects, Executor, Failure, Grant, OpenCall,
    Pinned, Preview, SessionHandle, Success, Titles, TitlesError, Verdict, title,
};
use acp_types::{
    CallMeta, Content, ContentBlock, Location, TerminalId, TerminalPatch, ToolCallId,
    ToolCallPatch, ToolKind,
};
use callboard_text::visible;
use futures::future::BoxFuture;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::error::{Code, ToolError};
use crate::files::stamp::Stamp;
use crate::files::workspace::{Resolved, Workspace};
use crate::files::write::{PreImage, read_whole};
use crate::limits::{FILE_BYTES, TITLE_SETTLES};
use crate::note::{CATALOGUES, Note};
use crate::registry::arguments::{self, Normalised};
use crate::registry::partial;
use crate::tool::{Context, Description, Draft, Invocation, Reach, Spec, Surface, Tool, end_patch};

/// The tools of a session, in the order in which they were added.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Vec<Arc<dyn AnyTool>>,
    titles: Arc<Titles>,
    /// In which language they are wanted.
    locale: String,
}

/// A tool in the list: what the model is told of it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What it says of itself.
    pub spec: Spec,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

impl Registry {
    /// Makes an empty list whose titles come from a catalogue.
    #[must_use]
    pub fn new(titles: Titles) -> Self {
        Self { tools: Vec::new(), titles: Arc::new(titles), locale: String::new() }
    }

    /// Makes the list of all built-in tools, with English titles.
    ///
    /// # Errors
    ///
    /// [`TitlesError`] if the built-in catalogue is broken, which a test rules out.
    pub fn builtin() -> Result<Self, TitlesError> {
        Self::builtin_in("en")
    }

    /// Makes the list of all built-in tools, with titles in the language of a locale such as `de`
    /// or `de_AT.UTF-8`, and in English where there are none in that language.
    ///
    /// # Errors
    ///
    /// [`TitlesError`] if a built-in catalogue is broken, which a test rules out.
    pub fn builtin_in(locale: &str) -> Result<Self, TitlesError> {
        let mut registry = Self::new(Titles::negotiate(CATALOGUES, locale)?);
        locale.clone_into(&mut registry.locale);
        crate::builtin::add_all(&mut registry);
        Ok(registry)
    }

    /// Returns the locale that titles are wanted in; empty for a catalogue of the caller's own.
    #[must_use]
    pub fn locale(&self) -> &str {
        &self.locale
    }

    /// Adds a tool. One of the same name is replaced.
    pub fn add(&mut self, tool: impl Tool) {
        let name = tool.spec().name;
        self.tools.retain(|other| other.spec().name != name);
        self.tools.push(Arc::new(tool));
    }

    /// Returns what the model is told of each tool.
    pub fn iter(&self) -> impl Iterator<Item = Listed> {
        self.tools.iter().map(|tool| {
            let mut input_schema = tool.schema();
            arguments::publish(&mut input_schema);
            Listed { spec: tool.spec(), input_schema }
        })
    }

    /// Finds a tool by a name that a model calls it by.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.find(name).map(|tool| tool.spec())
    }

    /// Posts a call of a tool whose arguments are not known yet. Its first report waits for its
    /// title, at most 200 ms, unless the tool needs no arguments. An unknown tool is posted too: the
    /// user sees what the model tried.
    pub fn announce(
        &self,
        session: &SessionHandle,
        id: &ToolCallId,
        turn: &str,
        name: &str,
        context: &Context,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let Some(tool) = self.find(name) else {
            let title = title::plain_or_code(&visible(name));
            let patch = ToolCallPatch::announce(name, title, ToolKind::Other);
            return session.announce(id, turn, patch, cancel);
        };
        let spec = tool.spec();
        let key = format!("{}-pending", spec.title);
        let title = self.titles.render(&key, &[]);
        let meta = CallMeta { title: Some(told_title(&key, &[])), ..CallMeta::default() };
        let mut patch = ToolCallPatch::announce(spec.name, title, spec.kind).meta(meta);
        if spec.surface == Surface::Terminal {
            // Clients that know display-only terminals must hear of it in the first report.
            let terminal = TerminalId::new(id.0.clone());
            let cwd = Some(context.workspace.cwd().to_owned());
            let open = TerminalPatch { cwd, ..TerminalPatch::default() };
            session.with(|session, now| session.open_terminal(&terminal, open, now));
            patch = patch.content(vec![Content::Terminal(terminal)]);
        }
        match tool.schema()["properties"].as_object().is_some_and(Map::is_empty) {
            true => session.announce(id, turn, patch, cancel),
            false => session.announce_streamed(id, turn, patch, cancel),
        }
    }

    /// Tells the client what a call is about, as soon as its arguments are there: its title, the
    /// files it names, the arguments themselves.
    pub fn describe(&self, call: &CallHandle, name: &str, args: &Value, context: &Context) {
        if let Some(tool) = self.find(name) {
            describe(&*tool, &self.titles, call, (args, &formed(&*tool, args)), context);
        }
    }

    /// Returns the places that a call names, by its arguments alone. A tool that changes files
    /// names each of them, or none at all.
    #[must_use]
    pub fn locations(&self, name: &str, args: &Value, context: &Context) -> Vec<Location> {
        let about = self.find(name).and_then(|tool| tool.describe(&formed(&*tool, args), context));
        about.map(|about| about.locations).unwrap_or_default()
    }

    /// Tells the client what is known of a call while its arguments still stream: those that are
    /// whole, how much has come of the rest, and its title and files as soon as these are known.
    pub fn arriving(&self, call: &CallHandle, name: &str, args: &Arriving, context: &Context) {
        if let Some(tool) = self.find(name) {
            let schema = tool.schema();
            let fields = Value::Object(args.fields().clone());
            let fields = arguments::normalise(&schema, &fields).map(|formed| formed.args);
            let about = fields.ok().and_then(|fields| {
                partial::describe(&schema, fields.as_object()?, |args| tool.describe(args, context))
            });
            if let Some(Description { key, arguments, mut locations, lines, .. }) = about {
                let is_shown = |name: &str| {
                    lines.is_some_and(|field| arguments::is_name_of(&schema, field, name))
                };
                if let Some((_, line)) = args.text().filter(|(name, _)| is_shown(name)) {
                    locations = locations.into_iter().map(|at| at.at_line(line)).collect();
                }
                let title = self.titles.render(key, &arguments);
                call.change(ToolCallPatch::new().title(title).locations(locations));
                call.change_meta(|meta| meta.title = Some(told_title(key, &arguments)));
                call.report_within(TITLE_SETTLES);
            }
        }
        if !args.fields().is_empty() {
            call.change(ToolCallPatch::new().raw_input(Value::Object(args.fields().clone())));
        }
        call.change_meta(|meta| meta.arriving.clone_from(args.rest()));
        let kib = args.rest().values().sum::<u64>() / 1024;
        call.subtitle((kib > 0).then(|| format!("{kib} KiB …")).as_deref());
    }

    /// Makes what `acp_lifecycle::perform` needs to run a call.
    #[must_use]
    pub fn call(&self, name: &str, args: Value, context: &Context) -> ToolCall {
        ToolCall {
            tool: self.find(name),
            names: self.tools.iter().map(|tool| tool.spec().name).collect(),
            name: name.to_owned(),
            args,
            formed: None,
            notes: Vec::new(),
            context: context.clone(),
            titles: self.titles.clone(),
            is_previewed: false,
            staged: Vec::new(),
        }
    }

    fn find(&self, name: &str) -> Option<Arc<dyn AnyTool>> {
        let called = |tool: &&Arc<dyn AnyTool>| {
            let spec = tool.spec();
            spec.name == name || spec.aliases.contains(&name)
        };
        self.tools.iter().find(called).cloned()
    }
}

/// One call of a tool, ready to be previewed, permitted and run.
#[derive(Debug)]
pub struct ToolCall {
    tool: Option<Arc<dyn AnyTool>>,
    names: Vec<&'static str>,
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
        let (tool, args, _) = self.prepared(call).await?;
        let paths = tool.reads(args, &self.context).await.map_err(|error| failure(error, call))?;
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
            call.append(Content::text(Note::new("reads-first").render(&self.titles)));
            self.is_previewed = true;
        }
        Ok(unread)
    }

    async fn preview(&mut self, call: &CallHandle) -> Result<Preview<AnyPlan>, Failure> {
        let (tool, args, is_told) = self.prepared(call).await?;
        let draft = tool.preview(args.clone(), &self.context).await;
        let draft = draft.map_err(|error| self.noted_failure(failure(error, call)))?;
        let cwd = draft.cwd.as_deref().unwrap_or(self.context.workspace.cwd());
        let digest = Digest::of_call(tool.spec().name, &args, cwd, &draft.pre_image);
        let effects = self.context.workspace.judged(told_effects(tool.spec(), &draft));
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
        if tool.spec().surface == Surface::Terminal {
            // Its terminal stays.
            patch = shown.into_iter().fold(patch, ToolCallPatch::append);
        } else if !shown.is_empty() || self.is_previewed {
            patch = patch.content(shown);
        }
        self.is_previewed = true;
        let pinned = Pinned::new(draft.plan, digest);
        Ok(Preview { patch, effects, is_whole: is_shown && is_told, pinned })
    }

    async fn run(
        &mut self,
        pinned: Pinned<AnyPlan>,
        grant: Grant,
        call: &CallHandle,
    ) -> Result<Success, Failure> {
        let Some(tool) = &self.tool else { return Err(self.unknown()) };
        self.staged.clear();
        let invocation = Invocation { call, context: &self.context };
        let ran = tool.run(pinned, grant, invocation).await;
        let mut output = ran.map_err(|error| self.noted_failure(failure(error, call)))?;
        if tool.spec().surface == Surface::Content {
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
    /// Tells the client what the call is about, and returns the tool and what it is given.
    async fn prepared(
        &mut self,
        call: &CallHandle,
    ) -> Result<(Arc<dyn AnyTool>, Value, bool), Failure> {
        let Some(tool) = self.tool.clone() else {
            call.change(ToolCallPatch::new().raw_input(self.args.clone()));
            return Err(self.unknown());
        };
        if let Some((args, is_told)) = self.formed.clone() {
            return Ok((tool, args, is_told));
        }
        let formed = tool.normalise(&self.args);
        let args = formed.as_ref().map_or(&self.args, |formed| &formed.args);
        let is_told = describe(&*tool, &self.titles, call, (&self.args, args), &self.context);
        if !self.args.is_object() {
            let text = "The arguments have to be one JSON object.";
            return Err(Failure::report(Code::InvalidArguments.as_str(), text));
        }
        if tool.spec().reach != Reach::Nothing {
            self.context.recovered().await.map_err(|error| failure(error, call))?;
        }
        let Normalised { args, notes } = formed.map_err(|error| failure(error, call))?;
        self.notes = notes;
        self.formed = Some((args.clone(), is_told));
        Ok((tool, args, is_told))
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
    let effects = found
        .flat_map(|at| workspace.looked_at(&at, Effect::Read).iter().cloned().collect::<Vec<_>>());
    let distinct: BTreeSet<_> = effects.collect();
    workspace.judged(distinct.into_iter().collect())
}

/// Whether the session has read a file as it is now.
fn is_known(workspace: &Workspace, at: &Resolved) -> bool {
    let Ok(PreImage::Bytes(bytes)) = read_whole(workspace, at, FILE_BYTES) else { return false };
    let real = workspace.settle(at);
    real.is_ok_and(|real| workspace.stamps().holds(real.path(), Stamp::of(&bytes)))
}

/// Returns arguments in the form that the tool takes, if they can be brought into it.
fn formed<'a>(tool: &dyn AnyTool, args: &'a Value) -> Cow<'a, Value> {
    match tool.normalise(args) {
        Ok(formed) => Cow::Owned(formed.args),
        Err(_) => Cow::Borrowed(args),
    }
}

/// Tells the client what a call is about, by its arguments as they were written and as the tool takes
/// them; returns whether its title shows all that it names.
fn describe(
    tool: &dyn AnyTool,
    titles: &Titles,
    call: &CallHandle,
    (written, args): (&Value, &Value),
    context: &Context,
) -> bool {
    call.subtitle(None);
    let patch = ToolCallPatch::new().raw_input(written.clone());
    let Some(description) = tool.describe(args, context) else {
        call.change(patch);
        return true;
    };
    let Description { key, arguments, locations, terminal, .. } = description;
    if let Some(terminal) = terminal {
        call.describe_terminal(&TerminalId::new(call.id().0.clone()), terminal);
    }
    call.change(patch.title(titles.render(key, &arguments)).locations(locations));
    call.change_meta(|meta| {
        meta.title = Some(told_title(key, &arguments));
        meta.arriving.clear();
    });
    call.report_within(Duration::ZERO);
    arguments.iter().all(|(_, argument)| title::is_whole(argument))
}

/// What a client needs to write a title in words of its own; it must not be fooled either.
fn told_title(key: &str, arguments: &[(&str, String)]) -> Value {
    let arguments =
        arguments.iter().map(|(name, value)| ((*name).to_owned(), json!(visible(value))));
    json!({ "key": key, "arguments": Value::Object(arguments.collect()) })
}

/// Returns what a call would do; a tool that can do anything, or would change something, and
/// tells of no effect, has an unknown one, which is always asked about.
fn told_effects<P>(spec: Spec, draft: &Draft<P>) -> Effects {
    let is_silent = draft.effects.iter().next().is_none();
    let acts = spec.reach == Reach::Anything
        || draft.changes.iter().any(|change| change.old_text != change.new_text);
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

/// A tool whose types were set aside, so that it can stand in a list.
trait AnyTool: fmt::Debug + Send + Sync {
    fn spec(&self) -> Spec;
    /// The schema of the arguments, with the keywords of [`arguments`].
    fn schema(&self) -> Value;
    /// Brings arguments into the form that it takes.
    fn normalise(&self, args: &Value) -> Result<Normalised, ToolError>;
    fn describe(&self, args: &Value, context: &Context) -> Option<Description>;
    fn reads<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<String>, ToolError>>;
    fn preview<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Draft<AnyPlan>, ToolError>>;
    fn run<'a>(
        &'a self,
        pinned: Pinned<AnyPlan>,
        grant: Grant,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<crate::tool::Output, ToolError>>;
}

impl<T: Tool> AnyTool for T {
    fn spec(&self) -> Spec {
        Tool::spec(self)
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(T::Args).to_value();
        if let Value::Object(schema) = &mut schema {
            // There are models' servers that want it of a tool without arguments too.
            schema.entry("properties").or_insert_with(|| json!({}));
        }
        schema
    }

    fn normalise(&self, args: &Value) -> Result<Normalised, ToolError> {
        if !args.is_object() || T::Args::deserialize(args).is_ok() {
            return Ok(Normalised { args: args.clone(), notes: Vec::new() });
        }
        arguments::normalise(&AnyTool::schema(self), args)
    }

    fn describe(&self, args: &Value, context: &Context) -> Option<Description> {
        let about = || {
            let args = T::Args::deserialize(args).ok()?;
            Some(Tool::describe(self, &args, context))
        };
        // It is asked while arguments arrive, outside of what a call performs: a tool that panics
        // over half of them says nothing, and no turn ends by it.
        catch_unwind(AssertUnwindSafe(about)).ok().flatten()
    }

    fn reads<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<String>, ToolError>> {
        Box::pin(async move { Tool::reads(self, &typed(self, args)?, context).await })
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Draft<AnyPlan>, ToolError>> {
        Box::pin(async move {
            let draft = Tool::preview(self, typed(self, args)?, context).await?;
            Ok(Draft {
                plan: Box::new(draft.plan) as AnyPlan,
                locations: draft.locations,
                changes: draft.changes,
                effects: draft.effects,
                cwd: draft.cwd,
                pre_image: draft.pre_image,
                notes: draft.notes,
            })
        })
    }

    fn run<'a>(
        &'a self,
        pinned: Pinned<AnyPlan>,
        grant: Grant,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<crate::tool::Output, ToolError>> {
        Box::pin(async move {
            match pinned.downcast() {
                Some(pinned) => Tool::run(self, pinned, grant, invocation).await,
                None => Err(ToolError::fatal("a plan was given to another tool")),
            }
        })
    }
}

/// Reads the arguments of a tool.
fn typed<T: Tool>(tool: &T, args: Value) -> Result<T::Args, ToolError> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let (name, path) = (Tool::spec(tool).name, error.path().to_string());
        let place = if path == "." { String::new() } else { format!(" {path}:") };
        let what = error.into_inner();
        ToolError::invalid(format!("The arguments of {name} do not fit:{place} {what}."))
    })
}

#[cfg(test)]
mod tests {
    use super::{Context, Description, Draft, Invocation, Reach, Registry, Spec, Surface, Tool};
    use crate::error::ToolError;
    use crate::files::workspace::Workspace;
    use crate::tool::Output;
    use acp_lifecycle::{Grant, Pinned};
    use acp_types::ToolKind;
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn every_built_in_tool_has_titles_a_schema_and_a_description() {
        let registry = Registry::builtin().unwrap();
        for tool in registry.iter() {
            let spec = tool.spec;
            assert!(registry.titles.has(spec.title), "{} has no title", spec.name);
            let pending = format!("{}-pending", spec.title);
            assert!(registry.titles.has(&pending), "{} has no pending title", spec.name);
            assert!(spec.description.len() > 20, "{} says too little of itself", spec.name);
            assert_eq!(tool.input_schema["type"], "object", "{}", spec.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", spec.name);
            let properties = tool.input_schema["properties"].as_object().unwrap();
            let undescribed = properties.iter().find(|(_, schema)| schema["description"].is_null());
            assert_eq!(undescribed, None, "{} has an argument without a word", spec.name);
            assert!(!tool.input_schema.to_string().contains("\"x-"), "{}", spec.name);
        }
    }

    #[test]
    fn no_two_arguments_of_a_tool_share_a_name() {
        let folded = |name: &str| name.replace(['_', '-'], "").to_lowercase();
        for tool in Registry::builtin().unwrap().tools {
            let schema = tool.schema();
            let inner = schema["$defs"].as_object().into_iter().flatten().map(|(_, inner)| inner);
            for schema in inner.chain([&schema]) {
                let mut seen = std::collections::HashSet::new();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let lists = [&property["x-aliases"], &property["x-opposites"]];
                    let others = lists.into_iter().filter_map(Value::as_array).flatten();
                    for name in others.filter_map(Value::as_str).chain([&**name]) {
                        assert!(seen.insert(folded(name)), "{}: {name}", tool.spec().name);
                    }
                }
            }
        }
    }

    /// Calls as Claude Code, Codex, Gemini CLI, OpenCode, Zed, Cline and Cursor have them, one a line: the
    /// tool, the arguments, what they are taken for, and how many notes there are.
    const CALLS: &str = r#"
        ["read_file", {"file_path": "a", "offset": "3", "limit": 10.0}, {"path": "a", "offset": 3, "limit": 10}, 0]
        ["read_file", {"absolute_path": "/a"}, {"path": "/a"}, 0]
        ["edit_file", {"file_path": "a", "old_string": "x", "new_string": "", "replace_all": "true"}, {"path": "a", "old_text": "x", "new_text": "", "replace_all": true}, 0]
        ["edit_file", {"filePath": "a", "oldString": "x", "newString": "y", "replaceAll": false}, {"path": "a", "old_text": "x", "new_text": "y", "replace_all": false}, 0]
        ["replace", {"file_path": "a", "old_string": "x", "new_string": "y", "expected_replacements": 1}, {"path": "a", "old_text": "x", "new_text": "y"}, 1]
        ["edit_file", {"file_path": "a", "edits": "[{\"old_string\": \"x\", \"new_string\": \"y\"}]"}, {"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}, 0]
        ["write_file", {"filename": "a", "contents": "x"}, {"path": "a", "content": "x"}, 0]
        ["write", {"file_path": "a", "file_text": 7}, {"path": "a", "content": "7"}, 0]
        ["terminal", {"command": "ls", "description": "Lists", "timeout": "5000", "run_in_background": "false"}, {"command": "ls", "timeout_ms": 5000, "background": false}, 1]
        ["terminal", {"cmd": "ls", "workdir": "src"}, {"command": "ls", "cwd": "src"}, 0]
        ["terminal", {"command": "ls", "cd": "src"}, {"command": "ls", "cwd": "src"}, 0]
        ["grep", {"pattern": "x", "include": "*.rs", "-i": true, "-C": 2, "head_limit": "9", "output_mode": "content"}, {"pattern": "x", "glob": "*.rs", "case_sensitive": false, "context": 2, "max_results": 9}, 1]
        ["grep", {"regex": "x", "include_pattern": "*.rs", "directory": "src", "type": "rust"}, {"pattern": "x", "glob": "*.rs", "path": "src", "file_type": "rust"}, 0]
        ["grep", {"query": "x", "isRegexp": true}, {"pattern": "x", "literal": false}, 0]
        ["find_path", {"glob": "*.rs", "dir": "src"}, {"pattern": "*.rs", "path": "src"}, 0]
        ["list_directory", {"dir_path": "src", "recursive": true}, {"path": "src"}, 1]
        ["list_directory", {"path": "", "depth": null, "dir": null}, {"path": ""}, 0]
        ["move_path", {"source_path": "a", "destination_path": "b"}, {"from": "a", "to": "b"}, 0]
        ["delete_path", {"target_file": "a"}, {"path": "a"}, 0]
        ["terminal_output", {"bash_id": 3}, {"id": "3"}, 0]
        ["think", {"thinking": "x"}, {"thought": "x"}, 0]
        ["undo", {"reason": "x"}, {}, 1]
        ["todo_write", {"explanation": "x", "plan": [{"step": "a", "status": "in_progress"}]}, {"todos": [{"content": "a", "status": "in_progress"}]}, 1]
        ["todo_write", {"todos": [{"content": "a", "status": "in-progress", "activeForm": "Doing a"}, {"content": "b", "status": "COMPLETED", "activeForm": "Doing b", "id": 2}, {"content": "c", "status": "todo", "priority": "HIGH"}, {"content": "d", "status": "soon", "priority": "urgent"}, {"description": "e", "status": "Done"}]}, {"todos": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "completed", "id": "2"}, {"content": "c", "status": "pending", "priority": "high"}, {"content": "d", "status": "pending", "priority": "medium"}, {"content": "e", "status": "completed"}]}, 3]
    "#;

    #[test]
    fn arguments_that_models_know_from_elsewhere_are_understood() {
        let registry = Registry::builtin().unwrap();
        for call in CALLS.lines().filter(|line| !line.trim().is_empty()) {
            let (tool, args, expected, notes): (String, Value, Value, usize) =
                serde_json::from_str(call).unwrap();
            let tool = registry.find(&tool).unwrap();
            let formed = tool.normalise(&args).unwrap();
            assert_eq!(formed.args, expected, "{args}");
            assert_eq!(formed.notes.len(), notes, "{args} {:?}", formed.notes);
            // They fit now, and stay so.
            let again = tool.normalise(&formed.args).unwrap();
            assert_eq!((again.args, again.notes.len()), (expected, 0));
        }
    }

    /// A tool that panics over its own arguments.
    #[derive(Debug)]
    struct Fragile;

    impl Tool for Fragile {
        type Args = Value;
        type Plan = ();

        fn spec(&self) -> Spec {
            Spec {
                name: "fragile",
                aliases: &[],
                description: "Panics when it is asked what it is about.",
                kind: ToolKind::Other,
                reach: Reach::Nothing,
                title: "think",
                surface: Surface::Content,
            }
        }

        fn describe(&self, _: &Value, _: &Context) -> Description {
            panic!("a planted panic")
        }

        async fn preview(&self, _: Value, _: &Context) -> Result<Draft<()>, ToolError> {
            Ok(Draft::new(()))
        }

        async fn run(
            &self,
            pinned: Pinned<()>,
            grant: Grant,
            _: Invocation<'_>,
        ) -> Result<Output, ToolError> {
            pinned.release(grant)?;
            Ok(Output::default())
        }
    }

    #[test]
    fn a_tool_that_panics_over_its_arguments_says_nothing_of_them() {
        let mut registry = Registry::builtin().unwrap();
        registry.add(Fragile);
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
        let (workspace, env) = (Arc::new(workspace), Arc::default());
        let context = Context { workspace, env, text: None, terminal: None };
        assert_eq!(registry.locations("fragile", &json!({}), &context), []);
    }

    #[test]
    fn names_and_kinds_are_those_that_stay() {
        let registry = Registry::builtin().unwrap();
        let listed: Vec<_> = registry.iter().map(|tool| (tool.spec.name, tool.spec.kind)).collect();
        assert_eq!(
            listed,
            [
                ("read_file", ToolKind::Read),
                ("list_directory", ToolKind::Read),
                ("find_path", ToolKind::Search),
                ("grep", ToolKind::Search),
                ("write_file", ToolKind::Edit),
                ("edit_file", ToolKind::Edit),
                ("delete_path", ToolKind::Delete),
                ("move_path", ToolKind::Move),
                ("undo", ToolKind::Edit),
                ("terminal", ToolKind::Execute),
                ("terminal_list", ToolKind::Read),
                ("terminal_output", ToolKind::Read),
                ("terminal_input", ToolKind::Execute),
                ("terminal_wait", ToolKind::Read),
                ("terminal_stop", ToolKind::Execute),
                ("think", ToolKind::Think),
                ("todo_write", ToolKind::Think),
            ]
        );
        assert_eq!(registry.spec("thinking").map(|spec| spec.name), Some("think"));
        assert!(registry.spec("no_such_tool").is_none());
    }

    #[test]
    fn no_two_tools_share_a_name() {
        let registry = Registry::builtin().unwrap();
        let names = registry.iter().flat_map(|tool| {
            std::iter::once(tool.spec.name).chain(tool.spec.aliases.iter().copied())
        });
        let mut seen = std::collections::HashSet::new();
        for name in names {
            assert!(seen.insert(name), "{name} is there twice");
        }
    }
}
