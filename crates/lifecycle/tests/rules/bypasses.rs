//! Tests of ways to run another command after a harmless first word. A rule for that word must
//! allow none of these ways.

use acp_lifecycle::rules::{ArgvPrefix, FileAccess, HostPattern, PathGlob};
use acp_lifecycle::{
    AskExceptReadsPolicy, Effect, Effects, Matcher, Rule, RuleScope, Rules, Verdict,
};
use proptest::prelude::any;
use proptest::proptest;

/// Commands that a rule for `echo` must not allow.
pub(crate) const ECHO: &[&str] = &[
    // Joined commands.
    "echo a; rm b",
    "echo a;rm b",
    "echo a && rm b",
    "echo a || rm b",
    "echo a | sh",
    "echo a |& sh",
    "echo a & rm b",
    "echo a &",
    "echo a\nrm b",
    "echo a\r\nrm b",
    "echo a\rrm b",
    "echo a\u{b}rm b",
    "echo a\u{c}rm b",
    "echo a\u{85}rm b",
    "echo a\u{2028}rm b",
    // Expansions.
    "echo $(rm b)",
    "echo `rm b`",
    "echo \"$(rm b)\"",
    "echo \"`rm b`\"",
    "echo ${x:=$(rm b)}",
    "echo $((a[$(rm b)]))",
    "echo $IFS",
    "echo$IFS;rm",
    "echo${IFS}a",
    "echo $'a\\nb'",
    "echo $\"a\"",
    "echo \"$HOME\"",
    "echo ~",
    "echo ~root/.ssh",
    "echo a=~",
    "echo *",
    "echo /etc/pass??",
    "echo [a-z]",
    "echo {a,b}",
    "echo !!",
    "echo \"!rm\"",
    "echo =rm",
    // Redirects.
    "echo a > b",
    "echo a >> b",
    "echo a >| b",
    "echo a 2>b",
    "echo a &> b",
    "echo < b",
    "echo <<EOF\n$(rm b)\nEOF",
    "echo <<< a",
    "echo <(rm b)",
    "echo >(rm b)",
    // Groups and shell keywords.
    "(echo a)",
    "{ echo a; }",
    "! echo a",
    "if echo a; then rm b; fi",
    "echo() { rm b; }",
    "function echo { rm b; }",
    "echo () (rm b)",
    // Another program that receives the command as an argument.
    "bash -c 'echo a'",
    "sh -c \"echo a; rm b\"",
    "env echo a",
    "sudo echo a",
    "xargs echo",
    "eval echo a",
    "command echo a",
    "exec echo a",
    "time echo a",
    "nohup echo a",
    "busybox echo a",
    // The environment of the command.
    "A=1 echo a",
    "PATH=/tmp echo a",
    "LD_PRELOAD=/tmp/x.so echo a",
    "IFS=a echo b",
    // Another program with a similar name.
    "./echo a",
    "bin/echo a",
    "../echo a",
    "/tmp/echo a",
    "~/echo a",
    "echoes a",
    "echo.sh a",
    "Echo a",
    "ECHO a",
    "'echo a'",
    "\"echo a\"",
    "\u{435}cho a",
    // Unterminated quotes and escapes, and quotes and escapes that hide characters.
    "echo 'a",
    "echo \"a",
    "echo 'a'\\''b'",
    "echo a\\",
    "echo a\\\nb",
    "echo \\a",
    "echo \"a\\\"; rm b; \\\"\"",
    "echo '\n'; rm b",
    "echo 'a\nb'",
    "ec\\ho a",
    "''echo; a",
    // Characters that look like spaces, and invisible characters.
    "echo\u{a0}a",
    "echo\u{2003}a",
    "echo\u{3000}a",
    "echo\u{200b} a",
    "echo a\u{202e}b",
    "echo\ta",
    "echo a\tb",
    "echo a\0b",
    "echo\0; rm b",
    "\0echo a",
    "\u{feff}echo a",
    "echo \u{1b}[2Ka",
    "echo é",
    // Comments.
    "echo a # b",
    "# echo a",
    "echo #",
    // Jobs and history.
    "echo a;;",
    "echo a ^b",
    // Empty commands.
    "",
    " ",
    "''",
];

/// Returns whether rules allow a command. `prefixes` contains the first words of each rule,
/// separated by commas.
pub(crate) fn allows(prefixes: &str, command: &str) -> bool {
    let mut rules = Rules::default();
    for prefix in prefixes.split(", ") {
        let words = prefix.split(' ').map(str::to_owned).collect();
        let matcher = Matcher::Argv(ArgvPrefix::try_new(words).unwrap());
        rules.add_rule(Rule::new(RuleScope::Session, matcher, Verdict::Allow));
    }
    let run = Effect::Run { command: command.to_owned(), cwd: "/p".into() };
    rules.judge_call(&Effects::from(run), &AskExceptReadsPolicy) != Verdict::Ask
}

#[test]
fn a_rule_for_the_first_word_allows_no_bypass() {
    assert!(allows("echo", "echo a") && allows("echo", "echo 'a; b'"), "the rule works");
    let through: Vec<_> = ECHO.iter().filter(|command| allows("echo", command)).collect();
    assert!(through.is_empty(), "{through:?}");
    assert!(ECHO.len() >= 60);
}

#[test]
fn one_command_without_a_rule_makes_the_whole_line_need_permission() {
    for parts in [1, 9, 49, 50, 499, 4999] {
        let mut line = vec!["echo a"; parts];
        // A line that is too long to be parsed is not allowed.
        assert_eq!(allows("echo", &line.join("; ")), parts < 500, "{parts} parts");
        line.insert(parts / 2, "rm b");
        assert!(!allows("echo", &line.join("; ")), "{parts} parts and another");
    }
    assert!(allows("echo", &format!("echo {}", "a".repeat(4000))));
    assert!(!allows("echo", &format!("echo {}", "a".repeat(4096))));
}

#[test]
fn large_globs_are_judged_without_a_panic() {
    for part in ["*", "?", "**/", "{a,b}", "[!a]", "[a-z]", "{", "[", "\\", "é", "{a,{b,", "/"] {
        let long = format!("/{}", part.repeat(1023 / part.len()));
        if let Ok(glob) = PathGlob::parse(&long) {
            let matcher = Matcher::Path { access: FileAccess::Read, glob };
            judge_both(&matcher, &Effect::Read("/a/b/c".into()));
        }
    }
}

/// Judges an effect by an allowing and by a denying rule.
fn judge_both(matcher: &Matcher, effect: &Effect) {
    for verdict in [Verdict::Allow, Verdict::Deny] {
        let mut rules = Rules::default();
        rules.add_rule(Rule::new(RuleScope::Session, matcher.clone(), verdict));
        assert!(
            !rules.iter().next().unwrap().describe(|path| path.display().to_string()).is_empty()
        );
        let _ = rules.judge_call(&Effects::from(effect.clone()), &AskExceptReadsPolicy);
    }
}

proptest! {
    #[test]
    fn arbitrary_patterns_never_panic(pattern in any::<String>(), text in any::<String>()) {
        let run = Effect::Run { command: text.clone(), cwd: text.clone().into() };
        let matchers = [
            PathGlob::parse(&format!("/{pattern}")).ok()
                .map(|glob| Matcher::Path { access: FileAccess::Write, glob }),
            HostPattern::parse(&pattern).ok().map(Matcher::Host),
            ArgvPrefix::try_new(vec![pattern.clone()]).map(Matcher::Argv),
            Some(Matcher::Effect(run.clone())),
        ];
        for matcher in matchers.iter().flatten() {
            for effect in [
                &run,
                &Effect::Write(text.clone().into()),
                &Effect::Delete(format!("/{text}").into()),
                &Effect::Connect(text.clone()),
            ] {
                judge_both(matcher, effect);
            }
        }
    }
}
