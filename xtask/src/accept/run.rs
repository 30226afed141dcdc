//! One run of a row, and the cargo command lines that measure rows.

use std::process::Command;

use serde_json::{Map, Value, json};

use super::seed::Seed;
use crate::cargo::parse_failed_tests;
use crate::process::{TaskError, run_and_copy_output};
use crate::workspace::Workspace;

/// The state of a row that is being measured: the number of measurements, the seed, and additional
/// figures.
pub(super) struct RowRun<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) n: u32,
    pub(super) seed: &'a Seed,
    pub(super) extra_figures: Map<String, Value>,
}

impl<'a> RowRun<'a> {
    pub(super) fn new(workspace: &'a Workspace, n: u32, seed: &'a Seed) -> Self {
        Self { workspace, n, seed, extra_figures: Map::new() }
    }

    /// Parses the line `[VARIABLE=VALUE..] WORD..`, which contains environment variables and the
    /// words of a cargo command line.
    ///
    /// The value or word `n` is replaced by the number of measurements, and `seed` by the random
    /// seed. For example, `n/25` is replaced by the number of measurements divided by 25, rounded
    /// up.
    pub(super) fn parse_cargo_command(&self, line: &str) -> Command {
        let value = |word: &str| match word.strip_prefix("n/").map(str::parse) {
            Some(Ok(part)) => self.n.div_ceil(part).to_string(),
            _ if word == "n" => self.n.to_string(),
            _ if word == "seed" => self.seed.get_and_mark_used().to_string(),
            _ => word.to_owned(),
        };
        let mut command = self.workspace.cargo_command("");
        let mut words = line.split_whitespace().peekable();
        while let Some((variable, word)) = words.peek().and_then(|word| word.split_once('=')) {
            command.env(variable, value(word));
            words.next();
        }
        command.args(words.map(value));
        command
    }

    /// Runs the tests that a cargo command line selects, and returns the number of failed tests. If
    /// no test ran, returns an error.
    pub(super) fn run_and_count_failed_tests(&mut self, line: &str) -> Result<f64, TaskError> {
        let (status, printed) = run_and_copy_output(&mut self.parse_cargo_command(line))?;
        let failed = parse_failed_tests(&printed);
        match (status.success(), failed.len()) {
            (true, _) if count_passed_tests(&printed) == 0 => {
                Err(TaskError::Failed("no test ran".to_owned()))
            }
            (false, 0) => Err(TaskError::Failed(format!("the tests exited with {status}"))),
            (_, 0) => Ok(0.0),
            (_, count) => {
                self.extra_figures.insert("broken".to_owned(), json!(failed));
                Ok(count as f64)
            }
        }
    }

    /// Runs a program that prints lines `figures {"value": …, …}`, and returns the largest value.
    /// If the program prints fewer than `least` values, returns an error.
    pub(super) fn run_for_largest_figure(
        &mut self,
        least: usize,
        command: &mut Command,
    ) -> Result<f64, TaskError> {
        let (status, printed) = run_and_copy_output(command)?;
        let figures = parse_figures(&printed);
        let values: Vec<_> = figures.iter().filter_map(|it| it["value"].as_f64()).collect();
        self.extra_figures.insert("figures".to_owned(), figures.into());
        if !status.success() {
            return Err(TaskError::Failed(format!("the measuring program exited with {status}")));
        }
        let largest = values.iter().copied().reduce(f64::max);
        largest.filter(|_| values.len() >= least).ok_or_else(|| {
            TaskError::Failed(format!("{} figures instead of at least {least}", values.len()))
        })
    }
}

/// Returns the number of passed tests, summed over all test programs in the output of `cargo test`.
fn count_passed_tests(printed: &str) -> u32 {
    let results = printed.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counts = results.filter_map(|result| {
        let (_, counts) = result.split_once(". ")?;
        counts.split_once(" passed")?.0.parse::<u32>().ok()
    });
    counts.sum()
}

/// Parses the figures in the output. The name of a test may precede the word `figures` in its line.
fn parse_figures(printed: &str) -> Vec<Value> {
    let found = printed.lines().filter_map(|line| line.split_once("figures "));
    found.filter_map(|(_, figures)| serde_json::from_str(figures).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(measure: impl FnOnce(&mut RowRun<'_>)) -> Map<String, Value> {
        let workspace = Workspace { root: ".".into(), target: "".into(), metadata: Value::Null };
        let seed = Seed::new(Some(7));
        let mut run = RowRun::new(&workspace, 100, &seed);
        measure(&mut run);
        run.extra_figures
    }

    #[test]
    fn n_its_fractions_and_the_seed_are_replaced_by_numbers() {
        of(|run| {
            let command =
                run.parse_cargo_command("CASES=n PART=n/7 SEED=seed bench -p n-th -- n --x=n");
            let args: Vec<_> = command.get_args().collect();
            assert_eq!(args, ["bench", "-p", "n-th", "--", "100", "--x=n"]);
            let variables: Vec<_> =
                command.get_envs().map(|(name, value)| (name, value.unwrap())).collect();
            let expected = [("CASES", "100"), ("PART", "15"), ("SEED", "7")];
            assert_eq!(variables, expected.map(|(name, value)| (name.as_ref(), value.as_ref())));
            assert_eq!(run.seed.value_if_newly_used(), Some(7));
        });
    }

    #[test]
    fn the_value_is_the_largest_of_all_figures() {
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            shell
        };
        let more = of(|run| {
            let script = r#"echo 'test a ... figures {"value":1.5}'; echo 'figures {"value":1}'"#;
            assert_eq!(run.run_for_largest_figure(2, &mut shell(script)).ok(), Some(1.5));
        });
        assert_eq!(more["figures"], json!([{"value": 1.5}, {"value": 1}]));
        of(|run| {
            run.run_for_largest_figure(1, &mut shell(r#"echo 'figures {"value":1}'; exit 1"#))
                .unwrap_err();
            run.run_for_largest_figure(2, &mut shell(r#"echo 'figures {"value":1}'"#)).unwrap_err();
            run.run_for_largest_figure(1, &mut shell("echo figures")).unwrap_err();
        });
    }

    #[test]
    fn tests_that_passed_are_counted_over_all_programs() {
        let printed = "running 2 tests\n\ntest result: ok. 2 passed; 0 failed\n\
                       test result: FAILED. 30 passed; 1 failed\n";
        assert_eq!((count_passed_tests(printed), count_passed_tests("")), (32, 0));
    }
}
