//! `callboard check-wire`: the judge over files, a line at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_conformance::{Fault, Severity, Transcript};
use acp_transport::MAX_LINE_BYTES;
use callboard_text::{counted, visible};

use crate::limits::MAX_SHOWN_FAULTS;
use crate::ui::Ui;

/// Judges each file, `-` being standard input, and prints every fault and a line for each file.
///
/// Ends with 0 if there is no error, with 1 if there is one or a file cannot be read.
pub(crate) fn run(files: &[PathBuf]) -> ExitCode {
    let mut ui = Ui::stdout();
    let mut is_good = true;
    for file in files {
        let name = visible(&file.to_string_lossy());
        match open(file).and_then(|input| judge(input, &name, &mut ui)) {
            Ok(errors) => is_good &= errors == 0,
            Err(error) => {
                Ui::stderr().line(&format!("callboard: {name}: {error}"));
                is_good = false;
            }
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    Ok(if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file)?))
    })
}

/// What was found in one file.
#[derive(Default)]
struct Counts {
    lines: u64,
    errors: usize,
    warnings: usize,
}

impl Counts {
    /// Counts faults, and prints them while they are not too many.
    fn faults(&mut self, name: &str, faults: &[Fault], ui: &mut Ui) {
        for fault in faults {
            if self.errors + self.warnings < MAX_SHOWN_FAULTS {
                ui.line(&format!("{name}:{fault}"));
            }
            match fault.rule.severity() {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
            }
        }
    }
}

/// Judges a file; returns how many errors are in it.
fn judge(mut input: impl BufRead, name: &str, ui: &mut Ui) -> io::Result<usize> {
    let mut transcript = Transcript::new();
    let mut counts = Counts::default();
    let mut line = Vec::new();
    while let Some(is_whole) = read_line(&mut input, &mut line)? {
        counts.lines += 1;
        let faults = if is_whole { transcript.line(&line) } else { transcript.skipped() };
        counts.faults(name, &faults, ui);
    }
    counts.faults(name, &transcript.end(), ui);
    let Counts { lines, errors, warnings } = counts;
    let hidden = (errors + warnings).saturating_sub(MAX_SHOWN_FAULTS);
    if hidden > 0 {
        ui.line(&format!("{name}: {}", counted(hidden as u64, "more fault", "more faults")));
    }
    ui.line(&format!(
        "{name}: {}, {}, {}",
        counted(lines, "line", "lines"),
        counted(errors as u64, "error", "errors"),
        counted(warnings as u64, "warning", "warnings"),
    ));
    Ok(errors)
}

/// Reads a line; says whether it is whole, or too long and skipped. None at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let most = MAX_LINE_BYTES as u64 + 1;
    if input.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(true));
    }
    input.skip_until(b'\n')?;
    Ok(Some(false))
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read as _};

    use super::judge;
    use crate::limits::MAX_SHOWN_FAULTS;
    use crate::ui::Ui;

    #[test]
    fn faults_and_lines_are_bounded_and_all_are_counted() {
        let mut ui = Ui::new(io::sink());
        let bad = "no JSON\n".repeat(MAX_SHOWN_FAULTS + 7);
        assert_eq!(judge(bad.as_bytes(), "x", &mut ui).unwrap(), MAX_SHOWN_FAULTS + 7);
        let endless = io::repeat(b'a').take(64 << 20).chain(&b"\n\n"[..]);
        assert_eq!(judge(BufReader::new(endless), "x", &mut ui).unwrap(), 1);
    }
}
