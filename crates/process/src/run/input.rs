//! Input to the terminal of a running command, and detection of a command that waits for input.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::limits::{INPUT_WRITE_TIMEOUT, SILENCE_BEFORE_INPUT_CHECK};
use crate::lock::lock;
use crate::tree::{ProcessTree, TerminalWriter};

/// A handle to the terminal of a running command. Clones of a handle share the same terminal.
#[derive(Debug, Clone)]
pub struct CommandInput(watch::Sender<Option<Arc<AttachedTerminal>>>);

#[derive(Debug)]
struct AttachedTerminal {
    terminal_writer: TerminalWriter,
    silence: Arc<SilenceTimer>,
}

impl Default for CommandInput {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl CommandInput {
    /// Writes text as keyboard input; a line end is the Enter key. Returns how many bytes the
    /// terminal accepted. If the command does not read its input, the terminal may accept only a
    /// part of the text. The call blocks for at most 1 s.
    ///
    /// # Errors
    /// Returns an error if the command does not run, or if it no longer has a terminal.
    pub fn type_text(&self, text: &str) -> io::Result<usize> {
        let line = self.0.borrow().clone().ok_or(io::ErrorKind::NotConnected)?;
        line.terminal_writer.write_within(text.replace('\n', "\r").as_bytes(), INPUT_WRITE_TIMEOUT)
    }

    /// Returns whether a process of the command waits for terminal input; returns false on systems
    /// where such waiting cannot be detected. The call blocks for some milliseconds.
    #[must_use]
    pub fn is_input_awaited(&self) -> bool {
        let line = self.0.borrow().clone();
        line.is_some_and(|line| line.silence.is_input_awaited_now())
    }

    /// Resolves when the command has been silent for some seconds and is waiting for input.
    pub async fn wait_until_input_awaited(&self) {
        match self.wait_until_attached().await {
            Some(silence) => silence.wait_until_input_awaited().await,
            None => std::future::pending().await,
        }
    }

    async fn wait_until_attached(&self) -> Option<Arc<SilenceTimer>> {
        let mut line = self.0.subscribe();
        // The channel's sender lives as long as this handle, so the wait cannot fail.
        let line = line.wait_for(Option::is_some).await.ok()?;
        line.as_ref().map(|line| Arc::clone(&line.silence))
    }

    /// Attaches the terminal of a command until the returned guard is dropped.
    pub(super) fn attach_terminal(
        &self,
        keys: TerminalWriter,
        silence: Arc<SilenceTimer>,
    ) -> DetachOnDrop {
        self.0.send_replace(Some(Arc::new(AttachedTerminal { terminal_writer: keys, silence })));
        DetachOnDrop(self.clone())
    }
}

/// A guard that detaches the terminal of a command when it is dropped.
pub(super) struct DetachOnDrop(CommandInput);

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        self.0.0.send_replace(None);
    }
}

/// Measures the time since a command's last output, and checks whether the command waits for input.
#[derive(Debug)]
pub(super) struct SilenceTimer {
    tree: Arc<ProcessTree>,
    /// Time of the last output.
    last_output: Mutex<Instant>,
}

impl SilenceTimer {
    pub(super) fn new(tree: Arc<ProcessTree>) -> Self {
        Self { tree, last_output: Mutex::new(Instant::now()) }
    }

    /// Restarts the timer after output.
    pub(super) fn restart(&self) {
        *lock(&self.last_output) = Instant::now();
    }

    /// Returns whether a process waits for input, regardless of how long the command has been
    /// silent. The check takes some milliseconds.
    pub(super) fn is_input_awaited_now(&self) -> bool {
        self.tree.waits_for_input()
    }

    /// Resolves when the command has been silent for some seconds and is waiting for input.
    pub(super) async fn wait_until_input_awaited(&self) {
        let mut looked = Instant::now();
        loop {
            let last = *lock(&self.last_output);
            let due = last.max(looked) + SILENCE_BEFORE_INPUT_CHECK;
            if Instant::now() < due {
                sleep_until(due).await;
                continue;
            }
            let tree = Arc::clone(&self.tree);
            if spawn_blocking(move || tree.waits_for_input()).await.unwrap_or(false) {
                return;
            }
            looked = Instant::now();
        }
    }
}
