//! Tests that check which sessions are removed, with a store in memory and a state folder.

use std::path::PathBuf;
use std::sync::Arc;

use acp_store::{
    MemorySessionStore, NewSession, SessionChange, SessionCwdPaths, SessionRecord,
    SessionStore as _,
};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Fixture {
    archive: SessionArchive,
    state: TempDir,
    now: SystemTime,
}

impl Fixture {
    /// Stores one session for each age in days. The id of a session is its age.
    fn new(ages: &[u32]) -> Self {
        let (store, state) = (MemorySessionStore::new(), tempfile::tempdir().unwrap());
        let now = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        for age in ages {
            let folder = SessionCwdPaths { cwd: "/p".into(), canonical: "/p".into() };
            let new = NewSession::new(age.to_string(), folder);
            let prompt = SessionRecord::new("prompt", 1, &"x".repeat(1000)).unwrap();
            drop(store.create(&new, &[SessionChange::Prompt(prompt)], now - *age * DAY).unwrap());
        }
        let archive = SessionArchive::new(Arc::new(store));
        Self { archive: archive.with_state_folder(state.path().to_owned()), state, now }
    }

    /// Writes undo data of a session that ended `age` days ago.
    fn undo(&self, age: u32, bytes: usize) -> PathBuf {
        let folder = self.state.path().join("undo").join(format!("session-{age}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1"), vec![0; bytes]).unwrap();
        File::open(&folder).unwrap().set_modified(self.now - age * DAY).unwrap();
        folder
    }

    fn ids(&self) -> Vec<String> {
        self.archive.sessions(None).map(|session| session.unwrap().id.to_string()).collect()
    }

    /// Returns the number of bytes of one session. All sessions have the same size.
    fn bytes_of_one(&self) -> u64 {
        self.archive.sessions(None).next().unwrap().unwrap().bytes
    }

    /// Prunes after a dry run, and returns the ids of the removed sessions.
    fn prune(&self, keep: Duration, max_bytes: u64) -> Vec<String> {
        let retention = SessionRetention { keep, max_bytes };
        let foreseen = self.archive.data_to_prune(retention, self.now).unwrap();
        let mut foreseen: Vec<_> = foreseen.sessions.iter().map(|it| it.id.to_string()).collect();
        foreseen.reverse();
        let pruned = self.archive.prune(retention, self.now).unwrap();
        let pruned: Vec<_> = pruned.sessions.iter().map(ToString::to_string).collect();
        assert_eq!(pruned, foreseen);
        pruned
    }
}

#[test]
fn sessions_that_are_too_old_go_with_undo_data_of_that_time() {
    let fixture = Fixture::new(&[1, 4, 5, 9]);
    let undo = [2, 6].map(|age| fixture.undo(age, 10));
    assert_eq!(fixture.prune(4 * DAY, u64::MAX), ["9", "5"]);
    assert_eq!(fixture.ids(), ["1", "4"]);
    assert_eq!(undo.map(|folder| folder.exists()), [true, false]);
}

#[test]
fn one_bound_of_bytes_holds_for_sessions_and_undo_data_and_the_oldest_go() {
    let fixture = Fixture::new(&[1, 3, 5, 7]);
    let one = fixture.bytes_of_one();
    assert!(one >= 1000);
    let undo = [2, 6].map(|age| fixture.undo(age, 100_000));
    // The directory itself also has a size, which depends on the file system.
    let folder = session_folder_times_and_sizes(fixture.state.path())[0].1;
    assert_eq!(fixture.prune(100 * DAY, 4 * one + 2 * folder), [""; 0]);
    assert_eq!(fixture.prune(100 * DAY, 3 * one + 2 * folder), ["7"]);
    assert!(undo[1].exists());
    assert_eq!(fixture.prune(100 * DAY, 3 * one + folder), [""; 0]);
    assert_eq!(undo.each_ref().map(|folder| folder.exists()), [true, false]);
    assert_eq!(fixture.prune(100 * DAY, one + folder - 1), ["5", "3"]);
    assert_eq!((fixture.ids(), undo[0].exists()), (vec!["1".to_owned()], false));
}

#[test]
fn a_session_that_is_open_stays() {
    let fixture = Fixture::new(&[1, 8, 9]);
    let open = fixture.archive.store().open(&"9".into()).unwrap();
    assert_eq!(fixture.prune(4 * DAY, u64::MAX), ["8"]);
    drop(open);
    assert_eq!(fixture.prune(4 * DAY, u64::MAX), ["9"]);
}

#[test]
fn a_session_from_the_future_stays_when_the_clock_was_set_back() {
    let fixture = Fixture { now: SystemTime::UNIX_EPOCH + 10_000 * DAY, ..Fixture::new(&[1, 9]) };
    assert_eq!(fixture.prune(DAY, u64::MAX), [""; 0]);
    assert_eq!(fixture.prune(DAY, 1), [""; 0]);
}

#[test]
fn someone_who_comes_back_every_fifteen_days_has_old_sessions_removed() {
    let fixture = Fixture::new(&[9]);
    for (visit, left) in [(0, 1), (1, 1), (2, 0)] {
        let retention = SessionRetention { keep: 4 * DAY, max_bytes: u64::MAX };
        fixture.archive.prune_if_due(retention, fixture.now + visit * 15 * DAY);
        assert_eq!(fixture.ids().len(), left, "visit {visit}");
    }
}

#[test]
fn pruning_is_due_once_a_day_but_not_at_the_first_start_or_after_a_long_time() {
    let hour = Duration::from_secs(3600);
    for (then, is_due) in [(23 * hour, false), (25 * hour, true), (15 * DAY, false)] {
        let fixture = Fixture::new(&[9]);
        let prune = |now| {
            let retention = SessionRetention { keep: 4 * DAY, max_bytes: u64::MAX };
            fixture.archive.prune_if_due(retention, now);
            fixture.ids().len()
        };
        assert_eq!(prune(fixture.now), 1);
        assert_eq!(prune(fixture.now + then), usize::from(!is_due));
        // The clock was set back: the time of the last pruning is in the future.
        assert_eq!(prune(fixture.now - hour), usize::from(!is_due));
        assert_eq!(prune(fixture.now + 25 * hour), 0);
    }
}
