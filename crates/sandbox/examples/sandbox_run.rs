//! Runs a command in a sandbox: `sandbox_run [--landlock] FOLDER PROGRAM [ARGUMENT...]`. The
//! command may write in the folder only.

use std::process::ExitCode;

use callboard_sandbox::{
    Isolation, ProcessSession, SandboxCommand, SandboxPolicy, probe_isolation,
    run_if_sandbox_helper,
};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    run_if_sandbox_helper();
    let mut args = std::env::args_os().skip(1).peekable();
    let isolation = match args.next_if(|arg| arg == "--landlock") {
        Some(_) => Isolation::Landlock,
        None => probe_isolation().isolation,
    };
    let policy = SandboxPolicy::from_writable_folders(args.next());
    let program = args.next().ok_or("a program is missing")?;
    let mut command = SandboxCommand::new(program, &policy, isolation, ProcessSession::Inherited)?;
    command.args(args).envs(std::env::vars_os());
    let (status, _) = command.spawn()?.wait()?;
    Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1).into())
}
