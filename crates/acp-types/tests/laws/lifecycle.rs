//! Random lifecycles of one call with one terminal, split at random flush points.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use acp_types::{
    CallCapabilities, CallEndReason, CallMeta, Content, ContentPatch, FileChange,
    FileChangeOperation, Hunk, HunkLine, LineTag, Location, Progress, Status, TerminalExit,
    TerminalId, TerminalPatch, TerminalReport, TerminalSize, ToolCallPatch, ToolCallReport,
    ToolKind,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Value, json};

/// Weights of small values, and of values that are too large for a streamed update or a whole diff.
const LARGE: (u32, u32) = (20, 1);

/// One step of a lifecycle.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Call(ToolCallPatch),
    Terminal(TerminalPatch),
    Ask,
}

/// The steps of a call, and the steps after which the outbox is flushed.
#[derive(Debug, Clone)]
pub(crate) struct CallLifecycle {
    pub(crate) steps: Vec<Step>,
    flush: Vec<bool>,
}

impl CallLifecycle {
    /// Returns the final documents.
    pub(crate) fn documents(&self) -> (ToolCallReport, TerminalReport) {
        let mut call = ToolCallReport::new("c".into());
        let mut terminal = TerminalReport::new("t".into());
        for step in &self.steps {
            match step.clone() {
                Step::Call(patch) => patch.apply(&mut call),
                Step::Terminal(patch) => patch.apply(&mut terminal),
                Step::Ask => {}
            }
        }
        (call, terminal)
    }

    pub(crate) fn shows_terminal_first(&self) -> bool {
        matches!(&self.steps[1], Step::Call(patch) if patch.content != ContentPatch::Keep)
    }

    /// Returns the steps as an outbox sends them. The steps between two flush points are composed.
    /// A patch with a status is never composed with an earlier patch.
    pub(crate) fn flushed(&self) -> Vec<Step> {
        let mut sent = Vec::new();
        let mut terminal = TerminalPatch::default();
        let mut call = ToolCallPatch::new();
        let mut send = |call: &mut ToolCallPatch, terminal: &mut TerminalPatch| {
            let (call, terminal) = (std::mem::take(call), std::mem::take(terminal));
            sent.extend((!terminal.is_empty()).then_some(Step::Terminal(terminal)));
            sent.extend((!call.is_empty()).then_some(Step::Call(call)));
        };
        let mut asked = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step.clone() {
                Step::Call(patch) => {
                    if patch.status.is_some() {
                        send(&mut call, &mut terminal);
                    }
                    call = call.then(patch);
                }
                Step::Terminal(patch) => terminal = terminal.then(patch),
                Step::Ask => {
                    send(&mut call, &mut terminal);
                    asked.push(at);
                }
            }
            if at == 1 || self.flush.get(at).copied().unwrap_or(true) {
                send(&mut call, &mut terminal);
            }
        }
        send(&mut call, &mut terminal);
        if !asked.is_empty() {
            // The permission request is sent directly after the first report of the call.
            let announced = sent.iter().position(|step| matches!(step, Step::Call(_)));
            sent.insert(announced.expect("a life begins with a report") + 1, Step::Ask);
        }
        sent
    }
}

/// Generates a whole lifecycle of a call: announcement, optional permission request, updates, run
/// and end.
pub(crate) fn lifecycle() -> impl Strategy<Value = CallLifecycle> {
    let pending = vec(step(), 0..4);
    let running = vec(step(), 0..6);
    let end = prop_oneof![
        Just((true, Status::Completed)),
        (any::<bool>(), select(vec![Status::Failed, Status::Cancelled])),
    ];
    let first = (any::<bool>(), any::<bool>(), patch(), kind());
    (first, pending, running, end, patch(), vec(any::<bool>(), 16)).prop_map(
        |((shows, asks, first, kind), pending, running, (runs, status), last, flush)| {
            let mut announce = first.then(ToolCallPatch::for_new_call("tool", "A title", kind));
            announce.status = Some(Status::Pending);
            announce.content = match shows {
                true => {
                    ContentPatch::Set(vec![Content::Terminal("t".into()), Content::from_text("x")])
                }
                false => ContentPatch::Keep,
            };
            let mut steps = vec![
                Step::Terminal(TerminalPatch::for_new_terminal("ls", "/tmp")),
                Step::Call(announce),
            ];
            steps.extend(asks.then_some(Step::Ask));
            steps.extend(pending.into_iter().filter(|step| matches!(step, Step::Call(_))));
            if runs {
                steps.push(Step::Call(ToolCallPatch::new().with_status(Status::InProgress)));
                steps.extend(running);
            }
            let mut last = last.with_status(status);
            if status == Status::Cancelled {
                let mut meta = CallMeta::default();
                meta.reason = Some(CallEndReason::User);
                last = last.with_meta(meta);
            }
            steps.push(Step::Terminal(TerminalPatch::from_exit(TerminalExit {
                code: Some(0),
                signal: None,
            })));
            steps.push(Step::Call(last));
            CallLifecycle { steps, flush }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        patch().prop_map(Step::Call),
        output().prop_map(|bytes| Step::Terminal(TerminalPatch::from_output(&bytes))),
    ]
}

/// Generates a patch without a status, because a status is only valid in a legal order. The content
/// of the patch never removes a terminal: the events of a removed terminal would have no effect.
pub(crate) fn patch() -> impl Strategy<Value = ToolCallPatch> {
    let words = of("[a-z\u{e4}\u{202e} ]{1,8}".prop_map(|text| format!("t{text}")));
    let content = prop_oneof![
        2 => Just(ContentPatch::Keep),
        2 => vec(content(), 0..3).prop_map(ContentPatch::Append),
    ];
    let locations = of(vec((1..4_u32, 0..3_u32), 0..3));
    let small = || vec(0..9_u32, 0..3).prop_map(|numbers| json!({ "numbers": numbers }));
    let large = || large_text().prop_map(|text| json!({ "text": text }));
    let raw = || of(prop_oneof![LARGE.0 => small(), LARGE.1 => large()]);
    (words, of(kind()), content, locations, (raw(), raw()), of(meta()), of(any::<bool>())).prop_map(
        |(title, kind, content, locations, (raw_input, raw_output), meta, cancel)| {
            let mut patch = ToolCallPatch::new();
            patch.name = title.as_ref().map(|_| "tool".to_owned());
            patch.title = title;
            patch.kind = kind;
            patch.content = content;
            patch.locations = locations.map(|all| all.into_iter().map(location).collect());
            patch.raw_input = raw_input;
            patch.raw_output = raw_output;
            patch.meta = meta.map(Box::new);
            patch.capabilities = cancel.map(|cancel| {
                let mut capabilities = CallCapabilities::default();
                capabilities.cancel = cancel;
                capabilities
            });
            patch
        },
    )
}

pub(crate) fn terminal_patch() -> impl Strategy<Value = TerminalPatch> {
    let size = of((1..9_u16, 1..9_u16));
    let exit = of(of(0..3_i32));
    let client_id = of("[xy]").prop_map(|id: Option<String>| id.map(TerminalId::from));
    let fields = (of("[a-z]{1,4}"), size, output(), exit, client_id);
    fields.prop_map(|(command, size, bytes, exit, client_id)| {
        let mut patch = TerminalPatch::from_output(&bytes);
        patch.client_id = client_id;
        patch.cwd = command.as_ref().map(|name| odd_path(name.len() as u32));
        patch.command = command;
        patch.size = size.map(|(cols, rows)| TerminalSize { cols, rows });
        patch.exit = exit.map(|code| TerminalExit {
            code,
            signal: code.is_none().then(|| "SIGKILL".to_owned()),
        });
        patch
    })
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..12),
        4 => "[a-z\u{1b}\u{e9}\u{1f600}\n]{0,12}".prop_map(String::into_bytes),
        1 => (60_000..90_000_usize, any::<u8>()).prop_map(|(size, byte)| {
            (0..size).map(|at| byte.wrapping_add((at % 97) as u8)).collect()
        }),
    ]
}

/// Returns the path for a number. Some of these paths contain bytes that are not UTF-8.
fn odd_path(number: u32) -> PathBuf {
    let odd: &[u8] = if number.is_multiple_of(3) { b"\xff'\n" } else { b"" };
    let name = [format!("/p/{number}").as_bytes(), odd, b".rs"].concat();
    OsString::from_vec(name).into()
}

fn kind() -> impl Strategy<Value = ToolKind> {
    select(vec![ToolKind::Read, ToolKind::Edit, ToolKind::Execute, ToolKind::Other])
}

fn location((file, line): (u32, u32)) -> Location {
    Location::try_new(odd_path(file)).expect("an absolute path").with_line(line)
}

fn meta() -> impl Strategy<Value = CallMeta> {
    (of(0..9_u64), of(0..5_u32)).prop_map(|(duration_ms, current)| {
        let mut meta = CallMeta::default();
        meta.duration_ms = duration_ms;
        meta.progress = current.map(|current| Progress::new(current.into()).with_total(5.0));
        meta.custom = [("tool".to_owned(), Value::from(current))].into_iter().collect();
        meta
    })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        LARGE.0 => "[a-z`\n]{0,6}".prop_map(Content::from_text),
        LARGE.1 => large_text().prop_map(Content::from_text),
        LARGE.0 => change().prop_map(Content::Change),
        LARGE.0 => Just(Content::Block(
            serde_json::from_value(
                json!({"type": "resource_link", "uri": "file:///x", "name": "x"})
            )
            .expect("a link")
        )),
    ]
}

fn change() -> impl Strategy<Value = FileChange> {
    let operation = select(vec![
        FileChangeOperation::Add,
        FileChangeOperation::Modify,
        FileChangeOperation::Delete,
        FileChangeOperation::Move { from: odd_path(9) },
        FileChangeOperation::Copy { from: "/p/old".into() },
    ]);
    let text = || {
        of(prop_oneof![
            LARGE.0 => "[a-z\n]{0,9}",
            LARGE.1 => large_text(),
        ])
    };
    (operation, text(), text(), vec(hunk(), 0..3), 0..9_u32).prop_map(
        |(operation, old_text, new_text, hunks, path)| {
            let mut change = FileChange::new(operation, odd_path(path)).with_hunks(hunks);
            (change.old_text, change.new_text) = (old_text, new_text);
            change
        },
    )
}

fn hunk() -> impl Strategy<Value = Hunk> {
    let tag = select(vec![LineTag::Context, LineTag::Removed, LineTag::Added]);
    let lines = vec((tag, "[a-z]{0,3}\n"), 1..4);
    (1..9_u32, lines).prop_map(|(start, lines)| Hunk {
        old_start: start,
        new_start: start,
        lines: lines.into_iter().map(|(tag, text)| HunkLine { tag, text }).collect(),
    })
}

/// Generates lines of one letter. Texts of medium size are never generated: v1 sends the whole
/// content again for each added item, so many items after a medium text would exceed the tested
/// limit.
fn large_text() -> impl Strategy<Value = String> {
    ("[a-z]", 60_000..70_000_usize)
        .prop_map(|(letter, size)| format!("{}\n", letter.repeat(63)).repeat(size / 64))
}
