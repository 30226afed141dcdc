//! The agent's process and its three streams. It knows nothing of what the lines say.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::OwnedMutexGuard;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::scratch::Scratch;
use super::{CALLBOARD, DEADLINE, EXIT_DEADLINE};

/// A running agent; killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<Vec<u8>>,
    reader: JoinHandle<()>,
    reading: Arc<tokio::sync::Mutex<()>>,
    log: Arc<Mutex<String>>,
}

impl Process {
    /// Starts the agent with a model, as `--model` names it.
    pub(crate) fn start(scratch: &Scratch, model: &str) -> Self {
        let mut child = Command::new(CALLBOARD)
            .args(["acp", "--model", model])
            .current_dir(scratch.cwd())
            .env_clear()
            .envs(scratch.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = mpsc::unbounded_channel();
        let log = Arc::<Mutex<String>>::default();
        let reading = Arc::<tokio::sync::Mutex<()>>::default();
        let stdout = child.stdout.take().unwrap();
        let reader = tokio::spawn(read_lines(stdout, sender, Arc::clone(&reading)));
        tokio::spawn(read_log(child.stderr.take().unwrap(), Arc::clone(&log)));
        Self { stdin: child.stdin.take(), child, lines, reader, reading, log }
    }

    /// The id, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether its input is open.
    pub(crate) fn listens(&self) -> bool {
        self.stdin.is_some()
    }

    /// Writes a line to its input.
    pub(crate) async fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        let line = format!("{line}\n");
        let written = timeout(DEADLINE, stdin.write_all(line.as_bytes())).await;
        written.expect("it reads its input").expect("its input is open");
    }

    /// Reads a line of its output; none at the end.
    pub(crate) async fn line(&mut self) -> Option<Vec<u8>> {
        self.lines.recv().await
    }

    /// Reads nothing more, beyond one line, until the guard is dropped.
    pub(crate) async fn stop_reading(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.reading).lock_owned().await
    }

    /// Closes its output and nothing else.
    pub(crate) fn close_output(&self) {
        self.reader.abort();
    }

    /// Closes its input.
    pub(crate) fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Asks it to end by SIGTERM.
    pub(crate) fn terminate(&self) {
        let id = self.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        kill_process(id.expect("it runs"), Signal::TERM).unwrap();
    }

    /// Waits for its end, which must not take long.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        let exited = timeout(EXIT_DEADLINE, self.child.wait()).await;
        exited.expect("it exits in time").unwrap()
    }

    /// What it wrote to its standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

async fn read_lines(
    stdout: ChildStdout,
    lines: UnboundedSender<Vec<u8>>,
    reading: Arc<tokio::sync::Mutex<()>>,
) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).await.is_ok_and(|bytes| bytes > 0) {
        if lines.send(std::mem::take(&mut line)).is_err() {
            break;
        }
        drop(reading.lock().await);
    }
}

async fn read_log(mut stderr: ChildStderr, log: Arc<Mutex<String>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        log.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}
