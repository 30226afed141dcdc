//! `cargo xtask`: the commands of this project, from the checks of `ci` to the acceptance tests.
//!
//! xtask runs cargo, git and the built programs. It uses no crate of the workspace, so that it
//! builds in seconds and checks all crates in the same way.

mod accept;
mod cargo;
mod demo;
mod layers;
mod limits;
mod package;
mod picture;
mod process;
mod release;
mod step;
mod tidy;
mod ui;
mod workspace;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use process::{TaskError, TaskResult};
use step::XtaskCommand;
use ui::Ui;
use workspace::Workspace;

/// Steps of `ci`, in the order in which they run. Fast steps and steps with useful error messages
/// come first. The tests come last, so that the output ends with the test results.
const STEPS: [XtaskCommand; 6] = [
    XtaskCommand { name: "fmt", args: "", what: "check the formatting", run: cargo::check_format },
    XtaskCommand {
        name: "layers",
        args: "[--surface]",
        what: "check dependencies between crates; or print unused public items",
        run: layers::check_layers,
    },
    XtaskCommand {
        name: "tidy",
        args: "",
        what: "check rules that no compiler checks",
        run: tidy::check_repository_files,
    },
    XtaskCommand {
        name: "clippy",
        args: "",
        what: "lint everything; check each library alone",
        run: cargo::lint_and_check_features,
    },
    XtaskCommand {
        name: "package",
        args: "",
        what: "package the crates, build their docs without warnings, check each package",
        run: package::check_packages,
    },
    XtaskCommand {
        name: "test",
        args: "[ARGS..]",
        what: "run all tests; with ARGS, those that the runner selects (no doc tests)",
        run: cargo::run_tests,
    },
];

/// Commands that are not steps of `ci`. The command `help` is handled elsewhere.
const COMMANDS: [XtaskCommand; 7] = [
    XtaskCommand {
        name: "ci",
        args: "",
        what: "run every step in order, stop at the first failure",
        run: run_ci_steps,
    },
    XtaskCommand {
        name: "demo",
        args: "[PATH]",
        what: "run a demo session of callboard in PATH",
        run: demo::run_demo,
    },
    XtaskCommand {
        name: "install",
        args: "[ARGS..]",
        what: "build and install callboard, with its functions in the order of their use",
        run: release::install_program,
    },
    XtaskCommand {
        name: "limits",
        args: "",
        what: "regenerate the page of all limits",
        run: limits::write_limits_page,
    },
    XtaskCommand {
        name: "picture",
        args: "",
        what: "regenerate the picture and the page of the README from a turn of callboard, and its chart",
        run: picture::update_pictures_and_session_page,
    },
    XtaskCommand {
        name: "accept",
        args: "NAME|all [--n N] [--seed S]",
        what: "measure the promises, one JSON line per row",
        run: accept::run_rows,
    },
    XtaskCommand {
        name: "bench",
        args: "NAME [--n N] | --peers",
        what: "measure CPU time, one JSON line per row; or compare with other agents",
        run: accept::run_bench_rows,
    },
];

fn main() -> ExitCode {
    let stdout = &mut std::io::stdout();
    let mut ui = Ui::new(stdout);
    match dispatch(&mut ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            if let Some(why) = stop.message() {
                ui.print_remark_to_stderr(format_args!("xtask: {why}"));
            }
            stop.exit_code()
        }
    }
}

fn dispatch(ui: &mut Ui<'_>) -> TaskResult {
    if let Some(report) = env::var_os(release::link::REPORT_VARIABLE) {
        let args: Vec<_> = env::args_os().skip(1).collect();
        return release::link::run_as_linker(&args, Path::new(&report));
    }
    let args = env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|arg| TaskError::Usage(format!("{} is not UTF-8", arg.display())))?;
    let is_help = |name: &str| ["help", "--help", "-h"].contains(&name);
    let Some((name, rest)) = args.split_first().filter(|(name, _)| !is_help(name)) else {
        print_help(ui);
        return Ok(());
    };
    let named = |step: &&XtaskCommand| step.name == name;
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
        Some(step) => step::run_step(step, &workspace, ui, rest).map(drop),
        None => (command.run)(&workspace, ui, rest),
    }
}

fn run_ci_steps(workspace: &Workspace, ui: &mut Ui<'_>, _: &[String]) -> TaskResult {
    step::run_steps_until_failure(&STEPS, workspace, ui)
}

fn print_help(ui: &mut Ui<'_>) {
    ui.print_line_to_stdout("cargo xtask COMMAND");
    for command in COMMANDS.iter().chain(&STEPS) {
        let call = format!("{} {}", command.name, command.args);
        ui.print_line_to_stdout(format_args!("  {call:24} {}", command.what));
    }
}
