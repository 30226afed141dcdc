//! `accept`: measures the release build against what is promised of it.
//!
//! Each check is one row of [`CHECKS`] and prints one JSON line on stdout: `id`, `pass`, `value`,
//! `target`, `n`, `seed` and `secs`. `value` is null when nothing could be measured, `target` when
//! the figure is only told, and `seed` when the check uses no randomness. Remarks go to stderr.

mod acpx;
mod agent;
mod cancel;
mod command;
mod figures;
mod files;
mod lines;
mod llama;
mod model_server;
mod models;
mod output;
mod proofs;
mod properties;
mod raw;
mod rules;
mod scratch;
mod script;
mod seed;
mod slow;
mod view;

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use self::seed::Seed;
use crate::process::{self, Outcome, Stop};
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) use proofs::stale;

/// One promise and how it is measured.
struct Check {
    name: &'static str,
    what: &'static str,
    /// How often it measures, unless `--n` says otherwise.
    n: u32,
    /// The largest value that passes; without one, every value does.
    target: Option<f64>,
    measure: fn(&Built, u32) -> Result<f64, Stop>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "startup",
        what: "time from spawn to the answer to initialize, as a multiple of a minimal SDK agent's",
        n: 200,
        target: Some(1.5),
        measure: figures::startup,
    },
    Check {
        name: "startup-floor",
        what: "the same time, as a multiple of a process that only answers",
        n: 200,
        target: None,
        measure: figures::startup_floor,
    },
    Check {
        name: "idle-memory",
        what: "resident MiB with one session open, the largest of n processes",
        n: 3,
        target: Some(20.0),
        measure: figures::idle_memory,
    },
    Check {
        name: "stuck-client",
        what: "peak MiB while a model says n MiB to a client that reads nothing",
        n: 8,
        target: Some(96.0),
        measure: figures::stuck_client,
    },
    Check {
        name: "read-call",
        what: "milliseconds per read_file call in one turn of n calls",
        n: 100,
        target: None,
        measure: figures::read_call,
    },
    Check {
        name: "read-drift",
        what: "time of a read_file call at the end of n in one turn, as a multiple of one's at the \
               start",
        n: 100,
        target: Some(1.25),
        measure: files::read_drift,
    },
    Check {
        name: "turn-drift",
        what: "time of a turn with a read at the end of a session of n, as a multiple of one's at \
               the start",
        n: 4_000,
        target: Some(1.25),
        measure: files::turn_drift,
    },
    Check {
        name: "edit-time",
        what: "time of a turn that changes one of 100,000 lines, as a multiple of a plain rewrite's, \
               n rounds",
        n: 50,
        target: Some(2.0),
        measure: files::edit_time,
    },
    Check {
        name: "edit-wire",
        what: "bytes of the tool updates of such a turn, the most of n",
        n: 5,
        target: Some(4096.0),
        measure: files::edit_wire,
    },
    Check {
        name: "sanitize",
        what: "secrets that leak, of n random sessions with secrets across all borders",
        n: 100_000,
        target: Some(0.0),
        measure: properties::sanitize,
    },
    Check {
        name: "file-names",
        what: "names that a tool does not take back, of n file names of any bytes; find, grep, \
               list, read, edit, move, delete",
        n: 10_000,
        target: Some(0.0),
        measure: properties::file_names,
    },
    Check {
        name: "answered",
        what: "requests that are not answered exactly once, of n random ones among closes and \
               disconnects",
        n: 100_000,
        target: Some(0.0),
        measure: properties::answered,
    },
    Check {
        name: "malformed",
        what: "longest seconds to survive one malformed line, each in a fresh process, n times",
        n: 1,
        target: Some(1.0),
        measure: lines::malformed,
    },
    Check {
        name: "malformed-shuffled",
        what: "answers missing or too many of all malformed lines, n times, on one connection",
        n: 1_000,
        target: Some(0.0),
        measure: lines::malformed_shuffled,
    },
    Check {
        name: "no-newline",
        what: "peak MiB while a line of n MiB comes",
        n: 2_048,
        target: Some(64.0),
        measure: lines::no_newline,
    },
    Check {
        name: "dense-line",
        what: "peak MiB over n dense lines of 16 MB in a row, the largest of several kinds",
        n: 4,
        target: Some(160.0),
        measure: lines::dense_line,
    },
    Check {
        name: "slow-client",
        what: "MiB grown while a call makes n patches, for a client that reads 10 lines a second",
        n: 1_000_000,
        target: Some(16.0),
        measure: slow::slow_client,
    },
    Check {
        name: "never-reading",
        what: "peak MiB of a call without end, for a client that reads nothing, n times",
        n: 1,
        target: Some(96.0),
        measure: slow::never_reading,
    },
    Check {
        name: "cancel",
        what: "ms from a cancel at any point to its turn's answer, p99 of n turns, no command",
        n: 1_250,
        target: Some(50.0),
        measure: cancel::cancel,
    },
    Check {
        name: "cancel-command",
        what: "ms from a cancel of a running command to its turn's answer, median of n",
        n: 200,
        target: Some(10.0),
        measure: command::cancelled,
    },
    Check {
        name: "command-gone",
        what: "ms from a cancel of a running command until its process is gone, median of n",
        n: 200,
        target: Some(20.0),
        measure: command::gone,
    },
    Check {
        name: "background-left",
        what: "ms from a prompt whose command leaves a process in its background to the turn's \
               answer, median of n; nothing of it is left then",
        n: 30,
        target: Some(2_200.0),
        measure: command::left_running,
    },
    Check {
        name: "output-view",
        what: "peak MiB while commands write 10 MB and n bytes, each for a client with terminals and \
               one without; what it sees in the end, the counts and the file are right",
        n: 1_000_000_000,
        target: Some(96.0),
        measure: output::view,
    },
    Check {
        name: "output-read",
        what: "ms of a read_file turn of another session while a command writes n bytes, p99",
        n: 1_000_000_000,
        target: Some(25.0),
        measure: output::read,
    },
    Check {
        name: "output-first",
        what: "ms from a prompt to the first output of its command at the client, median of n",
        n: 20,
        target: Some(150.0),
        measure: output::first,
    },
    Check {
        name: "acpx",
        what: "what goes wrong in acpx, a client from npm, with and without its files and terminals",
        n: 1,
        target: Some(0.0),
        measure: acpx::acpx,
    },
    Check {
        name: "model-first",
        what: "time from a prompt to the first word of a model that answers at once, as a multiple \
               of an echo's",
        n: 20,
        target: Some(4.0),
        measure: models::first_word,
    },
    Check {
        name: "model-read",
        what: "own ms of a turn with read_file, at the 10th or the 100th call, median of n sessions",
        n: 20,
        target: Some(2.0),
        measure: models::read_turn,
    },
    Check {
        name: "model-reads",
        what: "own ms of a reply with 50 reads, median of n",
        n: 20,
        target: Some(20.0),
        measure: models::parallel_reads,
    },
    Check {
        name: "model-deltas",
        what: "time of a reply in 1000 pieces, as a multiple of an echo's of 1000 texts",
        n: 20,
        target: Some(2.0),
        measure: models::deltas,
    },
    Check {
        name: "model-peak",
        what: "peak MiB of a session with n calls of read_file",
        n: 100,
        target: Some(64.0),
        measure: models::peak_memory,
    },
    Check {
        name: "arguments",
        what: "processor time of a write of 2 MB in fragments of 20 bytes, as a multiple of 200 kB's",
        n: 5,
        target: Some(12.0),
        measure: models::arguments,
    },
    Check {
        name: "model-cancel",
        what: "ms from a cancel, while a model speaks or is waited for, to its answer, p99 of n turns",
        n: 400,
        target: Some(50.0),
        measure: models::cancel,
    },
    Check {
        name: "llama",
        what: "turns with a real server, llama.cpp, that go wrong: of text, and of a call by schema",
        n: 10,
        target: Some(0.0),
        measure: llama::llama,
    },
    Check {
        name: "rules",
        what: "laws broken by n random sets of permission rules",
        n: 1_000_000,
        target: Some(0.0),
        measure: rules::rules,
    },
    Check {
        name: "canary",
        what: "bytes of files that may not be read which reach result, wire or log, in n random sets \
               of edits and every tool's failures",
        n: 25,
        target: Some(0.0),
        measure: properties::canary,
    },
    Check {
        name: "understood",
        what: "command lines that run without a question and read or change a canary, write \
               elsewhere, connect or start another program, of n drawn from each program's help",
        n: 1_000,
        target: Some(0.0),
        measure: properties::understood,
    },
    Check {
        name: "names",
        what: "names that programs obey and that are not asked about, or ordinary ones that are, \
               beyond 5 and 2 percent",
        n: 1,
        target: Some(0.0),
        measure: properties::names,
    },
];

/// The release binaries that are measured, and the randomness to do it with.
struct Built {
    callboard: PathBuf,
    /// The least an agent made with the SDK can be: `crates/agent/examples/echo_agent.rs`.
    echo: PathBuf,
    /// The least a process that answers can be: `xtask/examples/echo_floor.rs`.
    floor: PathBuf,
    /// Callboard with a tool that never stops: `crates/runtime/examples/flood_agent.rs`.
    flood: PathBuf,
    /// A scripted server of models: `crates/models/examples/model_server.rs`.
    model_server: PathBuf,
    seed: Seed,
}

/// Runs the named check, or all of them.
pub(crate) fn run(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> Outcome {
    if let Some(outcome) = proofs::run(workspace, ui, args) {
        return outcome;
    }
    let (checks, n, seed) = parse(args).map_err(Stop::Usage)?;
    let built = build(workspace, seed, ui)?;
    let checked = run_checks(&checks, n, &built, ui);
    match args.first().map(String::as_str) {
        Some("all") => [checked, proofs::run_all(workspace, ui)].into_iter().collect(),
        _ => checked,
    }
}

fn run_checks(checks: &[&Check], n: Option<u32>, built: &Built, ui: &mut Ui<'_>) -> Outcome {
    let passed = checks.iter().filter(|check| passes(check, n.unwrap_or(check.n), built, ui));
    match checks.len() - passed.count() {
        0 => Ok(()),
        count => Err(Stop::Failed(format!("{count} of {} checks failed", checks.len()))),
    }
}

/// Runs one check, prints its line, and tells whether it passed.
fn passes(check: &Check, n: u32, built: &Built, ui: &mut Ui<'_>) -> bool {
    ui.note(format_args!("{}: {} (n = {n})", check.name, check.what));
    let start = Instant::now();
    let measured = (check.measure)(built, n);
    let secs = rounded(start.elapsed().as_secs_f64());
    if let Some(why) = measured.as_ref().err().and_then(Stop::why) {
        ui.note(format_args!("{}: {why}", check.name));
    }
    let value = measured.ok();
    let pass = value.is_some_and(|value| check.target.is_none_or(|target| value <= target));
    ui.line(json!({
        "id": check.name, "pass": pass, "value": value.map(rounded), "target": check.target,
        "n": n, "seed": built.seed.taken(), "secs": secs,
    }));
    pass
}

/// What to measure, how often, and with which seed.
type Asked = (Vec<&'static Check>, Option<u32>, Option<u64>);

/// Reads `NAME|all [--n N] [--seed S]`.
fn parse(args: &[String]) -> Result<Asked, String> {
    let usage = || format!("accept NAME|all [--n N] [--seed S]\n{}", names());
    let (name, mut options) = args.split_first().ok_or_else(usage)?;
    let (mut n, mut seed) = (None, None);
    while let [option, value, rest @ ..] = options {
        match option.as_str() {
            "--n" => {
                let count = value.parse().ok().filter(|n| *n > 0);
                n = Some(count.ok_or("--n takes a whole number, 1 or more")?);
            }
            "--seed" => seed = Some(value.parse().map_err(|_nan| "--seed takes a whole number")?),
            _ => return Err(usage()),
        }
        options = rest;
    }
    if !options.is_empty() {
        return Err(usage());
    }
    let is_asked_for = |check: &&Check| name == "all" || name == check.name;
    match CHECKS.iter().filter(is_asked_for).collect::<Vec<_>>() {
        none if none.is_empty() => Err(format!("no check `{name}`\n{}", names())),
        checks => Ok((checks, n, seed)),
    }
}

fn names() -> String {
    let all = CHECKS.iter().map(|check| (check.name, check.what));
    let proofs = proofs::all().map(|proof| (proof.name, proof.what));
    let rows = all
        .chain(proofs)
        .chain([("all", "every check")])
        .map(|(name, what)| format!("  {name:18} {what}"));
    rows.collect::<Vec<_>>().join("\n")
}

fn build(workspace: &Workspace, seed: Option<u64>, ui: &Ui<'_>) -> Result<Built, Stop> {
    let cargo = |words| {
        ui.note(format_args!("cargo {words}"));
        process::run(&mut workspace.cargo(words))
    };
    let release = workspace.target.join("release");
    let echo = release.join("examples/echo_agent");
    let floor = release.join("examples/echo_floor");
    let flood = release.join("examples/flood_agent");
    let model_server = release.join("examples/model_server");
    // Several builds: one of all would give the measured program the features of the others.
    cargo("build --release -p callboard --bins")?;
    cargo("build --release -p callboard --example echo_agent")?;
    cargo("build --release -p callboard-runtime --example flood_agent")?;
    cargo("build --release -p callboard-models --features mock-server --example model_server")?;
    cargo("build --release -p xtask --example echo_floor")?;
    let (callboard, seed) = (release.join("callboard"), Seed::new(seed));
    Ok(Built { callboard, echo, floor, flood, model_server, seed })
}

/// A figure with as many digits as anyone reads.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const FINE: Check =
        Check { name: "fine", what: "", n: 7, target: Some(2.0), measure: |_, _| Ok(1.23456) };
    const SLOW: Check = Check { name: "slow", measure: |_, n| Ok(f64::from(n)), ..FINE };
    const TOLD: Check = Check { name: "told", target: None, ..SLOW };
    const RANDOM: Check = Check {
        name: "random",
        measure: |built, _| {
            built.seed.take();
            Ok(1.0)
        },
        ..TOLD
    };
    const BROKEN: Check =
        Check { name: "broken", measure: |_, _| Err(Stop::Failed("x".to_owned())), ..TOLD };

    fn lines(checks: &[&Check], n: Option<u32>) -> (Outcome, Vec<Value>) {
        let [callboard, echo, floor, flood, model_server] =
            ["a", "b", "c", "d", "e"].map(Into::into);
        let seed = Seed::new(Some(7));
        let built = Built { callboard, echo, floor, flood, model_server, seed };
        let mut out = Vec::new();
        let outcome = run_checks(checks, n, &built, &mut Ui::new(&mut out));
        let lines = str::from_utf8(&out).unwrap().lines();
        (outcome, lines.map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn a_check_prints_one_line_with_all_its_figures() {
        let (outcome, lines) = lines(&[&FINE], None);
        outcome.unwrap();
        let mut line = lines[0].clone();
        assert!(line["secs"].take().is_number());
        let expected = json!({"id": "fine", "pass": true, "value": 1.235, "target": 2.0, "n": 7,
            "seed": null, "secs": null});
        assert_eq!((lines.len(), line), (1, expected));
    }

    #[test]
    fn a_check_fails_over_its_target_and_when_nothing_was_measured() {
        for (check, pass) in [(&FINE, true), (&SLOW, false), (&TOLD, true), (&BROKEN, false)] {
            let (outcome, lines) = lines(&[check], Some(3));
            assert_eq!(
                (outcome.is_ok(), &lines[0]["pass"]),
                (pass, &json!(pass)),
                "{}",
                check.name
            );
        }
    }

    #[test]
    fn a_seed_is_printed_by_the_checks_that_use_it() {
        let (_, lines) = lines(&[&RANDOM, &FINE], None);
        assert_eq!((&lines[0]["seed"], &lines[1]["seed"]), (&json!(7), &Value::Null));
    }

    #[test]
    fn all_checks_run_though_one_fails() {
        let (outcome, lines) = lines(&[&BROKEN, &FINE], None);
        assert_eq!(outcome.unwrap_err().why(), Some("1 of 2 checks failed"));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn the_command_line_names_checks_and_n() {
        let parsed = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            parse(&args).map(|(checks, n, seed)| (checks.len(), n, seed))
        };
        assert_eq!(parsed(&["startup"]), Ok((1, None, None)));
        assert_eq!(parsed(&["all", "--n", "5"]), Ok((CHECKS.len(), Some(5), None)));
        let both = parsed(&["startup", "--seed", "0", "--n", "5"]);
        assert_eq!(both, Ok((1, Some(5), Some(0))));
        for wrong in [
            &["nothing"][..],
            &[],
            &["all", "--n", "0"],
            &["all", "--n"],
            &["all", "5"],
            &["all", "--seed", "x"],
        ] {
            parsed(wrong).unwrap_err();
        }
        assert!(parsed(&["nothing"]).unwrap_err().contains("idle-memory"));
    }
}
