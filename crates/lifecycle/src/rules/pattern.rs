//! Patterns of paths and of hosts, parsed once and compared as resolved values.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use callboard_text::{head, visible};
use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::MatchCertainty;
use crate::limits::MAX_RULE_PATTERN_BYTES;

/// A glob over resolved absolute paths, such as `/project/src/**`.
///
/// `*` and `?` match within one name, `**` any number of them; `[ab]` and `{a,b}` choose. It is
/// compared with resolved paths, so it must not lead through a link. A folder that is searched or
/// removed is allowed by a glob that ends in `/**` and matches it. A rule that denies ignores the
/// case of letters, because some disks do, and asks about folders that may hold what it denies.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathGlob {
    exact: GlobMatcher,
    case_insensitive: GlobMatcher,
    /// The folders that no pattern stands in: nothing that matches lies elsewhere.
    literal_base: PathBuf,
}

impl PathGlob {
    /// Parses a glob.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if it is not absolute, holds `.` or `..`, is over 1 KiB, or is no glob.
    pub fn parse(glob: &str) -> Result<Self, PatternError> {
        let refuse = |why: &str| PatternError(format!("{}: {why}", visible(glob)));
        let path = Path::new(glob);
        let is_dotted = glob.split('/').any(|name| name == "." || name == "..");
        if glob.len() > MAX_RULE_PATTERN_BYTES || !path.is_absolute() || is_dotted {
            return Err(refuse("not an absolute path of at most 1 KiB without `.` and `..`"));
        }
        let compile = |is_loose| {
            let mut builder = GlobBuilder::new(glob);
            builder.literal_separator(true).case_insensitive(is_loose);
            builder.build().map_err(|error| refuse(&error.kind().to_string()))
        };
        let is_plain = |part: &Component<'_>| {
            !part.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[]{}\\".contains(byte))
        };
        Ok(Self {
            exact: compile(false)?.compile_matcher(),
            case_insensitive: compile(true)?.compile_matcher(),
            literal_base: path.components().take_while(is_plain).collect(),
        })
    }

    pub(super) fn allows(&self, path: &Path) -> bool {
        is_resolved(path) && self.exact.is_match(path)
    }

    /// Whether a folder and all that lies beneath it match: only a glob that ends in `/**` says so.
    pub(super) fn allows_tree(&self, path: &Path) -> bool {
        let is_whole = self.exact.glob().glob().ends_with("/**");
        is_whole && self.allows(path) && self.allows(&path.join("beneath"))
    }

    /// Whether something is denied that is done to a path, or to all that lies beneath it.
    pub(super) fn denies(&self, path: &Path, is_tree: bool) -> MatchCertainty {
        if self.case_insensitive.is_match(path) {
            MatchCertainty::Yes
        } else if !is_resolved(path) || is_tree && self.may_overlap(path) {
            MatchCertainty::Maybe
        } else {
            MatchCertainty::No
        }
    }

    /// Whether something that matches may lie in a folder, or the folder in something that does.
    fn may_overlap(&self, path: &Path) -> bool {
        let (base, path) = (lowercase_path(&self.literal_base), lowercase_path(path));
        base.starts_with(&path) || path.starts_with(&base)
    }
}

/// The path in small letters, for disks that ignore the case.
fn lowercase_path(path: &Path) -> PathBuf {
    path.to_string_lossy().to_lowercase().into()
}

fn is_resolved(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| part != Component::ParentDir)
}

impl PartialEq for PathGlob {
    fn eq(&self, other: &Self) -> bool {
        self.exact.glob().glob() == other.exact.glob().glob()
    }
}

impl Eq for PathGlob {}

impl fmt::Display for PathGlob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.exact.glob().glob())
    }
}

impl fmt::Debug for PathGlob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PathGlob").field(&self.exact.glob().glob()).finish()
    }
}

impl TryFrom<String> for PathGlob {
    type Error = PatternError;

    fn try_from(glob: String) -> Result<Self, Self::Error> {
        Self::parse(&glob)
    }
}

impl From<PathGlob> for String {
    fn from(glob: PathGlob) -> Self {
        glob.to_string()
    }
}

/// A host, such as `example.org`, or everything beneath one: `*.example.org`.
///
/// Labels are compared from the right, as ASCII in small letters. A name with anything else in it
/// (a port, a user, a final dot, letters that are not ASCII) is never allowed by a rule, and asked
/// about where one denies. `*.example.org` allows no `example.org`, but denies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    host: String,
    is_wildcard: bool,
}

impl HostPattern {
    /// Parses a pattern of hosts.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if it is no name of a host, or a wildcard over numbers.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let beneath = pattern.strip_prefix("*.");
        let name = normalized_host(beneath.unwrap_or(pattern));
        let is_number = |name: &String| {
            let last = name.rsplit('.').next();
            last.is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()))
        };
        match name.filter(|name| beneath.is_none() || !is_number(name)) {
            Some(host) => Ok(Self { host, is_wildcard: beneath.is_some() }),
            None => {
                let shown = visible(head(pattern, MAX_RULE_PATTERN_BYTES));
                Err(PatternError(format!("{shown}: not the name of a host, nor `*.` and one")))
            }
        }
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        normalized_host(name).is_some_and(|name| match self.is_wildcard {
            true => self.matches_subdomain(&name),
            false => name == self.host,
        })
    }

    pub(super) fn denies(&self, name: &str) -> MatchCertainty {
        match normalized_host(name) {
            Some(name) if name == self.host => MatchCertainty::Yes,
            Some(name) if self.is_wildcard && self.matches_subdomain(&name) => MatchCertainty::Yes,
            Some(_) => MatchCertainty::No,
            None => MatchCertainty::Maybe,
        }
    }

    fn matches_subdomain(&self, name: &str) -> bool {
        name.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wildcard = if self.is_wildcard { "*." } else { "" };
        write!(formatter, "{wildcard}{}", self.host)
    }
}

impl TryFrom<String> for HostPattern {
    type Error = PatternError;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        Self::parse(&pattern)
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

/// Returns the name of a host in small letters, if it is a plain one.
fn normalized_host(name: &str) -> Option<String> {
    let is_plain = |label: &str| {
        let has_letters_only =
            label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (1..=63).contains(&label.len()) && has_letters_only
    };
    (name.len() <= 253 && name.split('.').all(is_plain)).then(|| name.to_ascii_lowercase())
}

/// A pattern that says nothing; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);
