//! `bench`: CPU time of what a crate does, measured by a bench target of that crate.
//!
//! Each bench prints one JSON line; its `ratio` is the value that is held against the target.

use std::time::Instant;

use serde_json::Value;

use crate::figure::Figure;
use crate::process::{Outcome, Stop, capture};
use crate::ui::Ui;
use crate::workspace::Workspace;

/// A bench target and what is asked of it.
struct Bench {
    name: &'static str,
    what: &'static str,
    package: &'static str,
    /// Rounds, unless `--n` says otherwise.
    n: u64,
    /// The largest ratio that passes; without one, every ratio does.
    target: Option<f64>,
}

const BENCHES: [Bench; 2] = [
    Bench {
        name: "lifecycle",
        what: "CPU of a whole call to serialised updates, as a multiple of serialising alone",
        package: "acp-lifecycle",
        n: 200,
        target: Some(5.0),
    },
    Bench {
        name: "lifecycle_sdk",
        what: "the same call through the SDK's connection too",
        package: "callboard-runtime",
        n: 50,
        target: None,
    },
];

/// Runs the named bench: `NAME [--n N]`. A name brings the benches along that begin with it.
pub(crate) fn run(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> Outcome {
    let (benches, n) = parse(args).map_err(Stop::Usage)?;
    let outcomes = benches.iter().map(|bench| measure(bench, n.unwrap_or(bench.n), workspace, ui));
    outcomes.collect::<Vec<_>>().into_iter().collect()
}

fn measure(bench: &Bench, n: u64, workspace: &Workspace, ui: &mut Ui<'_>) -> Outcome {
    let Bench { name: id, what, package, target, .. } = *bench;
    ui.note(format_args!("{id}: {what} (n = {n})"));
    let start = Instant::now();
    let mut command = workspace.cargo("bench --all-features");
    command.args(["-p", package, "--bench", id, "--"]).arg(n.to_string());
    let printed = capture(&mut command)?;
    let line = printed.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut more = line.ok_or_else(|| Stop::Failed(format!("{id} printed no figures")))?;
    let value = more.as_object_mut().and_then(|more| more.remove("ratio")?.as_f64());
    let secs = start.elapsed().as_secs_f64();
    Figure { id, value, target, n, seed: None, secs, more }.tell(ui)
}

fn parse(args: &[String]) -> Result<(Vec<&'static Bench>, Option<u64>), String> {
    let (name, n) = match args {
        [name] => (name, None),
        [name, flag, n] if flag == "--n" => {
            let n = n.parse().ok().filter(|n| *n > 0);
            (name, Some(n.ok_or("--n takes a whole number, 1 or more")?))
        }
        _ => return Err(format!("bench NAME [--n N]\n{}", names())),
    };
    let benches = BENCHES.iter().filter(|bench| bench.name.starts_with(name.as_str()));
    match benches.collect::<Vec<_>>() {
        none if none.is_empty() => Err(format!("no bench `{name}`\n{}", names())),
        benches => Ok((benches, n)),
    }
}

fn names() -> String {
    BENCHES.map(|bench| format!("  {:14} {}", bench.name, bench.what)).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_brings_those_along_that_begin_with_it() {
        let parsed = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            parse(&args).map(|(benches, n)| (benches.len(), n))
        };
        assert_eq!(parsed(&["lifecycle"]), Ok((2, None)));
        assert_eq!(parsed(&["lifecycle_sdk", "--n", "5"]), Ok((1, Some(5))));
        for wrong in [&["nothing"][..], &[], &["lifecycle", "--n", "0"], &["lifecycle", "5"]] {
            parsed(wrong).unwrap_err();
        }
    }
}
