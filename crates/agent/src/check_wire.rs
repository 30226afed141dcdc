//! `callboard check-wire`: checks recorded messages line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_conformance::{Severity, TranscriptJudge};
use callboard_text::{count_with_noun, escape_invisible};

use crate::limits::MAX_PRINTED_VIOLATIONS;
use callboard_exec::OutputStream;

/// Checks each file (`-` is standard input). Prints the faults and a summary of each file.
///
/// Returns exit code 1 if a transcript contains an error or no message, or if a file cannot be
/// read. Otherwise returns 0.
pub(crate) fn check_files(files: &[PathBuf]) -> ExitCode {
    let mut ui = OutputStream::stdout();
    let mut is_good = true;
    for file in files {
        let name = escape_invisible(&file.to_string_lossy());
        match open_file_or_stdin(file).and_then(|input| check_file(input, &name, &mut ui)) {
            Ok(errors) => is_good &= errors == 0,
            Err(error) => {
                OutputStream::stderr().print_line(&format!("callboard: {name}: {error}"));
                is_good = false;
            }
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn open_file_or_stdin(file: &Path) -> io::Result<Box<dyn BufRead>> {
    Ok(if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file)?))
    })
}

/// Checks a file and returns the number of errors. The number of printed faults is limited. A file
/// without a message is an error, because nothing was checked.
fn check_file(input: impl BufRead, name: &str, ui: &mut OutputStream) -> io::Result<u64> {
    let (mut errors, mut warnings) = (0, 0);
    let lines = TranscriptJudge::new().judge_reader(input, |fault| {
        if errors + warnings < MAX_PRINTED_VIOLATIONS {
            ui.print_line(&format!("{name}:{fault}"));
        }
        match fault.rule.severity() {
            Severity::Error => errors += 1,
            Severity::Warning => warnings += 1,
        }
    })?;
    if lines == 0 {
        return Err(io::Error::other("it contains no message"));
    }
    let hidden = (errors + warnings).saturating_sub(MAX_PRINTED_VIOLATIONS);
    if hidden > 0 {
        ui.print_line(&format!("{name}: {}", count_with_noun(hidden, "more fault", "more faults")));
    }
    ui.print_line(&format!(
        "{name}: {}, {}, {}",
        count_with_noun(lines, "line", "lines"),
        count_with_noun(errors, "error", "errors"),
        count_with_noun(warnings, "warning", "warnings"),
    ));
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read as _};

    use super::check_file;
    use crate::limits::MAX_PRINTED_VIOLATIONS;
    use callboard_exec::OutputStream;

    #[test]
    fn printed_faults_are_limited_and_all_faults_are_counted() {
        let mut ui = OutputStream::for_plain_writer(io::sink());
        let faults = MAX_PRINTED_VIOLATIONS + 7;
        let bad = "no JSON\n".repeat(faults as usize);
        assert_eq!(check_file(bad.as_bytes(), "x", &mut ui).unwrap(), faults);
        let endless = io::repeat(b'a').take(64 << 20).chain(&b"\n\n"[..]);
        assert_eq!(check_file(BufReader::new(endless), "x", &mut ui).unwrap(), 1);
    }
}
