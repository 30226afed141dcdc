//! Tests for the registry, and for the arguments that models write.

mod model_schemas;

use super::Registry;
use super::prepared_call::declared_or_unknown_effects;
use crate::error::ToolError;
use crate::files::workspace::Workspace;
use crate::tool::{
    CallDescription, Context, DynTool, Invocation, SideEffects, Spec, Tool, ToolOutput, ToolPreview,
};
use acp_lifecycle::{
    AllowInProjectPolicy, Effect, ErasedPlan, Grant, PinnedPlan, Policy, Session, SessionHandle,
    Verdict, execute_call,
};
use acp_types::{CallEndReason, FileChange, FileChangeOperation, ToolCallId, ToolKind};
use futures::future::{BoxFuture, FutureExt as _};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// The names of arguments that need no description.
const CLEAR_NAMES: &[&str] =
    &["command", "content", "new_text", "path", "status", "thought", "url"];

#[test]
fn every_built_in_tool_has_titles_a_schema_and_a_description() {
    let registry = Registry::builtin();
    for tool in registry.definitions_for_model() {
        let spec = tool.spec;
        assert!(registry.titles.has(&spec.title), "{} has no title", spec.name);
        let pending = format!("{}-pending", spec.title);
        assert!(registry.titles.has(&pending), "{} has no pending title", spec.name);
        assert!(spec.description.len() > 20, "{} says too little of itself", spec.name);
        assert_eq!(tool.input_schema["type"], "object", "{}", spec.name);
        assert!(!tool.input_schema.to_string().contains("\"x-"), "{}", spec.name);
        assert!(!tool.input_schema.to_string().contains("additionalProperties"), "{}", spec.name);
        // Calls are checked against the complete schema.
        let schema = registry.find(&spec.name).unwrap().schema().clone();
        assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        let properties = schema["properties"].as_object().unwrap();
        let undescribed = properties.iter().filter(|(_, schema)| schema["description"].is_null());
        let unclear =
            undescribed.map(|(name, _)| name).find(|name| !CLEAR_NAMES.contains(&&***name));
        assert_eq!(unclear, None, "{} has an argument without a word", spec.name);
    }
}

#[test]
fn no_two_arguments_of_a_tool_share_a_name() {
    let folded = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    for tool in Registry::builtin().tools {
        let schema = tool.schema().clone();
        let inner = schema["$defs"].as_object().into_iter().flatten().map(|(_, inner)| inner);
        for schema in inner.chain([&schema]) {
            let mut seen = std::collections::HashSet::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let lists = [&property["x-aliases"], &property["x-opposites"]];
                let others = lists.into_iter().filter_map(Value::as_array).flatten();
                for name in others.filter_map(Value::as_str).chain([&**name]) {
                    assert!(seen.insert(folded(name)), "{}: {name}", tool.spec.name);
                }
            }
        }
    }
}

/// Calls as Claude Code, Codex, Gemini CLI, OpenCode, Zed, Cline and Cursor write them. Each line
/// contains one call: the tool, the arguments, the normalised arguments, and the number of notes.
const CALLS_OF_OTHER_AGENTS: &str = r#"
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
fn arguments_in_the_style_of_other_agents_are_normalised() {
    let registry = Registry::builtin();
    for call in CALLS_OF_OTHER_AGENTS.lines().filter(|line| !line.trim().is_empty()) {
        let (tool, args, expected, notes): (String, Value, Value, usize) =
            serde_json::from_str(call).unwrap();
        let tool = registry.find(&tool).unwrap();
        let formed = tool.normalise(&args).unwrap();
        assert_eq!(formed.args, expected, "{args}");
        assert_eq!(formed.notes.len(), notes, "{args} {:?}", formed.notes);
        // Normalised arguments are valid, so normalising them again does not change them.
        let again = tool.normalise(&formed.args).unwrap();
        assert_eq!((again.args, again.notes.len()), (expected, 0));
    }
}

/// A tool that panics when it describes its arguments.
#[derive(Debug)]
struct PanickingTool;

impl Tool for PanickingTool {
    type Args = Value;
    type Plan = ();

    fn spec(&self) -> Spec {
        Spec::new("fragile", "Panics when it is asked what it is about.", ToolKind::Other)
            .with_side_effects(SideEffects::Nothing)
    }

    fn describe(&self, _: &Value, _: &Context) -> CallDescription {
        panic!("a planted panic")
    }

    async fn preview(&self, _: Value, _: Invocation<'_>) -> Result<ToolPreview<()>, ToolError> {
        Ok(ToolPreview::new(()))
    }

    async fn run(
        &self,
        pinned: PinnedPlan<()>,
        grant: Grant,
        _: Invocation<'_>,
    ) -> Result<ToolOutput, ToolError> {
        pinned.release(grant)?;
        Ok(ToolOutput::default())
    }
}

#[test]
fn a_panic_while_describing_arguments_is_caught() {
    let mut registry = Registry::builtin();
    registry.add(PanickingTool);
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let context = Context::new(Arc::new(workspace));
    assert_eq!(registry.named_locations("fragile", &json!({}), &context), []);
}

/// A tool of a server. The fields are its name and the key of its title.
#[derive(Debug)]
struct ServerTool(&'static str, Option<&'static str>);

impl DynTool for ServerTool {
    fn spec(&self) -> Spec {
        let spec = Spec::new(self.0.to_owned(), "Counts words.".to_owned(), ToolKind::Search);
        self.1.map_or(spec.clone(), |key| spec.with_title_message_key(key))
    }

    fn input_schema(&self) -> Value {
        let text = json!({ "type": ["string", "null"], "format": "uint8" });
        let own = json!({ "type": "number", "x-own": 1 });
        json!({
            "type": "object",
            "title": "Count",
            "x-own": 1,
            "properties": { "query": text, "x-version": own, "kind": { "$ref": "#/$defs/Kind" } },
            "required": ["x-version"],
            "$defs": { "Kind": { "oneOf": [{ "type": "string", "const": "a" }] } },
        })
    }

    fn preview<'a>(
        &'a self,
        args: Value,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
        let id = invocation.call.id().0.to_string();
        async move { Ok(ToolPreview::new(Box::new((id, args)) as ErasedPlan)) }.boxed()
    }

    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        async move {
            let plan = pinned.release(grant)?.downcast::<(String, Value)>();
            Ok(ToolOutput::new(format!("{:?}", plan.unwrap())))
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_tool_known_at_run_time_is_called_as_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let session = SessionHandle::new(Session::new(workspace.cwd()), SystemTime::now);
    session.update(|session, _| session.replace_policy(Arc::new(AllowInProjectPolicy)));
    let (context, cancel) = (Context::new(Arc::new(workspace)), CancellationToken::new());
    let titles = [("en", "count = Count\ncount-pending = Soon")];
    for (name, key, pending, whole) in [
        ("word_count", None, "word_count", "word_count query: \"two\", more: 1"),
        ("word_count", Some("count"), "Soon", "Count"),
        // A server's tool does not get the title of another tool by using its name. Its calls are
        // not redirected to a tool that has its name as an alias.
        ("count", None, "count", "count query: \"two\", more: 1"),
        (
            "list-directory-here",
            None,
            "list-directory-here",
            "list-directory-here query: \"two\", more: 1",
        ),
        ("search", None, "search", "search query: \"two\", more: 1"),
    ] {
        let mut registry = Registry::builtin_with_message_catalogues(&titles, "en").unwrap();
        registry.add_dyn(Box::new(ServerTool(name, key)));
        let id = ToolCallId::new(format!("call-{name}-{}", key.is_some()));
        let open =
            registry.announce_call(&session, &id, &"t".into(), name, &context, &cancel).unwrap();
        let title = |id| session.call_report(id).unwrap().title;
        assert_eq!(title(&id).replace('`', ""), pending);
        // The registry keeps fields that the schema does not contain.
        let call = registry.prepare_call(name, json!({ "query": "two", "more": 1 }), &context);
        let ended = execute_call(open, call).await;
        assert!(ended.text.contains("\"more\": Number(1)"), "{}", ended.text);
        assert!(ended.text.contains(&*id.0), "{}", ended.text);
        assert_eq!(title(&id).replace('`', ""), whole);
    }
}

/// A tool of a server. Its preview shows the file that it would change.
#[derive(Debug, Default)]
struct ShowingServerTool(Arc<AtomicBool>);

impl DynTool for ShowingServerTool {
    fn spec(&self) -> Spec {
        Spec::new("shows", "Changes a file.", ToolKind::Edit)
            .with_side_effects(SideEffects::Changes)
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object", "properties": {} })
    }

    fn describe(&self, _: &Value, context: &Context) -> Option<CallDescription> {
        Some(CallDescription::new("").with_location("a.txt", 0, context))
    }

    fn preview<'a>(
        &'a self,
        _: Value,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolPreview<ErasedPlan>, ToolError>> {
        self.0.store(true, Ordering::Relaxed);
        async { Ok(ToolPreview::new(Box::new(()) as ErasedPlan)) }.boxed()
    }

    fn run<'a>(
        &'a self,
        pinned: PinnedPlan<ErasedPlan>,
        grant: Grant,
        _: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        async move { pinned.release(grant).map(|_| ToolOutput::default()).map_err(ToolError::from) }
            .boxed()
    }
}

/// Denies every read.
#[derive(Debug)]
struct DenyReadsPolicy;

impl Policy for DenyReadsPolicy {
    fn judge(&self, effect: &Effect) -> Verdict {
        if effect.is_read() { Verdict::Deny } else { Verdict::Allow }
    }
}

#[tokio::test]
async fn a_run_time_tool_previews_no_file_that_may_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "text").unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
    let session = SessionHandle::new(Session::new(workspace.cwd()), SystemTime::now);
    session.update(|session, _| session.replace_policy(Arc::new(DenyReadsPolicy)));
    let (context, cancel) = (Context::new(Arc::new(workspace)), CancellationToken::new());
    let (mut registry, has_looked) = (Registry::builtin(), Arc::<AtomicBool>::default());
    registry.add_dyn(Box::new(ShowingServerTool(has_looked.clone())));
    let (id, turn) = ("c".into(), "t".into());
    let open = registry.announce_call(&session, &id, &turn, "shows", &context, &cancel).unwrap();
    let ended = execute_call(open, registry.prepare_call("shows", json!({}), &context)).await;
    assert_eq!(ended.reason, Some(CallEndReason::Permission), "{}", ended.text);
    assert!(!has_looked.load(Ordering::Relaxed));
}

#[test]
fn only_the_internal_keywords_of_a_foreign_schema_are_removed() {
    let mut registry = Registry::builtin();
    registry.add_dyn(Box::new(ServerTool("word_count", None)));
    let listed =
        registry.definitions_for_model().find(|tool| tool.spec.name == "word_count").unwrap();
    let expected = json!({
        "type": "object",
        "title": "Count",
        "properties": {
            "query": { "type": ["string", "null"], "format": "uint8" },
            "x-version": { "type": "number" },
            "kind": { "$ref": "#/$defs/Kind" },
        },
        "required": ["x-version"],
        "$defs": { "Kind": { "oneOf": [{ "type": "string", "const": "a" }] } },
    });
    assert_eq!(listed.input_schema, expected);
}

#[test]
fn names_and_kinds_are_those_that_stay() {
    let registry = Registry::builtin();
    let listed: Vec<_> =
        registry.definitions_for_model().map(|tool| (tool.spec.name, tool.spec.kind)).collect();
    let listed: Vec<_> = listed.iter().map(|(name, kind)| (&**name, *kind)).collect();
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
            ("terminal_output", ToolKind::Read),
            ("terminal_input", ToolKind::Execute),
            ("terminal_stop", ToolKind::Execute),
            ("think", ToolKind::Think),
            ("todo_write", ToolKind::Think),
        ]
    );
    assert_eq!(registry.spec("thinking").unwrap().name, "think");
    assert!(registry.spec("no_such_tool").is_none());
}

#[test]
fn no_two_tools_share_a_name() {
    let registry = Registry::builtin();
    let names = registry.definitions_for_model().flat_map(|tool| {
        let aliases = tool.spec.aliases.iter().map(|alias| Cow::Borrowed(*alias));
        std::iter::once(tool.spec.name).chain(aliases)
    });
    let mut seen = std::collections::HashSet::new();
    for name in names {
        assert!(seen.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn a_silent_tool_that_changes_files_has_an_unknown_effect() {
    let spec = || {
        Spec::new("shows", "Changes a file.", ToolKind::Edit)
            .with_side_effects(SideEffects::Changes)
    };
    let modified = || FileChange::new(FileChangeOperation::Modify, "/p/a");
    let mut large = modified();
    large.unlisted = (1, 1);
    let moved = FileChange::new(FileChangeOperation::Move { from: "/p/b".into() }, "/p/a");
    for (change, acts) in [(modified(), false), (large, true), (moved, true)] {
        let draft = ToolPreview { changes: vec![change], ..ToolPreview::new(()) };
        let effects = declared_or_unknown_effects(&spec(), &draft);
        assert_eq!(effects.iter().any(|effect| *effect == Effect::Unknown), acts);
    }
}
