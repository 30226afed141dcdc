//! An agent process whose input and output are raw lines. The output is read only on demand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::agent::DEADLINE;
use crate::process::{KillOnDrop, TaskError};

/// An agent process, which is killed on drop.
pub(super) struct RawAgent {
    child: KillOnDrop,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl RawAgent {
    /// Starts an agent, and discards its stderr. At most two lines and the content of one read
    /// buffer are read before the caller needs them.
    pub(super) fn start(command: &mut Command) -> Result<Self, TaskError> {
        Self::start_with_read_ahead(command, 1)
    }

    /// Starts an agent, and discards its stderr. At most `lines` lines are read before the caller
    /// needs them.
    pub(super) fn start_with_read_ahead(
        command: &mut Command,
        lines: usize,
    ) -> Result<Self, TaskError> {
        let failed = |why: String| TaskError::Failed(format!("cannot start the agent: {why}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = stdout.ok_or_else(|| failed("it has no output".to_owned()))?;
        let (sender, lines) = sync_channel(lines);
        thread::spawn(move || forward_lines(stdout, &sender));
        Ok(Self { child: KillOnDrop(child), stdin, lines })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Writes bytes unchanged.
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), TaskError> {
        write_to_stdin(self.stdin.as_mut(), bytes)
    }

    /// Writes a line.
    pub(super) fn send_line(&mut self, line: &[u8]) -> Result<(), TaskError> {
        self.write_bytes(line)?;
        self.write_bytes(b"\n")
    }

    /// Takes the input out of this value, so that another thread can write to it.
    pub(super) fn take_input(&mut self) -> RawAgentInput {
        RawAgentInput(self.stdin.take())
    }

    /// Closes the input, and returns the time until the process has exited.
    pub(super) fn close_input_and_wait(
        &mut self,
        deadline: Duration,
    ) -> Result<Duration, TaskError> {
        drop(self.stdin.take());
        self.child.wait_for_exit(deadline)
    }

    /// Waits for the next line. Returns `None` if no line arrives within the duration `wait`.
    pub(super) fn wait_for_next_line_within(
        &mut self,
        wait: Duration,
    ) -> Result<Option<String>, TaskError> {
        match self.lines.recv_timeout(wait) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(TaskError::Failed(format!("no line arrived: {error}"))),
        }
    }

    /// Waits for the next line, and returns it with its newline.
    pub(super) fn wait_for_next_line(&mut self) -> Result<String, TaskError> {
        let line = self.lines.recv_timeout(DEADLINE);
        line.map_err(|error| TaskError::Failed(format!("no line arrived: {error}")))
    }

    /// Waits for the next line, and parses it as JSON.
    pub(super) fn wait_for_next_json_line(&mut self) -> Result<Value, TaskError> {
        parse_json_line(&self.wait_for_next_line()?)
    }
}

/// The stdin of an agent process.
pub(super) struct RawAgentInput(Option<ChildStdin>);

impl RawAgentInput {
    /// Writes a line, and a newline after it.
    pub(super) fn send_line(&mut self, line: &[u8]) -> Result<(), TaskError> {
        write_to_stdin(self.0.as_mut(), line)?;
        write_to_stdin(self.0.as_mut(), b"\n")
    }
}

fn write_to_stdin(stdin: Option<&mut ChildStdin>, bytes: &[u8]) -> Result<(), TaskError> {
    let stdin = stdin.ok_or_else(|| TaskError::Failed("the input is closed".to_owned()))?;
    stdin.write_all(bytes).map_err(|error| TaskError::Failed(format!("cannot write: {error}")))
}

/// Parses a line that must be JSON.
pub(super) fn parse_json_line(line: &str) -> Result<Value, TaskError> {
    serde_json::from_str(line).map_err(|error| TaskError::Failed(format!("{error}: {line}")))
}

fn forward_lines(stdout: ChildStdout, sender: &SyncSender<String>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if sender.send(std::mem::take(&mut line)).is_err() {
            return;
        }
    }
}
