//! Compares the variables that a line sets with the environment of a program that it starts.

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
/// variable `lower`, which is harmless.
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
        !SET_BY_SHELLS.contains(&name) && name != "lower" && entry.contains('=')
    };
    let mut entries: Vec<_> = text.split('\0').filter(is_other).map(str::to_owned).collect();
    entries.sort();
    entries
}

/// Returns a random command that sets, exports or removes a variable.
fn statement() -> impl proptest::strategy::Strategy<Value = String> {
    let name = select(&["CC", "X_1", "INHERITED", "PATH", "lower", "A_b", "$V", "V"][..]);
    let form = select(
        &[
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
        ][..],
    );
    (form, name).prop_map(|(form, name)| form.replace('N', name))
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
