//! One run of a row, and the cargo command lines by which rows are measured.

use std::process::Command;

use serde_json::{Map, Value, json};

use super::seed::Seed;
use crate::cargo::failed_tests;
use crate::process::{Stop, tee};
use crate::workspace::Workspace;

/// How much a row is to measure, and what it found beside its value.
pub(super) struct Run<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) n: u32,
    pub(super) seed: &'a Seed,
    pub(super) more: Map<String, Value>,
}

impl<'a> Run<'a> {
    pub(super) fn new(workspace: &'a Workspace, n: u32, seed: &'a Seed) -> Self {
        Self { workspace, n, seed, more: Map::new() }
    }

    /// Reads `[VARIABLE=VALUE..] WORD..`, the words of a cargo command line behind its environment.
    ///
    /// A value or word `n` stands for how much is measured, `n/25` for a 25th of that, rounded up,
    /// and `seed` for the seed.
    pub(super) fn command(&self, line: &str) -> Command {
        let value = |word: &str| match word.strip_prefix("n/").map(str::parse) {
            Some(Ok(part)) => self.n.div_ceil(part).to_string(),
            _ if word == "n" => self.n.to_string(),
            _ if word == "seed" => self.seed.number().to_string(),
            _ => word.to_owned(),
        };
        let mut command = self.workspace.cargo("");
        let mut words = line.split_whitespace().peekable();
        while let Some((variable, word)) = words.peek().and_then(|word| word.split_once('=')) {
            command.env(variable, value(word));
            words.next();
        }
        command.args(words.map(value));
        command
    }

    /// Runs tests, of which there must be some, and returns how many of them failed.
    pub(super) fn failed(&mut self, line: &str) -> Result<f64, Stop> {
        let (status, printed) = tee(&mut self.command(line))?;
        let failed = failed_tests(&printed);
        match (status.success(), failed.len()) {
            (true, _) if passed(&printed) == 0 => Err(Stop::Failed("no test ran".to_owned())),
            (false, 0) => Err(Stop::Failed(format!("the tests ended with {status}"))),
            (_, 0) => Ok(0.0),
            (_, count) => {
                self.more.insert("broken".to_owned(), json!(failed));
                Ok(count as f64)
            }
        }
    }

    /// Runs a program that prints its figures as at least so many lines `figures {"value": …, …}`,
    /// and returns the largest value.
    pub(super) fn figures(&mut self, least: usize, command: &mut Command) -> Result<f64, Stop> {
        let (status, printed) = tee(command)?;
        let figures = figures(&printed);
        let values: Vec<_> = figures.iter().filter_map(|it| it["value"].as_f64()).collect();
        self.more.insert("figures".to_owned(), figures.into());
        if !status.success() {
            return Err(Stop::Failed(format!("what measures ended with {status}")));
        }
        let largest = values.iter().copied().reduce(f64::max);
        largest.filter(|_| values.len() >= least).ok_or_else(|| {
            Stop::Failed(format!("{} of at least {least} figures were printed", values.len()))
        })
    }
}

/// Returns how many tests passed, of all test programs.
fn passed(printed: &str) -> u32 {
    let results = printed.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counts = results.filter_map(|result| {
        let (_, counts) = result.split_once(". ")?;
        counts.split_once(" passed")?.0.parse::<u32>().ok()
    });
    counts.sum()
}

/// Returns the figures of what was printed; the name of a test may stand before them.
fn figures(printed: &str) -> Vec<Value> {
    let found = printed.lines().filter_map(|line| line.split_once("figures "));
    found.filter_map(|(_, figures)| serde_json::from_str(figures).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(measure: impl FnOnce(&mut Run<'_>)) -> Map<String, Value> {
        let workspace = Workspace { root: ".".into(), target: "".into(), metadata: Value::Null };
        let seed = Seed::new(Some(7));
        let mut run = Run::new(&workspace, 100, &seed);
        measure(&mut run);
        run.more
    }

    #[test]
    fn n_its_parts_and_the_seed_stand_for_numbers() {
        of(|run| {
            let command = run.command("CASES=n PART=n/7 SEED=seed bench -p n-th -- n --x=n");
            let args: Vec<_> = command.get_args().collect();
            assert_eq!(args, ["bench", "-p", "n-th", "--", "100", "--x=n"]);
            let variables: Vec<_> =
                command.get_envs().map(|(name, value)| (name, value.unwrap())).collect();
            let expected = [("CASES", "100"), ("PART", "15"), ("SEED", "7")];
            assert_eq!(variables, expected.map(|(name, value)| (name.as_ref(), value.as_ref())));
            assert_eq!(run.seed.taken(), Some(7));
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
            assert_eq!(run.figures(2, &mut shell(script)).ok(), Some(1.5));
        });
        assert_eq!(more["figures"], json!([{"value": 1.5}, {"value": 1}]));
        of(|run| {
            run.figures(1, &mut shell(r#"echo 'figures {"value":1}'; exit 1"#)).unwrap_err();
            run.figures(2, &mut shell(r#"echo 'figures {"value":1}'"#)).unwrap_err();
            run.figures(1, &mut shell("echo figures")).unwrap_err();
        });
    }

    #[test]
    fn tests_that_passed_are_counted_over_all_programs() {
        let printed = "running 2 tests\n\ntest result: ok. 2 passed; 0 failed\n\
                       test result: FAILED. 30 passed; 1 failed\n";
        assert_eq!((passed(printed), passed("")), (32, 0));
    }
}
