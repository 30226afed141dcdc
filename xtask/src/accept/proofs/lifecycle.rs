//! The promises over as many random lives and endings as are asked for.

use super::{Proof, Run, mutants, sabotage};
use crate::cargo;
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// The proofs of the lifecycle, and those that its tests notice what breaks it.
pub(super) const PROOFS: &[Proof] = &[
    Proof {
        name: "lifecycle",
        what: "tests that break a promise in n random lives and n / 10 random endings of calls",
        n: 1_000_000,
        target: 0.0,
        prove,
    },
    Proof {
        name: "sabotage",
        what: "patches that break a promise and turn no test red",
        n: 0,
        target: 0.0,
        prove: sabotage::prove,
    },
    Proof {
        name: "mutants",
        what: "percent of the mutants (the n-th part of them) that no test notices",
        n: 1,
        target: 10.0,
        prove: mutants::prove,
    },
];

/// Runs them in the release profile. What breaks a promise is shown, shrunk to the least life that
/// does, on stderr.
fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("lifecycle: seed {}", run.seed));
    let mut command = cargo::promises(workspace, "release", run.n);
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    super::broken(&mut command, run)
}
