//! `cargo xtask`: the project's own commands, from `ci` to the acceptance checks.
//!
//! It knows the workspace from outside only: it runs cargo, git and the built binaries, and uses
//! no crate of the workspace, so that it builds in seconds and judges all of them alike.

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

/// What `ci` runs, in this order: the quick and telling first, the tests last, so that the last
/// lines a test runner prints are those of the tests.
const STEPS: [Step; 7] = [
    Step { name: "fmt", args: "", what: "check the formatting", run: cargo::fmt },
    Step {
        name: "layers",
        args: "[--surface]",
        what: "check who may depend on whom; or print the public items that nobody uses",
        run: layers::run,
    },
    Step { name: "tidy", args: "", what: "check what no compiler checks", run: tidy::run },
    Step {
        name: "clippy",
        args: "",
        what: "lint all; check the libraries alone",
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
        what: "run every test; with ARGS, those the runner picks by them (and no doc tests)",
        run: cargo::test,
    },
];

/// The commands beside the steps; `help` is answered before these.
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
        what: "show a session of callboard in PATH",
        run: demo::run,
    },
    Step { name: "limits", args: "", what: "write the page of all limits", run: limits::run },
    Step {
        name: "picture",
        args: "",
        what: "draw the picture of the README, by a turn of callboard",
        run: picture::run,
    },
    Step {
        name: "accept",
        args: "NAME|all [--n N] [--seed S]",
        what: "measure what is promised, one JSON line a row",
        run: accept::run,
    },
    Step {
        name: "bench",
        args: "NAME [--n N]",
        what: "measure CPU time, one JSON line a row",
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
