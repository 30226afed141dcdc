//! How the client behaves, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use serde_json::{Value, json};

/// How the client behaves. The default is a good one, without any capability, that allows once.
#[derive(Debug, Clone)]
pub struct ClientBehaviour {
    /// What it says of itself in `initialize`; what [`form`](Self::form),
    /// [`files`](Self::files) and [`terminals`](Self::terminals) need is added to it.
    pub capabilities: Value,
    /// What it answers when it is asked for permission.
    pub permission: PermissionReply,
    /// When it answers that.
    pub timing: ReplyTiming,
    /// What it answers when it is shown a form, if it shows any.
    pub form: Option<FormReply>,
    /// How long it waits after each line that it reads.
    pub read_delay: Duration,
    /// The files that it offers, if it does.
    pub files: Option<FileService>,
    /// The terminals that it offers, if it does.
    pub terminals: Option<TerminalService>,
    /// The longest that any wait may take.
    pub deadline: Duration,
}

impl Default for ClientBehaviour {
    fn default() -> Self {
        Self {
            capabilities: json!({}),
            permission: PermissionReply::default(),
            timing: ReplyTiming::default(),
            form: None,
            read_delay: Duration::ZERO,
            files: None,
            terminals: None,
            deadline: Duration::from_secs(10),
        }
    }
}

impl ClientBehaviour {
    /// All that the client says of itself in `initialize`.
    pub(crate) fn advertised_capabilities(&self) -> Value {
        let mut advertised = self.capabilities.clone();
        if self.files.is_some() {
            let writes = self.files.as_ref().is_some_and(|files| files.writes.is_some());
            advertised["fs"] = json!({"readTextFile": true, "writeTextFile": writes});
        }
        if self.form.is_some() {
            advertised["elicitation"] = json!({"form": {}});
        }
        if self.terminals.is_some() {
            advertised["terminal"] = json!(true);
        }
        advertised
    }
}

impl From<PermissionReply> for ClientBehaviour {
    fn from(permission: PermissionReply) -> Self {
        Self { permission, ..Self::default() }
    }
}

/// What the client answers when it is asked for permission.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum PermissionReply {
    /// The first option of this kind; the outcome `cancelled` if there is none.
    Select(PermissionOptionKind),
    /// An option by its id, which may be none of those offered.
    SelectId(&'static str),
    /// The outcome `cancelled`.
    Cancelled,
    /// A JSON-RPC error.
    Error,
    /// A result that is none.
    Malformed,
    /// Nothing.
    NoReply,
}

impl Default for PermissionReply {
    fn default() -> Self {
        Self::Select(PermissionOptionKind::AllowOnce)
    }
}

/// What the client answers when it is shown a form (`elicitation/create`).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum FormReply {
    /// It accepts, with this text in every field.
    Fill(&'static str),
    /// It accepts, with no field filled in.
    LeaveEmpty,
    /// It declines.
    Decline,
    /// It closes the form.
    Cancel,
    /// A JSON-RPC error.
    Error,
    /// Nothing.
    NoReply,
}

/// When the client answers a permission request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyTiming {
    /// As soon as it reads it.
    #[default]
    Immediately,
    /// At once, and the same again.
    Twice,
    /// After a while. [`Agent::permit`](crate::Agent::permit) answers after any event instead.
    Delayed(Duration),
    /// Behind the next `session/cancel`.
    AfterCancel,
}

/// How the client serves what it offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceBehaviour {
    /// It does.
    #[default]
    Works,
    /// It does, and says so a while after.
    Delayed(Duration),
    /// Every request gets a JSON-RPC error.
    Fails,
    /// No request gets an answer.
    NoReply,
}

/// The files of an editor: those on the disk, and what is not saved.
#[derive(Debug, Clone)]
pub struct FileService {
    /// The text of files that differ from the disk. A write saves the file.
    pub unsaved: BTreeMap<PathBuf, String>,
    /// Whether reading works, and all else if that does.
    pub reads: ServiceBehaviour,
    /// Whether writing works; none if it is not offered.
    pub writes: Option<ServiceBehaviour>,
}

impl Default for FileService {
    fn default() -> Self {
        let service = ServiceBehaviour::default();
        Self { unsaved: BTreeMap::new(), reads: service, writes: Some(service) }
    }
}

/// The terminals of a client, which runs the commands itself.
///
/// One that fails in all but `terminal/create` has forgotten its terminals.
#[derive(Debug, Clone, Default)]
pub struct TerminalService {
    /// What is left out of their output.
    pub truncation: OutputTruncation,
    /// Whether it works.
    pub service: ServiceBehaviour,
    /// Methods that it serves otherwise, such as `terminal/kill`.
    pub method_overrides: BTreeMap<&'static str, ServiceBehaviour>,
    /// What every command comes to, where none is really run.
    pub scripted_command: Option<ScriptedCommand>,
}

/// What a command comes to that is not really run.
#[derive(Debug, Clone, Default)]
pub struct ScriptedCommand {
    /// What it writes, each text a while after the one before it, though it has ended by then.
    pub output: Vec<(Duration, String)>,
    /// When it ends by itself, from its start, and its exit status. Else it ends when it is killed.
    pub exit: Option<(Duration, Value)>,
}

/// How output is cut. The protocol wants it cut at its beginning, to `outputByteLimit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputTruncation {
    /// As the agent asked for.
    #[default]
    ToRequestedLimit,
    /// Down to the last bytes, however many were asked for.
    KeepLastBytes(usize),
    /// Down to the first bytes: what came last is missing.
    KeepFirstBytes(usize),
}
