//! What a rule speaks of. It looks at effects and nothing else.

use std::path::Path;

use acp_types::ToolKind;
use callboard_shell::portable_line::PortableLine;
use serde::{Deserialize, Serialize};

use super::MatchCertainty;
use super::argv::{ArgvPrefix, ParsedCommandLine};
use super::pattern::{HostPattern, PathGlob};
use crate::effects::{Effect, Effects};

/// What a rule speaks of.
///
/// For a rule that allows, it matches strictly: only what it surely speaks of. For one that denies
/// or asks, generously: what it may speak of is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Matcher {
    /// One effect, exactly: what an answer remembers.
    Effect(Effect),
    /// Everything that a tool does, by the tool's name.
    Tool(String),
    /// Everything that tools of a kind do.
    Kind(ToolKind),
    /// Commands that begin with these words. A line is allowed where each of its commands is.
    Argv(ArgvPrefix),
    /// What is done to files. It says nothing of what commands do to them.
    Path {
        /// What is done.
        access: FileAccess,
        /// To which files.
        glob: PathGlob,
    },
    /// Connections to a host. It says nothing of those that commands make.
    Host(HostPattern),
    /// The tools of an MCP server, or one of them.
    Mcp {
        /// The server's name.
        server: String,
        /// The tool's name; without one, all of them.
        tool: Option<String>,
    },
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileAccess {
    /// It is read.
    Read,
    /// It is made or changed. A rule that denies this denies deleting too.
    Write,
    /// It is removed.
    Delete,
}

/// An effect, read once for all rules.
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

    /// The line that would run, if it is plain, and where.
    pub(super) fn portable_line(&self) -> Option<(&PortableLine, &'a Path)> {
        match (self.effect, &self.command_line) {
            (Effect::Run { cwd, .. }, Some(command)) => {
                Some((command.portable_line.as_ref()?, cwd))
            }
            _ => None,
        }
    }

    /// What is done to which file or, with `true`, to all beneath it.
    fn file_access(&self) -> Option<(FileAccess, &'a Path, bool)> {
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
    /// Whether it speaks of a call as a whole, whatever the call does.
    pub(super) fn matches_call(&self, effects: &Effects) -> bool {
        match self {
            Self::Tool(name) => effects.tool() == Some(name),
            Self::Kind(kind) => effects.kind() == Some(*kind),
            _ => false,
        }
    }

    /// Whether it speaks of an effect as a whole. Of commands in a line,
    /// [`ArgvPrefix::allows`] tells.
    pub(super) fn allows(&self, effects: &Effects, seen: &ParsedEffect<'_>) -> bool {
        match (self, seen.effect) {
            (Self::Tool(_) | Self::Kind(_), _) => {
                // Whoever trusts a tool with the roots has not named what lies elsewhere.
                self.matches_call(effects) && !effects.is_outside(seen.effect)
            }
            (Self::Effect(effect), other) => effect == other && *other != Effect::Unknown,
            (Self::Path { access, glob }, _) => {
                seen.file_access().is_some_and(|(other, path, is_tree)| {
                    *access == other
                        && if is_tree { glob.allows_tree(path) } else { glob.allows(path) }
                })
            }
            (Self::Host(pattern), Effect::Connect(host)) => pattern.allows(host),
            (Self::Mcp { .. }, Effect::Mcp { .. }) => self.matches_mcp_server(seen.effect),
            _ => false,
        }
    }

    pub(super) fn denies(&self, effects: &Effects, seen: &ParsedEffect<'_>) -> MatchCertainty {
        let sure = |is_so| if is_so { MatchCertainty::Yes } else { MatchCertainty::No };
        match (self, seen.effect) {
            (Self::Tool(_) | Self::Kind(_), _) => sure(self.matches_call(effects)),
            (Self::Effect(effect), other) if effect == other => MatchCertainty::Yes,
            // It may do anything.
            (_, Effect::Unknown) => MatchCertainty::Maybe,
            (Self::Effect(effect), _) => match_related_effect(effect, seen),
            (Self::Argv(prefix), _) => seen
                .command_line
                .as_ref()
                .map_or(MatchCertainty::No, |command| prefix.denies(command)),
            (Self::Path { access, glob }, _) => match seen.file_access() {
                Some((other, path, is_tree)) if access.covers(other) => glob.denies(path, is_tree),
                _ => MatchCertainty::No,
            },
            (Self::Host(pattern), Effect::Connect(host)) => pattern.denies(host),
            (Self::Mcp { .. }, Effect::Mcp { .. }) => sure(self.matches_mcp_server(seen.effect)),
            _ => MatchCertainty::No,
        }
    }

    fn matches_mcp_server(&self, effect: &Effect) -> bool {
        let (Self::Mcp { server, tool }, Effect::Mcp { server: other, tool: called }) =
            (self, effect)
        else {
            return false;
        };
        server == other && tool.as_ref().is_none_or(|tool| tool == called)
    }
}

impl FileAccess {
    /// Whether denying this denies `other` too: who may not change a file may not remove it.
    fn covers(self, other: Self) -> bool {
        self == other || (self, other) == (Self::Write, Self::Delete)
    }
}

/// What is not the denied effect itself, but may come to the same: the command within another
/// one, the file within a folder that goes or is searched. It is asked about.
fn match_related_effect(denied: &Effect, seen: &ParsedEffect<'_>) -> MatchCertainty {
    let denied_command = match denied {
        Effect::Run { command, .. } => Some(command),
        _ => None,
    };
    let denied = ParsedEffect { effect: denied, command_line: None };
    let is_near =
        match (denied_command, &seen.command_line, denied.file_access(), seen.file_access()) {
            (Some(denied), Some(command), ..) => command.may_contain(denied),
            (_, _, Some((denied, file, _)), Some((access, path, is_tree))) => {
                denied.covers(access) && (file == path || is_tree && file.starts_with(path))
            }
            _ => false,
        };
    if is_near { MatchCertainty::Maybe } else { MatchCertainty::No }
}
