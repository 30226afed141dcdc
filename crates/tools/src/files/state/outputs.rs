//! Files with the complete output of one session's commands, and with long results of other tools.
//!
//! The files are in the user's state folder, outside of the project folders. Only tools that read
//! may access these files, and only through a separate workspace.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use acp_types::path::file_uri;

use crate::files::state::session_folder::{self, FolderRemovalLock};
use crate::files::system::{Dir, FileVisibility, PinnedDirectory, real_path};
use crate::limits::{MAX_OUTPUT_FILES, MAX_OUTPUT_FILES_BYTES, STATE_SWEEP_INTERVAL_BYTES};
use crate::lock::lock;

/// A function that pins a folder, i.e. keeps it open, and returns a reader for the files in it.
type OpenReader<Reader> = fn(PathBuf) -> io::Result<Reader>;

/// The outputs that a session keeps, and the `Reader` of their folder.
#[derive(Debug)]
pub(crate) struct OutputStore<Reader> {
    /// The folder and the function that pins it for reading; `None` if no outputs are kept.
    folder: Option<(PathBuf, OpenReader<Reader>)>,
    /// The name of the session's folder. `None` if no later process may use the outputs of this
    /// session.
    session: Option<String>,
    /// The folder of this session, if it has been created. This mutex stays locked during disk
    /// access.
    store: Mutex<Option<SessionOutputFolder>>,
    /// The path of the session's folder and its reader, which can be used without locking `store`.
    /// The reader pins the folder as soon as the folder is created. A link that replaces the folder
    /// later is therefore not followed.
    reader: OnceLock<(PathBuf, Arc<Reader>)>,
}

impl<Reader> Default for OutputStore<Reader> {
    fn default() -> Self {
        Self { folder: None, session: None, store: Mutex::default(), reader: OnceLock::new() }
    }
}

/// Whether the content of an output file can be produced again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputReproducibility {
    /// Content that is stored in no other place, e.g. the output of a command.
    Irreplaceable,
    /// Content that the same tool call would return again. Such content is removed before any
    /// irreplaceable output.
    Reproducible,
}

/// The output folder of one session.
#[derive(Debug)]
struct SessionOutputFolder {
    dir: Dir,
    path: PathBuf,
    /// The names of the files, the oldest first.
    names: VecDeque<(OsString, OutputReproducibility)>,
    count: u64,
    /// The total size of this session's outputs in bytes at the last sweep of the state folder.
    bytes_at_last_sweep: u64,
    _held: FolderRemovalLock,
}

impl<Reader> OutputStore<Reader> {
    /// Creates a store in a session folder beneath `folder`. The session folder is created with the
    /// first output.
    pub(crate) fn in_folder(folder: PathBuf, pin: OpenReader<Reader>) -> Self {
        Self { folder: Some((folder, pin)), ..Self::default() }
    }

    /// Sets the name of the session's folder. Outputs that an earlier store kept under this name
    /// stay available.
    pub(crate) fn with_session(self, name: String) -> Self {
        Self { session: Some(name), ..self }
    }

    /// Creates a file that only its owner can read. Returns `None` if no outputs are kept.
    pub(crate) fn create_output_file(
        &self,
        kind: OutputReproducibility,
    ) -> io::Result<Option<(File, PathBuf)>> {
        if self.folder.is_none() {
            return Ok(None);
        }
        let mut locked = lock(&self.store);
        let Some(store) = self.session_folder_or_create(&mut locked)? else { return Ok(None) };
        let mut room = MAX_OUTPUT_FILES_BYTES;
        if let Some(path) = store.path_if_sweep_due() {
            // Release the lock during the sweep, which is slow, so that other threads and async
            // tasks do not wait.
            drop(locked);
            let surplus = session_folder::sweep_and_count_surplus_bytes(&path);
            locked = lock(&self.store);
            let Some(store) = &mut *locked else { return Ok(None) };
            store.bytes_at_last_sweep = store.total_bytes().saturating_sub(surplus);
            room = room.min(store.bytes_at_last_sweep);
        }
        locked.as_mut().map(|store| store.create_file_evicting_oldest(kind, room)).transpose()
    }

    /// Opens the folder of the session and its reader, or creates them.
    fn session_folder_or_create<'a>(
        &self,
        store: &'a mut Option<SessionOutputFolder>,
    ) -> io::Result<Option<&'a mut SessionOutputFolder>> {
        let Some((folder, pin)) = &self.folder else { return Ok(None) };
        if store.is_none() {
            let made = SessionOutputFolder::open_or_create(folder, self.session.as_deref())?;
            let reader = Arc::new(pin(made.path.clone())?);
            self.reader.get_or_init(|| (made.path.clone(), reader));
            *store = Some(made);
        }
        Ok(store.as_mut())
    }

    /// Returns the folder with the outputs of this session. Returns `None` if the session has no
    /// outputs.
    pub(crate) fn session_folder_if_created(&self) -> Option<&Path> {
        self.reader.get().map(|(path, _)| path.as_path())
    }

    /// Removes an output of this session by its URI.
    pub(crate) fn remove_by_uri(&self, of: &str) {
        let mut store = lock(&self.store);
        let Some(SessionOutputFolder { names, path, .. }) = &mut *store else { return };
        if let Some(at) = names.iter().position(|(name, _)| file_uri(&path.join(name)) == of)
            && let Some((name, _)) = names.remove(at)
        {
            // A missing file is no error.
            drop(fs::remove_file(path.join(name)));
        }
    }

    /// Returns the reader for a path, if the path is an output of this session.
    pub(crate) fn reader_for(&self, path: &str) -> Option<&Arc<Reader>> {
        if self.reader.get().is_none()
            && let (Some((folder, _)), Some(session)) = (&self.folder, &self.session)
            && Path::new(path).starts_with(folder)
            && session_folder::has_session_folder(folder, session)
        {
            // The path may be an output of an earlier process of this session, so open the outputs.
            // If this fails, the path is treated like any other path.
            drop(self.session_folder_or_create(&mut lock(&self.store)));
        }
        let (folder, reader) = self.reader.get()?;
        Path::new(path).starts_with(folder).then_some(reader)
    }

    /// Returns whether a path is an output of any session. Blocks on the disk.
    pub(crate) fn is_output_of_any_session(&self, path: &Path) -> bool {
        self.folder.as_ref().is_some_and(|(folder, _)| {
            let is_within = |folder: &Path| path.starts_with(folder);
            is_within(folder) || real_path(folder).is_ok_and(|real| is_within(&real))
        })
    }
}

impl SessionOutputFolder {
    /// Opens or creates the folder of this session, and removes expired folders.
    fn open_or_create(folder: &Path, session: Option<&str>) -> io::Result<Self> {
        let (path, held) = session_folder::open_or_create_session_folder(folder, session)?;
        let dir = PinnedDirectory::pin(&path)?.open_dir(Path::new(""))?;
        let names = fs::read_dir(&path)?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let mut names: Vec<_> =
            names.filter_map(|name| Some((output_number(&name)?, name))).collect();
        names.sort();
        let count = names.last().map_or(0, |(number, _)| *number);
        let names = names
            .into_iter()
            .map(|(_, name)| (name, OutputReproducibility::Irreplaceable))
            .collect();
        Ok(Self { dir, path, names, count, bytes_at_last_sweep: 0, _held: held })
    }

    fn create_file_evicting_oldest(
        &mut self,
        kind: OutputReproducibility,
        room: u64,
    ) -> io::Result<(File, PathBuf)> {
        while self.names.len() >= MAX_OUTPUT_FILES || self.total_bytes() > room {
            let result = self
                .names
                .iter()
                .position(|(_, kind)| *kind == OutputReproducibility::Reproducible);
            let Some((oldest, _)) = self.names.remove(result.unwrap_or(0)) else { break };
            // A missing file is not an error. A command that still writes to the removed file
            // continues.
            drop(fs::remove_file(self.path.join(oldest)));
        }
        self.count += 1;
        let name = OsString::from(format!("{OUTPUT_PREFIX}{}{OUTPUT_SUFFIX}", self.count));
        let file = self.dir.create_new_file(&name, FileVisibility::Owner)?;
        let path = self.path.join(&name);
        self.names.push_back((name, kind));
        Ok((file, path))
    }

    /// Returns the path of the folder if enough was written since the last sweep, so that another
    /// sweep is due. If all sessions together exceed their limit, this session may have to remove
    /// some of its files.
    fn path_if_sweep_due(&mut self) -> Option<PathBuf> {
        let bytes = self.total_bytes();
        let is_due = bytes >= self.bytes_at_last_sweep + STATE_SWEEP_INTERVAL_BYTES;
        self.bytes_at_last_sweep = if is_due { bytes } else { self.bytes_at_last_sweep.min(bytes) };
        is_due.then(|| self.path.clone())
    }

    fn total_bytes(&self) -> u64 {
        let sizes = self.names.iter().map(|(name, _)| fs::metadata(self.path.join(name)));
        sizes.map(|metadata| metadata.map_or(0, |metadata| metadata.len())).sum()
    }
}

/// Returns the number of an output file.
fn output_number(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix(OUTPUT_PREFIX)?.strip_suffix(OUTPUT_SUFFIX)?.parse().ok()
}

const OUTPUT_PREFIX: &str = "output-";
const OUTPUT_SUFFIX: &str = ".txt";

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::time::{Duration, Instant, SystemTime};

    use acp_types::path::file_uri;

    use super::{OutputReproducibility, OutputStore};
    use crate::files::read::read_excerpt;
    use crate::files::state::session_folder;
    use crate::files::state::{OUTPUT_FOLDER, UNDO_FOLDER};
    use crate::files::workspace::Workspace;
    use crate::limits::{
        MAX_OUTPUT_AGE, MAX_OUTPUT_FILES, MAX_STATE_BYTES, STATE_SWEEP_INTERVAL_BYTES,
    };
    use pretty_assertions::assert_eq;

    #[test]
    fn an_output_is_its_owners_alone_and_read_by_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (root, state) = (folder.path().join("root"), folder.path().join("state"));
        std::fs::create_dir(&root).unwrap();
        let workspace =
            Arc::new(Workspace::new(root.clone(), Vec::new()).unwrap().with_state_folder(&state));
        let (mut file, path) = workspace
            .outputs()
            .create_output_file(OutputReproducibility::Irreplaceable)
            .unwrap()
            .unwrap();
        writeln!(file, "one\ntwo\nthree").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode();
            assert_eq!(mode(&path) & 0o777, 0o600);
            assert_eq!(mode(path.parent().unwrap()) & 0o777, 0o700);
        }
        let given = path.to_str().unwrap();
        let window =
            read_excerpt(&workspace.output_workspace_or_self(given), given, Some(2), Some(1))
                .unwrap();
        assert_eq!((window.text.as_str(), window.total_lines), ("two\n", Some(3)));
        // The reader accepts no other files of the state folder. Tools that write cannot access the
        // output itself.
        let keys = state.join("keys");
        std::fs::write(&keys, "secret").unwrap();
        let beside = format!("{given}/../../../keys");
        for wrong in [keys.to_str().unwrap(), &beside] {
            assert!(
                read_excerpt(&workspace.output_workspace_or_self(wrong), wrong, None, None)
                    .is_err(),
                "{wrong}"
            );
        }
        assert!(workspace.resolve(given).is_err());
        // A link that replaces the file is not followed.
        std::fs::remove_file(&path).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&keys, &path).unwrap();
        assert!(
            read_excerpt(&workspace.output_workspace_or_self(given), given, None, None).is_err()
        );
        assert_eq!(std::fs::read_to_string(keys).unwrap(), "secret");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_takes_the_place_of_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [root, state, keys] = ["root", "state", "keys"].map(|name| folder.path().join(name));
        for folder in [&root, &keys] {
            std::fs::create_dir(folder).unwrap();
        }
        let workspace =
            Arc::new(Workspace::new(root, Vec::new()).unwrap().with_state_folder(&state));
        let (_, path) = workspace
            .outputs()
            .create_output_file(OutputReproducibility::Irreplaceable)
            .unwrap()
            .unwrap();
        // Replaces the folder before any file in it was read.
        let outputs = path.parent().unwrap();
        std::fs::rename(outputs, state.join("moved")).unwrap();
        std::os::unix::fs::symlink(&keys, outputs).unwrap();
        std::fs::write(outputs.join("id"), "secret").unwrap();
        let given = outputs.join("id");
        let given = given.to_str().unwrap();
        assert!(
            read_excerpt(&workspace.output_workspace_or_self(given), given, None, None).is_err()
        );
    }

    #[test]
    fn the_oldest_go_first_and_old_sessions_too() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = OutputStore::in_folder(folder.path().join(OUTPUT_FOLDER), |_| Ok(()));
        let old = folder.path().join(OUTPUT_FOLDER).join("session-old");
        std::fs::create_dir_all(&old).unwrap();
        let time = SystemTime::now() - MAX_OUTPUT_AGE - Duration::from_secs(9);
        std::fs::File::open(&old).unwrap().set_modified(time).unwrap();
        let paths: Vec<_> = (0..=MAX_OUTPUT_FILES)
            .map(|_| {
                outputs.create_output_file(OutputReproducibility::Irreplaceable).unwrap().unwrap().1
            })
            .collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        while old.exists() {
            assert!(Instant::now() < deadline, "it is still there");
        }
        assert!(!paths[0].exists());
        assert_eq!(paths.iter().filter(|path| path.exists()).count(), MAX_OUTPUT_FILES);
    }

    #[test]
    fn results_go_before_outputs() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = OutputStore::in_folder(folder.path().join(OUTPUT_FOLDER), |_| Ok(()));
        let make = |kind| outputs.create_output_file(kind).unwrap().unwrap().1;
        let output = make(OutputReproducibility::Irreplaceable);
        let results: Vec<_> =
            (0..MAX_OUTPUT_FILES).map(|_| make(OutputReproducibility::Reproducible)).collect();
        assert!(output.exists() && !results[0].exists() && results[1].exists());
        make(OutputReproducibility::Irreplaceable);
        assert!(output.exists() && !results[1].exists() && results[2].exists());
    }

    #[test]
    fn an_open_session_gives_way_by_its_own_oldest_where_all_have_too_much() {
        for is_too_much in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (other, _held) = session_folder::open_or_create_session_folder(
                &folder.path().join(UNDO_FOLDER),
                None,
            )
            .unwrap();
            let theirs = std::fs::File::create(other.join("1")).unwrap();
            theirs.set_len(if is_too_much { MAX_STATE_BYTES } else { 1 }).unwrap();
            let outputs = OutputStore::in_folder(folder.path().join(OUTPUT_FOLDER), |_| Ok(()));
            let paths: Vec<_> = (0..3)
                .map(|_| {
                    let (file, path) = outputs
                        .create_output_file(OutputReproducibility::Irreplaceable)
                        .unwrap()
                        .unwrap();
                    file.set_len(STATE_SWEEP_INTERVAL_BYTES).unwrap();
                    path
                })
                .collect();
            let is_there = paths.iter().map(|path| path.exists()).collect::<Vec<_>>();
            assert_eq!(is_there, [!is_too_much, !is_too_much, true]);
            assert!(other.join("1").exists());
        }
    }

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(file_uri("/home/ä b/x-1.txt".as_ref()), "file:///home/%C3%A4%20b/x-1.txt");
    }
}
