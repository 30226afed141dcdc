//! The log of a session's undo entries, from which a later process of the session continues.
//!
//! Each line is written in one write. A line that cannot be parsed, e.g. the last line after a
//! power failure, is skipped.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::open_private_for_append;
use super::undo_entry::{FileOperation, UndoEntry, backup_number};
use crate::limits::{MAX_UNDO_ENTRIES, MAX_UNDO_LOG_BYTES};

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum UndoLogLine {
    /// An entry was added.
    Added { number: u64, entry: UndoEntry },
    /// An entry was undone in a prompt.
    Undone {
        number: u64,
        prompt: u32,
        /// The operations that were not undone. Their backups are kept for the user.
        left: Vec<FileOperation>,
        /// The files that the undo removed or replaced. Their backups are kept for the user.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replaced: Vec<FileOperation>,
    },
    /// An entry was dropped because the limits were exceeded.
    Dropped { number: u64 },
    /// The files before this prompt were restored.
    Rewound { prompt: u32 },
}

/// The entries that a log contains.
#[derive(Debug, Default)]
pub(super) struct LoggedEntries {
    /// The entries that can be undone, with their numbers.
    pub(super) entries: VecDeque<(u64, UndoEntry)>,
    /// The operations that were not undone.
    pub(super) unrestored: VecDeque<UndoEntry>,
    /// The changes that no rewind can undo.
    pub(super) lost: LostChanges,
    /// The largest number of an entry.
    pub(super) last_number: u64,
    /// The largest number of a backup. This backup may have been removed.
    pub(super) last_backup: u64,
    /// The smallest number of a prompt with an entry.
    pub(super) first_prompt: Option<u32>,
}

/// The changes that a rewind cannot undo, because their entries were dropped or undone before.
#[derive(Debug, Default)]
pub(super) struct LostChanges(VecDeque<LostChange>);

#[derive(Debug)]
struct LostChange {
    operations: Vec<FileOperation>,
    /// Whether an undo has skipped the operations, e.g. because another program had changed the
    /// files. Their backups may still exist.
    is_skipped: bool,
    /// A rewind to one of these prompts would have to undo the change.
    prompts: RangeInclusive<u32>,
}

impl LostChanges {
    /// Adds an entry that was dropped.
    pub(super) fn add_dropped(&mut self, entry: &UndoEntry) {
        self.add(entry.operations.clone(), false, 1..=entry.prompt);
    }

    /// Adds an entry that was undone in the prompt `prompt`, except for the operations `left`. A
    /// rewind to a prompt after the prompt of the entry, up to `prompt`, would have to make the
    /// undone changes again, which is impossible. A rewind to a prompt before the entry would have
    /// to undo the operations `left`, which is impossible too.
    pub(super) fn add_undone(&mut self, entry: &UndoEntry, left: &[FileOperation], prompt: u32) {
        let undone = entry.operations.iter().filter(|operation| !left.contains(operation));
        self.add(undone.cloned().collect(), false, entry.prompt.saturating_add(1)..=prompt);
        self.add(left.to_vec(), true, 1..=entry.prompt);
    }

    fn add(
        &mut self,
        operations: Vec<FileOperation>,
        is_skipped: bool,
        prompts: RangeInclusive<u32>,
    ) {
        if prompts.is_empty() || operations.is_empty() {
            return;
        }
        self.0.push_back(LostChange { operations, is_skipped, prompts });
        if self.0.len() > MAX_UNDO_ENTRIES {
            self.0.pop_front();
        }
    }

    /// Returns the lost operations that concern a rewind to this prompt, and whether an undo has
    /// skipped them.
    pub(super) fn operations_for_rewind_to(
        &self,
        prompt: u32,
    ) -> impl Iterator<Item = (&FileOperation, bool)> {
        let lost = self.0.iter().filter(move |lost| lost.prompts.contains(&prompt));
        lost.flat_map(|lost| lost.operations.iter().map(|operation| (operation, lost.is_skipped)))
    }

    /// Removes a prompt and all later prompts, after a rewind to this prompt. Lost changes that
    /// also concern rewinds to earlier prompts are kept for these prompts.
    pub(super) fn forget_prompts_since(&mut self, prompt: u32) {
        let last = prompt.saturating_sub(1);
        for LostChange { prompts, .. } in &mut self.0 {
            *prompts = *prompts.start()..=last.min(*prompts.end());
        }
        self.0.retain(|lost| !lost.prompts.is_empty());
    }
}

/// Appends a line to the log in a session folder.
pub(super) fn append(folder: &Path, line: &UndoLogLine) -> io::Result<()> {
    write_line(line, open_private_for_append(&folder.join(LOG_FILE))?)
}

/// Reads the log in a session folder. A missing log has no entries.
pub(super) fn read(folder: &Path) -> io::Result<LoggedEntries> {
    let path = folder.join(LOG_FILE);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(log) if log.metadata()?.len() > MAX_UNDO_LOG_BYTES => {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(log) => log.take(MAX_UNDO_LOG_BYTES).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LoggedEntries::default());
        }
        Err(error) => return Err(error),
    };
    if bytes.last().is_some_and(|last| *last != b'\n') {
        // The next entry must not continue the torn line.
        open_private_for_append(&path)?.write_all(b"\n")?;
    }
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(LoggedEntries::from_lines(lines.filter_map(|line| serde_json::from_slice(line).ok())))
}

impl LoggedEntries {
    fn from_lines(lines: impl Iterator<Item = UndoLogLine>) -> Self {
        let (mut entries, mut logged) = (BTreeMap::new(), Self::default());
        for line in lines {
            match line {
                UndoLogLine::Added { number, entry } => {
                    logged.last_number = logged.last_number.max(number);
                    let backups = entry.backups().filter_map(|it| backup_number(&it.name));
                    logged.last_backup = backups.fold(logged.last_backup, u64::max);
                    let first = logged.first_prompt.unwrap_or(entry.prompt);
                    logged.first_prompt = Some(first.min(entry.prompt));
                    entries.insert(number, entry);
                }
                UndoLogLine::Undone { number, prompt, left, replaced } => {
                    let backups = replaced.iter().filter_map(FileOperation::backup);
                    let numbers = backups.filter_map(|it| backup_number(&it.name));
                    logged.last_backup = numbers.fold(logged.last_backup, u64::max);
                    if let Some(entry) = entries.remove(&number) {
                        logged.lost.add_undone(&entry, &left, prompt);
                        let kept = [left, replaced].into_iter().filter(|kept| !kept.is_empty());
                        logged.unrestored.extend(
                            kept.map(|operations| UndoEntry { operations, ..entry.clone() }),
                        );
                    }
                }
                UndoLogLine::Dropped { number } => {
                    if let Some(entry) = entries.remove(&number) {
                        logged.lost.add_dropped(&entry);
                    }
                }
                UndoLogLine::Rewound { prompt } => logged.lost.forget_prompts_since(prompt),
            }
        }
        Self { entries: entries.into_iter().collect(), ..logged }
    }
}

/// Writes a line in a single write, so that a kill cannot leave an incomplete line.
fn write_line(line: &UndoLogLine, mut log: impl io::Write) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    log.write_all(&bytes)
}

const LOG_FILE: &str = "steps.jsonl";

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::PathBuf;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::files::content_hash::ContentHash;
    use crate::files::state::undo_entry::{Backup, ModeChange, MovedEntry, UnrecordedCause};

    /// Records the bytes of each write.
    struct WriteLog<'a>(&'a mut Vec<String>);

    impl io::Write for WriteLog<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[cfg(unix)]
    fn odd_path() -> PathBuf {
        use std::os::unix::ffi::OsStringExt as _;
        OsString::from_vec(b"/a \n\xff/$'b'".to_vec()).into()
    }

    #[cfg(not(unix))]
    fn odd_path() -> PathBuf {
        std::path::absolute("odd").unwrap()
    }

    fn all_operations() -> Vec<FileOperation> {
        let (path, hash_after) = (odd_path(), ContentHash::of_bytes(b"x"));
        let backup = || Backup { name: "7".into(), bytes: 3, mode: Some(0o644) };
        let modes = Some(ModeChange { before: Some(0o644), after: 0o755 });
        vec![
            FileOperation::CreatedDirectory(path.clone()),
            FileOperation::CreatedLink { path: path.clone(), hash_after },
            FileOperation::Created { path: path.clone(), hash_after },
            FileOperation::Replaced { path: path.clone(), backup: backup(), hash_after, modes },
            FileOperation::Deleted { path: path.clone(), backup: backup() },
            FileOperation::Unrecorded {
                folder: path.clone(),
                cause: UnrecordedCause::TooManyChanges,
            },
            FileOperation::Moved {
                from: path.clone(),
                to: path.clone(),
                moved: Some(MovedEntry::File(hash_after)),
            },
            FileOperation::Unrecoverable { path },
        ]
    }

    #[test]
    fn a_line_is_one_write() {
        let entry = UndoEntry::new(all_operations());
        let mut writes = Vec::new();
        write_line(&UndoLogLine::Added { number: 1, entry }, WriteLog(&mut writes)).unwrap();
        assert!(writes.len() == 1 && writes[0].matches('\n').count() == 1, "{writes:?}");
    }

    #[test]
    fn entries_are_read_back_without_those_that_were_removed() {
        let folder = tempfile::tempdir().unwrap();
        let entry = |prompt| UndoEntry { prompt, ..UndoEntry::new(all_operations()) };
        for number in 1..=4 {
            append(folder.path(), &UndoLogLine::Added { number, entry: entry(number as u32) })
                .unwrap();
        }
        let mut left = all_operations().split_off(4);
        let replaced = vec![left.remove(0)];
        let undone = |number| UndoLogLine::Undone {
            number,
            prompt: 3,
            left: left.clone(),
            replaced: replaced.clone(),
        };
        append(folder.path(), &UndoLogLine::Dropped { number: 4 }).unwrap();
        for number in [2, 9] {
            append(folder.path(), &undone(number)).unwrap();
        }
        let logged = read(folder.path()).unwrap();
        assert_eq!(logged.entries, [(1, entry(1)), (3, entry(3))]);
        let kept = |operations| UndoEntry { prompt: 2, ..UndoEntry::new(operations) };
        assert_eq!(logged.unrestored, [kept(left), kept(replaced)]);
        assert_eq!((logged.last_number, logged.last_backup, logged.first_prompt), (4, 7, Some(1)));
        // The entry of prompt 4 was dropped: its nine paths are lost for rewinds to prompts 1 to
        // 4. The entry of prompt 2 was undone in prompt 3, except for three operations. The four
        // paths of these three operations are lost for rewinds to prompts 1 and 2. The five paths
        // of the undone operations are lost for a rewind to prompt 3.
        let lost = |logged: &LoggedEntries| {
            [1, 2, 3, 4, 5].map(|prompt| {
                let lost = logged.lost.operations_for_rewind_to(prompt);
                lost.flat_map(|(operation, _)| operation.paths()).count()
            })
        };
        assert_eq!(lost(&logged), [13, 13, 14, 9, 0]);
        append(folder.path(), &UndoLogLine::Rewound { prompt: 4 }).unwrap();
        assert_eq!(lost(&read(folder.path()).unwrap()), [13, 13, 14, 0, 0]);
    }

    #[test]
    fn a_line_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::path::absolute("file").unwrap().display().to_string();
        let hash = serde_json::to_string(&ContentHash::of_bytes(b"x")).unwrap();
        let replaced = format!(
            r#"{{"path":"{path}","backup":{{"name":7,"bytes":3,"mode":420}},"hashAfter":{hash}}}"#
        );
        let moved = format!(r#"{{"from":"{path}","to":"{path}"}}"#);
        let line = format!(
            r#"{{"added":{{"number":1,"entry":{{"prompt":2,"operations":[{{"replaced":{replaced}}},{{"moved":{moved}}}]}}}}}}"#
        );
        let path = PathBuf::from(path);
        fs::write(folder.path().join(LOG_FILE), line).unwrap();
        let backup = Backup { name: "7".into(), bytes: 3, mode: Some(0o644) };
        let hash_after = ContentHash::of_bytes(b"x");
        let moved = FileOperation::Moved { from: path.clone(), to: path.clone(), moved: None };
        let operations =
            vec![FileOperation::Replaced { path, backup, hash_after, modes: None }, moved];
        let entries = read(folder.path()).unwrap().entries;
        assert_eq!(entries, [(1, UndoEntry { prompt: 2, ..UndoEntry::new(operations) })]);
    }

    #[test]
    fn a_damaged_line_is_skipped_and_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG_FILE);
        let line = |number| UndoLogLine::Added { number, entry: UndoEntry::new(all_operations()) };
        append(folder.path(), &line(1)).unwrap();
        let torn = r#"{"added":{"number":2,"entry":{"prompt":0,"oper"#;
        let whole = fs::read_to_string(&log).unwrap();
        fs::write(&log, format!("{whole}{torn}")).unwrap();
        assert_eq!(read(folder.path()).unwrap().entries.len(), 1);
        append(folder.path(), &line(3)).unwrap();
        let numbers = |logged: LoggedEntries| logged.entries.into_iter().map(|(number, _)| number);
        assert_eq!(numbers(read(folder.path()).unwrap()).collect::<Vec<_>>(), [1, 3]);
        // These lines are invalid: the name of a backup leads out of the folder, a path is
        // relative, or a field is unknown.
        for (from, to) in
            [("\"name\":7", "\"name\":\"../7\""), ("\"/$", "\"$"), ("\"mode\"", "\"m\"")]
        {
            let broken = whole.replace(from, to);
            assert_ne!(broken, whole);
            fs::write(&log, broken).unwrap();
            assert_eq!(read(folder.path()).unwrap().entries.len(), 0, "{to}");
        }
    }
}
