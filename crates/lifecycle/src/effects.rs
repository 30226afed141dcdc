//! The effects of a call on files, programs and hosts. Rules and policies judge these effects.

#[cfg(feature = "tokio")]
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use acp_types::ToolKind;
use serde::{Deserialize, Serialize};

/// One resolved effect of a call. A resolved effect contains no relative path, no alias and no
/// variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// Reads a file, or the names of the entries in a folder.
    Read(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// Reads any file in a folder or its subfolders.
    Search(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// Creates or changes a file.
    Write(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// Removes a file, or a folder with its whole content.
    Delete(#[serde(with = "acp_types::path::as_text")] PathBuf),
    /// Runs a command line in a folder.
    Run {
        /// The command line, exactly as the shell receives it.
        command: String,
        /// The working directory.
        #[serde(with = "acp_types::path::as_text")]
        cwd: PathBuf,
    },
    /// Connects to a host.
    Connect(String),
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server's name.
        server: String,
        /// The tool's name on that server.
        tool: String,
        /// A digest of the tool's definition, so that a remembered answer covers only the
        /// definition that the user saw. Empty if the definition has no digest. A rule with
        /// [`Matcher::Mcp`](crate::Matcher::Mcp) matches the tool regardless of the digest.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        definition: String,
    },
    /// An unknown effect.
    Unknown,
}

impl Effect {
    /// Returns whether the effect only reads files or folders.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Search(_))
    }

    /// Returns the file or folder that the effect acts on, if the effect names a path. The folder
    /// in which a command runs is not included, because it does not limit the effects of the
    /// command.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Read(path) | Self::Search(path) | Self::Write(path) | Self::Delete(path) => {
                Some(path)
            }
            Self::Run { .. } | Self::Connect(_) | Self::Mcp { .. } | Self::Unknown => None,
        }
    }
}

/// All effects of a call, with the name and the kind of its tool. A call can have no effects, e.g.
/// if its tool only records the model's thoughts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    effects: Vec<Effect>,
    tool: Option<(String, ToolKind)>,
    is_always_asked: bool,
    is_sensitive: bool,
    has_sandbox: bool,
    leaves_out_denied: bool,
    preview: Option<CommandPreview>,
    /// The paths in the effects that are outside of every project folder.
    outside_paths: Vec<PathBuf>,
}

/// Whether the commands of a call can or must run on a copy of the project folders first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandPreview {
    Offered,
    Required,
}

impl Effects {
    /// Creates an empty set of effects, for a call without effects.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Sets the tool's name and kind. Callers of [`Session::decide_or_ask_permission`] need not set
    /// them, because that method reads the name and the kind from the call itself.
    ///
    /// [`Session::decide_or_ask_permission`]: crate::Session::decide_or_ask_permission
    #[must_use]
    pub fn with_tool(self, tool: impl Into<String>, kind: ToolKind) -> Self {
        Self { tool: Some((tool.into(), kind)), ..self }
    }

    /// Requires a permission request each time, even if a rule or the policy would allow the call.
    /// Answers are not remembered.
    #[must_use]
    pub fn always_ask(self) -> Self {
        Self { is_always_asked: true, ..self }
    }

    /// Returns whether permission is requested each time.
    #[must_use]
    pub fn is_always_asked(&self) -> bool {
        self.is_always_asked
    }

    /// States that the searches of the call leave out each file that
    /// [`CallHandle::judge_effects`](crate::CallHandle::judge_effects) denies reading. A rule that
    /// denies reading some files of a folder then causes no permission request for a search of the
    /// folder.
    #[must_use]
    pub fn with_denied_files_left_out(self) -> Self {
        Self { leaves_out_denied: true, ..self }
    }

    pub(crate) fn leaves_out_denied_files(&self) -> bool {
        self.leaves_out_denied
    }

    /// Marks the effects as sensitive, i.e. as more than a change of plain text. Examples are a
    /// change of a file that is executed, and a change of file content that the session has not
    /// read. [`Policy::judge_marked_sensitive`] judges such effects.
    ///
    /// [`Policy::judge_marked_sensitive`]: crate::Policy::judge_marked_sensitive
    #[must_use]
    pub fn with_high_risk_mark(self) -> Self {
        Self { is_sensitive: true, ..self }
    }

    /// Returns whether the effects are marked as sensitive, i.e. whether the call may do more than
    /// change plain text.
    #[must_use]
    pub fn is_high_risk(&self) -> bool {
        self.is_sensitive
    }

    /// Marks the commands of the call as sandboxed. A sandboxed command cannot change anything
    /// outside of the project folders. It can use the network only with a separate permission.
    /// [`Policy::judge_sandboxed`] judges such commands.
    ///
    /// [`Policy::judge_sandboxed`]: crate::Policy::judge_sandboxed
    #[must_use]
    pub fn with_sandbox_mark(self) -> Self {
        Self { has_sandbox: true, ..self }
    }

    /// Returns whether the commands of the call are marked as sandboxed.
    #[must_use]
    pub fn has_sandbox(&self) -> bool {
        self.has_sandbox
    }

    /// Offers to run the commands of the call on a copy of the project folders first. A permission
    /// request then has one more option, *preview*. If the client selects it, the call receives a
    /// [grant for a preview](crate::Grant::is_for_preview).
    #[must_use]
    pub fn with_preview_offer(self) -> Self {
        Self { preview: Some(CommandPreview::Offered), ..self }
    }

    /// Requires that the commands of the call run on a copy of the project folders first. Every
    /// grant of the call is then a [grant for a preview](crate::Grant::is_for_preview).
    #[must_use]
    pub fn with_required_preview(self) -> Self {
        Self { preview: Some(CommandPreview::Required), ..self }
    }

    /// Removes the offer or the requirement of a preview.
    #[must_use]
    pub fn without_preview(self) -> Self {
        Self { preview: None, ..self }
    }

    /// Returns whether a permission request offers a preview.
    #[must_use]
    pub fn has_preview_offer(&self) -> bool {
        self.preview == Some(CommandPreview::Offered)
    }

    /// Returns whether the commands of the call must run on a copy of the project folders first.
    #[must_use]
    pub fn requires_preview(&self) -> bool {
        self.preview == Some(CommandPreview::Required)
    }

    /// Marks the paths that are outside of the session's project folders.
    /// [`Policy::judge_outside_project`] judges effects on these paths. A rule allows such an
    /// effect only if the rule names the path.
    ///
    /// [`Policy::judge_outside_project`]: crate::Policy::judge_outside_project
    #[must_use]
    pub fn with_outside_path_marks(mut self, is_outside: impl Fn(&Path) -> bool) -> Self {
        let paths = self.effects.iter().filter_map(Effect::path);
        self.outside_paths = paths.filter(|path| is_outside(path)).map(Path::to_owned).collect();
        self
    }

    /// Returns whether an effect acts on a path outside of the session's project folders.
    #[must_use]
    pub fn is_effect_outside_project(&self, effect: &Effect) -> bool {
        effect.path().is_some_and(|path| self.outside_paths.iter().any(|outside| outside == path))
    }

    /// Returns the paths in the effects that are outside of the session's project folders.
    pub fn outside_paths(&self) -> impl Iterator<Item = &Path> {
        self.outside_paths.iter().map(PathBuf::as_path)
    }

    /// Returns each effect.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter()
    }

    /// Returns whether both sets of effects are equal byte for byte. Two paths that compare equal
    /// may be written differently, e.g. `link` and `link/`. Such paths may resolve to different
    /// files.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_bytewise_equal(&self, other: &Self) -> bool {
        self == other && self.path_os_strs().eq(other.path_os_strs())
    }

    #[cfg(feature = "tokio")]
    fn path_os_strs(&self) -> impl Iterator<Item = &OsStr> {
        let paths = self.effects.iter().filter_map(|effect| match effect {
            Effect::Run { cwd, .. } => Some(cwd.as_path()),
            effect => effect.path(),
        });
        paths.chain(self.outside_paths()).map(Path::as_os_str)
    }

    /// Returns the same effects in sorted order.
    #[cfg(feature = "tokio")]
    pub(crate) fn sorted(&self) -> Self {
        let mut sorted = self.clone();
        sorted.effects.sort_unstable();
        sorted.outside_paths.sort_unstable();
        sorted
    }

    /// Returns the effects of a preview that reads all files that these effects name. The returned
    /// effects have the same marks (e.g. the mark as sensitive), so the policy judges the preview
    /// as strictly as the call. Effects that name no file, e.g. unknown effects, are left out.
    #[cfg(feature = "tokio")]
    pub(crate) fn to_preview_reads(&self) -> Self {
        let look = |effect: &Effect| match effect {
            Effect::Read(_) | Effect::Search(_) => Some(effect.clone()),
            Effect::Write(path) => Some(Effect::Read(path.clone())),
            // Deleting a folder deletes its whole content, so the preview may read any file in the
            // folder.
            Effect::Delete(path) => Some(Effect::Search(path.clone())),
            Effect::Run { .. } | Effect::Connect(_) | Effect::Mcp { .. } | Effect::Unknown => None,
        };
        let effects: Vec<_> = self.effects.iter().filter_map(look).collect();
        // A preview that reads nothing needs no permission.
        if effects.is_empty() { Self::empty() } else { Self { effects, ..self.clone() } }
    }

    /// Returns the tool's name, if the name is known.
    #[must_use]
    pub fn tool_name(&self) -> Option<&str> {
        self.tool.as_ref().map(|(name, _)| name.as_str())
    }

    /// Returns the tool's kind, if the kind is known.
    #[must_use]
    pub fn tool_kind(&self) -> Option<ToolKind> {
        self.tool.as_ref().map(|(_, kind)| *kind)
    }
}

impl FromIterator<Effect> for Effects {
    fn from_iter<I: IntoIterator<Item = Effect>>(effects: I) -> Self {
        Self { effects: effects.into_iter().collect(), ..Self::default() }
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self { effects: vec![effect], ..Self::default() }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use pretty_assertions::assert_eq;

    use super::Effect;

    #[test]
    fn effects_on_paths_of_any_bytes_can_be_stored() {
        let path = || PathBuf::from(OsStr::from_bytes(b"/p/a\xff\n"));
        for effect in [
            Effect::Read(path()),
            Effect::Search(path()),
            Effect::Write(path()),
            Effect::Delete(path()),
            Effect::Run { command: "true".to_owned(), cwd: path() },
        ] {
            let text = serde_json::to_string(&effect).unwrap();
            assert_eq!(serde_json::from_str::<Effect>(&text).unwrap(), effect, "{text}");
        }
    }
}
