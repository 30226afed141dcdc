//! A session in which tests make calls, and typical arguments for each tool.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use acp_lifecycle::{OpenCall, Session, SessionHandle};
use acp_tools::{Context, Registry, Workspace};
use acp_types::{ToolCallId, ToolCallReport};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A session in a folder, with an additional project folder.
pub(crate) struct TitleSession {
    pub(crate) session: SessionHandle,
    pub(crate) registry: Registry,
    context: Context,
    folder: TempDir,
    calls: usize,
}

impl TitleSession {
    pub(crate) fn new(locale: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (cwd, more) = (folder.path().join("cwd"), folder.path().join("more"));
        for directory in [cwd.join("src"), more.clone()] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let workspace = Arc::new(Workspace::new(cwd.clone(), vec![more]).unwrap());
        Self {
            session: SessionHandle::new(Session::new(cwd), SystemTime::now),
            registry: Registry::builtin_in_locale(locale),
            context: Context::new(workspace),
            folder,
            calls: 0,
        }
    }

    /// Returns the project folder that is not the session's `cwd`.
    pub(crate) fn additional_folder(&self) -> PathBuf {
        self.folder.path().join("more")
    }

    /// Announces a call of a tool.
    pub(crate) fn announce(&mut self, name: &str) -> OpenCall {
        self.calls += 1;
        let id = ToolCallId::new(format!("call{}", self.calls));
        let cancel = CancellationToken::new();
        let Self { session, registry, context, .. } = self;
        let open = registry.announce_call(session, &id, &"t".into(), name, context, &cancel);
        open.expect("the id is new")
    }

    /// Announces and describes a call. Returns the report that the client receives.
    pub(crate) fn describe(&mut self, name: &str, args: &Value) -> ToolCallReport {
        let open = self.announce(name);
        self.registry.report_call_description(open.handle(), name, args, &self.context);
        self.report(&open)
    }

    pub(crate) fn report(&self, open: &OpenCall) -> ToolCallReport {
        let report = |session: &mut Session, _| {
            session.board().open_call_report(open.handle().id()).cloned()
        };
        self.session.update(report).expect("the call is open")
    }

    /// Replaces parts of a text that differ from run to run.
    pub(crate) fn normalised(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "/tmp")
    }
}

/// Returns arguments for a tool. The argument that the title shows is `text`.
///
/// # Panics
///
/// Panics if this function has no arguments for the tool, because its titles would not be tested.
pub(crate) fn args(tool: &str, text: &str) -> Value {
    match tool {
        "read_file" => json!({ "path": text, "offset": 3, "limit": 5 }),
        "list_directory" => json!({ "path": text }),
        "find_path" => json!({ "pattern": text, "path": text }),
        "grep" => json!({ "pattern": text, "path": text }),
        "write_file" => json!({ "path": text, "content": "x" }),
        "edit_file" => json!({ "edits": [
            { "path": text, "old_text": "a", "new_text": "b" },
            { "path": "src/lib.rs", "old_text": "a", "new_text": "b" },
        ] }),
        "delete_path" => json!({ "path": text }),
        "move_path" => json!({ "from": text, "to": text }),
        "undo" => json!({}),
        "terminal" => json!({ "command": text }),
        "terminal_output" | "terminal_stop" => json!({ "id": text }),
        "terminal_input" => json!({ "id": "bg-1", "text": text }),
        "think" => json!({ "thought": text }),
        "todo_write" => json!({ "todos": [
            { "content": text, "status": "completed" },
            { "content": "x", "status": "pending" },
        ] }),
        _ => panic!("there are no arguments of {tool} to test its titles with"),
    }
}

/// Returns sample values for the argument that a title shows. Each value has a name.
pub(crate) fn sample_texts(more: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("relative", "src/main.rs".to_owned()),
        ("dotted", "./src/../src/a b.rs".to_owned()),
        ("here", ".".to_owned()),
        ("other root", more.join("notes.txt").display().to_string()),
        ("outside", "/etc/passwd".to_owned()),
        ("long", "long/".repeat(200)),
        ("too long", "long/".repeat(2_000)),
        ("lines", "one\ntwo\r\nthree".to_owned()),
        ("many lines", "line\n".repeat(2_000)),
        ("fluent", "{ $path } { shortened } -term .attribute".to_owned()),
        ("hidden", "safe\u{202e}txt.exe\u{2066}\u{200b}\u{feff}\u{e0041}\u{fe0f}".to_owned()),
        ("escapes", "\u{1b}[31mred\u{1b}]8;;x\u{7}\u{9b}2J\u{7f}\u{0}".to_owned()),
        ("spaces", "a\u{a0}b\u{2003}c\u{3000}d\u{2028}e\u{2029}f\tg".to_owned()),
        ("empty", String::new()),
    ]
}
