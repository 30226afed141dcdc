//! The `callboard` program, a wrapper of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // If this process is a helper that supervises a command, this call does not return.
    callboard_process::run_if_command_helper();
    callboard_process::env::hide_env_from_other_processes();
    callboard::main()
}
