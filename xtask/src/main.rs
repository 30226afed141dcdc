//! `cargo xtask`: the project's own commands, from `ci` to the acceptance checks.
//!
//! It runs cargo, git and the built binaries, and uses no crate of the workspace. It therefore
//! builds in seconds, and checks all crates in the same way.

mod accept;
mod cargo;
mod demo;
mod layers;
mod limits;
mod package;
mod picture;
mod process;
mod step;
mod tidy;
mod ui;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use process::{TaskError, TaskResult};
use step::Step;
use ui::Ui;
use workspace::Workspace;

/// Steps of `ci`, in this order: fast and informative ones first, the tests last, so that the last
/// lines of the output are those of the tests.
const STEPS: [Step; 7] = [
    Step { name: "fmt", args: "", what: "check the formatting", run: cargo::fmt },
    Step {
        name: "layers",
        args: "[--surface]",
        what: "check dependencies between crates; or print unused public items",
        run: layers::run,
    },
    Step { name: "tidy", args: "", what: "check rules that no compiler checks", run: tidy::run },
    Step {
        name: "clippy",
        args: "",
        what: "lint everything; check each library alone",
        run: cargo::clippy,
    },
    Step { name: "doc", args: "", what: "build the docs, warnings denied", run: cargo::doc },
    Step {
        name: "package",
        args: "",
        what: "package the crates and check each package",
        run: package::run,
    },
    Step {
        name: "test",
        args: "[ARGS..]",
        what: "run all tests; with ARGS, those that the runner selects (no doc tests)",
        run: cargo::test,
    },
];

/// Commands other than the steps; `help` is handled before these.
const COMMANDS: [Step; 6] = [
    Step {
        name: "ci",
        args: "",
        what: "run every step in order, stop at the first failure",
        run: ci,
    },
    Step {
        name: "demo",
        args: "[PATH]",
        what: "run a demo session of callboard in PATH",
        run: demo::run,
    },
    Step { name: "limits", args: "", what: "regenerate the page of all limits", run: limits::run },
    Step {
        name: "picture",
        args: "",
        what: "regenerate the picture of the README from a turn of callboard",
        run: picture::run,
    },
    Step {
        name: "accept",
        args: "NAME|all [--n N] [--seed S]",
        what: "measure the promises, one JSON line per row",
        run: accept::run,
    },
    Step {
        name: "bench",
        args: "NAME [--n N]",
        what: "measure CPU time, one JSON line per row",
        run: accept::bench,
    },
];

fn main() -> ExitCode {
    let stdout = &mut std::io::stdout();
    let mut ui = Ui::new(stdout);
    match dispatch(&mut ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            if let Some(why) = stop.why() {
                ui.note(format_args!("xtask: {why}"));
            }
            stop.code()
        }
    }
}

fn dispatch(ui: &mut Ui<'_>) -> TaskResult {
    let args = env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|arg| TaskError::Usage(format!("{} is not UTF-8", arg.display())))?;
    let is_help = |name: &str| ["help", "--help", "-h"].contains(&name);
    let Some((name, rest)) = args.split_first().filter(|(name, _)| !is_help(name)) else {
        help(ui);
        return Ok(());
    };
    let named = |step: &&Step| step.name == name;
    let step = STEPS.iter().find(named);
    let Some(command) = step.or_else(|| COMMANDS.iter().find(named)) else {
        return Err(TaskError::Usage(format!(
            "no command `{name}`; `cargo xtask help` lists them"
        )));
    };
    if command.args.is_empty() && !rest.is_empty() {
        return Err(TaskError::Usage(format!("`{name}` takes no arguments")));
    }
    let workspace = Workspace::load()?;
    match step {
        Some(step) => step::run(step, &workspace, ui, rest).map(drop),
        None => (command.run)(&workspace, ui, rest),
    }
}

fn ci(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    step::run_all(&STEPS, workspace, ui)
}

fn help(ui: &mut Ui<'_>) {
    ui.line("cargo xtask COMMAND");
    for command in COMMANDS.iter().chain(&STEPS) {
        let call = format!("{} {}", command.name, command.args);
        ui.line(format_args!("  {call:24} {}", command.what));
    }
}
