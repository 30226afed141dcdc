//! A call that the model has begun, and the client has been told of, while its arguments come.

use std::time::Duration;

use acp_lifecycle::{Arriving, OpenCall};
use callboard_models::Call;
use serde_json::{Value, json};

use super::Turn;
use crate::limits;

/// A call whose arguments come, or have come.
pub(super) struct Begun {
    pub(super) open: OpenCall,
    pub(super) call: Call,
    progress: Progress,
    arriving: Arriving,
    /// Bytes of the arguments when the client was told last.
    told: usize,
}

/// How much of a call's arguments has come, and what they are or why they are none.
enum Progress {
    Coming,
    Ended(Result<Value, String>),
}

impl Begun {
    /// Begins a call of which the model has said only the name.
    pub(super) fn new(open: OpenCall, id: String, name: String) -> Self {
        Self {
            open,
            call: Call { id, name, arguments: String::new() },
            progress: Progress::Coming,
            arriving: Arriving::default(),
            told: 0,
        }
    }

    /// Takes the next fragment, and tells the client of every argument that is whole and of every
    /// [`limits::ARGUMENTS_TOLD_EVERY`] bytes.
    pub(super) fn hear(&mut self, fragment: &str, turn: &Turn<'_>) {
        if !matches!(self.progress, Progress::Coming) {
            return;
        }
        self.call.arguments.push_str(fragment);
        let len = self.call.arguments.len();
        if len > limits::MAX_ARGUMENT_BYTES {
            self.call.arguments.clear();
            let text = format!("The arguments are over {} bytes.", limits::MAX_ARGUMENT_BYTES);
            self.progress = Progress::Ended(Err(text));
            return;
        }
        if self.arriving.push(fragment) || len - self.told >= limits::ARGUMENTS_TOLD_EVERY {
            self.told = len;
            let (call, name) = (self.open.handle(), &self.call.name);
            turn.registry.arriving(call, name, &self.arriving, turn.context);
        }
    }

    /// Notes that the arguments are whole, and tells the client what the call is about.
    pub(super) fn end(&mut self, turn: &Turn<'_>) {
        if !matches!(self.progress, Progress::Coming) {
            return;
        }
        let args = read(&self.call.arguments);
        if let Ok(args) = &args {
            turn.registry.describe(self.open.handle(), &self.call.name, args, turn.context);
        }
        // Nothing more comes that could give it a title.
        self.open.handle().report_within(Duration::ZERO);
        self.progress = Progress::Ended(args);
    }

    /// Returns the arguments, or why there are none.
    pub(super) fn arguments(&self) -> Result<&Value, &str> {
        match &self.progress {
            Progress::Coming => Err(NO_END),
            Progress::Ended(args) => args.as_ref().map_err(String::as_str),
        }
    }

    /// Takes it apart into the open call, the call as the model made it, and its arguments.
    pub(super) fn into_parts(self) -> (OpenCall, Call, Result<Value, String>) {
        let args = match self.progress {
            Progress::Coming => Err(NO_END.to_owned()),
            Progress::Ended(args) => args,
        };
        (self.open, self.call, args)
    }
}

/// Reads arguments; none at all are an empty object.
fn read(arguments: &str) -> Result<Value, String> {
    if arguments.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(arguments)
        .map_err(|error| format!("The arguments are not JSON: {error}. Send one JSON object."))
}

const NO_END: &str = "The arguments did not come to their end.";

#[cfg(test)]
mod tests {
    use super::{Begun, limits};
    use crate::context::Surroundings;
    use crate::options::Chosen;
    use crate::secrets::OfSession;
    use crate::turn::Turn;
    use acp_lifecycle::{Item, Secrets, Session, SessionHandle, Sink, Unreachable, drive};
    use acp_tools::{Context, Registry, Workspace};
    use acp_types::{Status, ToolCallReport};
    use callboard_models::direct::Direct;
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    /// The first reports that a client gets, with the milliseconds after which it does.
    struct Reports(tokio::time::Instant, mpsc::UnboundedSender<(u128, String)>);

    impl Sink for Reports {
        fn deliver(&mut self, item: Item) -> Result<(), Unreachable> {
            if let Item::ToolCall(_, patch) = item
                && patch.status == Some(Status::Pending)
            {
                let title = patch.title.unwrap_or_default();
                self.1.send((self.0.elapsed().as_millis(), title)).unwrap();
            }
            Ok(())
        }
    }

    /// Lets the clock, which is paused, go on.
    async fn pass(time: Duration) {
        drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
    }

    /// Streams fragments of arguments, each so many milliseconds after the one before, and returns
    /// when the call is reported and by which title.
    async fn first_report(tool: &str, fragments: &[(u64, &str)]) -> (u128, String) {
        let (reports, mut reported) = mpsc::unbounded_channel();
        let reports = Reports(tokio::time::Instant::now(), reports);
        on_a_turn(async |turn| {
            let stop = CancellationToken::new();
            let driver = tokio::spawn(drive(turn.handle.clone(), reports, stop.clone()));
            let open = turn.begin("1", tool, "reply").unwrap();
            let mut begun = Begun::new(open, "1".to_owned(), tool.to_owned());
            for (wait, fragment) in fragments {
                pass(Duration::from_millis(*wait)).await;
                match *fragment {
                    "END" => begun.end(turn),
                    fragment => begun.hear(fragment, turn),
                }
            }
            pass(Duration::from_secs(1)).await;
            stop.cancel();
            driver.await.unwrap();
            drop(begun);
        })
        .await;
        reported.recv().await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_reported_when_its_title_is_known_or_after_200_ms() {
        let long = "x".repeat(5000);
        for (tool, fragments, within, title) in [
            // The path is known and the text still streams.
            (
                "write_file",
                &[(90, r#"{"path": "src/a"#), (60, r#".rs", "content": ""#), (0, &long)][..],
                150..160,
                "Write src/a.rs",
            ),
            ("edit_file", &[(1, r#"{"path":"a.rs""#)], 1..11, "Edit a.rs"),
            // What may still change the title comes at once, or is not waited for.
            (
                "grep",
                &[(9, r#"{"pattern":"x""#), (1, r#","path":"src"}"#), (0, "END")],
                9..20,
                "Search for `x` in src",
            ),
            (
                "grep",
                &[(9, r#"{"pattern":"x""#), (500, r#","path":"src"}"#)],
                9..20,
                "Search for `x`",
            ),
            // No title of its own.
            (
                "edit_file",
                &[(1, r#"{"old_text":"a","new_text":""#), (1, &long)],
                200..210,
                "Edit a file",
            ),
            ("read_file", &[], 200..210, "Read a file"),
            ("read_file", &[(190, r#"{"path":"a.rs"}"#), (0, "END")], 190..200, "Read a.rs"),
            // Arguments that are none.
            ("read_file", &[(5, r#"{"p"#), (0, "END")], 5..10, "Read a file"),
            // Nothing to wait for.
            ("terminal_list", &[(50, "{}")], 0..5, "List the commands in the background"),
            ("no_such_tool", &[], 0..5, "`no_such_tool`"),
        ] {
            let (at, told) = first_report(tool, fragments).await;
            assert!(told.starts_with(title) && within.contains(&at), "{tool}: {told:?} at {at} ms");
        }
    }

    #[tokio::test]
    async fn a_call_tells_what_it_is_about_while_its_arguments_come() {
        on_a_turn(async |turn| tells_while_arguments_come(turn)).await;
    }

    async fn on_a_turn(test: impl AsyncFnOnce(&Turn<'_>)) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(folder.path().to_owned(), Vec::new()).unwrap();
        let cwd = workspace.cwd().to_owned();
        let context = Context {
            workspace: Arc::new(workspace),
            env: Arc::default(),
            text: None,
            terminal: None,
        };
        let (registry, cancel) = (Registry::builtin().unwrap(), CancellationToken::new());
        let handle = SessionHandle::new(Session::new(&cwd), SystemTime::now);
        let turn = Turn {
            name: "t",
            chosen: &|| Chosen::of(Arc::new(Direct)),
            registry: &registry,
            tools: &crate::turn::tools(&registry),
            context: &context,
            surroundings: &Surroundings::new(context.workspace.clone(), SystemTime::now()),
            handle: &handle,
            secrets: &OfSession::new(handle.clone(), Secrets::default()),
            cancel: &cancel,
        };
        test(&turn).await;
    }

    fn tells_while_arguments_come(turn: &Turn<'_>) {
        let (handle, cwd) = (turn.handle, turn.context.workspace.cwd());
        let open = turn.begin("1", "write_file", "reply").unwrap();
        let id = open.handle().id().clone();
        let mut begun = Begun::new(open, "1".to_owned(), "write_file".to_owned());
        let shown = || handle.tool_call(&id).unwrap();
        let pending = shown().title;
        begun.hear(r#"{"path": "src/a"#, turn);
        assert_eq!((shown().title, shown().raw_input), (pending, None));
        begun.hear(r#".rs", "content": ""#, turn);
        let ToolCallReport { title, locations, raw_input, meta, .. } = shown();
        assert_eq!(title, "Write src/a.rs");
        assert_eq!(locations[0].path(), cwd.join("src/a.rs"));
        assert_eq!(raw_input, Some(json!({"path": "src/a.rs"})));
        assert_eq!(meta.arriving, [("content".to_owned(), 1)].into());
        let text = "x".repeat(limits::ARGUMENTS_TOLD_EVERY);
        begun.hear(&text, turn);
        assert_eq!(shown().meta.arriving["content"], 1 + text.len() as u64);
        let kib = (1 + text.len()) / 1024;
        assert_eq!(shown().title, format!("Write src/a.rs · {kib} KiB …"));
        begun.hear(r#""}"#, turn);
        begun.end(turn);
        assert_eq!(shown().raw_input, Some(json!({"path": "src/a.rs", "content": text})));
        assert!(shown().meta.arriving.is_empty());
        assert_eq!(shown().title, "Write src/a.rs");
        assert_eq!(shown().meta.batch.as_deref(), Some("reply"));
    }
}
