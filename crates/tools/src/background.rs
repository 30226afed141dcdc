//! The background commands of one session. Commands stay in the list after they end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::limits::{MAX_BACKGROUND_ENDED_KEPT, MAX_BACKGROUND_RUNNING};
use crate::lock::lock;
use crate::note::Note;
use callboard_process::record::{NewOutput, RecordedOutput, Recording, ReportedOutputPosition};
use callboard_process::{CommandExit, CommandInput, SpawnError};

/// The background commands of one session. All commands end when this value is dropped.
///
/// Each [`Workspace`](crate::Workspace) owns one instance.
#[derive(Debug, Default)]
pub struct BackgroundCommands {
    shared: Arc<SharedCommandTable>,
    /// The parent of the cancellation tokens of all commands.
    stop_all: CancellationToken,
}

#[derive(Debug, Default)]
struct SharedCommandTable {
    state: Mutex<CommandTable>,
    /// Notifies its waiters when a command has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct CommandTable {
    /// The commands in the order in which they were started.
    commands: VecDeque<TrackedCommand>,
    /// Number of commands that were added since the start of the session. The field `reserved` is
    /// the number of reserved slots.
    count: u64,
    reserved: usize,
}

#[derive(Debug)]
struct TrackedCommand {
    command: BackgroundCommand,
    /// The position up to which the output of a running command has been reported. A reader locks
    /// this mutex before it locks the table, and holds it while it reads the output. In this way,
    /// no output is reported twice.
    read_mark: Arc<Mutex<ReportedOutputPosition>>,
    /// The part of a finished command's output that has not been reported yet.
    unread_output: Option<NewOutput>,
    /// Whether the end of the command has been reported.
    is_end_reported: bool,
}

/// A command that runs or ran in the background.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundCommand {
    pub(crate) id: String,
    pub(crate) info: CommandHandle,
    pub(crate) phase: CommandPhase,
}

/// Description of a command, and the handles to control it.
#[derive(Debug, Clone)]
pub(crate) struct CommandHandle {
    pub(crate) command_line: String,
    pub(crate) begun: Instant,
    pub(crate) timeout: Option<Duration>,
    /// Cancelling this token ends the command.
    pub(crate) stop: CancellationToken,
    /// The handle to type input into the command's terminal. `None` if the command accepts no
    /// input.
    pub(crate) input: Option<CommandInput>,
    /// Whether the command runs in the sandbox.
    pub(crate) is_sandboxed: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum CommandPhase {
    Running(Arc<Recording>),
    Ended(Arc<CommandResult>),
}

/// The exit status of a finished command, and its output.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) exit: Result<CommandExit, SpawnError>,
    pub(crate) recorded: RecordedOutput,
    pub(crate) lasted: Duration,
    /// Notes about what the command did in the background.
    pub(crate) notes: Vec<Note>,
}

/// Examines a command that has ended, and returns notes about it.
pub(crate) type ExamineEndFn = Box<dyn FnOnce() -> Vec<Note> + Send>;

/// The future that resolves when a command exits.
pub(crate) type CommandFuture = BoxFuture<'static, Result<CommandExit, SpawnError>>;

impl BackgroundCommands {
    /// Ends all commands, and waits until all of their processes are gone. Each command first
    /// receives a signal. A command that does not end is killed after
    /// [`KILL_GRACE`](callboard_process::limits::KILL_GRACE). If the system does not end a killed
    /// process, the wait is limited to another
    /// [`REAP_DEADLINE`](callboard_process::limits::REAP_DEADLINE) plus
    /// [`KILL_DEADLINE`](callboard_process::limits::KILL_DEADLINE). No command can be added after
    /// this call.
    pub async fn stop_all_and_wait(&self) {
        self.stop_all.cancel();
        self.wait_until(|state| state.running_count() == 0).await;
    }

    /// Returns the id of the first command whose end has not been reported yet, and marks the end
    /// as reported. After this call, the caller must run the tool `terminal_output` for this id to
    /// report the end to the model.
    #[must_use]
    pub fn take_unreported_ended_id(&self) -> Option<String> {
        let mut state = lock(&self.shared.state);
        let unreported =
            |entry: &&mut TrackedCommand| !entry.command.is_running() && !entry.is_end_reported;
        let entry = state.commands.iter_mut().find(unreported)?;
        entry.is_end_reported = true;
        Some(entry.command.id.clone())
    }

    /// Returns a token that can end one command. The token is also cancelled when the session ends.
    pub(crate) fn child_token(&self) -> CancellationToken {
        self.stop_all.child_token()
    }

    /// Reserves a slot for one command. Returns `None` if all slots are in use or the session is
    /// ending.
    pub(crate) fn reserve_slot(&self) -> Option<ReservedCommandSlot> {
        let mut state = lock(&self.shared.state);
        let has_room = state.running_count() + state.reserved < MAX_BACKGROUND_RUNNING;
        if !has_room || self.stop_all.is_cancelled() {
            return None;
        }
        state.reserved += 1;
        Some(ReservedCommandSlot(Arc::clone(&self.shared)))
    }

    /// Returns the command that has this id.
    pub(crate) fn find_by_id(&self, id: &str) -> Option<BackgroundCommand> {
        lock(&self.shared.state).entry(id).map(|entry| entry.command.clone())
    }

    /// Returns all commands in the order in which they were started.
    pub(crate) fn list(&self) -> Vec<BackgroundCommand> {
        lock(&self.shared.state).commands.iter().map(|entry| entry.command.clone()).collect()
    }

    /// Returns the output that a command wrote since the last report, and marks it as reported. The
    /// output is `None` if the command has finished and all of its output was reported. Blocks the
    /// thread for some milliseconds.
    pub(crate) fn read_new_output(
        &self,
        id: &str,
    ) -> Option<(BackgroundCommand, Option<NewOutput>)> {
        let position = self.shared.output_position(id)?;
        let mut mark = lock(&position);
        let mut state = lock(&self.shared.state);
        let entry = state.entry(id)?;
        let command = entry.command.clone();
        let fresh = match &command.phase {
            CommandPhase::Running(recording) => {
                drop(state);
                Some(recording.take_new(&mut mark))
            }
            CommandPhase::Ended(_) => {
                entry.is_end_reported = true;
                entry.unread_output.take()
            }
        };
        Some((command, fresh))
    }

    /// Waits until a command has ended, or has been removed from the list.
    pub(crate) async fn wait_until_ended(&self, id: &str) {
        let is_over = |state: &mut CommandTable| {
            let command = state.entry(id).map(|entry| &entry.command);
            command.is_none_or(|command| matches!(command.phase, CommandPhase::Ended(_)))
        };
        self.wait_until(is_over).await;
    }

    async fn wait_until(&self, mut is_so: impl FnMut(&mut CommandTable) -> bool) {
        loop {
            let ended = self.shared.ended.notified();
            if is_so(&mut lock(&self.shared.state)) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for BackgroundCommands {
    fn drop(&mut self) {
        self.stop_all.cancel();
    }
}

/// A reserved slot for one background command. Dropping this value releases the slot.
#[derive(Debug)]
pub(crate) struct ReservedCommandSlot(Arc<SharedCommandTable>);

impl ReservedCommandSlot {
    /// Adds a running command to the list, and returns the id of the command. When the command has
    /// ended, `examine` is called and returns notes. The function `examine` may block.
    ///
    /// Must be called inside a tokio runtime. If this runtime shuts down, the command ends.
    pub(crate) fn run_in_background(
        self,
        job: CommandHandle,
        recording: Arc<Recording>,
        running: CommandFuture,
        examine: Option<ExamineEndFn>,
    ) -> String {
        let shared = Arc::clone(&self.0);
        let id = {
            let mut state = lock(&shared.state);
            state.count += 1;
            let id = format!("bg-{}", state.count);
            let phase = CommandPhase::Running(Arc::clone(&recording));
            let command = BackgroundCommand { id: id.clone(), info: job, phase };
            let (position, rest) = (Arc::default(), None);
            state.commands.push_back(TrackedCommand {
                command,
                read_mark: position,
                unread_output: rest,
                is_end_reported: false,
            });
            id
        };
        let ends = EndRecorder { shared, id: id.clone(), recording, examine, exit: None };
        drop(tokio::spawn(async move {
            let exit = running.await;
            // `finish` blocks the thread for a noticeable time: it decodes the output, which may
            // have very long lines, and calls `examine`.
            drop(tokio::task::spawn_blocking(move || ends.finish(exit)));
        }));
        id
    }
}

impl Drop for ReservedCommandSlot {
    fn drop(&mut self) {
        lock(&self.0.state).reserved -= 1;
    }
}

/// Records the end of a command when this value is dropped, even if the task of the command is
/// aborted.
struct EndRecorder {
    shared: Arc<SharedCommandTable>,
    id: String,
    recording: Arc<Recording>,
    examine: Option<ExamineEndFn>,
    exit: Option<Result<CommandExit, SpawnError>>,
}

impl EndRecorder {
    fn finish(mut self, exit: Result<CommandExit, SpawnError>) {
        self.exit = Some(exit);
    }
}

impl Drop for EndRecorder {
    fn drop(&mut self) {
        let exit = self.exit.take().unwrap_or_else(|| Err(SpawnError::Start("it was lost".into())));
        // Examining the command may take a while. It is done before `read_mark` is locked, so that
        // readers of the output do not wait for it.
        let examined = |examine: ExamineEndFn| catch_unwind(AssertUnwindSafe(examine)).ok();
        let notes = self.examine.take().and_then(examined).unwrap_or_default();
        let position = self.shared.output_position(&self.id).unwrap_or_default();
        let mut mark = lock(&position);
        let rest = self.recording.take_new(&mut mark);
        let recorded = self.recording.finish();
        let mut state = lock(&self.shared.state);
        if let Some(entry) = state.entry(&self.id) {
            let lasted = entry.command.info.begun.elapsed();
            let done = CommandResult { exit, recorded, lasted, notes };
            entry.command.phase = CommandPhase::Ended(Arc::new(done));
            entry.unread_output = Some(rest);
        }
        state.evict_oldest_ended_over_limit();
        drop(state);
        drop(mark);
        self.shared.ended.notify_waiters();
    }
}

impl SharedCommandTable {
    fn output_position(&self, id: &str) -> Option<Arc<Mutex<ReportedOutputPosition>>> {
        lock(&self.state).entry(id).map(|entry| Arc::clone(&entry.read_mark))
    }
}

impl CommandTable {
    fn entry(&mut self, id: &str) -> Option<&mut TrackedCommand> {
        self.commands.iter_mut().find(|entry| entry.command.id == id)
    }

    fn running_count(&self) -> usize {
        self.commands.iter().filter(|entry| entry.command.is_running()).count()
    }

    fn evict_oldest_ended_over_limit(&mut self) {
        let ended = |entry: &TrackedCommand| !entry.command.is_running();
        if self.commands.iter().filter(|entry| ended(entry)).count() > MAX_BACKGROUND_ENDED_KEPT
            && let Some(oldest) = self.commands.iter().position(ended)
        {
            self.commands.remove(oldest);
        }
    }
}

impl BackgroundCommand {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, CommandPhase::Running(_))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Barrier;

    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_readers_receive_each_byte_once() {
        let background = Arc::new(BackgroundCommands::default());
        let recording = Arc::new(Recording::new(0, || Ok(None)));
        let stop = background.child_token();
        let (line, begun) = ("x".to_owned(), Instant::now());
        let job = CommandHandle {
            command_line: line,
            begun,
            timeout: None,
            stop: stop.clone(),
            input: None,
            is_sandboxed: false,
        };
        let running = Box::pin(async move {
            let ended = stop.run_until_cancelled(pending::<()>()).await;
            Err(SpawnError::Start(format!("{ended:?}").into()))
        });
        let id = background.reserve_slot().unwrap().run_in_background(
            job,
            Arc::clone(&recording),
            running,
            None,
        );
        // Decoding this output takes long enough that the readers run at the same time.
        let written = b"a line\n".repeat(40_000);
        recording.push(&written);
        let begin = Arc::new(Barrier::new(3));
        let look = || {
            let (background, begin, id) = (Arc::clone(&background), Arc::clone(&begin), id.clone());
            tokio::task::spawn_blocking(move || {
                begin.wait();
                background.read_new_output(&id).unwrap().1.map_or(0, |fresh| fresh.bytes)
            })
        };
        let looking = [look(), look(), look()];
        background.stop_all_and_wait().await;
        let mut reported = 0;
        for looking in looking {
            reported += looking.await.unwrap();
        }
        let (command, rest) = background.read_new_output(&id).unwrap();
        assert!(!command.is_running());
        assert_eq!(reported + rest.map_or(0, |rest| rest.bytes), written.len() as u64);
    }
}
