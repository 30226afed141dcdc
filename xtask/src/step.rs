//! Steps: the parts of `ci`, the measurement of their durations, and the order in which they run.

use std::time::Instant;

use crate::process::{TaskError, TaskResult};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// One command of xtask, with its line in the output of `help`.
pub(crate) struct XtaskCommand {
    pub(crate) name: &'static str,
    /// The arguments that `help` shows for the command; empty if it has none.
    pub(crate) args: &'static str,
    /// A short description that `help` shows.
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Workspace, &mut Ui<'_>, &[String]) -> TaskResult,
}

/// Runs one step, and prints a line with its name before and after it. Returns its duration in
/// seconds.
pub(crate) fn run_step(
    step: &XtaskCommand,
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    args: &[String],
) -> Result<f64, TaskError> {
    let name = step.name;
    ui.print_line_to_stdout(format_args!("== {name}"));
    let start = Instant::now();
    let outcome = (step.run)(workspace, ui, args);
    let seconds = start.elapsed().as_secs_f64();
    let result = if outcome.is_ok() { "ok" } else { "FAILED" };
    ui.print_line_to_stdout(format_args!("== {name}: {result} in {seconds:.1} s"));
    outcome.map(|()| seconds)
}

/// Runs the steps in order until one fails. If all succeed, prints a table of their durations.
pub(crate) fn run_steps_until_failure(
    steps: &[XtaskCommand],
    workspace: &Workspace,
    ui: &mut Ui<'_>,
) -> TaskResult {
    let mut table = Vec::new();
    for step in steps {
        let name = step.name;
        let seconds = run_step(step, workspace, ui, &[]).map_err(|stop| {
            let why = stop.message().unwrap_or("its program failed");
            let rerun = format!("run just this step with: cargo xtask {name}");
            TaskError::Failed(format!("step `{name}` failed: {why}\n{rerun}"))
        })?;
        table.push((name, seconds));
    }
    let total = table.iter().map(|(_, seconds)| seconds).sum();
    ui.print_line_to_stdout("");
    for (name, seconds) in table.into_iter().chain([("total", total)]) {
        ui.print_line_to_stdout(format_args!("{name:10} {seconds:8.1} s"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: XtaskCommand =
        XtaskCommand { name: "good", args: "", what: "", run: |_, _, _| Ok(()) };
    const BAD: XtaskCommand = XtaskCommand {
        name: "bad",
        args: "",
        what: "",
        run: |_, _, _| Err(TaskError::Failed("a reason".to_owned())),
    };

    fn all(steps: &[XtaskCommand]) -> (TaskResult, String) {
        let workspace =
            Workspace { root: "".into(), target: "".into(), metadata: serde_json::Value::Null };
        let mut out = Vec::new();
        let outcome = run_steps_until_failure(steps, &workspace, &mut Ui::new(&mut out));
        (outcome, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_first_failure_ends_the_run_and_shows_how_to_repeat_it() {
        let (outcome, out) = all(&[BAD, GOOD]);
        let stop = outcome.unwrap_err();
        let why = stop.message().unwrap();
        assert!(why.contains("a reason") && why.ends_with("cargo xtask bad"), "{why}");
        assert!(out.contains("== bad: FAILED") && !out.contains("good"), "{out}");
    }

    #[test]
    fn good_steps_are_each_timed_and_summed() {
        let (outcome, out) = all(&[GOOD]);
        outcome.unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines[0], "== good");
        assert!(lines[1].starts_with("== good: ok in "), "{out}");
        assert!(lines[3].starts_with("good") && lines[4].starts_with("total"), "{out}");
    }
}
