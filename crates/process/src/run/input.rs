//! What is typed at the terminal of a command while it runs, and whether the command waits for it.
//!
//! Knows nothing of who types it, and of what is done about a command that waits.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::limits::{INPUT_WRITE_TIMEOUT, SILENCE_BEFORE_INPUT_CHECK};
use crate::lock::lock;
use crate::tree::{ProcessTree, TerminalWriter};

/// The way to the terminal of a command, as long as that runs. Clones lead to the same one.
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
    /// Types a text: what ends a line is the Enter key. Returns how many bytes the terminal took,
    /// which may be fewer where nobody reads them. Blocks, for 1 s at most.
    ///
    /// # Errors
    /// If the command does not run, or has no terminal any more.
    pub fn type_text(&self, text: &str) -> io::Result<usize> {
        let line = self.0.borrow().clone().ok_or(io::ErrorKind::NotConnected)?;
        line.terminal_writer.write_within(text.replace('\n', "\r").as_bytes(), INPUT_WRITE_TIMEOUT)
    }

    /// Returns whether a process of the command waits for something to be typed; false where that
    /// cannot be known. Blocks for some milliseconds.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let line = self.0.borrow().clone();
        line.is_some_and(|line| line.silence.is_input_awaited())
    }

    /// Waits until the command has been silent for a while because it waits for input.
    pub async fn wait_until_input_awaited(&self) {
        match self.wait_until_attached().await {
            Some(silence) => silence.wait_until_input_awaited().await,
            None => std::future::pending().await,
        }
    }

    async fn wait_until_attached(&self) -> Option<Arc<SilenceTimer>> {
        let mut line = self.0.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let line = line.wait_for(Option::is_some).await.ok()?;
        line.as_ref().map(|line| Arc::clone(&line.silence))
    }

    /// Leads to a command until what is returned is dropped.
    pub(super) fn connect(&self, keys: TerminalWriter, silence: Arc<SilenceTimer>) -> DetachOnDrop {
        self.0.send_replace(Some(Arc::new(AttachedTerminal { terminal_writer: keys, silence })));
        DetachOnDrop(self.clone())
    }
}

/// A command that can be typed at.
pub(super) struct DetachOnDrop(CommandInput);

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        self.0.0.send_replace(None);
    }
}

/// How long a command has been silent, and why.
#[derive(Debug)]
pub(super) struct SilenceTimer {
    tree: Arc<ProcessTree>,
    /// When it wrote something.
    last_output: Mutex<Instant>,
}

impl SilenceTimer {
    pub(super) fn new(tree: Arc<ProcessTree>) -> Self {
        Self { tree, last_output: Mutex::new(Instant::now()) }
    }

    /// Notes that it wrote something.
    pub(super) fn restart(&self) {
        *lock(&self.last_output) = Instant::now();
    }

    /// Whether a process waits for something to be typed, however long. Takes some milliseconds.
    pub(super) fn is_input_awaited(&self) -> bool {
        self.tree.waits_for_input()
    }

    /// Waits until the command has been silent for a while because it waits for input.
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
