//! Composable patches of the documents: `a.then(b)` has the effect of `a` followed by `b`.
//!
//! Patches are not validated. The caller is responsible for legal status changes.

use std::path::PathBuf;

use serde_json::Value;

use crate::{
    CallCapabilities, CallMeta, Content, Location, Status, TerminalExit, TerminalId,
    TerminalOutput, TerminalReport, TerminalSize, ToolCallReport, ToolKind,
};

/// A patch of a [`ToolCallReport`]. Each field of the patch keeps or replaces a value of the
/// document; content can also be appended.
///
/// A patch can clear only the fields that v1 can clear: an array can be replaced by an empty array.
/// Any other field can only be replaced by a new value.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolCallPatch {
    /// New name.
    pub name: Option<String>,
    /// New title.
    pub title: Option<String>,
    /// New kind.
    pub kind: Option<ToolKind>,
    /// New status.
    pub status: Option<Status>,
    /// Change of the content.
    pub content: ContentPatch,
    /// New list of all locations.
    pub locations: Option<Vec<Location>>,
    /// New arguments.
    pub raw_input: Option<Value>,
    /// New result.
    pub raw_output: Option<Value>,
    /// New metadata, which replaces all earlier metadata.
    pub meta: Option<Box<CallMeta>>,
    /// New capabilities.
    pub capabilities: Option<CallCapabilities>,
}

/// A change of a call's content.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum ContentPatch {
    /// Keeps all items.
    #[default]
    Keep,
    /// Appends items. Appended items are never merged with existing items.
    Append(Vec<Content>),
    /// Replaces all items.
    Set(Vec<Content>),
}

impl ToolCallPatch {
    /// Creates a patch without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the first patch of a call.
    #[must_use]
    pub fn for_new_call(name: impl Into<String>, title: impl Into<String>, kind: ToolKind) -> Self {
        Self {
            name: Some(name.into()),
            title: Some(title.into()),
            kind: Some(kind),
            status: Some(Status::Pending),
            ..Self::default()
        }
    }

    /// Sets the title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Replaces all content.
    #[must_use]
    pub fn with_content(mut self, content: Vec<Content>) -> Self {
        self.content = ContentPatch::Set(content);
        self
    }

    /// Appends one item of content.
    #[must_use]
    pub fn with_appended_content(mut self, content: Content) -> Self {
        self.content = self.content.then(ContentPatch::Append(vec![content]));
        self
    }

    /// Replaces all locations.
    #[must_use]
    pub fn with_locations(mut self, locations: Vec<Location>) -> Self {
        self.locations = Some(locations);
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_raw_input(mut self, raw_input: Value) -> Self {
        self.raw_input = Some(raw_input);
        self
    }

    /// Sets the result.
    #[must_use]
    pub fn with_raw_output(mut self, raw_output: Value) -> Self {
        self.raw_output = Some(raw_output);
        self
    }

    /// Replaces all metadata.
    #[must_use]
    pub fn with_meta(mut self, meta: CallMeta) -> Self {
        self.meta = Some(Box::new(meta));
        self
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: CallCapabilities) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Returns whether the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a patch with the effect of this patch followed by `later`.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            name: later.name.or(self.name),
            title: later.title.or(self.title),
            kind: later.kind.or(self.kind),
            status: later.status.or(self.status),
            content: self.content.then(later.content),
            locations: later.locations.or(self.locations),
            raw_input: later.raw_input.or(self.raw_input),
            raw_output: later.raw_output.or(self.raw_output),
            meta: later.meta.or(self.meta),
            capabilities: later.capabilities.or(self.capabilities),
        }
    }

    /// Applies the patch to a document.
    pub fn apply(self, report: &mut ToolCallReport) {
        set_if_some(&mut report.name, self.name);
        set_if_some(&mut report.title, self.title);
        set_if_some(&mut report.kind, self.kind);
        set_if_some(&mut report.status, self.status);
        self.content.apply(&mut report.content);
        set_if_some(&mut report.locations, self.locations);
        report.raw_input = self.raw_input.or(report.raw_input.take());
        report.raw_output = self.raw_output.or(report.raw_output.take());
        set_if_some(&mut report.meta, self.meta.map(|meta| *meta));
        set_if_some(&mut report.capabilities, self.capabilities);
    }
}

impl From<&Self> for ToolCallPatch {
    fn from(patch: &Self) -> Self {
        patch.clone()
    }
}

impl ContentPatch {
    fn then(self, later: Self) -> Self {
        match (self, later) {
            (earlier, Self::Keep) => earlier,
            (Self::Keep, later) | (_, later @ Self::Set(_)) => later,
            (Self::Append(mut items), Self::Append(more)) => {
                items.extend(more);
                Self::Append(items)
            }
            (Self::Set(mut items), Self::Append(more)) => {
                items.extend(more);
                Self::Set(items)
            }
        }
    }

    pub(crate) fn apply(self, content: &mut Vec<Content>) {
        match self {
            Self::Keep => {}
            Self::Append(items) => content.extend(items),
            Self::Set(items) => *content = items,
        }
    }
}

/// A patch of a [`TerminalReport`]. Each field of the patch keeps or replaces a value of the
/// document; output can only be appended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TerminalPatch {
    /// New command line.
    pub command: Option<String>,
    /// New working directory of the command, an absolute path.
    pub cwd: Option<PathBuf>,
    /// New size.
    pub size: Option<TerminalSize>,
    /// Output to append.
    pub output: TerminalOutput,
    /// Exit of the command.
    pub exit: Option<TerminalExit>,
    /// Id that the client assigned to the terminal. Set when the client runs the command.
    pub client_id: Option<TerminalId>,
}

impl TerminalPatch {
    /// Creates a patch that opens a terminal.
    #[must_use]
    pub fn for_new_terminal(command: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self { command: Some(command.into()), cwd: Some(cwd.into()), ..Self::default() }
    }

    /// Creates a patch that appends output.
    #[must_use]
    pub fn from_output(bytes: &[u8]) -> Self {
        Self { output: TerminalOutput::from_bytes(bytes), ..Self::default() }
    }

    /// Creates a patch that ends a terminal.
    #[must_use]
    pub fn from_exit(exit: TerminalExit) -> Self {
        Self { exit: Some(exit), ..Self::default() }
    }

    /// Creates a patch for a terminal that the client runs and to which it assigned this id.
    #[must_use]
    pub fn for_client_terminal(id: TerminalId) -> Self {
        Self { client_id: Some(id), ..Self::default() }
    }

    /// Sets the size.
    #[must_use]
    pub fn with_size(self, size: TerminalSize) -> Self {
        Self { size: Some(size), ..self }
    }

    /// Returns whether the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a patch with the effect of this patch followed by `later`.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        self.output.append_output(&later.output);
        Self {
            command: later.command.or(self.command),
            cwd: later.cwd.or(self.cwd),
            size: later.size.or(self.size),
            output: self.output,
            exit: later.exit.or(self.exit),
            client_id: later.client_id.or(self.client_id),
        }
    }

    /// Applies the patch to a document.
    pub fn apply(self, report: &mut TerminalReport) {
        report.command = self.command.or(report.command.take());
        report.cwd = self.cwd.or(report.cwd.take());
        report.size = self.size.or(report.size);
        report.output.append_output(&self.output);
        report.exit = self.exit.or(report.exit.take());
        report.client_id = self.client_id.or(report.client_id.take());
    }
}

fn set_if_some<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentPatch, TerminalPatch, ToolCallPatch};
    use crate::{
        CallCapabilities, CallMeta, Content, Location, Status, TerminalExit, TerminalOutput,
        TerminalReport, ToolCallReport, ToolKind,
    };
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn each_builder_method_of_a_patch_sets_its_field() {
        let meta = CallMeta { duration_ms: Some(1), ..CallMeta::default() };
        let location = Location::try_new("/p/a").unwrap();
        let announced = ToolCallPatch {
            name: Some("read".to_owned()),
            title: Some("Read a".to_owned()),
            kind: Some(ToolKind::Read),
            status: Some(Status::Pending),
            ..ToolCallPatch::default()
        };
        assert_eq!(ToolCallPatch::for_new_call("read", "Read a", ToolKind::Read), announced);
        let whole = ToolCallPatch {
            title: Some("Read b".to_owned()),
            status: Some(Status::Failed),
            content: ContentPatch::Set(vec![Content::from_text("x"), Content::from_text("y")]),
            locations: Some(vec![location.clone()]),
            raw_input: Some(json!(1)),
            raw_output: Some(json!(2)),
            meta: Some(Box::new(meta.clone())),
            capabilities: Some(CallCapabilities { cancel: true }),
            ..announced.clone()
        };
        let built = announced
            .with_title("Read b")
            .with_status(Status::Failed)
            .with_content(vec![Content::from_text("x")])
            .with_appended_content(Content::from_text("y"))
            .with_locations(vec![location])
            .with_raw_input(json!(1))
            .with_raw_output(json!(2))
            .with_meta(meta.clone())
            .with_capabilities(CallCapabilities { cancel: true });
        assert_eq!(built, whole);
        assert!(ToolCallPatch::new().is_empty() && !built.is_empty());
        let mut report = ToolCallReport::new("c".into());
        built.apply(&mut report);
        assert_eq!((report.title.as_str(), report.content.len(), report.meta), ("Read b", 2, meta));
    }

    #[test]
    fn each_constructor_of_a_terminal_patch_sets_its_fields() {
        let exit = TerminalExit { code: Some(1), signal: None };
        let opened = TerminalPatch {
            command: Some("ls".to_owned()),
            cwd: Some("/p".into()),
            ..TerminalPatch::default()
        };
        assert_eq!(TerminalPatch::for_new_terminal("ls", "/p"), opened);
        let written =
            TerminalPatch { output: TerminalOutput::from_bytes(b"a"), ..TerminalPatch::default() };
        assert_eq!(TerminalPatch::from_output(b"a"), written);
        let ended = TerminalPatch { exit: Some(exit.clone()), ..TerminalPatch::default() };
        assert_eq!(TerminalPatch::from_exit(exit.clone()), ended);
        let theirs = TerminalPatch { client_id: Some("t".into()), ..TerminalPatch::default() };
        assert_eq!(TerminalPatch::for_client_terminal("t".into()), theirs);
        assert!(TerminalPatch::default().is_empty() && !ended.is_empty());
        let mut report = TerminalReport::new("c".into());
        opened.then(theirs).then(written).then(ended).apply(&mut report);
        assert_eq!(report.command.as_deref(), Some("ls"));
        assert_eq!(report.client_id, Some("t".into()));
        assert_eq!(
            (report.output.to_bytes_with_omission_line(), report.exit),
            (b"a".to_vec(), Some(exit))
        );
    }
}
