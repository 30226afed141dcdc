//! The tables of command lines, and what a shell makes of as many random ones as are asked for.

use super::{Proof, Run, hostile, output};
use crate::process::Stop;
use crate::ui::Ui;
use crate::workspace::Workspace;

/// The proofs of command lines and of commands that run.
pub(super) const PROOFS: &[Proof] = &[
    Proof {
        name: "commands",
        what: "tests that find a command allowed by a rule for another, or one that a shell runs of n \
               random lines and no reader finds",
        n: 20_000,
        target: 0.0,
        prove,
    },
    Proof {
        name: "hostile",
        what: "ms to end one of n hostile trees of processes, or those of one of n / 5 agents that are \
               killed, and of as many that are left by their clients, the worst p99; nothing is left",
        n: 1_000,
        target: 500.0,
        prove: hostile::prove,
    },
    Proof {
        name: "soak",
        what: "percent more memory after n commands than after 500, 100 at a time; no descriptor \
               and no thread more",
        n: 10_000,
        target: 5.0,
        prove: hostile::soak,
    },
    Proof {
        name: "output",
        what: "time to record n bytes of a command's output, by that of a bare reading loop",
        n: 1_000_000_000,
        target: 1.3,
        prove: output::prove,
    },
];

/// Runs the tests of both readers of command lines, each with `n` random lines beside a shell.
fn prove(workspace: &Workspace, ui: &mut Ui<'_>, run: &mut Run) -> Result<f64, Stop> {
    run.is_seeded = true;
    ui.note(format_args!("commands: seed {}", run.seed));
    // A shell takes longer than the readers do, optimised or not.
    let mut command = workspace.cargo("test --workspace --all-features --lib --test rules --");
    command.args(["plain::", "reader::", "command::", "commands::", "bypasses::a"]);
    command.env("PROPTEST_CASES", run.n.to_string());
    command.env("PROPTEST_RNG_SEED", run.seed.to_string());
    super::broken(&mut command, run)
}
