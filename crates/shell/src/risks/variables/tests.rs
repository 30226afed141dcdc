//! Compares the variables that a line sets with the environment of a program that it starts.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::{Strategy as _, any};
use proptest::sample::select;
use proptest::{collection, prop_assert_eq, proptest};

use crate::risks::{ShellContext, find_risks};

/// Variables of the shell that runs the line.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/bin:/bin"), ("INHERITED", "before"), ("HOME", "/")];

/// Variables that each shell sets for its programs.
const SET_BY_SHELLS: [&str; 4] = ["_", "OLDPWD", "PWD", "SHLVL"];

/// Runs a line, and then `env`. Returns the variables of `env`, except [`SET_BY_SHELLS`] and the
/// variable `lower` and the value `PAGER=cat`, which are harmless.
#[expect(clippy::disallowed_methods, reason = "a shell is what the line is compared with")]
fn program_environment(shell: &str, line: &str) -> Vec<String> {
    let output = Command::new("/usr/bin/timeout")
        .args(["5", shell, "-c", &format!("{line}\n/usr/bin/env -0")])
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_other = |entry: &&str| {
        let name = entry.split('=').next().unwrap_or_default();
        let is_harmless = name == "lower" || *entry == "PAGER=cat";
        !SET_BY_SHELLS.contains(&name) && !is_harmless && entry.contains('=')
    };
    // A nested `env` separates its entries by ends of lines.
    let mut entries: Vec<_> =
        text.split(['\0', '\n']).filter(is_other).map(str::to_owned).collect();
    entries.sort();
    entries
}

/// Commands that may set, export or remove a variable `N`.
const FORMS: &[&str] = &[
    "N=1",
    "N+=1",
    "N=$V",
    "V=N",
    "export N",
    "export -n N",
    "export -- N",
    "export N=1",
    "\\export N",
    "command export N=1",
    "declare N=1",
    "declare -x N",
    "declare +x N",
    "declare -gx N=1",
    "declare -n V=N",
    "typeset -x N=1",
    "local N=1",
    "declare \"$V=1\"",
    "readonly N=1",
    "unset N",
    "unset -v N",
    "read N < /etc/hostname",
    "read -r a N < /etc/hostname",
    "printf -v N x",
    "for N in a b; do :; done",
    "getopts a N -a",
    "set -a",
    "set -eua",
    "set -o allexport",
    "set +e -o pipefail -o allexport",
    "set -k",
    "set -- -a",
    "set -euo pipefail",
    "set $V",
    "eval export N",
    "eval 'N=1; export N'",
    "f() { export N; }; f",
    "f() { local N=2; }; f",
    "N=1 true",
    "N=1 :",
    "N=1 export V",
    "{ N=1; }",
    "(export N=1)",
    "if N=1; then export N; fi",
    "[ a ] && N=1",
    ": ${N:=1}",
    "V=-a",
    "V=CC",
    "V='1 N=evil'",
    "V='-p N'",
    "V=-vN",
    "V='-v N'",
    "set + -a",
    "set -e + -o allexport",
    "set + -k",
    "set + -e",
    "set -o monitor",
    "set +o history",
    "shopt -so allexport",
    "shopt -s -o allexport",
    "shopt -os allexport",
    "shopt -qso allexport",
    "builtin shopt -so allexport",
    "shopt -s nullglob",
    "printf -v 'a[N=1]' x",
    "printf -vN x",
    "printf -v a -v N x",
    "printf $V N x",
    "printf -$V N x",
    "printf \"-v$V\" x",
    "printf \"$V\" x",
    "printf '%s\n' \"$V\" > /dev/null",
    "read 'a[N=1]' < /etc/hostname",
    "read -p -d N < /etc/hostname",
    "read -pn N < /etc/hostname",
    "read -u0 -p -u N < /etc/hostname",
    "read -$V < /etc/hostname",
    "read $V < /etc/hostname",
    "read -aN < /etc/hostname",
    "IFS= read -r N < /etc/hostname",
    "N=1 read -r lower < /etc/hostname",
    "unset 'a[N=1]'",
    "unset -$V",
    "unset $V",
    "\\export lower=$V",
    "command export lower=$V",
    "builtin declare lower=$V",
    "export lower=$V",
    "export lower=\"$V\"",
    "export \"lower\"=$V",
    "f() { local lower=$V; }; f",
    "f() { local N; export V; }; f",
    "f() { declare N; }; f",
    "declare N",
    "declare -a N",
    "declare -A N",
    "declare -i N=V",
    "declare -i lower=V",
    "declare -i lower; lower=$V",
    "declare -u N=x",
    "declare -p N > /dev/null",
    "getopts $V",
    "getopts -- -a N -a",
    "wait -n -p N",
    "wait -npN",
    "V=p; command \"-$Vv\" export N",
    "export PAGER=cat; PAGER=N",
    "PAGER=cat sh -c 'PAGER=x; env | grep ^PAGER=x'",
    "bash -c 'N=1; env | grep ^N=1'",
    "command -v N > /dev/null",
    "V=$((1 + 1))",
    "lower=$V; : $((lower))",
    ": \"${N:=bin}\"",
    ": ${N=bin}",
    ": ${lower:N=1}",
    ": ${lower:V}",
    ": ${a[N=1]}",
    ": ${!V}",
    ": {N}>/dev/null",
    ": $((N=1))",
    ": $((N++))",
    ": $((V))",
    ": $(( $V ))",
    ": $((N + 1))",
    "lower=$((N + 1))",
    "[[ V -eq 1 ]]",
    "[[ $V -eq 1 ]]",
    "[ \"$V\" = 1 ]",
    "let N=1",
    "let V",
    "a[V]=1",
    "a=(N=1 V)",
    "exec -c /usr/bin/env -0",
    "exec -a x -c /usr/bin/env -0",
    "exec < /dev/null",
    "hash -r",
    "export PAGER=cat",
    "PAGER=x",
    "SECONDS=0; OPTIND=1",
    "eval \"export lower=1\"",
    "trap 'export N' DEBUG",
    "for V in N -a; do :; done",
    "printf '1%n' N > /dev/null",
    "printf '%d%n' 7 N > /dev/null",
    "declare -i int",
    "declare -ai a; a=(N=1)",
    "declare -i a=1 int; int=a[N=1]",
    "int=N=1",
    "int+=N=1",
    "read int <<< N=1",
    "for int in N++; do :; done",
    "printf -v int N=1",
    "f() { local -i int; int=N=1; }; f",
    ": ${a[b[0],N=1]}",
    ": ${N[b[0]]:=bin}",
    "[[ N-\"-\" -eq 2 ]]",
    "[[ -'-'N -eq 2 ]]",
    "[[ -\\-N -eq 2 ]]",
    "[[ N=1 \\\n -eq 1 ]]",
    "[[ -n == && -v a[N=1] ]]",
    "jobs -x export N=1",
    "echo() { export N=1; }; echo",
    "if :; then\\\n export N=1; fi",
    "for lower in 1 2; do : $((lower + 1)); done",
];

/// Returns a random command that sets, exports or removes a variable.
fn statement() -> impl proptest::strategy::Strategy<Value = String> {
    let name = select(&["CC", "X_1", "INHERITED", "PATH", "lower", "A_b", "$V", "V"][..]);
    (select(FORMS), name).prop_map(|(form, name)| form.replace('N', name))
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(2000))]
    #[test]
    fn a_line_without_a_reason_changes_no_environment(
        statements in collection::vec(statement(), 1..5),
        is_bash in any::<bool>(),
    ) {
        let line = statements.join("; ");
        let mut context = ShellContext::new(vec![Path::new("/p")]);
        context.environment = Some(ENVIRONMENT.map(|(name, _)| name).into());
        let sets_variable = find_risks(&line, context).reasons;
        if sets_variable.is_empty() {
            let shell = if is_bash { "/bin/bash" } else { "/bin/sh" };
            let after = program_environment(shell, &line);
            let before = program_environment(shell, "");
            // A line that ends its shell starts no program.
            if !after.is_empty() {
                prop_assert_eq!(after, before, "{} {}", shell, line);
            }
        }
    }
}
