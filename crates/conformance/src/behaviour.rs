//! The behaviour of the client, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use serde_json::{Value, json};

/// The behaviour of the client. The default client injects no faults, has no capabilities, and
/// allows each request once.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientBehaviour {
    /// Capabilities that the client sends in `initialize`. The client adds the capabilities that
    /// [`form`](Self::form), [`files`](Self::files) and [`terminals`](Self::terminals) need.
    pub capabilities: Value,
    /// Reply to permission requests.
    pub permission: PermissionReply,
    /// The time at which the client replies to permission requests.
    pub timing: PermissionReplyTiming,
    /// Reply to forms. If the [capabilities](Self::capabilities) also allow requests to open a web
    /// page, the client gives the same reply to these requests. `None` if the client supports no
    /// forms.
    pub form: Option<FormReply>,
    /// Delay after each line that the client reads.
    pub read_delay: Duration,
    /// Files that the client serves, if any.
    pub files: Option<FileService>,
    /// Terminals that the client serves, if any.
    pub terminals: Option<TerminalService>,
    /// Maximum duration of any wait.
    pub deadline: Duration,
}

impl ClientBehaviour {
    /// Sets the capabilities that the client sends in `initialize`.
    #[must_use]
    pub fn with_capabilities(self, capabilities: Value) -> Self {
        Self { capabilities, ..self }
    }

    /// Sets the time at which the client replies to permission requests.
    #[must_use]
    pub fn with_permission_reply_timing(self, timing: PermissionReplyTiming) -> Self {
        Self { timing, ..self }
    }

    /// Sets the reply to forms, if the client supports forms.
    #[must_use]
    pub fn with_form(self, form: impl Into<Option<FormReply>>) -> Self {
        Self { form: form.into(), ..self }
    }

    /// Sets the files that the client serves, if any.
    #[must_use]
    pub fn with_files(self, files: impl Into<Option<FileService>>) -> Self {
        Self { files: files.into(), ..self }
    }

    /// Sets the terminals that the client serves, if any.
    #[must_use]
    pub fn with_terminals(self, terminals: impl Into<Option<TerminalService>>) -> Self {
        Self { terminals: terminals.into(), ..self }
    }

    /// Returns all capabilities that the client sends in `initialize`.
    pub(crate) fn advertised_capabilities(&self) -> Value {
        let mut advertised = self.capabilities.clone();
        if self.files.is_some() {
            let writes = self.files.as_ref().is_some_and(|files| files.writes.is_some());
            advertised["fs"] = json!({"readTextFile": true, "writeTextFile": writes});
        }
        if self.form.is_some() {
            advertised["elicitation"]["form"] = json!({});
        }
        if self.terminals.is_some() {
            advertised["terminal"] = json!(true);
        }
        advertised
    }
}

impl Default for ClientBehaviour {
    fn default() -> Self {
        Self {
            capabilities: json!({}),
            permission: PermissionReply::default(),
            timing: PermissionReplyTiming::default(),
            form: None,
            read_delay: Duration::ZERO,
            files: None,
            terminals: None,
            deadline: Duration::from_secs(10),
        }
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
    /// Selects the first option of this kind; replies `cancelled` if no option has this kind.
    Select(PermissionOptionKind),
    /// Selects an option by its id, even if the option is not offered.
    SelectId(&'static str),
    /// Selects the first of these ids that is offered; replies `cancelled` if none is offered.
    SelectFirstOffered(&'static [&'static str]),
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
pub enum PermissionReplyTiming {
    /// The client answers as soon as it reads the request.
    #[default]
    Immediately,
    /// The client answers at once, and then sends a second, identical reply.
    Twice,
    /// The client answers after a delay. To answer after any other event, use
    /// [`AgentUnderTest::answer_permission`](crate::AgentUnderTest::answer_permission).
    Delayed(Duration),
    /// The client answers after the next `session/cancel`.
    AfterCancel,
}

/// The way in which the client serves its files or terminals.
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

/// The files of an editor: the files on the disk, and unsaved text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileService {
    /// The unsaved text of each file. When the agent writes a file, the file is saved.
    pub unsaved: BTreeMap<PathBuf, String>,
    /// The behaviour for reads. If reads fail or get no reply, writes behave in the same way.
    pub reads: ServiceBehaviour,
    /// The behaviour for writes; `None` if the client does not offer writes.
    pub writes: Option<ServiceBehaviour>,
}

impl FileService {
    /// Sets the behaviour for reads.
    #[must_use]
    pub fn with_read_behaviour(self, reads: ServiceBehaviour) -> Self {
        Self { reads, ..self }
    }

    /// Sets the behaviour for writes, if the client offers writes.
    #[must_use]
    pub fn with_write_behaviour(self, writes: impl Into<Option<ServiceBehaviour>>) -> Self {
        Self { writes: writes.into(), ..self }
    }
}

impl Default for FileService {
    fn default() -> Self {
        let service = ServiceBehaviour::default();
        Self { unsaved: BTreeMap::new(), reads: service, writes: Some(service) }
    }
}

/// The terminals of a client that runs the commands itself.
///
/// To test a client that has forgotten its terminals, let every method except `terminal/create`
/// fail.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TerminalService {
    /// Truncation of the output.
    pub truncation: OutputTruncation,
    /// The behaviour for requests.
    pub service: ServiceBehaviour,
    /// Methods that are served in a different way, e.g. `terminal/kill`.
    pub method_overrides: BTreeMap<&'static str, ServiceBehaviour>,
    /// Replaces every command with a script, so that no process is started.
    pub scripted_command: Option<ScriptedCommand>,
}

impl TerminalService {
    /// Sets the truncation of the output.
    #[must_use]
    pub fn with_truncation(self, truncation: OutputTruncation) -> Self {
        Self { truncation, ..self }
    }

    /// Sets the behaviour for requests.
    #[must_use]
    pub fn with_behaviour(self, service: ServiceBehaviour) -> Self {
        Self { service, ..self }
    }

    /// Sets the script that replaces every command, if there is one.
    #[must_use]
    pub fn with_script_for_every_command(
        self,
        scripted_command: impl Into<Option<ScriptedCommand>>,
    ) -> Self {
        Self { scripted_command: scripted_command.into(), ..self }
    }
}

/// The scripted result of a command, without a process.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScriptedCommand {
    /// Texts that the command writes, each with its delay after the previous text. A text is
    /// written even if the command has already exited.
    pub output: Vec<(Duration, String)>,
    /// Time from the start to the exit of the command, and its exit status. If the value is `None`,
    /// the command runs until it is killed.
    pub exit: Option<(Duration, Value)>,
}

/// Truncation of output. The protocol requires that the client truncates the beginning, so that at
/// most `outputByteLimit` bytes remain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputTruncation {
    /// Keeps as many bytes at the end of the output as the agent requested.
    #[default]
    ToRequestedLimit,
    /// Keeps this number of bytes at the end of the output, regardless of the requested limit.
    KeepLastBytes(usize),
    /// Keeps this number of bytes at the beginning of the output, so that the end is missing.
    KeepFirstBytes(usize),
}
