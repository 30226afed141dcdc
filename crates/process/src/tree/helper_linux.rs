//! Starts a program beneath a helper, which is this very program once more.
//!
//! Knows nothing of what a helper does; that is [`supervisor`](super::supervisor)'s. Between the two is one
//! socket, the helper's standard input. Down it go one [`Order`] and then single bytes; up comes one
//! [`News`]. When it closes, however this process ended, the helper kills everything. Nothing waits
//! for the helper but the end: a command may have stopped it before it could say a word.

use std::env::args_os;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use super::supervisor::{self, HelperReport, SpawnOrder, close_range, write_json_line};
use super::{ChildOutput, OWN_PROGRAM, reset_signal};
use crate::program::{COMMAND_ID_VARIABLE, SpawnSpec};

/// The name by which a helper is started, and knows that it is one.
const HELPER_ARGV0: &str = "acp-tools: keeps a command";

/// Set once [`init_command_helper`] was called: then the next process of this program calls it too.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

pub(super) fn is_available() -> bool {
    IS_INITIALIZED.load(Ordering::Relaxed)
}

#[expect(clippy::exit, clippy::disallowed_methods, reason = "a helper is no program of its own")]
pub(crate) fn init_command_helper() {
    if args_os().next().is_some_and(|name| name == HELPER_ARGV0) {
        std::process::exit(i32::from(supervisor::run().is_err()));
    }
    // If whoever started us ignores it, no program could be waited for.
    reset_signal(libc::SIGCHLD);
    IS_INITIALIZED.store(true, Ordering::Relaxed);
}

pub(super) fn start_helper(
    program: &SpawnSpec<'_>,
    end: ChildOutput,
) -> io::Result<(Child, HelperSocket, HelperReportReader)> {
    let (socket, theirs) = UnixStream::pair()?;
    // As the program will be: a helper has nothing in its environment that a command may not see.
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(HELPER_ARGV0).current_dir(program.cwd);
    command.env_clear().envs(program.env).env(COMMAND_ID_VARIABLE, program.command_id);
    command.stdin(OwnedFd::from(theirs)).stdout(end.output.try_clone()?).stderr(end.output);
    let mut child = command.spawn()?;
    // Holds the other ends.
    drop(command);
    let order = SpawnOrder {
        argv: program.argv.iter().copied().map(str::to_owned).collect(),
        shape: end.shape,
    };
    let told = write_json_line(&socket, &order).and_then(|()| socket.try_clone());
    match told {
        Ok(told) => Ok((child, HelperSocket(socket), HelperReportReader(BufReader::new(told)))),
        Err(error) => {
            drop(child.kill());
            drop(child.wait());
            Err(error)
        }
    }
}

/// What a program inherits is its standard streams, whatever our client left open in us.
pub(super) fn close_on_exec() {
    close_range(libc::CLOSE_RANGE_CLOEXEC);
}

/// The way to a helper.
#[derive(Debug)]
pub(super) struct HelperSocket(UnixStream);

impl HelperSocket {
    /// A helper that is gone needs to be asked nothing.
    pub(super) fn send_request(&self, request: u8) {
        drop((&self.0).write_all(&[request]));
    }
}

/// The way from a helper.
#[derive(Debug)]
pub(super) struct HelperReportReader(BufReader<UnixStream>);

impl HelperReportReader {
    /// Waits for the end; none if the helper was killed.
    pub(super) fn read_report(mut self) -> Option<HelperReport> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }
}
