//! Runs command lines that are understood, and finds the lines that do more than the table allows.
//!
//! Most lines are random: they contain options from the help and manuals of the programs, with
//! values that name paths outside the project. If
//! [`analyze_command`](callboard_shell::analyze_command) accepts a line, an agent would run the
//! line without asking the user. The test therefore runs each accepted line in namespaces, and
//! traces its system calls. The test fails if the line reads or changes a canary file, writes
//! outside the project, connects to a network, or starts a program that is not listed in the
//! program's row of the table.

#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by them")]
#![expect(clippy::disallowed_methods, reason = "a test runs the programs that the crate may not")]
#![expect(clippy::print_stderr, reason = "the report of a test that runs for minutes")]

mod help;
mod lines;
mod scratch;
#[expect(dead_code, unreachable_pub, reason = "the table is private to the crate")]
#[path = "../../src/programs.rs"]
mod table;
mod trace;

use std::collections::HashSet;
use std::env;

use callboard_shell::{analyze_command, portable_line};

use self::lines::{LineGenerator, Random};
use self::scratch::{RunOutcome, Scratch};
use self::table::Program;

const TEST: &str = "understood_lines_keep_to_the_project";
/// Environment variable that is set for the test run inside the namespaces.
const INSIDE: &str = "UNDERSTOOD_INSIDE";
/// Environment variable with the number of random lines per program.
const CASES: &str = "UNDERSTOOD_CASES";
const SEED: &str = "UNDERSTOOD_SEED";
/// Environment variable that restricts the run to programs whose words begin with one of these
/// texts, separated by commas.
const ONLY: &str = "UNDERSTOOD_ONLY";

/// The violations that a program may commit with any arguments. Each entry contains the program,
/// the violation, and the reason why it is accepted.
const KNOWN_VIOLATIONS: &[(&str, &str, &str)] = &[
    (
        "cargo doc",
        "reads /srv/me/src/beside",
        "lists folders behind links, and reads no file there",
    ),
    (
        "pytest",
        "reads /srv/me/src/beside",
        "looks for tests behind links, as for tests of the project",
    ),
];

#[test]
#[ignore = "runs thousands of commands for minutes; see `cargo xtask accept understood`"]
fn understood_lines_keep_to_the_project() {
    if env::var_os(INSIDE).is_none() {
        return scratch::run_inside(TEST, INSIDE);
    }
    let cases = number(CASES).unwrap_or(1_000);
    let seed = number(SEED).unwrap_or_else(Random::any_seed);
    let only = env::var(ONLY).unwrap_or_default();
    let scratch = Scratch::create();
    let mut total = Counts::default();
    let (mut tested, mut missing) = (0, Vec::new());
    for program in table::programs() {
        let name = program.words.join(" ");
        if !only.split(',').any(|only| name.starts_with(only)) {
            continue;
        }
        if !scratch.is_installed(program) {
            missing.push(name);
            continue;
        }
        tested += 1;
        let counts = test(program, &scratch, Random::new(seed ^ tested), cases);
        eprintln!("{name}: {counts}");
        assert!(counts.succeeded > 0, "no line of `{name}` succeeds, so nothing was tested");
        total.add(&counts);
    }
    eprintln!(
        "understood: {tested} programs, {} not installed ({}), seed {seed}: {total}",
        missing.len(),
        missing.join(", ")
    );
    assert!(tested > 0, "no program was tested");
    assert_eq!(total.violations, 0, "understood lines do more than the table says");
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Runs lines with each entry of a program's row, and then random lines.
fn test(program: &'static Program, scratch: &Scratch, random: Random, cases: u64) -> Counts {
    scratch.reset_project();
    let help = help::options(program, scratch);
    let mut drawer = LineGenerator::new(program, help, random);
    let mut test =
        ProgramTest { program, scratch, lines: HashSet::new(), counts: Counts::default() };
    test.counts.options = drawer.help_options() as u64;
    for (entry, candidates) in drawer.table_lines() {
        let understood = candidates.iter().filter(|words| test.test(words)).count();
        assert!(understood > 0, "no line with {entry} of {:?} is understood", program.words);
    }
    for _ in 0..cases {
        test.counts.drawn += 1;
        test.test(&drawer.random_line());
    }
    test.counts
}

/// The tested lines of a program.
struct ProgramTest<'a> {
    program: &'static Program,
    scratch: &'a Scratch,
    lines: HashSet<String>,
    counts: Counts,
}

impl ProgramTest<'_> {
    /// Runs a line if it is understood and was not run before. Returns whether it is understood.
    fn test(&mut self, words: &[String]) -> bool {
        let Some(line) = lines::quote(words) else { return false };
        let Some(read) = portable_line::parse_portable_line(&line) else { return false };
        assert_eq!(read.commands, [words], "{line} is read as other words");
        if analyze_command(words, self.program.words.len()).is_err() {
            return false;
        }
        self.counts.understood += 1;
        if !self.lines.insert(line.clone()) {
            return true;
        }
        if let ["git", "add" | "commit"] = self.program.words {
            // The previous line may have left no changes for this line to add or commit.
            self.scratch.reset_project();
        }
        let (ending, violations) = self.scratch.run(&line, self.program);
        self.counts.run += 1;
        match ending {
            RunOutcome::Success => self.counts.succeeded += 1,
            RunOutcome::Failure => {}
            RunOutcome::Timeout => {
                eprintln!("timed out: {line}");
                self.counts.timeouts += 1;
            }
        }
        let name = self.program.words.join(" ");
        let is_known = |violation: &String| {
            KNOWN_VIOLATIONS
                .iter()
                .any(|(program, known, _)| *program == name && known == violation)
        };
        for violation in violations.iter().filter(|violation| !is_known(violation)) {
            eprintln!("VIOLATION {line}\n    {violation}");
            self.counts.violations += 1;
        }
        true
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// Number of options in the program's help.
    options: u64,
    drawn: u64,
    understood: u64,
    /// Number of different lines that were understood and run. The count includes the lines for
    /// entries of the row and the random lines.
    run: u64,
    succeeded: u64,
    timeouts: u64,
    violations: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.options += other.options;
        self.drawn += other.drawn;
        self.understood += other.understood;
        self.run += other.run;
        self.succeeded += other.succeeded;
        self.timeouts += other.timeouts;
        self.violations += other.violations;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { options, drawn, understood, run, succeeded, timeouts, violations } = self;
        write!(
            formatter,
            "{options} options in help, {drawn} lines drawn, {understood} understood with those of \
             the row, {run} different ones run, {succeeded} succeeded, {timeouts} timed out, \
             {violations} violations"
        )
    }
}
