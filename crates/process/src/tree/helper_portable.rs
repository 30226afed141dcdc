//! Helpers are unavailable on this system. Its kernel always makes process 1 the parent of an
//! orphan, so a helper could not adopt orphans.

use std::io;
use std::process::Child;

use super::ChildStdio;
use crate::program::{ProgramExit, SpawnSpec};

pub(super) fn is_available() -> bool {
    false
}

pub(crate) fn run_if_command_helper() {}

pub(super) fn start_helper(
    _: &SpawnSpec<'_>,
    _: ChildStdio,
) -> io::Result<(Child, HelperSocket, HelperReportReader)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[derive(Debug)]
pub(super) struct HelperSocket;

impl HelperSocket {
    pub(super) fn send_request(&self, _request: u8) {}
}

#[derive(Debug)]
pub(super) struct HelperReportReader;

impl HelperReportReader {
    pub(super) fn read_report(self) -> Option<Result<ProgramExit, String>> {
        None
    }
}
