//! Writes to a store on separate threads, so that no turn waits for a disk.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Instant, SystemTime};

use tokio::sync::{Notify, oneshot};

use crate::error::SessionStoreError::{self, WriterEnded};
use crate::limits::{CHANGE_COST, COMMIT_CHANGES, QUEUE_BYTES, RETRY_INTERVAL, SYNC_INTERVAL};
use crate::record::SessionChange;
use crate::session::NewSession;
use crate::store::{OpenSession, SessionStore};

/// Writes the changes of all sessions of a process to a store. The writer has two threads, so that
/// no commit waits for a disk. One thread commits. The other thread syncs each commit to the disk
/// within a second, so that the commit survives a power failure. Both threads end when all clones
/// of the writer and all [`SessionRecorder`]s are dropped.
///
/// Queued changes are written in as few commits as possible. If a full disk or another process
/// prevents a write, the write is retried every second, and later writes of the session wait for
/// it. The retries end when the recorder of the session is dropped.
#[derive(Debug, Clone)]
pub struct StoreWriter {
    jobs: Sender<WriterJob>,
    queue: Arc<QueuedByteCounter>,
}

/// Records one session through a [`StoreWriter`]. After the recorder is dropped, the queued changes
/// are tried once more, and then the session is closed in any case. Changes that cannot be written
/// by this try are lost, and their [`CommitFuture`] returns the error.
///
/// If a change is lost, all later changes are refused with the same error, so the stored session is
/// incomplete only at its end.
#[derive(Debug)]
pub struct SessionRecorder {
    key: RecordingKey,
    jobs: Sender<WriterJob>,
    queue: Arc<QueuedByteCounter>,
}

/// Resolves when changes are committed. Committed changes are not lost if this process exits,
/// crashes or is killed. Any runtime can poll this future.
#[derive(Debug)]
#[must_use = "changes are committed also if this is dropped, but only this reports it"]
pub struct CommitFuture(oneshot::Receiver<Result<(), SessionStoreError>>);

type CommitSender = oneshot::Sender<Result<(), SessionStoreError>>;
/// Identifies a recorded session. Also contains the error that ended the recording, if there is
/// one.
type RecordingKey = Arc<OnceLock<SessionStoreError>>;

enum WriterJob {
    Open(RecordingKey, UnstoredOrOpenSession),
    Write(RecordingKey, Vec<(Vec<SessionChange>, QueuedWrite)>, SystemTime),
    Close(RecordingKey),
    Flush(CommitSender),
}

/// The session to which changes are written.
enum UnstoredOrOpenSession {
    /// A session that is not stored yet. The first write stores the session.
    Unstored(NewSession),
    Open(Box<dyn OpenSession>),
}

/// A write that is not committed yet.
struct QueuedWrite {
    /// Number of changes.
    count: usize,
    answer: Option<CommitSender>,
    _slot: ReservedQueueBytes,
}

/// Counts the bytes of all queued changes.
#[derive(Debug, Default)]
struct QueuedByteCounter {
    bytes: AtomicUsize,
    /// Notified when a slot is released.
    freed: Notify,
}

/// Reserved bytes of the queue. They are released when the slot is dropped.
struct ReservedQueueBytes {
    bytes: usize,
    queue: Arc<QueuedByteCounter>,
}

impl ReservedQueueBytes {
    fn try_reserve(queue: &Arc<QueuedByteCounter>, bytes: usize) -> Option<Self> {
        let with = |held: usize| held.checked_add(bytes).filter(|held| *held <= QUEUE_BYTES);
        queue.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).ok()?;
        Some(Self { bytes, queue: queue.clone() })
    }
}

impl Drop for ReservedQueueBytes {
    fn drop(&mut self) {
        self.queue.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.queue.freed.notify_waiters();
    }
}

impl StoreWriter {
    /// Starts the threads that write to a store.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start another thread.
    pub fn start(store: Arc<dyn SessionStore>) -> io::Result<Self> {
        let ((jobs, receiver), (dirty, written)) = (channel(), sync_channel(1));
        let worker = CommitWorker { store: store.clone(), sessions: HashMap::new(), dirty };
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        drop(spawn("store-sync").spawn(move || sync_after_commits(|| store.sync(), &written))?);
        drop(spawn("store").spawn(move || worker.process_jobs(&receiver))?);
        Ok(Self { jobs, queue: Arc::default() })
    }

    /// Creates a recorder for a session that is not stored yet. The first write stores the session,
    /// and must begin with [`SessionChange::Prompt`].
    #[must_use]
    pub fn recorder_for_new_session(&self, session: NewSession) -> SessionRecorder {
        self.begin_recording(UnstoredOrOpenSession::Unstored(session))
    }

    /// Creates a recorder for a session that was opened or forked.
    #[must_use]
    pub fn recorder_for_open_session(&self, session: Box<dyn OpenSession>) -> SessionRecorder {
        self.begin_recording(UnstoredOrOpenSession::Open(session))
    }

    fn begin_recording(&self, session: UnstoredOrOpenSession) -> SessionRecorder {
        let key = RecordingKey::default();
        // If the thread has ended, the first write returns an error.
        drop(self.jobs.send(WriterJob::Open(key.clone(), session)));
        SessionRecorder { key, jobs: self.jobs.clone(), queue: self.queue.clone() }
    }

    /// Resolves when all earlier work is done. The [`CommitFuture`] of each change that was queued
    /// before this call has then resolved. If the recorder of a session was dropped before this
    /// call, the session is closed. The result is `Ok` also if changes could not be written: their
    /// own [`CommitFuture`] has the error.
    pub fn wait_for_queued_writes(&self) -> CommitFuture {
        let (answer, commit) = oneshot::channel();
        drop(self.jobs.send(WriterJob::Flush(answer)));
        CommitFuture(commit)
    }
}

impl SessionRecorder {
    /// Queues changes and returns without waiting. `now` is the time at which the changes were
    /// made.
    pub fn queue_changes(&self, changes: Vec<SessionChange>, now: SystemTime) -> CommitFuture {
        self.queue_writes(vec![changes], now)
    }

    /// Queues several writes, each with its changes, so that they are written in as few commits as
    /// possible. If a write fails, the writes before it are still committed. Returns the commit of
    /// the last write.
    pub fn queue_writes(&self, writes: Vec<Vec<SessionChange>>, now: SystemTime) -> CommitFuture {
        let (answer, commit) = oneshot::channel();
        let mut queued = Vec::new();
        let mut refused = self.key.get();
        for changes in writes {
            let bytes = changes.iter().map(|change| change.byte_len() + CHANGE_COST).sum();
            let slot = ReservedQueueBytes::try_reserve(&self.queue, bytes);
            let Some(slot) = slot.filter(|_| refused.is_none()) else {
                refused = Some(self.key.get_or_init(|| SessionStoreError::QueueFull));
                break;
            };
            let count = changes.len();
            queued.push((changes, QueuedWrite { count, answer: None, _slot: slot }));
        }
        match (refused, queued.last_mut()) {
            (Some(error), _) => drop(answer.send(Err(error.clone()))),
            (None, Some((_, last))) => last.answer = Some(answer),
            (None, None) => drop(answer.send(Ok(()))),
        }
        drop(self.jobs.send(WriterJob::Write(self.key.clone(), queued, now)));
        CommitFuture(commit)
    }

    /// Waits until half of the queue is free. A caller that records many changes should await this
    /// method first, with a time limit in case the disk is slow.
    pub async fn wait_for_room(&self) {
        loop {
            let mut freed = pin!(self.queue.freed.notified());
            // After this statement, no notification is missed.
            freed.as_mut().enable();
            if self.queue.bytes.load(Ordering::Relaxed) <= QUEUE_BYTES / 2 {
                return;
            }
            freed.await;
        }
    }

    /// Returns the error that ended the recording of the session, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<SessionStoreError> {
        self.key.get().cloned()
    }
}

impl Drop for SessionRecorder {
    fn drop(&mut self) {
        drop(self.jobs.send(WriterJob::Close(self.key.clone())));
    }
}

impl CommitFuture {
    /// Waits for the commit on a thread that may block.
    ///
    /// # Errors
    ///
    /// Returns the reason why the changes are not committed. After a
    /// [transient](SessionStoreError::is_transient) error, they may still be committed later.
    ///
    /// # Panics
    ///
    /// Panics on a thread that runs tokio futures.
    pub fn wait_blocking(self) -> Result<(), SessionStoreError> {
        self.0.blocking_recv().unwrap_or(Err(WriterEnded))
    }
}

impl Future for CommitFuture {
    type Output = Result<(), SessionStoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = Pin::new(&mut self.0).poll(context);
        answered.map(|answer| answer.unwrap_or(Err(WriterEnded)))
    }
}

impl fmt::Debug for WriterJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Open(..) => "Open",
            Self::Write(..) => "Write",
            Self::Close(_) => "Close",
            Self::Flush(_) => "Flush",
        })
    }
}

/// State of the thread that commits.
struct CommitWorker {
    store: Arc<dyn SessionStore>,
    /// The recorded sessions by the addresses of their keys. Each session owns its key, so no
    /// address is reused.
    sessions: HashMap<usize, RecordedSession>,
    /// Wakes the thread that syncs the store.
    dirty: SyncSender<()>,
}

/// A session that is recorded.
struct RecordedSession {
    key: RecordingKey,
    session: UnstoredOrOpenSession,
    pending: Vec<SessionChange>,
    waiting: VecDeque<QueuedWrite>,
    now: SystemTime,
    /// Error of the last try, if it was transient, and the time of the next try.
    trouble: Option<(SessionStoreError, Instant)>,
    /// Whether a change was lost. No later change may then be written.
    is_ended: bool,
    /// Whether to close the session as soon as no write is queued.
    is_closing: bool,
}

/// Syncs a store some time after each commit, until the writer ends.
fn sync_after_commits(sync: impl Fn() -> Result<(), SessionStoreError>, written: &Receiver<()>) {
    while written.recv().is_ok() {
        loop {
            thread::sleep(SYNC_INTERVAL);
            let is_ended = written.try_recv() == Err(TryRecvError::Disconnected);
            if sync().is_ok() || is_ended {
                break;
            }
        }
    }
}

impl CommitWorker {
    fn process_jobs(mut self, jobs: &Receiver<WriterJob>) {
        let mut flushes = Vec::new();
        loop {
            let Some(first) = self.wait_for_next_job(jobs) else { break };
            let more = jobs.try_iter().take(COMMIT_CHANGES);
            for job in first.into_iter().chain(more) {
                self.accept_job(job, &mut flushes);
            }
            self.commit_round();
            self.sessions.retain(|_, it| !it.is_closing || !it.waiting.is_empty());
            if !self.sessions.values().any(|it| it.is_closing) {
                for answer in flushes.drain(..) {
                    drop(answer.send(Ok(())));
                }
            }
        }
        for recorded in self.sessions.values_mut() {
            let _is_answered = recorded.commit_pending_changes(&*self.store, &self.dirty);
        }
        self.sessions.clear();
        for answer in flushes {
            drop(answer.send(Ok(())));
        }
    }

    /// Writes the queued changes of the sessions. If other processes hold the lock of the database,
    /// the write of the first session waits for the lock. If this write fails, the other sessions
    /// get its error at once, because they would wait for the same lock.
    fn commit_round(&mut self) {
        let mut busy = None;
        for recorded in self.sessions.values_mut().filter(|it| it.has_due_changes()) {
            match &busy {
                None => {
                    let committed = recorded.commit_pending_changes(&*self.store, &self.dirty);
                    busy = committed.err().filter(|it| matches!(it, SessionStoreError::Busy(_)));
                }
                // A closing session is tried only once, in one of the next rounds. These rounds
                // begin at once.
                Some(error) if recorded.is_closing => {
                    recorded.trouble = Some((error.clone(), Instant::now()));
                }
                Some(error) => recorded.answer_all_with_error(error.clone()),
            }
        }
    }

    /// Waits for a job, or until the retry of a write is due. Returns `None` if all senders are
    /// gone.
    fn wait_for_next_job(&self, jobs: &Receiver<WriterJob>) -> Option<Option<WriterJob>> {
        let troubles = self.sessions.values().filter_map(|it| it.trouble.as_ref());
        match troubles.map(|(_, at)| *at).min() {
            None => jobs.recv().ok().map(Some),
            Some(at) => match jobs.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(job) => Some(Some(job)),
                Err(RecvTimeoutError::Timeout) => Some(None),
                Err(RecvTimeoutError::Disconnected) => None,
            },
        }
    }

    fn accept_job(&mut self, job: WriterJob, flushes: &mut Vec<CommitSender>) {
        match job {
            WriterJob::Open(key, session) => {
                self.sessions.insert(key_address(&key), RecordedSession::new(key, session));
            }
            WriterJob::Write(key, writes, now) => {
                if let Some(recorded) = self.sessions.get_mut(&key_address(&key)) {
                    for (changes, write) in writes {
                        recorded.queue_write(changes, now, write);
                    }
                }
            }
            WriterJob::Close(key) => {
                if let Some(recorded) = self.sessions.get_mut(&key_address(&key)) {
                    recorded.is_closing = true;
                    recorded.trouble = None;
                }
            }
            WriterJob::Flush(answer) => flushes.push(answer),
        }
    }
}

fn key_address(key: &RecordingKey) -> usize {
    Arc::as_ptr(key).addr()
}

impl RecordedSession {
    fn new(key: RecordingKey, session: UnstoredOrOpenSession) -> Self {
        Self {
            key,
            session,
            pending: Vec::new(),
            waiting: VecDeque::new(),
            now: SystemTime::UNIX_EPOCH,
            trouble: None,
            is_ended: false,
            is_closing: false,
        }
    }

    fn queue_write(
        &mut self,
        changes: Vec<SessionChange>,
        now: SystemTime,
        mut write: QueuedWrite,
    ) {
        if self.is_ended {
            return write.send_answer(Err(self.key.get().cloned().unwrap_or(WriterEnded)));
        }
        if let Some((error, _)) = &self.trouble {
            write.send_answer(Err(error.clone()));
        }
        self.pending.extend(changes);
        self.waiting.push_back(write);
        self.now = now;
    }

    /// Returns whether queued changes can be written now, i.e. whether they do not wait for a
    /// retry.
    fn has_due_changes(&self) -> bool {
        let is_due = self.trouble.as_ref().is_none_or(|(_, at)| *at <= Instant::now());
        is_due && !self.waiting.is_empty()
    }

    /// Writes the queued changes. All queued writes get the error that this method returns.
    fn commit_pending_changes(
        &mut self,
        store: &dyn SessionStore,
        dirty: &SyncSender<()>,
    ) -> Result<(), SessionStoreError> {
        self.trouble = None;
        let mut most = COMMIT_CHANGES;
        while !self.waiting.is_empty() {
            let (writes, changes) = self.next_commit_size(most);
            match self.commit_changes(store, changes) {
                Ok(()) => {
                    // If the channel is full, the other thread will sync this commit together with
                    // earlier ones.
                    let _ = dirty.try_send(());
                    self.pending.drain(..changes);
                    for mut write in self.waiting.drain(..writes) {
                        write.send_answer(Ok(()));
                    }
                }
                // One of several writes caused the error. The writes are retried one by one, so
                // that all writes before the faulty one are committed.
                Err(error) if !error.is_transient() && writes > 1 => most = 0,
                Err(error) => {
                    self.answer_all_with_error(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Commits the first `changes` queued changes.
    fn commit_changes(
        &mut self,
        store: &dyn SessionStore,
        changes: usize,
    ) -> Result<(), SessionStoreError> {
        let changes = self.pending.get(..changes).unwrap_or_default();
        match &mut self.session {
            UnstoredOrOpenSession::Open(session) => session.write(changes, self.now),
            UnstoredOrOpenSession::Unstored(new) => {
                self.session = UnstoredOrOpenSession::Open(store.create(new, changes, self.now)?);
                Ok(())
            }
        }
    }

    /// Returns the number of writes in the next commit, and the number of their changes. A commit
    /// has at least one write.
    fn next_commit_size(&self, most: usize) -> (usize, usize) {
        let (mut writes, mut changes) = (0, 0);
        for waiting in &self.waiting {
            if writes > 0 && (most == 0 || changes + waiting.count > most) {
                break;
            }
            writes += 1;
            changes += waiting.count;
        }
        (writes, changes)
    }

    /// Sends the error to all queued writes. After a transient error, the writes stay in the queue
    /// for a retry. But if the session is closing, they are dropped, because the lock of the
    /// session must become free.
    fn answer_all_with_error(&mut self, error: SessionStoreError) {
        let is_retried = error.is_transient() && !self.is_closing;
        let error = match is_retried {
            true => error,
            false => self.key.get_or_init(|| error).clone(),
        };
        for write in &mut self.waiting {
            write.send_answer(Err(error.clone()));
        }
        if is_retried {
            self.trouble = Some((error, Instant::now() + RETRY_INTERVAL));
        } else {
            self.is_ended = true;
            self.pending.clear();
            self.waiting.clear();
        }
    }
}

impl QueuedWrite {
    fn send_answer(&mut self, answer: Result<(), SessionStoreError>) {
        if let Some(sender) = self.answer.take() {
            drop(sender.send(answer));
        }
    }
}

#[cfg(test)]
mod tests;
