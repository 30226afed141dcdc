//! Tests that the parser splits lines, and rejects unclear lines.

#![expect(clippy::disallowed_methods, reason = "tests compare with the lines that a shell runs")]

use super::{LinePart, ParseFailure, ShellWord, SimpleCommand, parse_command_line};
use crate::limits::{MAX_COMMAND_DEPTH, MAX_COMMAND_LINE_BYTES, MAX_COMMAND_PARTS};
#[cfg(target_os = "linux")]
use crate::risks::tables::EVALUATING_BUILTINS;
use pretty_assertions::assert_eq;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Signal, kill_process_group};

/// Formats the words of a command; a leading `?` marks words that expand.
fn words(words: &[ShellWord]) -> Vec<String> {
    let mark = |word: &ShellWord| if word.expands { "?" } else { "" };
    words.iter().map(|word| format!("{}{}", mark(word), word.text)).collect()
}

fn commands(line: &str) -> Result<Vec<SimpleCommand>, ParseFailure> {
    let command = |part| match part {
        LinePart::Command(command) => Some(command),
        _ => None,
    };
    Ok(parse_command_line(line, 0)?.into_iter().filter_map(command).collect())
}

/// Formats each command: its assignments and words, then each written file after `>`, then each
/// read file after `<`.
fn split(line: &str) -> Result<Vec<String>, ParseFailure> {
    let shown = |command: SimpleCommand| {
        let shown = [command.assignments, command.words, command.array_elements].concat();
        let mut shown = words(&shown).join(" ");
        let redirects = [(" >", command.writes), (" <", command.reads)];
        for (sign, targets) in redirects {
            words(&targets).iter().for_each(|target| shown += &format!("{sign}{target}"));
        }
        command.input.iter().for_each(|text| shown += &format!(" << {:?}", text.text));
        shown
    };
    Ok(commands(line)?.into_iter().map(shown).collect())
}

#[test]
fn a_line_is_split_into_the_commands_that_run() {
    for (line, commands) in [
        ("", &[][..]),
        (" # a\n", &[]),
        ("a b  c", &["a b c"]),
        ("a; b && c || d | e |& f & g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("a 'b;c' \"d|e\" f\\;g", &["a b;c d|e f;g"]),
        ("a \\\n b", &["a b"]),
        ("a\\\n b; if c\\\n ;then\\\n d; fi", &["a b", "c", "d"]),
        ("a &&\\\nb | \\\n c", &["a", "b", "c"]),
        ("a # b; c\nd", &["a", "d"]),
        ("a b#c", &["a b#c"]),
        ("(a; b) && { c; }", &["a", "b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while ! a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
        ("for x in a b; do c $x; done", &["for x in a b", "c ?$x"]),
        ("a() { b; }; function c { d; }; function e() ( f )", &["b", "d", "f"]),
        ("[[ -f a && b == c && ( d != e ) ]] && f", &["f"]),
        ("[ -f a ] && b", &["[ -f a ]", "b"]),
        ("for x do a; done; for x { b; }", &["for x", "a", "for x", "b"]),
        ("select x in a; do b; done", &["select x in a", "b"]),
        ("time a; time -p b; ! time ! c; time -p -f x d", &["a", "b", "c", "-f x d"]),
        ("time { a; }; time for x in y; do b; done", &["a", "for x in y", "b"]),
        ("[[ a == ']]' ]] && b", &["b"]),
        ("[[ -e <(a) || ! b =~ (c|d) ]]; e", &["a", "e"]),
        ("A=1 B+=2 C[0]=3 a D=4", &["A=1 B+=2 ?C[0]=3 a D=4"]),
        ("A=(\n # b, c\n b\n) d", &["A= d b"]),
        ("exec {a}> b", &["a=3", "exec >b"]),
        ("A=(b $(c)) d", &["c", "A= d b ?$"]),
        ("A=1 if a; > b A=1 do c", &["A=1 if a", "A=1 do c >b"]),
        ("A=1", &["A=1"]),
    ] {
        assert_eq!(split(line).unwrap(), commands, "{line:?}");
    }
}

#[test]
fn expansions_are_marked_and_their_commands_are_found() {
    for (line, commands) in [
        ("a $b ${c:-d} $1 $@ $$ $", &["a ?$b ?$c ?$ ?$ ?$ $"][..]),
        ("a $(b $(c))", &["c", "b ?$", "a ?$"]),
        ("a \"$(b)\" `c \\`d\\``", &["b", "d", "c ?`", "a ?$ ?`"]),
        ("a ${b:-$(c)} \"${d:-`e`}\"", &["c", "e", "a ?$b ?$d"]),
        ("a $((1 + $(b))) $(( (c) ))", &["b", "a ?$ ?$"]),
        ("a <(b) >(c)", &["b", "c", "a ?<() ?<()"]),
        ("a < <(b)", &["b", "a <?<()"]),
        ("a * ?b [c] {d,e} {} ~ f=~ g~", &["a ?* ??b ?[c] ?{d,e} {} ?~ ?f=~ g~"]),
        ("a $'b\\\\\\nc' $\"d$e\" $\"f\"", &["a ?b\\\nc ?d$e ?f"]),
        ("a '$b' \\$c \"\\$d\" '*'", &["a $b $c $d *"]),
        ("$a b", &["?$a b"]),
    ] {
        assert_eq!(split(line).unwrap(), commands, "{line:?}");
    }
}

#[test]
fn redirections_are_distinguished_from_words() {
    for (line, commands) in [
        ("a > b >>c 2> d &> e &>>f >| g >&h <> i", &["a >b >c >d >e >f >g >h >i"][..]),
        ("a &> b; c &>>d 2>&1 | e &> f && g", &["a >b", "c >d", "e >f", "g"]),
        ("if a &> b; then c; fi", &["a >b", "c"]),
        ("a 2>&1 >&- 1>&2 <&0 < b 3< c", &["a <b <c"]),
        ("> a", &[" >a"]),
        ("(a) > b", &["a", " >b"]),
        ("a > $b > \"c d\"", &["a >?$b >c d"]),
        ("a 12> b x2> c", &["a x2 >b >c"]),
        ("a <<< b", &["a << \"b\\n\""]),
    ] {
        assert_eq!(split(line).unwrap(), commands, "{line:?}");
    }
}

#[test]
fn subshells_and_chain_ends_are_marked() {
    let shown = |part: LinePart| match part {
        LinePart::Command(command) => {
            let condition = if command.is_before_and { " &&" } else { "" };
            format!("{}{condition}", words(&command.words).join(" "))
        }
        LinePart::SubshellStart => "(".to_owned(),
        LinePart::SubshellEnd => ")".to_owned(),
        LinePart::ChainEnd => ";".to_owned(),
        LinePart::LoopStart => "@".to_owned(),
        LinePart::FunctionStart(name) => format!("@{name}"),
        LinePart::Arithmetic(text) => format!("#{text}"),
    };
    for (line, expected) in [
        ("a && b; c", "a &&, b, ;, c"),
        ("a && b | c || d && e", "a &&, b, c, ;, d &&, e, ;"),
        ("a && b & c", "a &&, b, ;, c"),
        ("a &> b && c", "a, c, ;"),
        ("! a && b && c", "a, b &&, c, ;"),
        ("a | b && c && (d | e) && f", "a, b, c &&, (, d, e, ), f, ;"),
        ("a &&\nb\nc", "a &&, ;, b, c"),
        ("(a && b); c", "(, a &&, b, ;, ), c"),
        ("a && (b; c) && d", "a &&, (, b, c, ), d, ;"),
        ("a; [[ b ]] && c", "a, c, ;"),
        ("a $(b) `c` <(d)", "(, b, ), (, c, ), (, d, ), a ?$ ?` ?<()"),
        (
            "while a; do b; done; f() { c; }; for d in e; do f; done",
            "@, a, b, @f, c, @, for d in e, f",
        ),
    ] {
        let parts: Vec<String> =
            parse_command_line(line, 0).unwrap().into_iter().map(shown).collect();
        assert_eq!(parts.join(", "), expected, "{line:?}");
    }
}

#[test]
fn input_texts_belong_to_their_command() {
    let input = |line: &str| {
        let commands = commands(line).unwrap();
        let text = commands.iter().find_map(|command| command.input.clone()).unwrap();
        (
            commands.iter().map(|command| words(&command.words).join(" ")).collect(),
            text.text,
            text.expands,
        )
    };
    for (line, commands, text, expands) in [
        ("a <<'E' | b\nc; $(d)\nE\ne", &["a", "b", "e"][..], "c; $(d)\n", false),
        ("a <<E\nc $(d) \\$e\nE\n", &["a", "d"], "c $ $e\n", true),
        ("a <<-E\n\tc\n\tE\n", &["a"], "c\n", false),
        ("a <<E\nE", &["a"], "", false),
        ("a <<'E' 3<<'F' <<< b\nc\nE\nd\nF\n", &["a"], "b\nc\nd\n", false),
        ("a <<E\nc\\\\\nE\n", &["a"], "c\\\n", false),
        ("a <<'E'\nc\\\nE\n", &["a"], "c\\\n", false),
        ("a $(b <<'E'\nc\nE\n)", &["b", "a ?$"], "c\n", false),
    ] {
        let commands: Vec<String> = commands.iter().map(|&command| command.to_owned()).collect();
        assert_eq!(input(line), (commands, text.to_owned(), expands), "{line:?}");
    }
}

#[test]
fn unclear_lines_are_rejected() {
    for line in [
        "'",
        "\"",
        "`",
        "a 'b",
        "a \"b",
        "a $(b",
        "a `b",
        "a ${b",
        "a $((b",
        "(a",
        "a)",
        "a <<E\nb",
        "a <<E",
        "a >",
        "a > ;",
        "case a in a) b;; esac",
        "a (b)",
        "a=(b",
        "[[ a",
        "a \\",
        "$((a; b))",
        "$((a) | (b))",
        "${a:-'}'}",
        "a <<E $(b\nE\n)",
        "(a <<E)\nE\n",
        "a <<$E\nE\n",
        "a <<${E}\nE\n",
        "a <<$'E'\nE\n",
        "a <<`E`\nE\n",
        "a <<E\nb\\\nE\n",
        "a >&'$(b)'",
        "((a))",
        "coproc a",
        "coproc a { b; }",
        "$((1 # 2))",
        "a[b # ]=c",
        "a['b']=c",
        "[[ a # b\n]]",
        "[[ x =~ (]]  # ) ]]; x",
        "[[ -v 'a[1+$(b)]' ]]",
        "[[ a || b ]]",
        "[[ a | b ]]",
        "[[ a & b ]]",
        "a ${ b; }",
        "a ${| b; }",
        "a ${\nb; }",
        "a ${b:-<(c)}",
        "a ${b@P}",
        "a $[1]",
        "a $'\\x62'",
        "a $'b\\'c'",
        "a b\\\nc",
        "a |\\\n| b",
        "a <<\\\n-E\nE\n-E",
        "a <<E && [[ b\nE\n]]",
        "a $\\\n(b)",
        "a \"${b:-$\\\n(c)}\"",
        "a ${b:-<\\\n(c)}",
        "a ${b@\\\nP}",
        "a \"$\\\n(b)\"",
        "i\\\nf a; then b; fi",
        "for ((i = 0; i < 1; i++)); do a; done",
        ">&-rm -rf a",
        "a 2>& -b",
        "a <&-$b",
        "a >&--",
        "[[ x =~ (x ${y@) ]] \na\nP}) ]]",
        "time -a x",
        "> a ! b",
        "a $(> b time c)",
        "time -- x",
    ] {
        assert_eq!(split(line), Err(ParseFailure::Unclear), "{line:?}");
    }
}

#[test]
fn unclear_arrays_are_rejected() {
    for line in [
        "a=(b # c\n)",
        "a=(b\n# c)\n)",
        "a=(b\n# 'c\n)",
        "a=([b # ]=c)",
        "a=()b c",
        "a=(b)'c' d",
        "a=(b)<(c) d",
    ] {
        assert_eq!(split(line), Err(ParseFailure::Unclear), "{line:?}");
    }
}

#[test]
fn lines_that_a_plain_shell_splits_in_another_way_are_rejected() {
    for line in [
        "[[ a > b ]]",
        "[[ a < b ]]",
        "[[ a && b > c ]]",
        "[[ a && b || -c > d ]]",
        "! [[ a && b > c ]]",
        "! [[ a && b ]]",
        "[[ a || ! b && c > d ]]",
        "[[ a || \"b\" && c > d ]]",
        "[[ a && b || ( -c > d ) && e ]]",
        "[[ ! a > b ]]",
        "a &> b c",
        "a &>> b c",
        "a &>b <(c)",
        "a &> b > c d",
        "&> a b",
        "(a) &> b c",
    ] {
        assert_eq!(split(line), Err(ParseFailure::Unclear), "{line:?}");
    }
}

#[test]
fn lines_over_a_limit_are_rejected_quickly() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}a{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close) in [
        ("( ", ")"),
        ("a $(", ")"),
        ("a \"$(", ")\""),
        ("a ${b:-", "}"),
        ("a <(", ")"),
        ("$((", "))"),
    ] {
        assert!(split(&nested(open, close, MAX_COMMAND_DEPTH)).is_ok(), "{open}");
        for depth in [MAX_COMMAND_DEPTH + 1, 5_000] {
            let result = split(&nested(open, close, depth));
            assert!(
                matches!(result, Err(ParseFailure::TooDeep | ParseFailure::Unclear)),
                "{open} {result:?}"
            );
        }
    }
    let parts = |count: usize| split(&vec!["a"; count].join(";"));
    assert_eq!(parts(MAX_COMMAND_PARTS).unwrap().len(), MAX_COMMAND_PARTS);
    assert_eq!(parts(MAX_COMMAND_PARTS + 1), Err(ParseFailure::TooManyParts));
    assert_eq!(split(&"a".repeat(MAX_COMMAND_LINE_BYTES + 1)), Err(ParseFailure::TooLong));
}

proptest::proptest! {
    #[test]
    fn no_line_makes_the_parser_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(&[
                "a", "1", " ", "\n", ";", "&", "|", "(", ")", "<", ">", "'", "\"", "`", "$", "{", "}",
                "\\", "#", "=", "[", "]", "é", "<<E\n", "E\n", "$(", "((", "if ", "[[ ",
            ][..]),
            0..40,
        ),
    ) {
        drop(parse_command_line(&pieces.concat(), 0));
    }
}

/// Runs a line in a shell. Returns the commands that the shell tried to run, and the files that it
/// created. The shell cannot find any program.
#[cfg(target_os = "linux")]
fn by_shell(line: &str) -> (Vec<String>, Vec<String>) {
    // Each command is recorded in a separate file, because some commands run at the same time. An
    // endless command is killed. A function that calls itself is stopped early, because with `&` it
    // would start an unlimited number of shells.
    let (folder, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = format!(
        "PATH=/nowhere FUNCNEST=5\ncommand_not_found_handle() {{ local IFS=$'\\037'; \
         printf '%s\\037' \"$*\" >\"{}/$BASHPID.$SRANDOM\"; return $((RANDOM % 2)); }}\n{line}\n",
        log.path().display()
    );
    let mut shell = std::process::Command::new("/usr/bin/timeout")
        .args(["--signal=KILL", "5", "/bin/bash", "--noprofile", "--norc", "-c"])
        .args(["ulimit -t 2 -f 64; eval \"$0\"", &script])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    shell.wait().unwrap();
    // `timeout` has a separate process group. Killing this group also ends the background processes
    // of the line.
    kill_process_group(Pid::from_child(&shell), Signal::KILL).ok();
    let entries = |folder: &tempfile::TempDir| {
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path())
    };
    // A file that a background command is still writing is skipped.
    let is_whole = |text: &String| text.ends_with('\u{1f}');
    let texts = entries(&log).map(|file| std::fs::read_to_string(file).unwrap());
    let ran = texts.filter(is_whole).collect();
    let name = |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    (ran, entries(&folder).map(name).collect())
}

/// Returns whether a parsed command may be the command that ran. The words of the parsed command
/// must be the same, or some of them must expand.
#[cfg(target_os = "linux")]
fn is_found(ran: &str, command: &SimpleCommand) -> bool {
    let expands = command.words.iter().any(|word| word.expands);
    let parsed: String = command.words.iter().map(|word| format!("{}\u{1f}", word.text)).collect();
    let program = command.words.first().filter(|word| !word.expands);
    let is_program = program.is_none_or(|word| ran.starts_with(&format!("{}\u{1f}", word.text)));
    parsed == ran || expands && is_program
}

/// Returns the commands of a line, including the commands in the arguments of `eval` and `trap`.
/// Returns `None` if the line needs permission.
#[cfg(target_os = "linux")]
fn all_commands(line: &str) -> Option<Vec<SimpleCommand>> {
    let mut commands = commands(line).ok()?;
    let mut nested = Vec::new();
    for command in &commands {
        let Some((program, words)) = command.words.split_first() else { continue };
        if EVALUATING_BUILTINS.contains(&&*program.text)
            && words.iter().any(ShellWord::has_expanding_subscript)
        {
            return None;
        }
        let dashes = usize::from(words.first().is_some_and(|word| word.text == "--"));
        let words = match &*program.text {
            "eval" => &words[dashes..],
            "trap" => &words[dashes..words.len().min(dashes + 1)],
            _ => continue,
        };
        if words.iter().any(|word| word.expands) {
            return None;
        }
        let texts: Vec<_> = words.iter().map(|word| &*word.text).collect();
        nested.extend(all_commands(&texts.join(" "))?);
    }
    commands.extend(nested);
    Some(commands)
}

/// Compares the commands that the parser finds in a line with the commands that a shell runs.
#[cfg(target_os = "linux")]
fn compare(line: &str) -> Result<(), proptest::test_runner::TestCaseError> {
    let Some(commands) = all_commands(line) else { return Ok(()) };
    let (ran, made) = by_shell(line);
    for command in &ran {
        let is_known = commands.iter().any(|found| is_found(command, found));
        proptest::prop_assert!(is_known, "{:?} ran {:?}", line, command);
    }
    let writes = || commands.iter().flat_map(|command| &command.writes);
    for file in &made {
        let is_known = writes().any(|word| word.expands || word.text == *file);
        proptest::prop_assert!(is_known, "{:?} made {:?}", line, file);
    }
    Ok(())
}

/// Fragments from which any line can be built.
#[cfg(target_os = "linux")]
const LETTERS: &[&str] = &[
    "x", "y", "1", " ", " ", " ", " x ", "; ", "&", "&&", "|", "||", "\n", ">", " 2>y", "&1", "'",
    "\"", "=", "~", "{", "}", "{ x;}", "*", "$y", "$", "${y:-", "$(", ")", "(", "`", "\"$(x)\"",
    "<(", "\\", "#", "!", "[", "<", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "$'", "if ", ";then ",
    "\\\n ", ";fi", "[[ ", " ]]", "a=", "a=(", "$((1", "))", "{x,y}", "@", "\t",
];

/// Forms that can hide a command from a parser whose rules differ from the rules of the shell. Each
/// entry is the beginning and the end of a form.
#[cfg(target_os = "linux")]
const FORMS: &[(&str, &str)] = &[
    ("for y do ", "; done"),
    ("for y in x; do ", "; done"),
    ("for y { ", "; }"),
    ("for y\ndo ", "\ndone"),
    ("select y in x; do ", "; done"),
    ("while x; do ", "; done"),
    ("until x\ndo ", "\ndone"),
    ("if x; then ", "; fi"),
    ("case x in x) ", ";; esac"),
    ("coproc ", ""),
    ("coproc y { ", "; }"),
    ("coproc (", ")"),
    ("time ", ""),
    ("time -p ", ""),
    ("! ", ""),
    ("{ ", "; }"),
    ("(", ")"),
    ("((", "))"),
    ("x() { ", "; }; x"),
    ("function y { ", "; }; y"),
    ("[[ ", " ]]"),
    ("[[ x == ", " ]] || x"),
    ("[[ -e <(", ") ]]"),
    ("[[ x =~ (", ") ]]"),
    ("[[ x =~ ", " ]]; x"),
    ("a=(", ")"),
    ("a+=( ", " ) x"),
    ("a=(\n# ", "\nx) x"),
    ("x $((16#", "))"),
    ("a=([", "]=x)"),
    ("a[", "]=1"),
    ("a[", "]=1 x"),
    ("declare a=(", ")"),
    ("declare a[", "]=1"),
    ("x ${ ", "; }"),
    ("x ${| ", "; }"),
    ("x ${y:-", "}"),
    ("x \"${y:-", "}\""),
    ("x ${y:=<(", ")}"),
    ("x ${y@", "P}"),
    ("x $[", "]"),
    ("x $((", "))"),
    ("x $(", ")"),
    ("x \"$(", ")\""),
    ("x `", "`"),
    ("x <(", ")"),
    ("x >(", ")"),
    ("x \"", "\""),
    ("x '", "'"),
    ("x $'", "'"),
    ("x $\"", "\""),
    ("trap -- '", "' EXIT"),
    ("trap '", "' EXIT"),
    ("eval -- '", "'"),
    ("cat <<E\n", "\nE\n"),
    ("x <<E && x\n", "\nE\n"),
    ("x <<E\\\n \n", "\nE\n"),
    ("x <<E && [[ x\nE\n]]\n", "\nE\n"),
    ("x <<'E'\n", "\nE\n"),
    ("x <<\\E | x\n", "\nE\n"),
    ("x <<-E\n\t", "\n\tE\n"),
    ("x <<${y}\n", "\n${y}\n"),
    ("x <<$'E'\n", "\nE\n"),
    ("x <<$y\n", "\n$y\n"),
    ("x <<`y`\n", "\n`y`\n"),
    ("x <<E\"F\"\n", "\nEF\n"),
    ("x 3<<E <<'F'\n", "\nE\n\nF\n"),
    ("x <<< ", ""),
    ("x <<< \"", "\""),
    ("x {y}>", ""),
    ("x &>", ""),
    ("x >&", ""),
    ("x 2>&'", "'"),
    ("x >|", ""),
    ("x <>", ""),
    ("exec 3>", ""),
    ("x {", ",y}"),
];

/// Fragments that are placed inside or after the forms.
#[cfg(target_os = "linux")]
const WITHIN: &[&str] = &[
    "x ", "x y; ", "x; ", "y", " # ", "#'\n", " #\"\n", " #`\n", "# ]=1 ", "' ", "\" ", "\\'",
    "\\\"", "\\\n", "\\\n ", "\\\\\n", " < y ", " > y ", " && x ", " || x ", " | x ", " & ",
    "$(x)", "`x`", "<(x)", ") ", "( ", "1", "\n", "$y", "$", "{", "}", "']]' ", "]] ", "esac ",
    "in ", "do ", "done; ", " [x]=", "[", "$\\\n(x)", "@\\\nP", "!", ";; ", "\nE\n", "; x y\n",
    "'$(x)'", "=", "~", "-a ", "\nx y",
];

#[cfg(target_os = "linux")]
proptest::proptest! {
    /// `PROPTEST_CASES` sets the number of lines.
    #[test]
    fn every_command_and_file_of_a_shell_is_found(
        pieces in proptest::collection::vec(proptest::sample::select(LETTERS), 0..10),
    ) {
        compare(&format!("x{}", pieces.concat()))?;
    }

    /// Compares lines with nested forms, which may be incomplete. `PROPTEST_CASES` sets the number
    /// of lines.
    #[test]
    fn no_form_hides_a_command_from_the_parser(
        forms in proptest::collection::vec(proptest::sample::select(FORMS), 1..4),
        within in proptest::collection::vec(proptest::sample::select(WITHIN), 0..5),
        behind in proptest::collection::vec(proptest::sample::select(WITHIN), 0..4),
    ) {
        compare(&formed(&forms, &within.concat(), &behind.concat()))?;
    }
}

#[cfg(target_os = "linux")]
fn formed(forms: &[(&str, &str)], within: &str, behind: &str) -> String {
    let line = |within: String, (open, close): &(&str, &str)| format!("{open}{within}{close}");
    format!("{}{behind}", forms.iter().fold(within.to_owned(), line))
}
