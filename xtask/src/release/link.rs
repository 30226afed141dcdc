//! The linker that orders the functions of the program.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::trace::called_functions;
use crate::process::{TaskResult, capture_stdout, run_passing_exit_code};

/// The variable that makes xtask a linker. Its value is the file for the report.
pub(crate) const REPORT_VARIABLE: &str = "CALLBOARD_ORDERED_FUNCTIONS";

/// The target for which the functions can be ordered.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(super) const IS_SUPPORTED: bool =
    cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"));

/// Links with the arguments that rustc passes to the C compiler. The program itself is linked
/// twice, to order its functions. If this fails, the program is linked as usual.
pub(crate) fn run_as_linker(args: &[OsString], report: &Path) -> TaskResult {
    if let Some(program) = linked_program(args) {
        let ordered = link_in_order(args, &program);
        let text = match &ordered {
            Ok(count) => format!("{count} functions are in the order of their first use"),
            Err(error) => format!("the functions of the program are not ordered: {error}"),
        };
        fs::write(report, text).ok();
        if ordered.is_ok() {
            return Ok(());
        }
    }
    run_passing_exit_code(Command::new("cc").args(args))
}

/// Returns the path of the linked program, unless this is another program, e.g. a build script.
fn linked_program(args: &[OsString]) -> Option<PathBuf> {
    let output = args.iter().skip_while(|arg| *arg != "-o").nth(1)?;
    let name = Path::new(output).file_name()?.to_str()?;
    (name == "callboard" || name.starts_with("callboard-")).then(|| PathBuf::from(output))
}

/// Links the program with its symbols, records the functions that it calls, and links it again in
/// their order. Returns the number of these functions.
fn link_in_order(args: &[OsString], program: &Path) -> io::Result<usize> {
    let args = args.iter().map(|arg| match arg.to_str() {
        // A process without this shared library starts faster.
        Some("-lgcc_s") => OsStr::new("-lgcc_eh"),
        _ => arg,
    });
    link(args.clone().filter(|arg| *arg != "-Wl,--strip-all"))?;
    let functions = read_functions(program)?;
    let called = called_functions(program, functions.keys().copied().collect())?;
    let names = called.iter().filter_map(|address| functions.get(address).map(String::as_str));
    let names: Vec<_> = names.collect();
    let order = program.with_extension("order");
    fs::write(&order, names.join("\n"))?;
    let mut option = OsString::from("-Wl,--no-warn-symbol-ordering,--symbol-ordering-file=");
    option.push(&order);
    link(args.chain([option.as_os_str()]))?;
    Ok(names.len())
}

fn link<'a>(args: impl Iterator<Item = &'a OsStr>) -> io::Result<()> {
    let status = Command::new("cc").args(args).status()?;
    status.success().then_some(()).ok_or_else(|| io::Error::other(format!("cc: {status}")))
}

/// Returns the addresses of the program's functions, relative to its start, and their names.
fn read_functions(program: &Path) -> io::Result<HashMap<u64, String>> {
    let mut nm = Command::new("nm");
    nm.args(["--defined-only", "--format=posix"]).arg(program);
    let symbols = capture_stdout(&mut nm)
        .map_err(|error| io::Error::other(error.message().unwrap_or("nm failed").to_owned()))?;
    Ok(symbols.lines().filter_map(parse_function).collect())
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn called_functions(_: &Path, _: Vec<u64>) -> io::Result<Vec<u64>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Parses a line of `nm`: name, type and address.
fn parse_function(line: &str) -> Option<(u64, String)> {
    let mut words = line.split(' ');
    let (name, kind, address) = (words.next()?, words.next()?, words.next()?);
    let is_function = matches!(kind, "t" | "T" | "w" | "W");
    let address = u64::from_str_radix(address, 16).ok()?;
    is_function.then(|| (address, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_is_ordered() {
        for (output, is_program) in [
            ("target/release/deps/callboard-0123456789abcdef", true),
            ("target/release/callboard", true),
            ("target/release/build/ring-01/build_script_build-01", false),
            ("target/release/deps/libcallboard_macros-01.so", false),
        ] {
            let args = ["-m64", "a.o", "-o", output, "-pie"].map(OsString::from);
            assert_eq!(linked_program(&args).is_some(), is_program, "{output}");
        }
        assert_eq!(linked_program(&["-o".into()]), None);
    }

    /// A program that opens a session like an agent, and calls three of its functions before.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    const PROGRAM: &str = r#"
        #include <stdio.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <sys/wait.h>
        #include <unistd.h>
        void first(void) {}
        void never(void) {}
        void second(void) {}
        void in_child(void) {}
        int main(void) {
            char line[4096];
            second();
            prctl(PR_SET_DUMPABLE, 0);
            first();
            second();
            if (!fork()) { in_child(); _exit(0); }
            wait(0);
            while (fgets(line, sizeof line, stdin)) {
                if (strstr(line, "session/new")) puts("{\"id\":2,\"result\":{\"sessionId\":\"s\"}}");
                fflush(stdout);
            }
        }"#;

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn called_functions_are_recorded_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("callboard-1"));
        let called = |text: &str| {
            fs::write(&source, text).unwrap();
            link([source.as_os_str(), OsStr::new("-o"), program.as_os_str()].into_iter()).unwrap();
            let functions = read_functions(&program).unwrap();
            let called = called_functions(&program, functions.keys().copied().collect())?;
            let names = called.iter().map(|function| functions[function].clone());
            let known = |name: &String| PROGRAM.contains(&format!("{name}(void)"));
            Ok::<_, io::Error>(names.filter(known).collect::<Vec<_>>())
        };

        assert_eq!(called(PROGRAM).unwrap(), ["main", "second", "first", "in_child"]);

        let without_answer = PROGRAM.replace("sessionId", "error");
        let error = called(&without_answer).unwrap_err();
        assert_eq!(error.to_string(), "the program opened no session");
    }

    #[test]
    fn functions_are_read_from_nm() {
        assert_eq!(
            parse_function("_ZN4main17h01E t 00000000000001f0 00000010"),
            Some((0x1f0, "_ZN4main17h01E".to_owned()))
        );
        assert_eq!(parse_function("table d 00000000000001f0 00000010"), None);
        assert_eq!(parse_function("callboard:"), None);
    }
}
