//! How the client behaves, as data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use acp_types::schema::v1::PermissionOptionKind;
use serde_json::{Value, json};

/// How the client behaves. The default is a good one, without any capability, that allows once.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// What it says of itself in `initialize`; what [`form`](Self::form),
    /// [`files`](Self::files) and [`terminals`](Self::terminals) need is added to it.
    pub capabilities: Value,
    /// What it answers when it is asked for permission.
    pub permission: Permission,
    /// When it answers that.
    pub timing: Timing,
    /// What it answers when it is shown a form, if it shows any.
    pub form: Option<Form>,
    /// How long it waits after each line that it reads.
    pub pause: Duration,
    /// The files that it offers, if it does.
    pub files: Option<Files>,
    /// The terminals that it offers, if it does.
    pub terminals: Option<Terminals>,
    /// The longest that any wait may take.
    pub deadline: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            capabilities: json!({}),
            permission: Permission::default(),
            timing: Timing::default(),
            form: None,
            pause: Duration::ZERO,
            files: None,
            terminals: None,
            deadline: Duration::from_secs(10),
        }
    }
}

impl Behaviour {
    /// All that the client says of itself in `initialize`.
    pub(crate) fn advertised(&self) -> Value {
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

impl From<Permission> for Behaviour {
    fn from(permission: Permission) -> Self {
        Self { permission, ..Self::default() }
    }
}

/// What the client answers when it is asked for permission.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Permission {
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
    Never,
}

impl Default for Permission {
    fn default() -> Self {
        Self::Select(PermissionOptionKind::AllowOnce)
    }
}

/// What the client answers when it is shown a form (`elicitation/create`).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Form {
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
    Never,
}

/// When the client answers a permission request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timing {
    /// As soon as it reads it.
    #[default]
    AtOnce,
    /// At once, and the same again.
    Twice,
    /// After a while. [`Agent::permit`](crate::Agent::permit) answers after any event instead.
    Late(Duration),
    /// Behind the next `session/cancel`.
    AfterCancel,
}

/// How the client serves what it offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// It does.
    #[default]
    Works,
    /// It does, and says so a while after.
    Late(Duration),
    /// Every request gets a JSON-RPC error.
    Fails,
    /// No request gets an answer.
    Never,
}

/// The files of an editor: those on the disk, and what is not saved.
#[derive(Debug, Clone)]
pub struct Files {
    /// The text of files that differ from the disk. A write saves the file.
    pub unsaved: BTreeMap<PathBuf, String>,
    /// Whether reading works, and all else if that does.
    pub service: Service,
    /// Whether writing works; none if it is not offered.
    pub writes: Option<Service>,
}

impl Default for Files {
    fn default() -> Self {
        let service = Service::default();
        Self { unsaved: BTreeMap::new(), service, writes: Some(service) }
    }
}

/// The terminals of a client, which runs the commands itself.
///
/// One that fails in all but `terminal/create` has forgotten its terminals.
#[derive(Debug, Clone, Default)]
pub struct Terminals {
    /// What is left out of their output.
    pub cut: Cut,
    /// Whether it works.
    pub service: Service,
    /// Methods that it serves otherwise, such as `terminal/kill`.
    pub but: BTreeMap<&'static str, Service>,
    /// What every command comes to, where none is really run.
    pub scripted: Option<Scripted>,
}

/// What a command comes to that is not really run.
#[derive(Debug, Clone, Default)]
pub struct Scripted {
    /// What it writes, each text a while after the one before it, though it has ended by then.
    pub output: Vec<(Duration, String)>,
    /// When it ends by itself, from its start, and its exit status. Else it ends when it is killed.
    pub exit: Option<(Duration, Value)>,
}

/// How output is cut. The protocol wants it cut at its beginning, to `outputByteLimit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// As the agent asked for.
    #[default]
    AsAsked,
    /// Down to the last bytes, however many were asked for.
    Beginning(usize),
    /// Down to the first bytes: what came last is missing.
    End(usize),
}
