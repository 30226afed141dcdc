//! Commands that do what they can to outlive their end, as root and as another user; and very many
//! commands.

use std::process::Stdio;

use serde_json::{Value, json};

use super::Run;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Returns the largest of the 99th percentiles, in milliseconds, of the trees that were cancelled,
/// and of the agents that were killed or left by their clients, a fifth as many of each; nothing, if
/// anything was left of one.
pub(super) fn prove(workspace: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let deaths = run.n.div_ceil(5);
    test(workspace, "hostile", &[("HOSTILE_TREES", run.n), ("HOSTILE_DEATHS", deaths)], run)?;
    worst(&run.more, "p99_ms", &["trees", "kills", "closes"])
}

/// Returns how much more memory a process has after n commands, in percent; nothing, if a
/// descriptor or a thread is left of one.
pub(super) fn soak(workspace: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    test(workspace, "soak", &[("SOAK_COMMANDS", run.n)], run)?;
    worst(&run.more, "growth_percent", &["commands"])
}

/// Runs the tests of one binary, and keeps their figures.
fn test(
    workspace: &Workspace,
    name: &str,
    counts: &[(&str, u64)],
    run: &mut Run,
) -> Result<(), Stop> {
    let mut command =
        workspace.cargo("test -p callboard-process --all-features --profile laws --test");
    command.args([name, "--", "--nocapture", "--test-threads=1"]);
    for (variable, count) in counts {
        command.env(variable, count.to_string());
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Stop::Failed(format!("cannot run cargo: {error}")))?;
    run.more = json!({ "figures": figures(&String::from_utf8_lossy(&output.stdout)) });
    if output.status.success() {
        return Ok(());
    }
    Err(Stop::Failed(format!("the tests ended with {}: {}", output.status, run.more)))
}

/// The largest value under a key, of the figures that have one of some others. Each of those has to
/// be there.
fn worst(more: &Value, key: &str, with: &[&str]) -> Result<f64, Stop> {
    let figures = || more["figures"].as_array().into_iter().flatten();
    let mut worst = f64::NEG_INFINITY;
    for kind in with {
        let values =
            figures().filter(|it| it.get(kind).is_some()).filter_map(|it| it[key].as_f64());
        let value = values.reduce(f64::max);
        worst = worst.max(value.ok_or_else(|| Stop::Failed(format!("no {kind} were measured")))?);
    }
    Ok(worst)
}

/// What the tests print beside what their framework prints, which may stand on the same line.
fn figures(printed: &str) -> Vec<Value> {
    let found = printed.lines().filter_map(|line| line.split_once("figures "));
    found.filter_map(|(_, figures)| serde_json::from_str(figures).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_is_printed() {
        let printed = "running 2 tests\ntest a ... figures {\"p99_ms\":1.5}\nok\ntest b ... ok\n";
        assert_eq!(figures(printed), [json!({ "p99_ms": 1.5 })]);
        let more = json!({ "figures": [{ "p": 1.5, "a": 1 }, { "p": 7, "a": 2 }, { "p": 9 }] });
        assert_eq!(worst(&more, "p", &["a"]).ok(), Some(7.0));
        assert!(worst(&more, "p", &["a", "b"]).is_err());
        let more = json!({ "figures": [{ "p": 1.5, "a": 1 }, { "p": 7, "b": 2 }] });
        assert_eq!(worst(&more, "p", &["a", "b"]).ok(), Some(7.0));
    }
}
