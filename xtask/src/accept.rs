//! `accept` and `bench`: measure the promises of the project.
//!
//! Each promise is a row of a table in `rows.rs`, `session_rows.rs`, `sandbox_rows.rs`,
//! `preview_rows.rs`, `web_rows.rs` or `mcp_rows.rs`. A measured row prints one JSON line on
//! stdout: `id`, `pass`, `value`, `target`, `n`, `seed`, `secs`, and additional figures. `value` is
//! null if nothing could be measured. `target` is null if every value passes. `seed` is null if the
//! row uses no randomness. Remarks are written to stderr.

mod acpx;
mod agent;
mod allowing_client;
mod big_tree;
mod cancel;
mod command;
mod figures;
mod files;
mod lines;
mod llama;
mod mcp_hostile;
mod mcp_left;
mod mcp_rows;
mod model_server;
mod models;
mod mutants;
mod output;
mod peers;
mod preview_kills;
mod preview_rows;
mod raw_agent;
mod ripgrep;
mod rows;
mod run;
mod sabotage;
mod sandbox_rows;
mod scratch;
mod search;
mod seed;
mod session_rows;
mod shared_agent;
mod slow;
mod ssrf;
mod stored_sessions;
mod web_rows;

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use self::mcp_rows::MCP_ROWS;
use self::preview_rows::PREVIEW_ROWS;
use self::rows::{BENCHES, ROWS};
use self::run::RowRun;
use self::sandbox_rows::SANDBOX_ROWS;
use self::seed::Seed;
use self::session_rows::SESSION_ROWS;
use self::web_rows::WEB_ROWS;
use crate::process::{self, TaskError, TaskResult};
use crate::release;
use crate::ui::Ui;
use crate::workspace::Workspace;

pub(crate) use sabotage::find_stale_patches;

/// One promise, and the way in which it is measured.
struct AcceptanceRow {
    name: &'static str,
    what: &'static str,
    /// Default number of measurements, which `--n` overrides.
    n: u32,
    /// Largest value that passes. If the target is `None`, every value passes.
    target: Option<f64>,
    measure: RowMeasure,
}

/// The source of a row's value.
enum RowMeasure {
    /// A function that runs the release programs. The programs are built before the call.
    Programs(fn(&ReleasePrograms, u32) -> Result<f64, TaskError>),
    /// The number of failing tests of a cargo command line, which [`RowRun::parse_cargo_command`]
    /// parses.
    Failed(&'static str),
    /// The largest `value` of the figures that a cargo command line prints. The first field of the
    /// variant is the minimum number of figures.
    Figures(usize, &'static str),
    /// Other code, for rows that need more than one cargo command line.
    Code(fn(&mut RowRun<'_>, &Ui<'_>) -> Result<f64, TaskError>),
}

/// The programs of the release build, and the random seed of the measurement.
struct ReleasePrograms {
    callboard: PathBuf,
    /// A minimal agent that uses the SDK: `crates/agent/examples/echo_agent.rs`.
    echo: PathBuf,
    /// An agent that does only what ACP and a model require: `xtask/examples/floor_agent.rs`.
    floor: PathBuf,
    /// The hosts of the row `ssrf`: `xtask/examples/denied_hosts.rs`.
    denied_hosts: PathBuf,
    /// Callboard with a tool that writes any number of updates:
    /// `crates/runtime/examples/flood_agent.rs`.
    flood: PathBuf,
    /// A scripted model server: `crates/models/examples/model_server.rs`.
    model_server: PathBuf,
    /// A server of the Model Context Protocol: `xtask/examples/mcp_server.rs`.
    mcp_server: PathBuf,
    seed: Seed,
}

/// Returns the rows of all tables.
fn all_rows() -> impl Iterator<Item = &'static AcceptanceRow> + Clone {
    [ROWS, SESSION_ROWS, SANDBOX_ROWS, PREVIEW_ROWS, WEB_ROWS, MCP_ROWS].into_iter().flatten()
}

/// Runs the row NAME, or all rows; the arguments are `NAME|all [--n N] [--seed S]`.
pub(crate) fn run_rows(workspace: &Workspace, ui: &mut Ui<'_>, args: &[String]) -> TaskResult {
    let is_asked_for = |row: &AcceptanceRow, name: &str| name == "all" || name == row.name;
    let rows = all_rows();
    let asked = parse_row_selection("accept NAME|all [--n N] [--seed S]", rows, args, is_asked_for);
    asked.map_err(TaskError::Usage)?.run_selected_rows(workspace, ui)
}

/// Runs all benches whose names begin with NAME, or compares callboard with other agents; the
/// arguments are `NAME [--n N]` or `--peers`.
pub(crate) fn run_bench_rows(
    workspace: &Workspace,
    ui: &mut Ui<'_>,
    args: &[String],
) -> TaskResult {
    if args == ["--peers"] {
        build_release_programs(workspace, ui)?;
        peers::compare_with_peers(&ReleasePrograms::new(workspace, Seed::new(None)), ui);
        return Ok(());
    }
    let is_asked_for = |row: &AcceptanceRow, name: &str| row.name.starts_with(name);
    let asked =
        parse_row_selection("bench NAME [--n N] | --peers", BENCHES.iter(), args, is_asked_for);
    asked.map_err(TaskError::Usage)?.run_selected_rows(workspace, ui)
}

/// The rows to run, the number of measurements, and the random seed.
struct RowSelection<'a> {
    rows: Vec<&'a AcceptanceRow>,
    n: Option<u32>,
    seed: Option<u64>,
}

fn parse_row_selection<'a>(
    usage: &str,
    rows: impl Iterator<Item = &'a AcceptanceRow> + Clone,
    args: &[String],
    is_asked_for: fn(&AcceptanceRow, &str) -> bool,
) -> Result<RowSelection<'a>, String> {
    let names = || {
        let rows = rows.clone().map(|row| format!("\n  {:18} {}", row.name, row.what));
        rows.collect::<String>()
    };
    let usage = || format!("{usage}{}", names());
    let (name, mut options) = args.split_first().ok_or_else(usage)?;
    let (mut n, mut seed) = (None, None);
    while let [option, value, rest @ ..] = options {
        match option.as_str() {
            "--n" => {
                let count = value.parse().ok().filter(|n| *n > 0);
                n = Some(count.ok_or("--n takes a whole number from 1 to 4294967295")?);
            }
            "--seed" => seed = Some(value.parse().map_err(|_nan| "--seed takes a whole number")?),
            _ => return Err(usage()),
        }
        options = rest;
    }
    if !options.is_empty() {
        return Err(usage());
    }
    let selected: Vec<_> = rows.clone().filter(|row| is_asked_for(row, name)).collect();
    if selected.is_empty() {
        Err(format!("no row `{name}`{}", names()))
    } else {
        Ok(RowSelection { rows: selected, n, seed })
    }
}

impl RowSelection<'_> {
    /// Runs all selected rows, and continues after a row has failed.
    fn run_selected_rows(&self, workspace: &Workspace, ui: &mut Ui<'_>) -> TaskResult {
        let built = ReleasePrograms::new(workspace, Seed::new(self.seed));
        if self.rows.iter().any(|row| matches!(row.measure, RowMeasure::Programs(_))) {
            build_release_programs(workspace, ui)?;
        }
        let passes = |row: &&&AcceptanceRow| {
            row.measure_and_check(self.n.unwrap_or(row.n), workspace, &built, ui)
        };
        let (count, passed) = (self.rows.len(), self.rows.iter().filter(passes).count());
        match count - passed {
            0 => Ok(()),
            failed => Err(TaskError::Failed(format!("{failed} of {count} rows failed"))),
        }
    }
}

impl AcceptanceRow {
    /// Measures a row, prints its result line, and returns whether it passed.
    fn measure_and_check(
        &self,
        n: u32,
        workspace: &Workspace,
        built: &ReleasePrograms,
        ui: &mut Ui<'_>,
    ) -> bool {
        let Self { name, what, target, .. } = self;
        ui.print_remark_to_stderr(format_args!(
            "{name}: {what} (n = {n}, seed {})",
            built.seed.value
        ));
        let start = Instant::now();
        let mut run = RowRun::new(workspace, n, &built.seed);
        let measured = match self.measure {
            RowMeasure::Programs(measure) => measure(built, n),
            RowMeasure::Failed(line) => run.run_and_count_failed_tests(line),
            RowMeasure::Figures(least, line) => {
                run.run_for_largest_figure(least, &mut run.parse_cargo_command(line))
            }
            RowMeasure::Code(measure) => measure(&mut run, ui),
        };
        let secs = start.elapsed().as_secs_f64();
        if let Some(why) = measured.as_ref().err().and_then(TaskError::message) {
            ui.print_remark_to_stderr(format_args!("{name}: {why}"));
        }
        let value = measured.ok();
        let pass = value.is_some_and(|value| target.is_none_or(|target| value <= target));
        let mut line = json!({
            "id": name, "pass": pass, "value": value.map(round_to_three_decimals), "target": target, "n": run.n,
            "seed": built.seed.value_if_newly_used(), "secs": round_to_three_decimals(secs),
        });
        if let Some(line) = line.as_object_mut() {
            line.extend(run.extra_figures);
        }
        ui.print_line_to_stdout(line);
        pass
    }
}

/// Rounds a figure to three decimals.
fn round_to_three_decimals(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl ReleasePrograms {
    fn new(workspace: &Workspace, seed: Seed) -> Self {
        let release = workspace.target.join("release");
        let example = |name: &str| release.join("examples").join(name);
        Self {
            callboard: release.join("callboard"),
            echo: example("echo_agent"),
            floor: example("floor_agent"),
            denied_hosts: example("denied_hosts"),
            flood: example("flood_agent"),
            model_server: example("model_server"),
            mcp_server: example("mcp_server"),
            seed,
        }
    }
}

fn build_release_programs(workspace: &Workspace, ui: &Ui<'_>) -> TaskResult {
    // Each program is built separately. A single build would unify the cargo features of all
    // programs.
    release::build_program(workspace, ui)?;
    for words in [
        "build --release -p callboard --example echo_agent",
        "build --release -p callboard-runtime --example flood_agent",
        "build --release -p callboard-models --features mock-server --example model_server",
        "build --release -p xtask --example denied_hosts --example floor_agent --example mcp_server",
    ] {
        ui.print_remark_to_stderr(format_args!("cargo {words}"));
        process::run_expecting_success(&mut workspace.cargo_command(words))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::RowMeasure::Code;
    use super::*;

    const FINE: AcceptanceRow = AcceptanceRow {
        name: "fine",
        what: "",
        n: 7,
        target: Some(2.0),
        measure: Code(|_, _| Ok(1.23456)),
    };
    const SLOW: AcceptanceRow =
        AcceptanceRow { name: "slow", measure: Code(|run, _| Ok(f64::from(run.n))), ..FINE };
    const NO_TARGET: AcceptanceRow = AcceptanceRow { name: "told", target: None, ..SLOW };
    const RANDOM: AcceptanceRow = AcceptanceRow {
        name: "random",
        measure: Code(|run, _| {
            run.extra_figures.insert("note".to_owned(), run.seed.get_and_mark_used().into());
            Ok(1.0)
        }),
        ..NO_TARGET
    };
    const BROKEN: AcceptanceRow = AcceptanceRow {
        name: "broken",
        measure: Code(|_, _| Err(TaskError::Failed("x".to_owned()))),
        ..NO_TARGET
    };

    fn lines(rows: &[&AcceptanceRow], n: Option<u32>) -> (TaskResult, Vec<Value>) {
        let workspace = Workspace { root: "".into(), target: "".into(), metadata: Value::Null };
        let mut out = Vec::new();
        let asked = RowSelection { rows: rows.to_vec(), n, seed: Some(7) };
        let outcome = asked.run_selected_rows(&workspace, &mut Ui::new(&mut out));
        let lines = str::from_utf8(&out).unwrap().lines();
        (outcome, lines.map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn the_page_of_results_has_every_row() {
        let page = include_str!("../../docs/acceptance.md");
        for AcceptanceRow { name, what, target, .. } in all_rows() {
            let target = target.map_or("–".to_owned(), |target| target.to_string());
            let row = format!("\n| `{name}` | {what} | {target} | ");
            assert!(page.contains(&row), "docs/acceptance.md has no row that begins with {row}");
        }
    }

    #[test]
    fn a_row_prints_one_line_with_all_its_figures() {
        let (outcome, lines) = lines(&[&FINE], None);
        outcome.unwrap();
        let mut line = lines[0].clone();
        assert!(line["secs"].take().is_number());
        let expected = json!({"id": "fine", "pass": true, "value": 1.235, "target": 2.0, "n": 7,
            "seed": null, "secs": null});
        assert_eq!((lines.len(), line), (1, expected));
    }

    #[test]
    fn a_row_fails_over_its_target_and_when_nothing_was_measured() {
        for (row, pass) in [(&FINE, true), (&SLOW, false), (&NO_TARGET, true), (&BROKEN, false)] {
            let (outcome, lines) = lines(&[row], Some(3));
            assert_eq!((outcome.is_ok(), &lines[0]["pass"]), (pass, &json!(pass)), "{}", row.name);
        }
    }

    #[test]
    fn a_row_prints_its_seed_if_used_and_its_additional_figures() {
        let (_, lines) = lines(&[&RANDOM, &FINE], None);
        assert_eq!((&lines[0]["seed"], &lines[1]["seed"]), (&json!(7), &Value::Null));
        assert_eq!((&lines[0]["note"], &lines[1]["note"]), (&json!(7), &Value::Null));
    }

    #[test]
    fn all_rows_run_although_one_fails() {
        let (outcome, lines) = lines(&[&BROKEN, &FINE], None);
        assert_eq!(outcome.unwrap_err().message(), Some("1 of 2 rows failed"));
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn no_two_rows_of_a_table_share_a_name() {
        let rows: Vec<_> = all_rows().collect();
        for table in [rows, BENCHES.iter().collect()] {
            let names: BTreeSet<_> = table.iter().map(|row| row.name).collect();
            assert_eq!(names.len(), table.len());
        }
    }

    #[test]
    fn the_command_line_names_rows_n_and_seed() {
        let parsed = |args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            let rows = [FINE, SLOW];
            let asked = parse_row_selection("usage", rows.iter(), &args, |row, name| {
                row.name.contains(name)
            });
            asked.map(|asked| (asked.rows.len(), asked.n, asked.seed))
        };
        assert_eq!(parsed(&["slow"]), Ok((1, None, None)));
        assert_eq!(parsed(&["", "--n", "5"]), Ok((2, Some(5), None)));
        let both = parsed(&["fine", "--seed", "0", "--n", "5"]);
        assert_eq!(both, Ok((1, Some(5), Some(0))));
        for wrong in [
            &["nothing"][..],
            &[],
            &["fine", "--n", "0"],
            &["fine", "--n"],
            &["fine", "5"],
            &["fine", "--seed", "x"],
        ] {
            parsed(wrong).unwrap_err();
        }
        assert!(parsed(&["nothing"]).unwrap_err().contains("slow"));
    }
}
