//! The `callboard` program, a wrapper of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Does not return if this process is a helper that supervises a command.
    callboard_process::init_command_helper();
    callboard_process::env::hide_own_env();
    callboard::main()
}
