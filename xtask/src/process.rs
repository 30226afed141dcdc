//! Functions that run other programs, and the reasons why a command of xtask fails.

use std::io::{self, Write as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Delay between two checks whether a process has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Result of a command of xtask.
pub(crate) type TaskResult = Result<(), TaskError>;

/// Reasons why a command of xtask fails.
#[derive(Debug)]
pub(crate) enum TaskError {
    /// A check or a program failed. The exit code is 1.
    Failed(String),
    /// The command line is invalid. The exit code is 2.
    Usage(String),
    /// A program failed and has already reported its errors. xtask exits with this code, which is
    /// the exit code of the program.
    Exit(u8),
}

impl TaskError {
    /// Returns the error message for the user, if xtask has to print one.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Failed(why) | Self::Usage(why) => Some(why),
            Self::Exit(_) => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Usage(_) => ExitCode::from(2),
            Self::Exit(code) => ExitCode::from(*code),
        }
    }
}

/// Runs a program that inherits stdin, stdout and stderr. If the program fails, returns an error.
pub(crate) fn run_expecting_success(command: &mut Command) -> TaskResult {
    let status = command.status();
    expect_success(command, status)
}

/// Runs a program that inherits stdin, stdout and stderr. If the program fails, returns its exit
/// code as an error. The code is 1 if a signal ended the program.
pub(crate) fn run_passing_exit_code(command: &mut Command) -> TaskResult {
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    match status.code() {
        Some(0) => Ok(()),
        code => Err(TaskError::Exit(code.and_then(|code| code.try_into().ok()).unwrap_or(1))),
    }
}

/// Runs a program that inherits stderr, and returns its stdout. If the program fails, returns an
/// error.
pub(crate) fn capture_stdout(command: &mut Command) -> Result<String, TaskError> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| cannot_run(command, &error))?;
    expect_success(command, Ok(output.status))?;
    String::from_utf8(output.stdout)
        .map_err(|error| TaskError::Failed(format!("`{}`: {error}", command_text(command))))
}

/// Runs a program, copies its stdout to stderr, and returns its exit status and its stdout.
pub(crate) fn run_and_copy_output(
    command: &mut Command,
) -> Result<(ExitStatus, String), TaskError> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_run(command, &error))?;
    io::stderr().write_all(&output.stdout).ok();
    Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// A running program, which is killed on drop.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl KillOnDrop {
    /// Waits until the process has exited, and returns the time that it took.
    pub(crate) fn wait_for_exit(&mut self, deadline: Duration) -> Result<Duration, TaskError> {
        let start = Instant::now();
        while start.elapsed() < deadline {
            match self.0.try_wait() {
                Ok(Some(_)) => return Ok(start.elapsed()),
                Ok(None) => thread::sleep(EXIT_POLL_INTERVAL),
                Err(error) => return Err(TaskError::Failed(format!("cannot wait: {error}"))),
            }
        }
        Err(TaskError::Failed(format!("it still runs {deadline:?} after the end of its input")))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // The kill fails if the process has already exited. The process must be reaped even then.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn expect_success(command: &Command, status: io::Result<ExitStatus>) -> TaskResult {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(TaskError::Failed(format!("`{}` ended with {status}", command_text(command))))
        }
        Err(error) => Err(cannot_run(command, &error)),
    }
}

fn cannot_run(command: &Command, error: &io::Error) -> TaskError {
    TaskError::Failed(format!("cannot run `{}`: {error}", command_text(command)))
}

/// Returns the command line of a command, for error messages.
fn command_text(command: &Command) -> String {
    let program = command.get_program().display().to_string();
    command.get_args().fold(program, |line, arg| line + " " + &arg.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failed_program_is_named_with_its_arguments() {
        let stop = run_expecting_success(&mut shell("exit 3")).unwrap_err();
        let why = stop.message().unwrap();
        assert!(why.contains("`sh -c exit 3`") && why.contains('3'), "{why}");
        assert_eq!(stop.exit_code(), ExitCode::FAILURE);
    }

    #[test]
    fn the_exit_code_of_a_program_that_reports_its_errors_is_returned() {
        let stop = run_passing_exit_code(&mut shell("exit 7")).unwrap_err();
        assert_eq!((stop.message(), stop.exit_code()), (None, ExitCode::from(7)));
        assert_eq!(
            run_passing_exit_code(&mut shell("kill -9 $$")).unwrap_err().exit_code(),
            ExitCode::FAILURE
        );
        run_passing_exit_code(&mut shell("exit 0")).unwrap();
    }

    #[test]
    fn captured_output_counts_only_when_the_program_succeeded() {
        assert_eq!(capture_stdout(&mut shell("echo out")).unwrap(), "out\n");
        capture_stdout(&mut shell("echo out; exit 1")).unwrap_err();
        capture_stdout(&mut Command::new("./no-such-program")).unwrap_err();
    }
}
