//! The `callboard` program. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Does not return where this process only keeps a command.
    acp_tools::exec::helper_main();
    acp_tools::env::conceal();
    callboard::ui::ended(callboard::cli::main())
}
