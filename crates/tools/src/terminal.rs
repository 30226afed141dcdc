//! The commands of one session that run in the background, and those that did.
//!
//! Knows nothing of calls and permissions: a command comes here while it runs, is found by an id
//! that a model can write, and ends with its session at the latest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::limits::{BACKGROUND_ENDED, BACKGROUND_RUNNING};
use crate::lock::lock;
use callboard_process::record::{Fresh, Mark, Recorded, Recording};
use callboard_process::{Exit, Input, SpawnError};

/// The commands of one session in the background. When it is dropped, all of them are ended.
///
/// A [`Workspace`](crate::Workspace) has one.
#[derive(Debug, Default)]
pub struct Background {
    shared: Arc<Shared>,
    /// Above the tokens of all commands of the session.
    all: CancellationToken,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A command has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they came.
    commands: VecDeque<Entry>,
    /// How many came, and how many more may come at any time.
    count: u64,
    reserved: usize,
}

#[derive(Debug)]
struct Entry {
    command: Command,
    /// How far a running one was told. Whoever tells of it holds this, and takes it before the
    /// state of all, so that nothing is told twice.
    telling: Arc<Mutex<Mark>>,
    /// What was not told of the output of one that has ended, until that is told too.
    rest: Option<Fresh>,
    /// Whether its end was told.
    is_told: bool,
}

/// A command that is or was in the background.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) id: String,
    pub(crate) job: Job,
    pub(crate) phase: Phase,
}

/// What there is to know of a command from outside.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) line: String,
    pub(crate) begun: Instant,
    pub(crate) timeout: Option<Duration>,
    /// Ends it.
    pub(crate) stop: CancellationToken,
    /// Its terminal, if it reads from one.
    pub(crate) input: Option<Input>,
}

#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Running(Arc<Recording>),
    Ended(Arc<Done>),
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) exit: Result<Exit, SpawnError>,
    pub(crate) recorded: Recorded,
    pub(crate) lasted: Duration,
}

/// A command while it runs.
pub(crate) type Running = BoxFuture<'static, Result<Exit, SpawnError>>;

impl Background {
    /// Ends all commands and waits until they are gone: a moment where they end when they are told
    /// to, else [`KILL_GRACE`](callboard_process::limits::KILL_GRACE) longer. Where the system does not end what
    /// is killed, [`END_DEADLINE`](callboard_process::limits::END_DEADLINE) and
    /// [`KILL_DEADLINE`](callboard_process::limits::KILL_DEADLINE) more, and no longer. None comes after that.
    pub async fn end(&self) {
        self.all.cancel();
        self.until(|state| state.running() == 0).await;
    }

    /// Takes the id of the first command whose end was not told yet. The tool `terminal_output`
    /// tells of it.
    #[must_use]
    pub fn next_ended(&self) -> Option<String> {
        let mut state = lock(&self.shared.state);
        let untold = |entry: &&mut Entry| !entry.command.is_running() && !entry.is_told;
        let entry = state.commands.iter_mut().find(untold)?;
        entry.is_told = true;
        Some(entry.command.id.clone())
    }

    /// Returns a token that ends a command, and is cancelled with the session.
    pub(crate) fn token(&self) -> CancellationToken {
        self.all.child_token()
    }

    /// Keeps a place for one command; none if as many run as may.
    pub(crate) fn reserve(&self) -> Option<Place> {
        let mut state = lock(&self.shared.state);
        let has_room = state.running() + state.reserved < BACKGROUND_RUNNING;
        if !has_room || self.all.is_cancelled() {
            return None;
        }
        state.reserved += 1;
        Some(Place(Arc::clone(&self.shared)))
    }

    /// Finds a command.
    pub(crate) fn find(&self, id: &str) -> Option<Command> {
        lock(&self.shared.state).entry(id).map(|entry| entry.command.clone())
    }

    /// Returns all commands, in the order in which they came.
    pub(crate) fn list(&self) -> Vec<Command> {
        lock(&self.shared.state).commands.iter().map(|entry| entry.command.clone()).collect()
    }

    /// Takes what of the output of a command was not told. Nothing of one that has ended, if all
    /// of it was. Blocks for some milliseconds.
    pub(crate) fn look(&self, id: &str) -> Option<(Command, Option<Fresh>)> {
        let telling = self.shared.telling(id)?;
        let mut mark = lock(&telling);
        let mut state = lock(&self.shared.state);
        let entry = state.entry(id)?;
        let command = entry.command.clone();
        let fresh = match &command.phase {
            Phase::Running(recording) => {
                drop(state);
                Some(recording.fresh(&mut mark))
            }
            Phase::Ended(_) => {
                entry.is_told = true;
                entry.rest.take()
            }
        };
        Some((command, fresh))
    }

    /// Waits until a command has ended, or is forgotten.
    pub(crate) async fn ended(&self, id: &str) {
        let is_over = |state: &mut State| {
            let command = state.entry(id).map(|entry| &entry.command);
            command.is_none_or(|command| matches!(command.phase, Phase::Ended(_)))
        };
        self.until(is_over).await;
    }

    async fn until(&self, mut is_so: impl FnMut(&mut State) -> bool) {
        loop {
            let ended = self.shared.ended.notified();
            if is_so(&mut lock(&self.shared.state)) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.all.cancel();
    }
}

/// A place for one command, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Shared>);

impl Place {
    /// Takes a command that runs, and lets it run on. Returns its id.
    ///
    /// Must be called inside a tokio runtime, whose end is the command's too.
    pub(crate) fn adopt(self, job: Job, recording: Arc<Recording>, running: Running) -> String {
        let shared = Arc::clone(&self.0);
        let id = {
            let mut state = lock(&shared.state);
            state.count += 1;
            let id = format!("bg-{}", state.count);
            let phase = Phase::Running(Arc::clone(&recording));
            let command = Command { id: id.clone(), job, phase };
            let (telling, rest) = (Arc::default(), None);
            state.commands.push_back(Entry { command, telling, rest, is_told: false });
            id
        };
        let ends = Ends { shared, id: id.clone(), recording, exit: None };
        drop(tokio::spawn(async move {
            let exit = running.await;
            // Of long lines, making text of them takes its time.
            drop(tokio::task::spawn_blocking(move || ends.with(exit)));
        }));
        id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.0.state).reserved -= 1;
    }
}

/// Notes the end of a command when it is dropped, however that comes.
struct Ends {
    shared: Arc<Shared>,
    id: String,
    recording: Arc<Recording>,
    exit: Option<Result<Exit, SpawnError>>,
}

impl Ends {
    fn with(mut self, exit: Result<Exit, SpawnError>) {
        self.exit = Some(exit);
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let exit = self.exit.take().unwrap_or_else(|| Err(SpawnError::Start("it was lost".into())));
        let telling = self.shared.telling(&self.id).unwrap_or_default();
        let mut mark = lock(&telling);
        let rest = self.recording.fresh(&mut mark);
        let recorded = self.recording.finish();
        let mut state = lock(&self.shared.state);
        if let Some(entry) = state.entry(&self.id) {
            let done = Done { exit, recorded, lasted: entry.command.job.begun.elapsed() };
            entry.command.phase = Phase::Ended(Arc::new(done));
            entry.rest = Some(rest);
        }
        state.forget_oldest();
        drop(state);
        drop(mark);
        self.shared.ended.notify_waiters();
    }
}

impl Shared {
    fn telling(&self, id: &str) -> Option<Arc<Mutex<Mark>>> {
        lock(&self.state).entry(id).map(|entry| Arc::clone(&entry.telling))
    }
}

impl State {
    fn entry(&mut self, id: &str) -> Option<&mut Entry> {
        self.commands.iter_mut().find(|entry| entry.command.id == id)
    }

    fn running(&self) -> usize {
        self.commands.iter().filter(|entry| entry.command.is_running()).count()
    }

    fn forget_oldest(&mut self) {
        let ended = |entry: &Entry| !entry.command.is_running();
        if self.commands.iter().filter(|entry| ended(entry)).count() > BACKGROUND_ENDED
            && let Some(oldest) = self.commands.iter().position(ended)
        {
            self.commands.remove(oldest);
        }
    }
}

impl Command {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Barrier;

    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_several_who_look_while_it_ends_each_byte_is_told_to_one() {
        let background = Arc::new(Background::default());
        let recording = Arc::new(Recording::new(0, || Ok(None)));
        let stop = background.token();
        let (line, begun) = ("x".to_owned(), Instant::now());
        let job = Job { line, begun, timeout: None, stop: stop.clone(), input: None };
        let running = Box::pin(async move {
            let ended = stop.run_until_cancelled(pending::<()>()).await;
            Err(SpawnError::Start(format!("{ended:?}").into()))
        });
        let id = background.reserve().unwrap().adopt(job, Arc::clone(&recording), running);
        // Making text of so much takes a while, in which the others look too.
        let written = b"a line\n".repeat(40_000);
        recording.push(&written);
        let begin = Arc::new(Barrier::new(3));
        let look = || {
            let (background, begin, id) = (Arc::clone(&background), Arc::clone(&begin), id.clone());
            tokio::task::spawn_blocking(move || {
                begin.wait();
                background.look(&id).unwrap().1.map_or(0, |fresh| fresh.bytes)
            })
        };
        let looking = [look(), look(), look()];
        background.end().await;
        let mut told = 0;
        for looking in looking {
            told += looking.await.unwrap();
        }
        let (command, rest) = background.look(&id).unwrap();
        assert!(!command.is_running());
        assert_eq!(told + rest.map_or(0, |rest| rest.bytes), written.len() as u64);
    }
}
