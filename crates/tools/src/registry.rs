//! The tools of a session. A registry holds their names, schemas and titles, and dispatches calls.

pub(crate) mod arguments;
mod live_tools;
mod prepared_call;
mod results;

use std::borrow::Cow;
use std::collections::HashSet;
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
use callboard_text::escape_invisible;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::builtin;
use crate::error::ToolError;
use crate::limits::TITLE_DEBOUNCE;
use crate::note::CATALOGUES;
use crate::schema::shorten_for_model;
use crate::tool::{CallDescription, Context, DynTool, OutputDisplay, Spec, Tool, ToolRole};

use self::arguments::NormalisedArguments;
pub use self::live_tools::LiveTools;
pub use self::prepared_call::PreparedCall;

/// The tools of a session, in the order in which they were added. [Live tools](LiveTools) come
/// last.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Vec<Arc<RegisteredTool>>,
    live_tools: LiveTools,
    titles: Arc<Titles>,
    /// The locale of the titles.
    locale: String,
}

/// A registered tool, with its cached spec and schema.
#[derive(Debug)]
struct RegisteredTool {
    tool: Box<dyn DynTool>,
    spec: Spec,
    schema: OnceLock<Value>,
    model_schema: OnceLock<Value>,
}

/// The definition of a registered tool, as the model receives it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The static description of the tool.
    pub spec: Spec,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}

impl Registry {
    /// Creates an empty registry that uses the titles of a catalogue.
    #[must_use]
    pub fn new(titles: Titles) -> Self {
        let titles = Arc::new(titles);
        Self { tools: Vec::new(), live_tools: LiveTools::default(), titles, locale: String::new() }
    }

    /// Creates a registry that contains all built-in tools, with English titles.
    #[must_use]
    pub fn builtin() -> Self {
        Self::builtin_in_locale("en")
    }

    /// Creates a registry that contains all built-in tools. The titles are in the language of a
    /// locale such as `de` or `de_AT.UTF-8`. If there is no catalogue for that language, the titles
    /// are in English.
    #[must_use]
    pub fn builtin_in_locale(locale: &str) -> Self {
        Self::builtin_with_titles(Titles::from_static_lazily(CATALOGUES, locale), locale)
    }

    /// Creates a registry that contains all built-in tools. `catalogues` contains the messages of
    /// tools that are added later. A catalogue is a pair of a locale and its Fluent messages, as in
    /// [`CATALOGUES`].
    ///
    /// Before the arguments of a call are known, its title is the message with the key
    /// [`Spec::title`] plus `-pending`. When the arguments are known, the title is the message with
    /// the key [`CallDescription::key`]. If the catalogues do not contain these messages, the title
    /// consists of the name of the tool and the arguments of the title.
    ///
    /// # Errors
    ///
    /// [`TitlesError`] if a catalogue is malformed.
    pub fn builtin_with_message_catalogues(
        catalogues: &[(&str, &str)],
        locale: &str,
    ) -> Result<Self, TitlesError> {
        let catalogues = [CATALOGUES, catalogues].concat();
        Ok(Self::builtin_with_titles(Titles::negotiate(&catalogues, locale)?, locale))
    }

    fn builtin_with_titles(titles: Titles, locale: &str) -> Self {
        let mut registry = Self { locale: locale.to_owned(), ..Self::new(titles) };
        builtin::all_tools_except_web()
            .into_iter()
            .for_each(|tool| registry.insert(tool.spec(), tool));
        registry
    }

    /// Adds the tools for the web: `fetch`, and also `web_search` if `search` is set.
    ///
    /// Both tools use the proxy that [`Context::env`] names. `fetch` requests permission for each
    /// host, unless a rule or the policy decides.
    #[cfg(feature = "web")]
    pub fn add_web_tools(&mut self, search: Option<crate::web::WebSearchSettings>) {
        builtin::web_tools(search).into_iter().for_each(|tool| self.insert(tool.spec(), tool));
    }

    /// Returns the locale of the titles. The locale is empty if the registry was created with
    /// [`Registry::new`].
    #[must_use]
    pub fn locale(&self) -> &str {
        &self.locale
    }

    /// Adds a tool. A tool that has the same name is replaced.
    pub fn add(&mut self, tool: impl Tool) {
        self.insert(Tool::spec(&tool), Box::new(tool));
    }

    /// Adds a tool that is known only at run time. A tool that has the same name is replaced.
    ///
    /// The title of the tool consists of its name and arguments, unless
    /// [`Spec::with_title_message_key`] sets another key. Therefore a tool of a server cannot get
    /// the title of another tool by using that tool's name.
    pub fn add_dyn(&mut self, tool: Box<dyn DynTool>) {
        self.push_replacing_same_name(RegisteredTool::new_dyn(tool));
    }

    fn insert(&mut self, spec: Spec, tool: Box<dyn DynTool>) {
        self.push_replacing_same_name(RegisteredTool {
            tool,
            spec,
            schema: OnceLock::new(),
            model_schema: OnceLock::new(),
        });
    }

    fn push_replacing_same_name(&mut self, tool: RegisteredTool) {
        self.tools.retain(|other| other.spec.name != tool.spec.name);
        self.tools.push(Arc::new(tool));
    }

    /// Sets a list of tools that may change later. If a live tool and a tool of the registry itself
    /// have the same name or alias, the tool of the registry is used.
    #[must_use]
    pub fn with_live_tools(self, live_tools: LiveTools) -> Self {
        Self { live_tools, ..self }
    }

    /// Returns a number that changes whenever the live tools change.
    #[must_use]
    pub fn live_tools_generation(&self) -> u64 {
        self.live_tools.generation()
    }

    /// Removes all tools, except live ones, for which a predicate returns `false`.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Spec) -> bool) {
        self.tools.retain(|entry| is_wanted(&entry.spec));
    }

    /// Returns the definitions of the tools that a model receives.
    pub fn definitions_for_model(&self) -> impl Iterator<Item = ToolDefinition> {
        self.own_and_live_tools(self.live_tools.offered()).into_iter().map(|entry| {
            let input_schema = entry.model_schema.get_or_init(|| {
                let mut schema = entry.schema().clone();
                shorten_for_model(&mut schema);
                schema
            });
            ToolDefinition { spec: entry.spec.clone(), input_schema: input_schema.clone() }
        })
    }

    /// Returns the tools of the registry and the live tools `live`. If several tools have the same
    /// name, only the first of them is returned.
    fn own_and_live_tools(&self, live: Vec<Arc<RegisteredTool>>) -> Vec<Arc<RegisteredTool>> {
        let own_names = self.tools.iter().flat_map(|entry| {
            std::iter::once(&*entry.spec.name).chain(entry.spec.aliases.iter().copied())
        });
        let mut names: HashSet<&str> = own_names.collect();
        let live = live.iter().filter(|entry| names.insert(&entry.spec.name));
        self.tools.iter().chain(live).cloned().collect()
    }

    /// Returns the spec of a tool, given its name or an alias.
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.find(name).map(|entry| entry.spec.clone())
    }

    /// Returns the usage hints of the tools, for the instructions of a model. Each hint is one
    /// line. A hint is omitted if it names a tool that is not registered.
    #[must_use]
    pub fn hints(&self) -> Vec<Cow<'static, str>> {
        let is_there = |name: &&str| self.tools.iter().any(|entry| entry.spec.name == **name);
        let hints = self.tools.iter().filter_map(|entry| entry.tool.hint());
        hints.filter(|hint| hint.tools.iter().all(is_there)).map(|hint| hint.text).collect()
    }

    /// Returns the spec of the tool with a role, i.e. the tool that the agent itself calls for one
    /// purpose. If several tools have the role, returns the spec of the last one.
    #[must_use]
    pub fn spec_for_role(&self, role: ToolRole) -> Option<Spec> {
        let found = self.tools.iter().rfind(|entry| entry.tool.role() == Some(role));
        found.map(|entry| entry.spec.clone())
    }

    /// Announces a call before its arguments are known. The first report is sent when the title is
    /// known, or after at most 200 ms. If the tool has no arguments, the first report is sent at
    /// once. A call of an unknown tool is also announced, so that the user sees what the model
    /// tried.
    pub fn announce_call(
        &self,
        session: &SessionHandle,
        id: &ToolCallId,
        turn: &TurnId,
        name: &str,
        context: &Context,
        cancel: &CancellationToken,
    ) -> Option<OpenCall> {
        let Some(entry) = self.find(name) else {
            let title = title::code_span_if_needed(&escape_invisible(name));
            let patch = ToolCallPatch::for_new_call(name, title, ToolKind::Other);
            return session.announce_call(id, turn, patch, cancel);
        };
        let spec = &entry.spec;
        let (title, title_data) =
            entry.title_of_call(&self.titles, &format!("{}-pending", spec.title), &[]);
        let mut meta = CallMeta::default();
        meta.title = title_data;
        let mut patch = ToolCallPatch::for_new_call(&*spec.name, title, spec.kind).with_meta(meta);
        if spec.display == OutputDisplay::Terminal {
            // Clients that can only display terminals need to receive the terminal in the first
            // report.
            let terminal = TerminalId::new(id.0.clone());
            let cwd = Some(context.workspace.cwd().to_owned());
            let mut open = TerminalPatch::default();
            open.cwd = cwd;
            session.update(|session, now| session.announce_terminal(&terminal, open, now));
            patch = patch.with_content(vec![Content::Terminal(terminal)]);
        }
        match entry.schema()["properties"].as_object().is_some_and(Map::is_empty) {
            true => session.announce_call(id, turn, patch, cancel),
            false => session.announce_streamed_call(id, turn, patch, cancel),
        }
    }

    /// Reports the title, the files and the arguments of a call to the client. Must be called as
    /// soon as the arguments are known.
    pub fn report_call_description(
        &self,
        call: &CallHandle,
        name: &str,
        args: &Value,
        context: &Context,
    ) {
        if let Some(entry) = self.find(name) {
            entry.send_description(
                &self.titles,
                call,
                (args, &entry.normalised_or_raw(args)),
                context,
            );
        }
    }

    /// Returns the locations of the files that the arguments of a call name. For a tool that
    /// changes files, these are either all changed files or none.
    #[must_use]
    pub fn named_locations(&self, name: &str, args: &Value, context: &Context) -> Vec<Location> {
        let about = self
            .find(name)
            .and_then(|it| it.describe_catching_panics(&it.normalised_or_raw(args), context));
        about.map(|about| about.locations).unwrap_or_default()
    }

    /// Reports a call to the client while its arguments are streamed. The report contains the
    /// complete arguments, and the size of the incomplete argument. The title and the files are
    /// added as soon as they are known.
    pub fn report_partial_call(
        &self,
        call: &CallHandle,
        name: &str,
        args: &PartialArguments,
        context: &Context,
    ) {
        if let Some(entry) = self.find(name) {
            let schema = entry.schema();
            let fields = Value::Object(args.complete_fields().clone());
            let fields = arguments::normalise(schema, &fields).map(|formed| formed.args);
            let about = fields.ok().and_then(|fields| {
                let describe = |args: &Value| entry.describe_catching_panics(args, context);
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
                    lines.is_some_and(|field| arguments::is_name_of_field(schema, field, name))
                };
                if let Some((_, line)) =
                    args.streaming_field_name_and_line().filter(|(name, _)| is_shown(name))
                {
                    locations = locations.into_iter().map(|at| at.with_line(line)).collect();
                }
                let (title, title_data) = entry.title_of_call(&self.titles, &key, &arguments);
                call.update(ToolCallPatch::new().with_title(title).with_locations(locations));
                call.update_meta(|meta| meta.title = title_data);
                call.limit_announcement_delay(TITLE_DEBOUNCE);
            }
        }
        if !args.complete_fields().is_empty() {
            call.update(
                ToolCallPatch::new().with_raw_input(Value::Object(args.complete_fields().clone())),
            );
        }
        call.update_meta(|meta| meta.arriving.clone_from(args.partial_field_sizes()));
        let kib = args.partial_field_sizes().values().sum::<u64>() / 1024;
        call.set_subtitle((kib > 0).then(|| format!("{kib} KiB …")).as_deref());
    }

    /// Creates the value that [`execute_call`](acp_lifecycle::execute_call()) needs to run a call.
    #[must_use]
    pub fn prepare_call(&self, name: &str, args: Value, context: &Context) -> PreparedCall {
        let tool = self.find(name);
        let names = match tool {
            Some(_) => Vec::new(),
            None => {
                let tools = self.own_and_live_tools(self.live_tools.callable());
                tools.iter().map(|entry| entry.spec.name.clone()).collect()
            }
        };
        PreparedCall::new(tool, names, name, args, context, &self.titles)
    }

    /// Finds a tool by its name, or by an alias if no tool has this name.
    fn find(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let named = self.tools.iter().find(|entry| entry.spec.name == name);
        let aliased = || self.tools.iter().find(|entry| entry.spec.aliases.contains(&name));
        named.or_else(aliased).cloned().or_else(|| self.live_tools.find(name))
    }
}

impl RegisteredTool {
    fn new_dyn(tool: Box<dyn DynTool>) -> Self {
        let spec = tool.spec();
        let title = spec.title_message_key_unless_name().into();
        Self {
            tool,
            spec: Spec { title, ..spec },
            schema: OnceLock::new(),
            model_schema: OnceLock::new(),
        }
    }

    /// Returns the size of the definition in a request to a model, in bytes.
    fn definition_bytes(&self) -> usize {
        let texts = self.spec.name.len() + self.spec.description.len();
        texts + acp_types::json::serialized_len(self.schema())
    }

    /// Returns the schema of the arguments, including the internal keywords that [`arguments`]
    /// describes.
    fn schema(&self) -> &Value {
        self.schema.get_or_init(|| self.tool.input_schema())
    }

    /// Converts arguments to the form that the tool accepts. Fails if this is impossible.
    fn normalise(&self, args: &Value) -> Result<NormalisedArguments, ToolError> {
        if !args.is_object() || self.tool.accepts_unchanged(args) {
            return Ok(NormalisedArguments { args: args.clone(), notes: Vec::new() });
        }
        arguments::normalise(self.schema(), args)
    }

    /// Returns the arguments in the form that the tool accepts. Arguments that cannot be converted
    /// are returned unchanged.
    fn normalised_or_raw<'a>(&self, args: &'a Value) -> Cow<'a, Value> {
        match catch_unwind(AssertUnwindSafe(|| self.normalise(args))) {
            Ok(Ok(formed)) => Cow::Owned(formed.args),
            // Invalid arguments are shown unchanged. The same applies if the tool panics on these
            // arguments.
            Ok(Err(_)) | Err(_) => Cow::Borrowed(args),
        }
    }

    /// Describes a call by its arguments. This method is called before the call runs, while the
    /// arguments are streamed. If the tool panics on incomplete arguments, the result is `None`,
    /// and the turn continues.
    fn describe_catching_panics(&self, args: &Value, context: &Context) -> Option<CallDescription> {
        let about = || self.tool.describe(args, context);
        catch_unwind(AssertUnwindSafe(about)).ok().flatten()
    }

    /// Returns the title of a call. Also returns the key and the arguments that a client needs to
    /// translate the title. If the catalogue does not contain the key, the title consists of the
    /// name of the tool and the arguments.
    fn title_of_call(
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
                    titles.render_without_message_lookup(
                        &self.spec.name,
                        &named.cloned().collect::<Vec<_>>(),
                    ),
                    None,
                )
            }
        }
    }

    /// Reports the description of a call and its arguments to the client. `written` are the
    /// arguments as the model wrote them, and `args` are the normalised arguments. Returns whether
    /// the title shows each of its arguments in full.
    fn send_description(
        &self,
        titles: &Titles,
        call: &CallHandle,
        (written, args): (&Value, &Value),
        context: &Context,
    ) -> bool {
        call.set_subtitle(None);
        let patch = ToolCallPatch::new().with_raw_input(written.clone());
        let Some(description) = self.describe_catching_panics(args, context) else {
            call.update(patch);
            return true;
        };
        let CallDescription { key, arguments, locations, terminal, .. } = description;
        if let Some(terminal) = terminal {
            call.update_terminal(&TerminalId::new(call.id().0.clone()), terminal);
        }
        let (title, title_data) = self.title_of_call(titles, &key, &arguments);
        call.update(patch.with_title(title).with_locations(locations));
        call.update_meta(|meta| {
            meta.title = title_data;
            meta.arriving.clear();
        });
        call.limit_announcement_delay(Duration::ZERO);
        arguments.iter().all(|(_, argument)| title::fits_in_title(argument))
    }
}

/// Returns the data that a client needs to translate a title. Invisible characters are escaped in
/// these data too, so that a translated title cannot mislead the user.
fn localizable_title(key: &str, arguments: &[(&str, String)]) -> Value {
    let arguments =
        arguments.iter().map(|(name, value)| ((*name).to_owned(), json!(escape_invisible(value))));
    json!({ "key": key, "arguments": Value::Object(arguments.collect()) })
}

#[cfg(test)]
mod tests;
