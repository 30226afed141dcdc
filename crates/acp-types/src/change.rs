//! A change of one file: the operation, the whole texts before and after it, and the hunks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use callboard_text::path_text;
use serde::{Deserialize, Serialize};

use crate::limits::HUNK_JSON_OVERHEAD_BYTES;
use crate::{json, path};

/// The line that git writes after a line without a newline.
const NO_NEWLINE_MARKER: &str = "\\ No newline at end of file";

/// A change of one file, as reported by the tool that made the change.
///
/// A small change contains whole texts; a large change contains only hunks. A change of a binary
/// file contains neither texts nor hunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileChange {
    /// The kind of change.
    pub operation: FileChangeOperation,
    /// Absolute path of the file after the change.
    #[serde(with = "path::as_text")]
    pub path: PathBuf,
    /// Whole text of the file before the change; `None` if the text is not stored.
    pub old_text: Option<String>,
    /// Whole text of the file after the change; `None` if the text is not stored.
    pub new_text: Option<String>,
    /// The changed regions with their context, in file order.
    pub hunks: Vec<Hunk>,
    /// Number of added lines and number of removed lines that are missing in the hunks because of
    /// the size limit.
    #[serde(default)]
    pub unlisted: (usize, usize),
    /// Sentence about the change, in the user's language. If the change has no texts and no hunks,
    /// a message contains the sentence instead. If the file was moved or copied, the sentence
    /// precedes the hunks. `None` selects an English default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
}

/// The kind of change that is made to a file. The variants are those of draft v2
/// (<https://agentclientprotocol.com/protocol/v2/tool-calls#diffs>).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileChangeOperation {
    /// The file did not exist before.
    Add,
    /// The content of the file changed.
    Modify,
    /// The file was deleted.
    Delete,
    /// The file was moved.
    Move {
        /// Absolute path before the move.
        #[serde(with = "path::as_text")]
        from: PathBuf,
    },
    /// The file was copied from another file, which still exists.
    Copy {
        /// Absolute path of the other file.
        #[serde(with = "path::as_text")]
        from: PathBuf,
    },
}

impl FileChangeOperation {
    /// Returns the name of the operation on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Move { .. } => "move",
            Self::Copy { .. } => "copy",
        }
    }
}

/// One changed region of a file with its context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// Number of the hunk's first line in the old text, counted from 1; 0 if the old text has no
    /// lines.
    pub old_start: u32,
    /// Number of the hunk's first line in the new text, counted from 1; 0 if the new text has no
    /// lines.
    pub new_start: u32,
    /// The lines, including context.
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HunkLine {
    /// Whether the line is kept, removed or added.
    pub tag: LineTag,
    /// The text of the line, including its line ending, if any.
    pub text: String,
}

/// Whether a line of a hunk is kept, removed or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineTag {
    /// The line is unchanged context.
    Context,
    /// The line is removed.
    Removed,
    /// The line is added.
    Added,
}

impl FileChange {
    /// Creates a change that contains neither texts nor hunks.
    #[must_use]
    pub fn new(operation: FileChangeOperation, path: impl Into<PathBuf>) -> Self {
        let (old_text, new_text) = (None, None);
        let (hunks, unlisted) = (Vec::new(), (0, 0));
        let sentence = None;
        Self { operation, path: path.into(), old_text, new_text, hunks, unlisted, sentence }
    }

    /// Creates the change of an existing file from its whole old text and its whole new text. If
    /// the texts are large, a message shows only the changed regions. These regions may be larger
    /// than necessary. To compute the smallest difference, use `diff::diff_texts` (feature `diff`).
    #[must_use]
    pub fn modify(
        path: impl Into<PathBuf>,
        old: impl Into<String>,
        new: impl Into<String>,
    ) -> Self {
        let (old_text, new_text) = (Some(old.into()), Some(new.into()));
        Self { old_text, new_text, ..Self::new(FileChangeOperation::Modify, path) }
    }

    /// Creates the change that creates a file with this text.
    #[must_use]
    pub fn add(path: impl Into<PathBuf>, new: impl Into<String>) -> Self {
        Self { new_text: Some(new.into()), ..Self::new(FileChangeOperation::Add, path) }
    }

    /// Creates the change that deletes a file with this text.
    #[must_use]
    pub fn delete(path: impl Into<PathBuf>, old: impl Into<String>) -> Self {
        Self { old_text: Some(old.into()), ..Self::new(FileChangeOperation::Delete, path) }
    }

    /// Replaces the hunks.
    #[must_use]
    pub fn with_hunks(self, hunks: Vec<Hunk>) -> Self {
        Self { hunks, ..self }
    }

    /// Returns the total size of the texts in bytes. If there are no texts, returns the total size
    /// of the hunks.
    pub(crate) fn texts_or_hunks_byte_len(&self) -> usize {
        let whole = self.old_text.as_ref().map_or(0, String::len)
            + self.new_text.as_ref().map_or(0, String::len);
        if whole > 0 { whole } else { self.hunks.iter().map(Hunk::byte_len).sum() }
    }

    /// Returns an upper bound of the serialised size of the change in a message, in bytes. The
    /// bound includes the sentence. The bound is valid for a message with whole texts, and also for
    /// a message with hunks.
    #[must_use]
    pub fn max_json_len(&self) -> usize {
        let frame = self.hunk_overhead_json_len();
        // Draft v2 sends a text as one hunk, in which each line begins with a sign.
        let text = |text: &String| frame + json::escaped_string_len(text) + text.lines().count();
        let hunk = |hunk: &Hunk| {
            let lines = hunk.lines.iter().map(|line| max_hunk_line_json_len(line.tag, &line.text));
            frame + lines.sum::<usize>()
        };
        let whole = [&self.old_text, &self.new_text].into_iter().flatten().map(text);
        whole.sum::<usize>().max(self.hunks.iter().map(hunk).sum()) + self.sentence_json_len()
    }

    /// Returns the serialised size of the sentence in bytes, or 0 if there is no sentence.
    pub(crate) fn sentence_json_len(&self) -> usize {
        self.sentence.as_deref().map_or(0, json::escaped_string_len)
    }

    /// Returns an upper bound of the serialised size of a hunk without its lines, in bytes. In v1,
    /// each hunk is a separate diff with its path.
    pub(crate) fn hunk_overhead_json_len(&self) -> usize {
        let from = match &self.operation {
            FileChangeOperation::Move { from } | FileChangeOperation::Copy { from } => Some(from),
            _ => None,
        };
        let path = |path: &PathBuf| json::escaped_string_len(&path_text(path));
        HUNK_JSON_OVERHEAD_BYTES + path(&self.path) + from.map_or(0, path)
    }

    /// Returns an upper bound of the serialised size of a change without its hunks, in bytes. In
    /// v1, a change without its hunks is a note. In draft v2, it contains each path six times.
    pub(crate) fn non_hunk_max_json_len(&self) -> usize {
        6 * self.hunk_overhead_json_len()
    }

    /// Returns the number of added lines and the number of removed lines, including lines that are
    /// missing in the hunks. If there are no hunks, all lines of the new text count as added, and
    /// all lines of the old text count as removed.
    #[must_use]
    pub fn line_counts(&self) -> (usize, usize) {
        let (added, removed) = self.unlisted;
        if self.hunks.is_empty() && self.unlisted == (0, 0) {
            let lines =
                |text: &Option<String>| text.as_ref().map_or(0, |text| text.lines().count());
            return (lines(&self.new_text), lines(&self.old_text));
        }
        let count = |tag| {
            self.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.tag == tag).count()
        };
        (
            added.saturating_add(count(LineTag::Added)),
            removed.saturating_add(count(LineTag::Removed)),
        )
    }

    /// Returns, for each hunk, the number of its first changed line in the new text, counted from
    /// 1.
    pub fn hunk_first_changed_line_numbers(&self) -> impl Iterator<Item = u32> {
        self.hunks.iter().map(Hunk::new_text_first_changed_line)
    }

    /// Returns the change as one `diff --git` section with absolute paths and without the prefixes
    /// `a/` and `b/`, as draft v2 defines it
    /// (<https://agentclientprotocol.com/protocol/v2/tool-calls#diffs>).
    #[must_use]
    pub fn git_patch(&self) -> String {
        let new = git_quoted_path(&self.path);
        let old = match &self.operation {
            FileChangeOperation::Move { from } | FileChangeOperation::Copy { from } => {
                git_quoted_path(from)
            }
            _ => new.clone(),
        };
        let mut patch = format!("diff --git {old} {new}\n");
        match self.operation {
            FileChangeOperation::Add => patch.push_str("new file mode 100644\n"),
            FileChangeOperation::Delete => patch.push_str("deleted file mode 100644\n"),
            FileChangeOperation::Move { .. } => {
                patch.push_str(&format!("rename from {old}\nrename to {new}\n"));
            }
            FileChangeOperation::Copy { .. } => {
                patch.push_str(&format!("copy from {old}\ncopy to {new}\n"));
            }
            FileChangeOperation::Modify => {}
        }
        let hunks = self.hunks_or_whole_file();
        if hunks.iter().any(|hunk| !hunk.lines.is_empty()) {
            let (old, new) = match self.operation {
                FileChangeOperation::Add => ("/dev/null".to_owned(), new),
                FileChangeOperation::Delete => (old, "/dev/null".to_owned()),
                _ => (old, new),
            };
            patch.push_str(&format!("--- {old}\n+++ {new}\n"));
            hunks.iter().for_each(|hunk| hunk.write_patch(&mut patch));
        }
        patch
    }

    /// Returns the hunks, or one hunk that replaces the whole old text by the whole new text.
    fn hunks_or_whole_file(&self) -> Vec<Hunk> {
        if !self.hunks.is_empty() || self.old_text == self.new_text {
            return self.hunks.clone();
        }
        let lines = |text: &Option<String>, tag| {
            let text = text.as_deref().unwrap_or_default();
            text.split_inclusive('\n')
                .map(|line| HunkLine { tag, text: line.to_owned() })
                .collect::<Vec<_>>()
        };
        let removed = lines(&self.old_text, LineTag::Removed);
        let added = lines(&self.new_text, LineTag::Added);
        vec![Hunk {
            old_start: u32::from(!removed.is_empty()),
            new_start: u32::from(!added.is_empty()),
            lines: removed.into_iter().chain(added).collect(),
        }]
    }
}

impl Hunk {
    /// Returns the lines of the hunk before the change, including context.
    #[must_use]
    pub fn old_text(&self) -> String {
        self.join_lines_except(LineTag::Added)
    }

    /// Returns the lines of the hunk after the change, including context.
    #[must_use]
    pub fn new_text(&self) -> String {
        self.join_lines_except(LineTag::Removed)
    }

    /// Returns the total size of the hunk's lines in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.lines.iter().map(|line| line.text.len()).sum()
    }

    fn join_lines_except(&self, tag: LineTag) -> String {
        self.lines.iter().filter(|line| line.tag != tag).map(|line| line.text.as_str()).collect()
    }

    fn new_text_first_changed_line(&self) -> u32 {
        let context = self.lines.iter().take_while(|line| line.tag == LineTag::Context).count();
        self.new_start.max(1).saturating_add(u32::try_from(context).unwrap_or(u32::MAX))
    }

    fn count_lines_without_tag(&self, tag: LineTag) -> usize {
        self.lines.iter().filter(|line| line.tag != tag).count()
    }

    fn write_patch(&self, patch: &mut String) {
        let (old, new) = (
            self.count_lines_without_tag(LineTag::Added),
            self.count_lines_without_tag(LineTag::Removed),
        );
        // A side without lines has the number of the line before it.
        let start = |start: u32, count| if count == 0 { start.saturating_sub(1) } else { start };
        let (old_start, new_start) = (start(self.old_start, old), start(self.new_start, new));
        // Writing to a String cannot fail.
        let _ = writeln!(patch, "@@ -{old_start},{old} +{new_start},{new} @@");
        for line in &self.lines {
            patch.push(match line.tag {
                LineTag::Context => ' ',
                LineTag::Removed => '-',
                LineTag::Added => '+',
            });
            patch.push_str(&line.text);
            if !line.text.ends_with('\n') {
                patch.push_str(&format!("\n{NO_NEWLINE_MARKER}\n"));
            }
        }
    }
}

/// Returns an upper bound of the serialised size of a hunk's line, in bytes. In v1, a context line
/// is sent twice: in the old text and in the new text. In draft v2, each line begins with a sign,
/// and a line without a newline is followed by a note.
pub(crate) fn max_hunk_line_json_len(tag: LineTag, text: &str) -> usize {
    let note = if text.ends_with('\n') { 0 } else { NO_NEWLINE_MARKER.len() + "\\n\\\\n".len() };
    let len = "+".len() + json::escaped_string_len(text) + note;
    if tag == LineTag::Context { 2 * len } else { len }
}

/// Returns a path as git writes it. The path is quoted if it contains a double quote, a backslash,
/// a control character or a byte that is not UTF-8.
fn git_quoted_path(path: &Path) -> String {
    let is_plain =
        |path: &&str| !path.contains(|letter: char| letter.is_control() || "\"\\".contains(letter));
    if let Some(plain) = path.to_str().filter(is_plain) {
        return plain.to_owned();
    }
    let mut quoted = String::from("\"");
    let octal = |quoted: &mut String, bytes: &[u8]| {
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(quoted, "\\{byte:03o}");
        }
    };
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => quoted.extend(['\\', letter]),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                _ if letter.is_control() => {
                    octal(&mut quoted, letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => quoted.push(letter),
            }
        }
        octal(&mut quoted, chunk.invalid());
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{FileChange, FileChangeOperation, Hunk, HunkLine, LineTag};
    use pretty_assertions::assert_eq;

    fn line(tag: LineTag, text: &str) -> HunkLine {
        HunkLine { tag, text: text.to_owned() }
    }

    fn hunk() -> Hunk {
        Hunk {
            old_start: 4,
            new_start: 4,
            lines: vec![
                line(LineTag::Context, "a\n"),
                line(LineTag::Removed, "b\n"),
                line(LineTag::Added, "c"),
            ],
        }
    }

    #[test]
    fn a_hunk_has_both_sides() {
        assert_eq!(hunk().old_text(), "a\nb\n");
        assert_eq!(hunk().new_text(), "a\nc");
        let change = FileChange {
            hunks: vec![hunk()],
            ..FileChange::new(FileChangeOperation::Modify, "/f")
        };
        assert_eq!(change.hunk_first_changed_line_numbers().collect::<Vec<_>>(), [5]);
        assert_eq!(change.line_counts(), (1, 1));
    }

    #[test]
    fn git_patches_have_absolute_paths_without_prefixes() {
        let modify = FileChange {
            hunks: vec![hunk()],
            ..FileChange::new(FileChangeOperation::Modify, "/f")
        };
        assert_eq!(
            modify.git_patch(),
            "diff --git /f /f\n--- /f\n+++ /f\n@@ -4,2 +4,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
        let add = FileChange {
            new_text: Some("x\n".into()),
            ..FileChange::new(FileChangeOperation::Add, "/f")
        };
        assert_eq!(
            add.git_patch(),
            "diff --git /f /f\nnew file mode 100644\n--- /dev/null\n+++ /f\n@@ -0,0 +1,1 @@\n+x\n"
        );
        let delete = FileChange {
            old_text: Some("x\n".into()),
            ..FileChange::new(FileChangeOperation::Delete, "/f")
        };
        assert_eq!(
            delete.git_patch(),
            "diff --git /f /f\ndeleted file mode 100644\n--- /f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
        );
        let moved = FileChange::new(FileChangeOperation::Move { from: "/a b".into() }, "/c\"\n");
        assert_eq!(
            moved.git_patch(),
            "diff --git /a b \"/c\\\"\\n\"\nrename from /a b\nrename to \"/c\\\"\\n\"\n"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_path_of_any_bytes_is_quoted_in_a_git_patch_and_kept_by_serde() {
        use std::os::unix::ffi::OsStrExt as _;

        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/a\xff\x1b"));
        let copy = FileChange::new(FileChangeOperation::Copy { from: path.into() }, path);
        assert!(copy.git_patch().starts_with("diff --git \"/a\\377\\033\" "), "{copy:?}");
        let stored = serde_json::to_value(&copy).unwrap();
        assert_eq!(serde_json::from_value::<FileChange>(stored).unwrap(), copy);
    }

    #[test]
    fn an_empty_new_file_has_no_hunk() {
        let add = FileChange {
            new_text: Some(String::new()),
            ..FileChange::new(FileChangeOperation::Add, "/f")
        };
        assert_eq!(add.git_patch(), "diff --git /f /f\nnew file mode 100644\n");
    }
}
