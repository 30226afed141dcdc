//! Reads and writes that race with a thread which swaps a directory for a link to the outside.

use std::io::{self, Write as _};
use std::process::Stdio;

use serde_json::Value;

use super::Run;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// Returns how many got out. The test itself fails where its control did not, as nothing is proven
/// then.
pub(super) fn prove(workspace: &Workspace, _: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    let mut command = workspace.cargo("test -p acp-tools --all-features --test escape");
    command.args(["--profile", "laws", "--", "--nocapture"]);
    command.env("ESCAPE_TRIES", run.n.to_string()).stderr(Stdio::inherit());
    let output = command.output();
    let output = output.map_err(|error| Stop::Failed(format!("cannot run cargo: {error}")))?;
    io::stderr().write_all(&output.stdout).ok();
    let told = String::from_utf8_lossy(&output.stdout);
    let counts = told.lines().find_map(|line| serde_json::from_str(line).ok());
    let counts: Value = counts.ok_or_else(|| Stop::Failed("the race told nothing".to_owned()))?;
    let escaped = |kind: &str| counts[kind]["escaped"].as_f64();
    let both = escaped("reads").zip(escaped("writes")).map(|(reads, writes)| reads + writes);
    run.more = counts;
    match both {
        Some(both) if both > 0.0 || output.status.success() => Ok(both),
        _ => Err(Stop::Failed(format!("the race ended with {}", output.status))),
    }
}
