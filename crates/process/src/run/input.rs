//! What is typed at the terminal of a command while it runs, and whether the command waits for it.
//!
//! Knows nothing of who types it, and of what is done about a command that waits.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::limits::{INPUT_SILENCE, INPUT_TIME};
use crate::lock::lock;
use crate::tree::{Keys, Tree};

/// The way to the terminal of a command, as long as that runs. Clones lead to the same one.
#[derive(Debug, Clone)]
pub struct Input(watch::Sender<Option<Arc<Line>>>);

#[derive(Debug)]
struct Line {
    keys: Keys,
    silence: Arc<Silence>,
}

impl Default for Input {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Input {
    /// Types a text: what ends a line is the Enter key. Returns how many bytes the terminal took,
    /// which may be fewer where nobody reads them. Blocks, for 1 s at most.
    ///
    /// # Errors
    /// If the command does not run, or has no terminal any more.
    pub fn type_text(&self, text: &str) -> io::Result<usize> {
        let line = self.0.borrow().clone().ok_or(io::ErrorKind::NotConnected)?;
        line.keys.press(text.replace('\n', "\r").as_bytes(), INPUT_TIME)
    }

    /// Returns whether a process of the command waits for something to be typed; false where that
    /// cannot be known. Blocks for some milliseconds.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let line = self.0.borrow().clone();
        line.is_some_and(|line| line.silence.is_of_a_reader())
    }

    /// Waits until the command has been silent for a while because it waits for input.
    pub async fn awaited(&self) {
        match self.begun().await {
            Some(silence) => silence.waits_for_input().await,
            None => std::future::pending().await,
        }
    }

    async fn begun(&self) -> Option<Arc<Silence>> {
        let mut line = self.0.subscribe();
        // The sender lives as long as this handle, so the wait cannot fail.
        let line = line.wait_for(Option::is_some).await.ok()?;
        line.as_ref().map(|line| Arc::clone(&line.silence))
    }

    /// Leads to a command until what is returned is dropped.
    pub(super) fn connect(&self, keys: Keys, silence: Arc<Silence>) -> Connected {
        self.0.send_replace(Some(Arc::new(Line { keys, silence })));
        Connected(self.clone())
    }
}

/// A command that can be typed at.
pub(super) struct Connected(Input);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.send_replace(None);
    }
}

/// How long a command has been silent, and why.
#[derive(Debug)]
pub(super) struct Silence {
    tree: Arc<Tree>,
    /// When it wrote something.
    last: Mutex<Instant>,
}

impl Silence {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        Self { tree, last: Mutex::new(Instant::now()) }
    }

    /// Notes that it wrote something.
    pub(super) fn broken(&self) {
        *lock(&self.last) = Instant::now();
    }

    /// Whether a process waits for something to be typed, however long. Takes some milliseconds.
    pub(super) fn is_of_a_reader(&self) -> bool {
        self.tree.waits_for_input()
    }

    /// Waits until the command has been silent for a while because it waits for input.
    pub(super) async fn waits_for_input(&self) {
        let mut looked = Instant::now();
        loop {
            let last = *lock(&self.last);
            let due = last.max(looked) + INPUT_SILENCE;
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
