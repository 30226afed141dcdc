//! The behaviour of the client, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use serde_json::{Value, json};

/// The behaviour of the client. The default client works, has no capabilities, and allows each
/// request once.
#[derive(Debug, Clone)]
pub struct ClientBehaviour {
    /// Capabilities that it sends in `initialize`. Those that [`form`](Self::form),
    /// [`files`](Self::files) and [`terminals`](Self::terminals) need are added.
    pub capabilities: Value,
    /// Reply to permission requests.
    pub permission: PermissionReply,
    /// Time of that reply.
    pub timing: ReplyTiming,
    /// Reply to forms; `None` if it supports no forms.
    pub form: Option<FormReply>,
    /// Delay after each line that it reads.
    pub read_delay: Duration,
    /// Files that it serves, if any.
    pub files: Option<FileService>,
    /// Terminals that it serves, if any.
    pub terminals: Option<TerminalService>,
    /// Maximum duration of any wait.
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
    /// Returns all capabilities that the client sends in `initialize`.
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

/// The client's reply to a permission request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum PermissionReply {
    /// Selects the first option of this kind; replies `cancelled` if there is none.
    Select(PermissionOptionKind),
    /// Selects an option by its id, which may not be offered.
    SelectId(&'static str),
    /// Replies with the outcome `cancelled`.
    Cancelled,
    /// Replies with a JSON-RPC error.
    Error,
    /// Replies with a malformed result.
    Malformed,
    /// Does not reply.
    NoReply,
}

impl Default for PermissionReply {
    fn default() -> Self {
        Self::Select(PermissionOptionKind::AllowOnce)
    }
}

/// The client's reply to a form (`elicitation/create`).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum FormReply {
    /// Accepts the form, with this text in every field.
    Fill(&'static str),
    /// Accepts the form, with no field filled in.
    LeaveEmpty,
    /// Declines the form.
    Decline,
    /// Cancels the form.
    Cancel,
    /// Replies with a JSON-RPC error.
    Error,
    /// Does not reply.
    NoReply,
}

/// The time at which the client answers a permission request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyTiming {
    /// As soon as it reads the request.
    #[default]
    Immediately,
    /// At once, and then again with the same reply.
    Twice,
    /// After a delay. To answer after any other event, use
    /// [`AgentUnderTest::answer_permission`](crate::AgentUnderTest::answer_permission).
    Delayed(Duration),
    /// After the next `session/cancel`.
    AfterCancel,
}

/// How the client serves its files or terminals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceBehaviour {
    /// Requests succeed.
    #[default]
    Works,
    /// Requests succeed, but are answered after a delay.
    Delayed(Duration),
    /// Every request is answered with a JSON-RPC error.
    Fails,
    /// No request is answered.
    NoReply,
}

/// The files of an editor: those on disk, and unsaved text.
#[derive(Debug, Clone)]
pub struct FileService {
    /// Unsaved text by file. A write saves the file.
    pub unsaved: BTreeMap<PathBuf, String>,
    /// How reads are served. If they do not work, writes behave the same.
    pub reads: ServiceBehaviour,
    /// How writes are served; `None` if they are not offered.
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
/// If every method except `terminal/create` fails, the client has forgotten its terminals.
#[derive(Debug, Clone, Default)]
pub struct TerminalService {
    /// Truncation of the output.
    pub truncation: OutputTruncation,
    /// How requests are served.
    pub service: ServiceBehaviour,
    /// Methods that are served differently, such as `terminal/kill`.
    pub method_overrides: BTreeMap<&'static str, ServiceBehaviour>,
    /// Replaces every command by a script, so that no process is started.
    pub scripted_command: Option<ScriptedCommand>,
}

/// The scripted result of a command, without a process.
#[derive(Debug, Clone, Default)]
pub struct ScriptedCommand {
    /// Texts that it writes, each after a delay from the previous one, even if it has exited by
    /// then.
    pub output: Vec<(Duration, String)>,
    /// Time from its start until it exits, and its exit status. With `None`, it runs until it is
    /// killed.
    pub exit: Option<(Duration, Value)>,
}

/// Truncation of output. The protocol requires that the beginning is cut, to `outputByteLimit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputTruncation {
    /// To the limit that the agent requested.
    #[default]
    ToRequestedLimit,
    /// To this many last bytes, regardless of the requested limit.
    KeepLastBytes(usize),
    /// To this many first bytes, so that the end is missing.
    KeepFirstBytes(usize),
}
