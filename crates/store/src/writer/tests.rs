//! Tests of the writer. The test decides the result of each write to the session.

use pretty_assertions::assert_eq;

use super::*;
use crate::limits::{MAX_RECORD_BYTES, MAX_SUBJECT_BYTES};
use crate::memory::MemorySessionStore;
use crate::record::{RecordStream, SessionRecord};
use crate::session::SessionCwdPaths;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

/// A session whose writes wait for a result that the test sends.
#[derive(Debug)]
struct Scripted {
    inner: Box<dyn OpenSession>,
    outcomes: Receiver<Option<SessionStoreError>>,
    /// Receives the number of changes of each write.
    writes: Sender<usize>,
}

impl OpenSession for Scripted {
    fn id(&self) -> &acp_types::schema::v1::SessionId {
        self.inner.id()
    }

    fn write(
        &mut self,
        changes: &[SessionChange],
        now: SystemTime,
    ) -> Result<(), SessionStoreError> {
        let _ = self.writes.send(changes.len());
        match self.outcomes.recv() {
            Ok(Some(error)) => Err(error),
            // If the sender is dropped, all writes succeed.
            Ok(None) | Err(_) => self.inner.write(changes, now),
        }
    }
}

struct Bench {
    store: MemorySessionStore,
    writer: StoreWriter,
    outcomes: Sender<Option<SessionStoreError>>,
    writes: Receiver<usize>,
}

fn new(session: &str) -> NewSession {
    let folder = SessionCwdPaths { cwd: "/".into(), canonical: "/".into() };
    NewSession { id: session.to_owned().into(), folder }
}

/// Records a session `a` that has one prompt.
fn bench() -> (Bench, SessionRecorder) {
    let store = MemorySessionStore::new();
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    record_session("a", store, writer)
}

fn record_session(
    session: &str,
    store: MemorySessionStore,
    writer: StoreWriter,
) -> (Bench, SessionRecorder) {
    let ((outcomes, scripted), (writes, written)) = (channel(), channel());
    let first = [SessionChange::Prompt(record("first"))];
    let inner = store.create(&new(session), &first, NOW).unwrap();
    let recorder =
        writer.recorder_for_open_session(Box::new(Scripted { inner, outcomes: scripted, writes }));
    (Bench { store, writer, outcomes, writes: written }, recorder)
}

impl Bench {
    /// Records another session in the same store.
    fn record(&self, session: &str) -> (Self, SessionRecorder) {
        record_session(session, self.store.clone(), self.writer.clone())
    }

    fn texts(&self) -> Vec<String> {
        let mut load = self.store.begin_load(&"a".into(), RecordStream::Client, u64::MAX).unwrap();
        let page = self.store.load_next_records(&mut load).unwrap();
        page.iter().map(|record| record.parse_json().unwrap()).collect()
    }
}

fn record(text: &str) -> SessionRecord {
    SessionRecord::new("text", 1, &text).unwrap()
}

fn append(text: &str) -> Vec<SessionChange> {
    vec![SessionChange::Append(record(text))]
}

fn busy() -> SessionStoreError {
    SessionStoreError::Busy("/".into())
}

#[test]
fn changes_are_committed_in_their_order() {
    let (bench, recorder) = bench();
    drop(bench.outcomes);
    let commits: Vec<_> =
        ["a", "b", "c"].map(|text| recorder.queue_changes(append(text), NOW)).into();
    for commit in commits {
        commit.wait_blocking().unwrap();
    }
    let stores = bench.store.clone();
    drop(recorder);
    bench.writer.wait_for_queued_writes().wait_blocking().unwrap();
    assert_eq!(stores.summary(&"a".into()).unwrap().prompts, 1);
    // The session is closed, because its recorder was dropped.
    drop(stores.open(&"a".into()).unwrap());
}

#[test]
fn queued_changes_share_a_commit() {
    let (bench, recorder) = bench();
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let rest: Vec<_> =
        (2..=9).map(|n| recorder.queue_changes(append(&n.to_string()), NOW)).collect();
    drop(bench.outcomes);
    first.wait_blocking().unwrap();
    rest.into_iter().for_each(|commit| commit.wait_blocking().unwrap());
    assert_eq!(bench.writes.recv(), Ok(8));
    assert!(bench.writes.try_recv().is_err());
}

#[test]
fn a_refused_change_ends_the_recording_after_the_earlier_changes() {
    let (bench, recorder) = bench();
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let wrong = record("x").with_subject("x".repeat(MAX_SUBJECT_BYTES + 1));
    let second = recorder.queue_changes(append("2"), NOW);
    let third = recorder.queue_changes(vec![SessionChange::Append(wrong)], NOW);
    let fourth = recorder.queue_changes(append("4"), NOW);
    drop(bench.outcomes.send(None));
    first.wait_blocking().unwrap();
    // All changes are first tried together, and then one by one.
    for _ in 0..3 {
        drop(bench.outcomes.send(None));
    }
    second.wait_blocking().unwrap();
    for commit in [third, fourth, recorder.queue_changes(append("5"), NOW)] {
        assert!(matches!(commit.wait_blocking(), Err(SessionStoreError::TooLarge { .. })));
    }
    assert!(matches!(recorder.failure(), Some(SessionStoreError::TooLarge { .. })));
    assert_eq!(bench.texts(), ["first", "1", "2"]);
    // The session is still open, so that no other process continues it.
    assert!(bench.store.open(&"a".into()).is_err());
}

#[test]
fn writes_that_are_queued_together_share_a_commit_and_a_faulty_one_loses_only_itself() {
    let (bench, recorder) = bench();
    (0..5).for_each(|_| drop(bench.outcomes.send(None)));
    recorder.queue_writes(vec![append("1"), append("2")], NOW).wait_blocking().unwrap();
    assert_eq!(bench.writes.try_iter().collect::<Vec<_>>(), [2]);
    let wrong = record("x").with_subject("x".repeat(MAX_SUBJECT_BYTES + 1));
    let faulty = vec![append("3"), vec![SessionChange::Append(wrong)], append("4")];
    let commit = recorder.queue_writes(faulty, NOW);
    assert!(matches!(commit.wait_blocking(), Err(SessionStoreError::TooLarge { .. })));
    assert_eq!(bench.writes.try_iter().collect::<Vec<_>>(), [3, 1, 1]);
    assert_eq!(bench.texts(), ["first", "1", "2", "3"]);
}

#[test]
fn a_change_that_cannot_be_written_is_retried_before_later_changes() {
    let (bench, recorder) = bench();
    drop(bench.outcomes.send(Some(busy())));
    assert!(matches!(
        recorder.queue_changes(append("1"), NOW).wait_blocking(),
        Err(SessionStoreError::Busy(_))
    ));
    // During the wait for the retry, another write is answered at once with the error.
    assert!(matches!(
        recorder.queue_changes(append("2"), NOW).wait_blocking(),
        Err(SessionStoreError::Busy(_))
    ));
    assert!(recorder.failure().is_none());
    drop(bench.outcomes.send(None));
    assert_eq!((bench.writes.recv(), bench.writes.recv()), (Ok(1), Ok(2)));
    bench.writer.wait_for_queued_writes().wait_blocking().unwrap();
    assert_eq!(bench.texts(), ["first", "1", "2"]);
}

#[test]
fn changes_of_a_closed_session_are_lost_if_one_more_try_fails() {
    let (bench, recorder) = bench();
    for outcome in [None, Some(busy()), Some(busy())] {
        drop(bench.outcomes.send(outcome));
    }
    recorder.queue_changes(append("1"), NOW).wait_blocking().unwrap();
    let lost = [recorder.queue_changes(append("2"), NOW), recorder.queue_changes(append("3"), NOW)];
    drop(recorder);
    bench.writer.wait_for_queued_writes().wait_blocking().unwrap();
    for lost in lost {
        assert!(matches!(lost.wait_blocking(), Err(SessionStoreError::Busy(_))));
    }
    assert_eq!(bench.texts(), ["first", "1"]);
    drop(bench.store.open(&"a".into()).unwrap());
}

#[test]
fn sessions_do_not_wait_one_after_another_for_a_store_that_is_busy() {
    let (bench, recorder) = bench();
    let others = ["b", "c", "d"].map(|session| bench.record(session));
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let commits: Vec<_> =
        others.iter().map(|(_, recorder)| recorder.queue_changes(append("1"), NOW)).collect();
    others.iter().for_each(|(bench, _)| drop(bench.outcomes.send(Some(busy()))));
    drop(bench.outcomes);
    first.wait_blocking().unwrap();
    for commit in commits {
        assert!(matches!(commit.wait_blocking(), Err(SessionStoreError::Busy(_))));
    }
    let tries = || others.iter().filter(|(bench, _)| bench.writes.try_recv().is_ok()).count();
    assert_eq!(tries(), 1);
}

#[test]
fn each_session_that_is_closed_is_tried_although_the_store_is_busy() {
    let (bench, recorder) = bench();
    let others = ["b", "c", "d"].map(|session| bench.record(session));
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let (scripts, recorders): (Vec<_>, Vec<_>) = others.into_iter().unzip();
    for (number, (script, recorder)) in scripts.iter().zip(recorders).enumerate() {
        drop(script.outcomes.send((number > 0).then(busy)));
        drop(recorder.queue_changes(append("1"), NOW));
    }
    drop(bench.outcomes);
    first.wait_blocking().unwrap();
    bench.writer.wait_for_queued_writes().wait_blocking().unwrap();
    let tries: Vec<_> = scripts.iter().map(|script| script.writes.try_iter().count()).collect();
    assert_eq!(tries, [1, 1, 1]);
    for session in ["b", "c", "d"] {
        drop(bench.store.open(&session.into()).unwrap());
    }
}

#[test]
fn empty_writes_that_fail_together_are_retried_one_by_one() {
    let (bench, recorder) = bench();
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let empty = [recorder.queue_changes(Vec::new(), NOW), recorder.queue_changes(Vec::new(), NOW)];
    for outcome in [None, Some(SessionStoreError::QueueFull), Some(SessionStoreError::QueueFull)] {
        drop(bench.outcomes.send(outcome));
    }
    first.wait_blocking().unwrap();
    for write in empty {
        assert!(write.wait_blocking().is_err());
    }
}

#[test]
fn changes_of_a_closed_session_are_retried_at_once() {
    let (bench, recorder) = bench();
    drop(bench.outcomes.send(Some(busy())));
    assert!(recorder.queue_changes(append("1"), NOW).wait_blocking().is_err());
    drop(bench.outcomes.send(None));
    drop(recorder);
    bench.writer.wait_for_queued_writes().wait_blocking().unwrap();
    assert_eq!(bench.texts(), ["first", "1"]);
    drop(bench.store.open(&"a".into()).unwrap());
}

#[test]
fn a_full_queue_ends_the_recording_and_leaves_no_gap() {
    let (bench, recorder) = bench();
    let first = recorder.queue_changes(append("1"), NOW);
    assert_eq!(bench.writes.recv(), Ok(1));
    let large = "x".repeat(MAX_RECORD_BYTES - 2);
    let large =
        [recorder.queue_changes(append(&large), NOW), recorder.queue_changes(append(&large), NOW)];
    let lost = recorder.queue_changes(append(&"x".repeat(MAX_RECORD_BYTES / 2)), NOW);
    assert!(matches!(lost.wait_blocking(), Err(SessionStoreError::QueueFull)));
    // The queue would have room for this change, but a change before it was lost.
    let behind = recorder.queue_changes(append("behind"), NOW);
    assert!(matches!(behind.wait_blocking(), Err(SessionStoreError::QueueFull)));
    drop(bench.outcomes);
    first.wait_blocking().unwrap();
    large.into_iter().for_each(|commit| commit.wait_blocking().unwrap());
    assert_eq!(bench.store.summary(&"a".into()).unwrap().bytes, 10 + 2 * 20 * (1 << 20));
}

#[tokio::test]
async fn a_caller_waits_for_room_until_half_of_the_queue_is_free() {
    let (bench, recorder) = bench();
    recorder.wait_for_room().await;
    let large = "x".repeat(MAX_RECORD_BYTES - 2);
    let commits =
        [recorder.queue_changes(append(&large), NOW), recorder.queue_changes(append(&large), NOW)];
    {
        let room = recorder.wait_for_room();
        tokio::pin!(room);
        tokio::select! {
            biased;
            () = &mut room => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        drop(bench.outcomes);
        room.await;
    }
    for commit in commits {
        commit.await.unwrap();
    }
}

#[test]
fn the_first_write_of_a_new_session_stores_it() {
    let store = MemorySessionStore::new();
    let writer = StoreWriter::start(Arc::new(store.clone())).unwrap();
    let recorder = writer.recorder_for_new_session(new("a"));
    writer.wait_for_queued_writes().wait_blocking().unwrap();
    assert!(store.summary(&"a".into()).is_err());
    let commit = recorder.queue_changes(vec![SessionChange::Prompt(record("first"))], NOW);
    recorder.queue_changes(append("1"), NOW).wait_blocking().unwrap();
    commit.wait_blocking().unwrap();
    let load = || store.begin_load(&"a".into(), RecordStream::Client, 0).unwrap();
    assert_eq!(store.load_next_records(&mut load()).unwrap().len(), 2);
    // A second recorder of the same id is refused, and so are all later changes of that recorder.
    let second = writer.recorder_for_new_session(new("a"));
    for changes in [vec![SessionChange::Prompt(record("second"))], append("2")] {
        let refused = second.queue_changes(changes, NOW).wait_blocking();
        assert!(matches!(refused, Err(SessionStoreError::SessionExists(_))));
    }
    assert!(matches!(second.failure(), Some(SessionStoreError::SessionExists(_))));
}

#[test]
fn a_store_is_synced_after_commits_and_again_after_a_failure() {
    let ((dirty, written), (syncs, synced)) = (sync_channel(1), channel());
    let thread = thread::spawn(move || {
        let count = std::cell::Cell::new(0);
        let sync = || {
            syncs.send(Instant::now()).unwrap();
            count.set(count.get() + 1);
            if count.get() == 1 { Err(busy()) } else { Ok(()) }
        };
        sync_after_commits(sync, &written);
    });
    let begin = Instant::now();
    dirty.send(()).unwrap();
    let (first, second) = (synced.recv().unwrap(), synced.recv().unwrap());
    assert!(first >= begin + SYNC_INTERVAL && second >= first + SYNC_INTERVAL);
    // After the end of the writer, there is one last sync.
    dirty.send(()).unwrap();
    drop(dirty);
    thread.join().unwrap();
    assert_eq!(synced.iter().count(), 1);
}

#[test]
fn the_thread_ends_with_the_last_writer_and_recorder() {
    let (bench, recorder) = bench();
    drop(bench.outcomes);
    let written = recorder.queue_changes(append("1"), NOW);
    let (store, writes) = (bench.store, bench.writes);
    drop((bench.writer, recorder));
    written.wait_blocking().unwrap();
    // The session was dropped, and so was the sender of this channel.
    assert_eq!(writes.iter().count(), 1);
    drop(store.open(&"a".into()).unwrap());
}
