//! Commands that do what they can to outlive their end, as root and as another user.

use std::process::Stdio;

use serde_json::{Value, json};

use super::Run;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Returns the largest of the 99th percentiles, in milliseconds, of the trees that were cancelled;
/// nothing, if anything was left of one. A fifth as many agents are killed, and left by their
/// clients.
pub(super) fn prove(workspace: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let words = "test -p acp-tools --all-features --test hostile --profile laws -- --nocapture \
                 --test-threads=1";
    let mut command = workspace.cargo(words);
    command.env("HOSTILE_TREES", run.n.to_string());
    command.env("HOSTILE_DEATHS", run.n.div_ceil(5).to_string());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Stop::Failed(format!("cannot run cargo: {error}")))?;
    let figures = figures(&String::from_utf8_lossy(&output.stdout));
    let cancels = figures.iter().filter(|figures| figures.get("trees").is_some());
    let worst = cancels.filter_map(|figures| figures["p99_ms"].as_f64()).reduce(f64::max);
    run.more = json!({ "figures": figures });
    match worst {
        Some(worst) if output.status.success() => Ok(worst),
        _ => Err(Stop::Failed(format!("the tests ended with {}: {}", output.status, run.more))),
    }
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
    }
}
