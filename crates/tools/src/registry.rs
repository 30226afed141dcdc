//! The one list of a session's tools: names, schemas, titles and dispatch come from it.

pub(crate) mod arguments;
mod changes;
mod prepared_call;
mod results;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_lifecycle::{
    CallHandle, OpenCall, PartialArguments, SessionHandle, Titles, TitlesError, title,
};
use acp_types::{
    CallMeta, Content, Location, TerminalId, TerminalPatch, ToolCallId, ToolCallPatch, ToolKind,
    TurnId,
};
use callboard_text::visible;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::builtin;
use crate::error::ToolError;
use crate::limits::TITLE_DEBOUNCE;
use crate::note::CATALOGUES;
use crate::tool::{CallDescription, Context, DynTool, OutputDisplay, Spec, Tool, ToolRole};

use self::arguments::Normalised;
pub use self::prepared_call::PreparedCall;

/// The tools of a session, in the order in which they were added.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Vec<Arc<RegisteredTool>>,
    titles: Arc<Titles>,
    /// In which language they are wanted.
    locale: String,
}

/// A tool in the list, with what it says of itself.
#[derive(Debug)]
struct RegisteredTool {
    tool: Box<dyn DynTool>,
    spec: Spec,
    schema: OnceLock<Value>,
}

/// A tool in the list, as models are told of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolDefinition {
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
    #[must_use]
    pub fn builtin() -> Self {
        Self::builtin_in("en")
    }

    /// Makes the list of all built-in tools, with titles in the language of a locale such as `de`
    /// or `de_AT.UTF-8`, and in English where there are none in that language.
    #[must_use]
    pub fn builtin_in(locale: &str) -> Self {
        Self::with_builtin_tools(Titles::from_static(CATALOGUES, locale), locale)
    }

    /// Makes the same list, with further catalogues of titles for the tools that are going to be
    /// added: pairs of a locale and its Fluent messages, as [`CATALOGUES`] are.
    ///
    /// A tool has the message of [`Spec::title`] with `-pending` behind it as its title before its
    /// arguments are known, and that of [`Description::key`] then. Without them it is shown by its
    /// name and the arguments of its title.
    ///
    /// # Errors
    ///
    /// [`TitlesError`] if a catalogue is malformed.
    pub fn builtin_with(catalogues: &[(&str, &str)], locale: &str) -> Result<Self, TitlesError> {
        let catalogues = [CATALOGUES, catalogues].concat();
        Ok(Self::with_builtin_tools(Titles::negotiate(&catalogues, locale)?, locale))
    }

    fn with_builtin_tools(titles: Titles, locale: &str) -> Self {
        let mut registry = Self { locale: locale.to_owned(), ..Self::new(titles) };
        builtin::all_tools().into_iter().for_each(|tool| registry.insert(tool.spec(), tool));
        registry
    }

    /// Returns the locale that titles are wanted in; empty for a catalogue of the caller's own.
    #[must_use]
    pub fn locale(&self) -> &str {
        &self.locale
    }

    /// Adds a tool. One of the same name is replaced.
    pub fn add(&mut self, tool: impl Tool) {
        self.insert(Tool::spec(&tool), Box::new(tool));
    }

    /// Adds a tool that is known only at run time. One of the same name is replaced.
    ///
    /// Its title is its name and arguments, unless [`Spec::with_title`] gives it a key of its own: a
    /// server's tool cannot take the title of another one by its name.
    pub fn add_dyn(&mut self, tool: Box<dyn DynTool>) {
        let spec = tool.spec();
        let title = spec.custom_title().into();
        self.insert(Spec { title, ..spec }, tool);
    }

    fn insert(&mut self, spec: Spec, tool: Box<dyn DynTool>) {
        self.tools.retain(|other| other.spec.name != spec.name);
        self.tools.push(Arc::new(RegisteredTool { tool, spec, schema: OnceLock::new() }));
    }

    /// Keeps the tools that are wanted, and removes the others.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Spec) -> bool) {
        self.tools.retain(|entry| is_wanted(&entry.spec));
    }

    /// Returns what the model is told of each tool.
    pub fn iter(&self) -> impl Iterator<Item = ToolDefinition> {
        self.tools.iter().map(|entry| {
            let mut input_schema = entry.schema().clone();
            arguments::strip_internal_keywords(&mut input_schema);
            ToolDefinition { spec: entry.spec.clone(), input_schema }
        })
    }

    /// Finds a tool by a name that a model calls it by.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.find(name).map(|entry| entry.spec.clone())
    }

    /// Returns how the tools are used well, for the instructions of a model: a line each. One that
    /// names a tool which is not in the list is left out.
    #[must_use]
    pub fn hints(&self) -> Vec<Cow<'static, str>> {
        let is_there = |name: &&str| self.tools.iter().any(|entry| entry.spec.name == **name);
        let hints = self.tools.iter().filter_map(|entry| entry.tool.hint());
        hints.filter(|hint| hint.tools.iter().all(is_there)).map(|hint| hint.text).collect()
    }

    /// Finds the tool that the agent itself calls for something: the last one with that role.
    #[must_use]
    pub fn for_role(&self, role: ToolRole) -> Option<Spec> {
        let found = self.tools.iter().rfind(|entry| entry.tool.role() == Some(role));
        found.map(|entry| entry.spec.clone())
    }

    /// Posts a call of a tool whose arguments are not known yet. Its first report waits for its
    /// title, at most 200 ms, unless the tool needs no arguments. An unknown tool is posted too: the
    /// user sees what the model tried.
    pub fn announce(
        &self,
        session: &SessionHandle,
        id: &ToolCallId,
        turn: &TurnId,
        name: &str,
        context: &Context,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let Some(entry) = self.find(name) else {
            let title = title::code_span_if_needed(&visible(name));
            let patch = ToolCallPatch::announce(name, title, ToolKind::Other);
            return session.announce(id, turn, patch, cancel);
        };
        let spec = &entry.spec;
        let (title, told) = entry.title(&self.titles, &format!("{}-pending", spec.title), &[]);
        let meta = CallMeta { title: told, ..CallMeta::default() };
        let mut patch = ToolCallPatch::announce(&*spec.name, title, spec.kind).meta(meta);
        if spec.display == OutputDisplay::Terminal {
            // Clients that know display-only terminals must hear of it in the first report.
            let terminal = TerminalId::new(id.0.clone());
            let cwd = Some(context.workspace.cwd().to_owned());
            let open = TerminalPatch { cwd, ..TerminalPatch::default() };
            session.update(|session, now| session.open_terminal(&terminal, open, now));
            patch = patch.content(vec![Content::Terminal(terminal)]);
        }
        match entry.schema()["properties"].as_object().is_some_and(Map::is_empty) {
            true => session.announce(id, turn, patch, cancel),
            false => session.announce_streamed(id, turn, patch, cancel),
        }
    }

    /// Tells the client what a call is about, as soon as its arguments are there: its title, the
    /// files it names, the arguments themselves.
    pub fn describe(&self, call: &CallHandle, name: &str, args: &Value, context: &Context) {
        if let Some(entry) = self.find(name) {
            entry.send_description(
                &self.titles,
                call,
                (args, &entry.normalised_or_raw(args)),
                context,
            );
        }
    }

    /// Returns the places that a call names, by its arguments alone. A tool that changes files
    /// names each of them, or none at all.
    #[must_use]
    pub fn locations(&self, name: &str, args: &Value, context: &Context) -> Vec<Location> {
        let about =
            self.find(name).and_then(|it| it.describe(&it.normalised_or_raw(args), context));
        about.map(|about| about.locations).unwrap_or_default()
    }

    /// Tells the client what is known of a call while its arguments still stream: those that are
    /// whole, how much has come of the rest, and its title and files as soon as these are known.
    pub fn describe_partial(
        &self,
        call: &CallHandle,
        name: &str,
        args: &PartialArguments,
        context: &Context,
    ) {
        if let Some(entry) = self.find(name) {
            let schema = entry.schema();
            let fields = Value::Object(args.fields().clone());
            let fields = arguments::normalise(schema, &fields).map(|formed| formed.args);
            let about = fields.ok().and_then(|fields| {
                let describe = |args: &Value| entry.describe(args, context);
                arguments::describe_partial(schema, fields.as_object()?, describe)
            });
            if let Some(CallDescription {
                key,
                arguments,
                mut locations,
                file_text_argument: lines,
                ..
            }) = about
            {
                let is_shown = |name: &str| {
                    lines.is_some_and(|field| arguments::names_field(schema, field, name))
                };
                if let Some((_, line)) =
                    args.streaming_text_field().filter(|(name, _)| is_shown(name))
                {
                    locations = locations.into_iter().map(|at| at.at_line(line)).collect();
                }
                let (title, told) = entry.title(&self.titles, &key, &arguments);
                call.update(ToolCallPatch::new().title(title).locations(locations));
                call.update_meta(|meta| meta.title = told);
                call.limit_first_report_delay(TITLE_DEBOUNCE);
            }
        }
        if !args.fields().is_empty() {
            call.update(ToolCallPatch::new().raw_input(Value::Object(args.fields().clone())));
        }
        call.update_meta(|meta| meta.arriving.clone_from(args.partial_field_bytes()));
        let kib = args.partial_field_bytes().values().sum::<u64>() / 1024;
        call.set_subtitle((kib > 0).then(|| format!("{kib} KiB …")).as_deref());
    }

    /// Makes what `acp_lifecycle::perform` needs to run a call.
    #[must_use]
    pub fn prepare_call(&self, name: &str, args: Value, context: &Context) -> PreparedCall {
        let names = self.tools.iter().map(|entry| entry.spec.name.clone()).collect();
        PreparedCall::new(self.find(name), names, name, args, context, &self.titles)
    }

    /// Finds a tool by its name; by an alias only where none has the name.
    fn find(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let named = self.tools.iter().find(|entry| entry.spec.name == name);
        let aliased = || self.tools.iter().find(|entry| entry.spec.aliases.contains(&name));
        named.or_else(aliased).cloned()
    }
}

impl RegisteredTool {
    /// The schema of the arguments, with the keywords of [`arguments`].
    fn schema(&self) -> &Value {
        self.schema.get_or_init(|| self.tool.input_schema())
    }

    /// Brings arguments into the form that the tool takes.
    fn normalise(&self, args: &Value) -> Result<Normalised, ToolError> {
        if !args.is_object() || self.tool.accepts(args) {
            return Ok(Normalised { args: args.clone(), notes: Vec::new() });
        }
        arguments::normalise(self.schema(), args)
    }

    /// Returns arguments in the form that the tool takes, if they can be brought into it.
    fn normalised_or_raw<'a>(&self, args: &'a Value) -> Cow<'a, Value> {
        match catch_unwind(AssertUnwindSafe(|| self.normalise(args))) {
            Ok(Ok(formed)) => Cow::Owned(formed.args),
            // Arguments that do not fit, or over which the tool panics, are shown as they are.
            Ok(Err(_)) | Err(_) => Cow::Borrowed(args),
        }
    }

    /// Describes a call by its arguments. It is asked while they arrive, outside of what a call
    /// performs: a tool that panics over half of them says nothing, and no turn ends by it.
    fn describe(&self, args: &Value, context: &Context) -> Option<CallDescription> {
        let about = || self.tool.describe(args, context);
        catch_unwind(AssertUnwindSafe(about)).ok().flatten()
    }

    /// Writes the title of a call, and the key and arguments by which a client may write it in words of
    /// its own. Without a message of the key it is the name of the tool and the arguments.
    fn title(
        &self,
        titles: &Titles,
        key: &str,
        arguments: &[(&str, String)],
    ) -> (String, Option<Value>) {
        match titles.has(key) {
            true => (titles.render(key, arguments), Some(localizable_title(key, arguments))),
            false => {
                let named = arguments.iter().filter(|(_, value)| !value.is_empty());
                (
                    titles
                        .render_untranslated(&self.spec.name, &named.cloned().collect::<Vec<_>>()),
                    None,
                )
            }
        }
    }

    /// Tells the client what a call is about, by its arguments as they were written and as the tool takes
    /// them; returns whether its title shows all that it names.
    fn send_description(
        &self,
        titles: &Titles,
        call: &CallHandle,
        (written, args): (&Value, &Value),
        context: &Context,
    ) -> bool {
        call.set_subtitle(None);
        let patch = ToolCallPatch::new().raw_input(written.clone());
        let Some(description) = self.describe(args, context) else {
            call.update(patch);
            return true;
        };
        let CallDescription { key, arguments, locations, terminal, .. } = description;
        if let Some(terminal) = terminal {
            call.update_terminal(&TerminalId::new(call.id().0.clone()), terminal);
        }
        let (title, told) = self.title(titles, &key, &arguments);
        call.update(patch.title(title).locations(locations));
        call.update_meta(|meta| {
            meta.title = told;
            meta.arriving.clear();
        });
        call.limit_first_report_delay(Duration::ZERO);
        arguments.iter().all(|(_, argument)| title::fits_in_title(argument))
    }
}

/// What a client needs to write a title in words of its own; it must not be fooled either.
fn localizable_title(key: &str, arguments: &[(&str, String)]) -> Value {
    let arguments =
        arguments.iter().map(|(name, value)| ((*name).to_owned(), json!(visible(value))));
    json!({ "key": key, "arguments": Value::Object(arguments.collect()) })
}

#[cfg(test)]
mod tests;
