//! Notices a command that waits for somebody to type something.
//!
//! Knows nothing of what is done about it.

use std::sync::{Arc, Mutex};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::limits::INPUT_SILENCE;
use crate::lock::lock;
use crate::tree::Tree;

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
