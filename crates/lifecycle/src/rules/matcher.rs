//! The effects that a rule matches.

use std::path::Path;

use acp_types::ToolKind;
use callboard_shell::portable_line::PortableLine;
use callboard_text::{escape_invisible, head};
use serde::de::{Error as _, IntoDeserializer as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::MatchCertainty;
use super::argv::{ArgvPrefix, ParsedCommandLine};
use super::pattern::{HostPattern, PathGlob};
use crate::effects::{Effect, Effects};

/// The effects that a rule matches.
///
/// An allowing rule matches strictly, i.e. only effects that it certainly covers. A denying or
/// asking rule matches loosely: for effects that it possibly covers, the client is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Matcher {
    /// Exactly one effect, e.g. an effect of a remembered answer.
    Effect(Effect),
    /// All effects of a tool, by the tool's name.
    Tool(String),
    /// All effects of every tool of this kind.
    #[serde(deserialize_with = "deserialize_known_kind")]
    Kind(ToolKind),
    /// Commands that begin with these words. A command line is allowed if each of its commands is
    /// allowed.
    Argv(ArgvPrefix),
    /// Accesses to files. Accesses by commands are not covered.
    Path {
        /// The kind of access.
        access: FileAccess,
        /// The files.
        glob: PathGlob,
    },
    /// Connections to a host. Connections by commands are not covered.
    Host(HostPattern),
    /// All tools of an MCP server, or one tool of the server.
    Mcp {
        /// The server's name.
        server: String,
        /// The tool's name, or `None` for all tools of the server.
        tool: Option<String>,
    },
}

/// Reads the kind of a rule. ACP reads unknown kinds as `other`, but a rule with a misspelt kind
/// would then match no call that its author meant.
fn deserialize_known_kind<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ToolKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    let kind = ToolKind::deserialize(name.as_str().into_deserializer())?;
    if serde_json::to_value(kind).is_ok_and(|known| known == *name) {
        return Ok(kind);
    }
    Err(D::Error::custom(format!("unknown kind `{}`", escape_invisible(head(&name, 64)))))
}

/// A kind of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileAccess {
    /// Reading.
    Read,
    /// Creating or changing. A rule that denies writing also denies deleting.
    Write,
    /// Deleting.
    Delete,
}

/// An effect, parsed once for all rules.
#[derive(Debug)]
pub(super) struct ParsedEffect<'a> {
    effect: &'a Effect,
    command_line: Option<ParsedCommandLine>,
}

impl<'a> ParsedEffect<'a> {
    pub(super) fn new(effect: &'a Effect) -> Self {
        let command_line = match effect {
            Effect::Run { command, .. } => Some(ParsedCommandLine::new(command)),
            _ => None,
        };
        Self { effect, command_line }
    }

    pub(super) fn is_search(&self) -> bool {
        matches!(self.effect, Effect::Search(_))
    }

    /// Returns the command line and its working directory, if the effect is a plain command line.
    pub(super) fn command_line_and_folder(&self) -> Option<(&PortableLine, &'a Path)> {
        match (self.effect, &self.command_line) {
            (Effect::Run { cwd, .. }, Some(command)) => {
                Some((command.portable_line.as_ref()?, cwd))
            }
            _ => None,
        }
    }

    /// Returns the access, its path, and whether the access covers everything in the folder at that
    /// path.
    fn file_access_and_path(&self) -> Option<(FileAccess, &'a Path, bool)> {
        match self.effect {
            Effect::Read(path) => Some((FileAccess::Read, path, false)),
            Effect::Search(path) => Some((FileAccess::Read, path, true)),
            Effect::Write(path) => Some((FileAccess::Write, path, false)),
            Effect::Delete(path) => Some((FileAccess::Delete, path, true)),
            _ => None,
        }
    }
}

impl Matcher {
    /// Returns whether the rule matches the call as a whole, regardless of its effects.
    pub(super) fn matches_whole_call(&self, effects: &Effects) -> bool {
        match self {
            Self::Tool(name) => effects.tool_name() == Some(name),
            Self::Kind(kind) => effects.tool_kind() == Some(*kind),
            _ => false,
        }
    }

    /// Returns whether an allowing rule with this matcher matches an effect. Command lines are
    /// matched by [`ArgvPrefix::allows`].
    pub(super) fn allows(&self, effects: &Effects, seen: &ParsedEffect<'_>) -> bool {
        match (self, seen.effect) {
            // The server itself declares the kind of its tools, so the kind is not trusted here.
            (Self::Kind(_), Effect::Mcp { .. }) => false,
            (Self::Tool(_) | Self::Kind(_), _) => {
                // A rule for a tool or a kind allows only effects inside the project folders.
                self.matches_whole_call(effects) && !effects.is_effect_outside_project(seen.effect)
            }
            (Self::Effect(effect), other) => effect == other && *other != Effect::Unknown,
            (Self::Path { access, glob }, _) => {
                seen.file_access_and_path().is_some_and(|(other, path, is_tree)| {
                    *access == other
                        && if is_tree { glob.allows_tree(path) } else { glob.allows(path) }
                })
            }
            (Self::Host(pattern), Effect::Connect(host)) => pattern.allows(host),
            (Self::Mcp { .. }, Effect::Mcp { .. }) => self.matches_mcp_call(seen.effect),
            _ => false,
        }
    }

    pub(super) fn deny_certainty(
        &self,
        effects: &Effects,
        seen: &ParsedEffect<'_>,
    ) -> MatchCertainty {
        let sure = |is_so| if is_so { MatchCertainty::Yes } else { MatchCertainty::No };
        match (self, seen.effect) {
            (Self::Tool(_) | Self::Kind(_), _) => sure(self.matches_whole_call(effects)),
            (Self::Effect(effect), other) if effect == other => MatchCertainty::Yes,
            // An unknown effect may be any effect.
            (_, Effect::Unknown) => MatchCertainty::Maybe,
            (Self::Effect(effect), _) => certainty_of_including_denied(effect, seen),
            (Self::Argv(prefix), _) => seen
                .command_line
                .as_ref()
                .map_or(MatchCertainty::No, |command| prefix.deny_certainty(command)),
            (Self::Path { access, glob }, _) => match seen.file_access_and_path() {
                Some((other, path, is_tree)) if access.denying_also_denies(other) => {
                    glob.deny_certainty(path, is_tree)
                }
                _ => MatchCertainty::No,
            },
            (Self::Host(pattern), Effect::Connect(host)) => pattern.deny_certainty(host),
            (Self::Mcp { .. }, Effect::Mcp { .. }) => sure(self.matches_mcp_call(seen.effect)),
            _ => MatchCertainty::No,
        }
    }

    fn matches_mcp_call(&self, effect: &Effect) -> bool {
        let (Self::Mcp { server, tool }, Effect::Mcp { server: other, tool: called, .. }) =
            (self, effect)
        else {
            return false;
        };
        server == other && tool.as_ref().is_none_or(|tool| tool == called)
    }
}

impl FileAccess {
    /// Returns whether denying this access also denies `other`. If writing is denied, deleting is
    /// denied too.
    fn denying_also_denies(self, other: Self) -> bool {
        self == other || (self, other) == (Self::Write, Self::Delete)
    }
}

/// Returns whether two effects are calls of one tool, maybe with different definitions.
fn is_same_mcp_tool(one: &Effect, other: &Effect) -> bool {
    match (one, other) {
        (
            Effect::Mcp { server, tool, .. },
            Effect::Mcp { server: other_server, tool: other_tool, .. },
        ) => server == other_server && tool == other_tool,
        _ => false,
    }
}

/// Returns the certainty with which an effect includes the denied effect. Examples are a command
/// that contains the denied command, and a deleted or searched folder that contains the denied
/// file. For a possibly denied effect, the client is asked.
fn certainty_of_including_denied(denied: &Effect, seen: &ParsedEffect<'_>) -> MatchCertainty {
    let denied_command = match denied {
        Effect::Run { command, .. } => Some(command),
        _ => None,
    };
    let denied = ParsedEffect { effect: denied, command_line: None };
    let is_near = match (
        denied_command,
        &seen.command_line,
        denied.file_access_and_path(),
        seen.file_access_and_path(),
    ) {
        (Some(denied), Some(command), ..) => command.may_contain_denied(denied),
        (_, _, Some((denied, file, _)), Some((access, path, is_tree))) => {
            denied.denying_also_denies(access)
                && (file == path || is_tree && file.starts_with(path))
        }
        _ => is_same_mcp_tool(denied.effect, seen.effect),
    };
    if is_near { MatchCertainty::Maybe } else { MatchCertainty::No }
}
