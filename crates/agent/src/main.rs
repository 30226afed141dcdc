//! The `callboard` program. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    callboard::cli::main()
}
