//! Tests that portable lines are parsed and other lines are rejected. A shell must run exactly the
//! parsed commands.

use super::parse_portable_line;

fn check(line: &str, commands: &[&[&str]], writes: &[&str]) {
    let plain = parse_portable_line(line).unwrap_or_else(|| panic!("{line:?} is plain"));
    assert_eq!(plain.commands, commands, "{line:?}");
    assert_eq!(plain.writes, writes, "{line:?}");
}

#[test]
fn a_command_is_split_as_a_shell_does() {
    for (line, words) in [
        ("cargo test", &["cargo", "test"][..]),
        ("  cargo   test  ", &["cargo", "test"]),
        ("rg 'fn main|x' src", &["rg", "fn main|x", "src"]),
        ("git commit -m \"it's done; really\"", &["git", "commit", "-m", "it's done; really"]),
        ("a'b'\"c\"d ''", &["abcd", ""]),
        ("make CC=gcc", &["make", "CC=gcc"]),
        ("/bin/ls -l", &["/bin/ls", "-l"]),
    ] {
        check(line, &[words], &[]);
    }
}

#[test]
fn commands_are_split_where_a_shell_splits_them() {
    for line in ["a 1;b", "a 1 && b", "a 1||b", "a 1 | b", "a 1\nb", "\n a 1 ;\n\nb\n", "a 1&&\nb"]
    {
        check(line, &[&["a", "1"], &["b"]], &[]);
    }
    check("a ';' b '&& c' \"|\"", &[&["a", ";", "b", "&& c", "|"]], &[]);
}

#[test]
fn output_redirections_are_parsed() {
    check("a 2>&1 | b >&2", &[&["a"], &["b"]], &[]);
    check("a >/dev/null 2> /dev/null", &[&["a"]], &[]);
    check("a >b 1>>'c d' 2>e f", &[&["a", "f"]], &["b", "c d", "e"]);
    check("a; > b", &[&["a"]], &["b"]);
    check("a 2 >b", &[&["a", "2"]], &["b"]);
}

#[test]
fn incomplete_or_ambiguous_lines_are_rejected() {
    for line in [
        "", " ", "\n", "'", "echo 'a", "echo \"a", "''", "'' a", "A=1 b", "./a", "a/b", "=a", ";",
        "a;;b", ";a", "a &&", "&& a", "a & b", "a &", "a |& b", "a | ", "a\n&& b", "a && ; b",
        "a >", "a > > b", "a >| b", "a >&b", "a >&3", "a 2>&1x", "a b>c", "a 3>b", "a '2'>b",
        "a &> b", "a < b", "a << b", "> b", "(a)", "{ a; }", "! a", "a $b", "a `b`", "a \\b",
        "a # b", "a ~", "a *", "a ?", "a [b]", "a {b,c}", "a \"$b\"", "a \"!b\"", "a\tb", "a\rb",
        "a \u{e9}", "a; A=1",
    ] {
        assert_eq!(parse_portable_line(line), None, "{line:?}");
    }
}

/// Runs a line in a shell. Returns the commands that the shell ran, and the files that it created.
/// Every program prints its words and exits with `status`.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "a shell is what the reading is compared with")]
fn by_shell(line: &str, status: u8) -> (Vec<String>, Vec<String>) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("plain-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    // Each program prints in one write. The programs of a pipe run at the same time, so several
    // small writes could interleave.
    let script = format!(
        "PATH=/nowhere\ncommand_not_found_handle() {{ local IFS=$'\\037'; \
         printf '%s\\037\\036' \"$*\" >&9; return {status}; }}\n{line}\n"
    );
    let shell = std::process::Command::new("/bin/bash")
        .args(["--noprofile", "--norc", "-c", "exec 9>&1 >/dev/null; eval \"$0\"", &script])
        .current_dir(&folder)
        .output()
        .unwrap();
    let printed = String::from_utf8(shell.stdout).unwrap();
    let ran = printed.split_terminator('\u{1e}').map(str::to_owned).collect();
    let entries = std::fs::read_dir(&folder).unwrap();
    let made = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    std::fs::remove_dir_all(folder).unwrap();
    (ran, made)
}

#[cfg(target_os = "linux")]
proptest::proptest! {
    /// The shell runs only portable lines, which are harmless here because every program only
    /// prints its words.
    #[test]
    fn a_shell_runs_and_writes_nothing_else(
        pieces in proptest::collection::vec(
            proptest::sample::select(&[
                "x", "y", "1", "2", " ", " ", " ", ";", "&", "&&", "|", "||", "\n", ">", "&1", "'",
                "\"", "=", "~", "-", "a=~", "/dev/null", "{", "*", "$", "\\", "#", "!", "(", "[",
            ][..]),
            0..12,
        ),
        fails in proptest::bool::ANY,
    ) {
        let line = format!("x{}", pieces.concat());
        let absolute = |plain: &super::PortableLine| {
            plain.writes.iter().chain(plain.commands.iter().map(|words| &words[0]))
                .any(|word| word.contains('/'))
        };
        if let Some(plain) = parse_portable_line(&line).filter(|plain| !absolute(plain)) {
            let parsed: Vec<String> = plain.commands.iter().map(|words| {
                words.iter().map(|word| format!("{word}\u{1f}")).collect()
            }).collect();
            let (ran, made) = by_shell(&line, u8::from(fails));
            for command in &ran {
                proptest::prop_assert!(parsed.contains(command), "{:?} ran {:?}", line, command);
            }
            let must_run = plain.writes.is_empty();
            proptest::prop_assert!(!ran.is_empty() || !must_run, "{:?} ran nothing", line);
            for file in &made {
                proptest::prop_assert!(plain.writes.contains(file), "{:?} made {:?}", line, file);
            }
        }
    }
}
