//! The `callboard` program. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Does not return where this process only keeps a command.
    callboard_process::init_command_helper();
    callboard_process::env::hide_own_env();
    callboard::main()
}
