//! Starts a program beneath a helper, which is another process of this same program.
//!
//! The helper runs the module [`supervisor`]. One socket, the helper's standard input, connects the
//! helper with this process. The socket carries one [`SpawnOrder`] and then single bytes to the
//! helper, and one [`HelperReport`] back. When the socket closes, for whatever reason, the helper
//! kills all processes beneath it. This process waits for the helper only at the end: a command may
//! have stopped the helper before the helper could report.

use std::env::args_os;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use super::supervisor::{
    self, HelperReport, SpawnOrder, close_all_but_standard_streams, write_json_line,
};
use super::{ChildStdio, OWN_PROGRAM, reset_signal};
use crate::program::{COMMAND_ID_VARIABLE, SpawnSpec};

/// The `argv[0]` by which a process recognizes that it is a helper.
const HELPER_ARGV0: &str = "acp-tools: keeps a command";

/// Whether [`run_if_command_helper`] was called in this process. A helper runs the same program, so
/// the helper calls this function too.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

pub(super) fn is_available() -> bool {
    IS_INITIALIZED.load(Ordering::Relaxed)
}

#[expect(clippy::exit, clippy::disallowed_methods, reason = "a helper is no program of its own")]
pub(crate) fn run_if_command_helper() {
    if args_os().next().is_some_and(|name| name == HELPER_ARGV0) {
        std::process::exit(i32::from(supervisor::run_helper().is_err()));
    }
    // If our parent process ignored SIGCHLD, this process has inherited the setting and could not
    // wait for its children.
    reset_signal(libc::SIGCHLD);
    IS_INITIALIZED.store(true, Ordering::Relaxed);
}

pub(super) fn start_helper(
    program: &SpawnSpec<'_>,
    end: ChildStdio,
) -> io::Result<(Child, HelperSocket, HelperReportReader)> {
    let (socket, theirs) = UnixStream::pair()?;
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(HELPER_ARGV0).current_dir(program.cwd).env_clear();
    let mut env = program.env.clone();
    env.insert(COMMAND_ID_VARIABLE.to_owned(), program.command_id.to_owned());
    // The helper of a sandbox must not load libraries from a folder that a command can write.
    // Variables such as `LD_LIBRARY_PATH` may name such a folder.
    if program.sandbox.is_none() {
        command.envs(&env);
    }
    let errors = end.errors.map_or_else(|| end.output.try_clone(), Ok)?;
    command.stdin(OwnedFd::from(theirs)).stdout(end.output).stderr(errors);
    let mut child = command.spawn()?;
    // Closes the other ends of the output and of the socket, which `command` owns.
    drop(command);
    let order = SpawnOrder {
        argv: program.argv.iter().copied().map(str::to_owned).collect(),
        env,
        layout: end.layout,
        sandbox: program.sandbox.cloned(),
    };
    let reader = write_json_line(&socket, &order).and_then(|()| socket.try_clone());
    match reader {
        Ok(reader) => Ok((child, HelperSocket(socket), HelperReportReader(BufReader::new(reader)))),
        Err(error) => {
            drop(child.kill());
            drop(child.wait());
            Err(error)
        }
    }
}

/// Ensures that a program inherits only its standard streams, even if our client left other
/// descriptors open in this process.
pub(super) fn close_other_descriptors_on_exec() {
    close_all_but_standard_streams(libc::CLOSE_RANGE_CLOEXEC);
}

/// The sending side of the socket to a helper.
#[derive(Debug)]
pub(super) struct HelperSocket(UnixStream);

impl HelperSocket {
    /// Sends a request; errors are ignored because they mean that the helper has exited.
    pub(super) fn send_request(&self, request: u8) {
        drop((&self.0).write_all(&[request]));
    }
}

/// The receiving side of the socket to a helper.
#[derive(Debug)]
pub(super) struct HelperReportReader(BufReader<UnixStream>);

impl HelperReportReader {
    /// Waits for the helper's report; returns `None` if the helper was killed.
    pub(super) fn read_report(mut self) -> Option<HelperReport> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}
