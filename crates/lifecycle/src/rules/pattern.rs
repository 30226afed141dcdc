//! Patterns of paths and hosts, parsed once and matched against resolved values.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use callboard_text::{escape_invisible, head};
use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::MatchCertainty;
use crate::limits::MAX_RULE_PATTERN_BYTES;

/// A glob over resolved absolute paths, e.g. `/project/src/**`.
///
/// `*` and `?` match within one path component, `**` matches any number of components, and `[ab]`
/// and `{a,b}` match alternatives. Paths are resolved before matching, so the glob itself must not
/// contain a symbolic link. Only a glob that matches a folder and ends in `/**` allows searching or
/// deleting the folder. A denying rule also covers everything in a folder that the glob matches,
/// and ignores letter case, because some file systems ignore letter case. For folders that may
/// contain a denied file, the client is asked.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathGlob {
    exact: GlobMatcher,
    case_insensitive: GlobMatcher,
    /// The leading path components without wildcards. Every matching path begins with this path.
    literal_base: PathBuf,
}

impl PathGlob {
    /// Parses a glob.
    ///
    /// # Errors
    ///
    /// Returns [`PatternError`] if the glob is not absolute, contains `.` or `..`, exceeds 1 KiB,
    /// or is malformed.
    pub fn parse(glob: &str) -> Result<Self, PatternError> {
        let refuse = |why: &str| PatternError(format!("{}: {why}", escape_invisible(glob)));
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
        is_absolute_without_parent_dirs(path) && self.exact.is_match(path)
    }

    /// Returns whether a folder and its whole content match. Only a glob that ends in `/**` can
    /// match a whole folder.
    pub(super) fn allows_tree(&self, path: &Path) -> bool {
        let is_whole = self.exact.glob().glob().ends_with("/**");
        is_whole && self.allows(path) && self.allows(&path.join("beneath"))
    }

    /// Returns whether a denying rule with this glob covers a path: the path or one of its parent
    /// folders matches when letter case is ignored.
    #[must_use]
    pub fn covers_ignoring_case(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.case_insensitive.is_match(path))
    }

    /// Returns the leading path components without wildcards. Every matching path begins with them,
    /// if letter case is ignored.
    #[must_use]
    pub fn literal_base(&self) -> &Path {
        &self.literal_base
    }

    /// Returns true if the glob has no wildcard, or if everything in the folder
    /// [`literal_base`](Self::literal_base) matches.
    #[must_use]
    pub fn matches_all_of_base(&self) -> bool {
        let glob = Path::new(self.exact.glob().glob());
        glob == self.literal_base || glob == self.literal_base.join("**")
    }

    /// Returns how certainly an access to a path is denied. If `is_tree` is true, the access
    /// includes everything in the folder.
    pub(super) fn deny_certainty(&self, path: &Path, is_tree: bool) -> MatchCertainty {
        if self.covers_ignoring_case(path) {
            MatchCertainty::Yes
        } else if !is_absolute_without_parent_dirs(path) || is_tree && self.may_overlap(path) {
            MatchCertainty::Maybe
        } else {
            MatchCertainty::No
        }
    }

    /// Returns whether a folder may contain a match, or may itself be inside a match.
    fn may_overlap(&self, path: &Path) -> bool {
        let (base, path) = (lowercase_path(&self.literal_base), lowercase_path(path));
        base.starts_with(&path) || path.starts_with(&base)
    }
}

/// Returns the path in lowercase, for file systems that ignore case.
fn lowercase_path(path: &Path) -> PathBuf {
    path.to_string_lossy().to_lowercase().into()
}

fn is_absolute_without_parent_dirs(path: &Path) -> bool {
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

/// A host, e.g. `example.org`, or all of its subdomains: `*.example.org`.
///
/// Labels are compared from the right, as lowercase ASCII. No rule allows a name with a port, a
/// user, a final dot or non-ASCII letters. If a denying rule is compared with such a name, the
/// client is asked. A rule with `*.example.org` does not allow `example.org` itself, but a denying
/// rule also denies `example.org`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    host: String,
    is_wildcard: bool,
}

impl HostPattern {
    /// Parses a host pattern.
    ///
    /// # Errors
    ///
    /// Returns [`PatternError`] if the pattern is not a host name, or is a wildcard for an IP
    /// address.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let beneath = pattern.strip_prefix("*.");
        let name = lowercase_host_if_valid(beneath.unwrap_or(pattern));
        let is_number = |name: &String| {
            let last = name.rsplit('.').next();
            last.is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()))
        };
        match name.filter(|name| beneath.is_none() || !is_number(name)) {
            Some(host) => Ok(Self { host, is_wildcard: beneath.is_some() }),
            None => {
                let shown = escape_invisible(head(pattern, MAX_RULE_PATTERN_BYTES));
                Err(PatternError(format!("{shown}: neither a host name nor `*.` and one")))
            }
        }
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        lowercase_host_if_valid(name).is_some_and(|name| match self.is_wildcard {
            true => self.matches_subdomain(&name),
            false => name == self.host,
        })
    }

    pub(super) fn deny_certainty(&self, name: &str) -> MatchCertainty {
        match lowercase_host_if_valid(name) {
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

/// Returns a host name in lowercase, or `None` if the name is invalid.
fn lowercase_host_if_valid(name: &str) -> Option<String> {
    let is_plain = |label: &str| {
        let has_letters_only =
            label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (1..=63).contains(&label.len()) && has_letters_only
    };
    (name.len() <= 253 && name.split('.').all(is_plain)).then(|| name.to_ascii_lowercase())
}

/// A malformed pattern. The message names the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);
