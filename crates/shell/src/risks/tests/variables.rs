//! Tests for the variables that a line sets, evaluates or uses as names of files.

use std::path::Path;

use super::{find, has_reason};
use crate::risks::{RiskReason, ShellContext, find_risks};
use pretty_assertions::assert_eq;

const VARIABLE_REASONS: [&str; 3] =
    ["risk-sets-variable", "risk-sets-unknown", "risk-shell-option"];

#[test]
fn variables_are_found_at_each_position_of_a_program() {
    for (line, variable) in [
        ("env LD_PRELOAD=./x true", "LD_PRELOAD"),
        ("timeout 5 env LD_PRELOAD=./x.so true", "LD_PRELOAD"),
        ("nice env GIT_SSH_COMMAND=x true", "GIT_SSH_COMMAND"),
        ("timeout 5 nice -n 5 /usr/bin/env A=1 LD_PRELOAD=x true", "A"),
        ("command export NODE_OPTIONS=--require=./x", "NODE_OPTIONS"),
        ("builtin export LD_PRELOAD=./x", "LD_PRELOAD"),
        ("command declare -x LD_PRELOAD=./x", "LD_PRELOAD"),
        ("ls | xargs env LD_PRELOAD=./x true", "LD_PRELOAD"),
        ("find . -exec env LD_PRELOAD=./x true \\;", "LD_PRELOAD"),
        ("find . -exec timeout 5 env LD_PRELOAD=./x true \\;", "LD_PRELOAD"),
        ("env -u GIT_CONFIG_COUNT git status", "GIT_CONFIG_COUNT"),
        ("timeout 5 env --unset=GIT_CONFIG_COUNT git status", "GIT_CONFIG_COUNT"),
        ("env -i git status", "-i"),
        ("env - git status", "-"),
        ("unset GIT_CONFIG_COUNT; git status", "GIT_CONFIG_COUNT"),
        ("export $(cat a)", "$"),
        ("export \"$X\"", "$X"),
        ("for PATH in ./bin; do ls; done", "PATH"),
        ("read -r PATH < a; ls", "PATH"),
        ("read -rp 'Name' -a PATH", "PATH"),
        ("printf -v PATH ./bin; ls", "PATH"),
        ("getopts a PATH", "PATH"),
        ("INHERITED=x; make", "INHERITED"),
        ("IFS=/; ls", "IFS"),
        ("PS4=x; set -x; ls", "PS4"),
        ("GIT_SSH_COMMAND=x git fetch", "GIT_SSH_COMMAND"),
        ("CC=x; export CC; make", "CC"),
        ("CC=x; export -- CC; make", "CC"),
        ("declare -x CC=x; make", "CC"),
        ("declare -gx CC=x; make", "CC"),
        ("declare -n a=PATH; a=x; ls", "-n"),
        ("read 'PATH[0]' < a; ls", "PATH[0]"),
        ("read \"$X\" < a; ls", "$X"),
        ("unset $X; ls", "$X"),
        ("local \"$X=a\"", "$X"),
        ("set -a; CC=x; make", "-a"),
        ("set -euao pipefail; CC=x; make", "-euao"),
        ("set -eo allexport; CC=x; make", "allexport"),
        ("set \"$X\"; CC=x; make", "$X"),
        ("CC=x; eval export CC; make", "CC"),
    ] {
        let reasons = find(line).reasons;
        let subject = |reason: &RiskReason| {
            let (_, subject) = reason.subject.clone()?;
            VARIABLE_REASONS.contains(&reason.key).then_some(subject)
        };
        let found: Vec<_> = reasons.iter().filter_map(subject).collect();
        assert_eq!(found, [variable], "{line}: {reasons:?}");
    }
}

#[test]
fn harmless_variables_need_no_permission() {
    for line in [
        "timeout 5 env RUST_LOG=debug CI=1 cargo test",
        "env -u RUST_LOG cargo test",
        "command export RUST_LOG=debug",
        "for f in *.txt; do wc -l \"$f\"; done",
        "while read -r line; do echo \"$line\"; done < a",
        "printf '%s' A=1 -v",
        "unset x; read a b",
        "read -r -p \"name? \" x; echo \"hello $x\"",
        "read -rp 'Name' -t 5 x",
        "timeout \"$n\" cargo test",
        "make A=1",
        "X=1; echo \"$X\"",
        "set -euo pipefail; OUT_DIR=a; ls \"$OUT_DIR\"",
        "set -- a b; OUT_DIR=a",
        "f() { local OUT_DIR=a; ls \"$OUT_DIR\"; }; f",
        "readonly OUT=a; declare -i N=1; typeset -r M=2",
        "for F in *.txt; do wc -l \"$F\"; done",
        "while read -r LINE; do echo \"$LINE\"; done < a",
        "printf -v OUT '%s' a; unset OUT",
        "bash -euo pipefail -c 'X=1; echo \"$X\"'",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
    let unknown_environment = |line| find_risks(line, ShellContext::new(vec![Path::new("/p")]));
    assert_ne!(unknown_environment("X=1; make").reasons, []);
    for line in ["bash -ac 'CC=x; make'", "bash -o allexport -c 'CC=x'", "bash \"-$X\" 'ls'"] {
        assert!(has_reason(line, "risk-shell-unclear"), "{line}");
    }
    for line in
        ["timeout 5 $X", "env a=1 \"$X\" b", "nice -n 5 \"$(a)\"", "exec \"$@\"", "command $X"]
    {
        assert!(has_reason(line, "risk-unknown-program"), "{line}");
    }
}

/// Options of `set` and `shopt`, and subscripts, which are expressions.
const OPTIONS_AND_SUBSCRIPTS: &[&str] = &[
    "set + -a; CC=x; env",
    "set -e + -o allexport; CC=x; env",
    "set + -k; env CC=x",
    "shopt -so allexport; CC=x; env",
    "shopt -s -o allexport",
    "shopt -os keyword",
    "shopt -qso allexport",
    "shopt -s \"$X\" allexport",
    "builtin shopt -so allexport",
    "set -o history",
    "set -o \"$X\"",
    "set -o unknown",
    // Subscripts are expressions.
    "printf -v 'a[PATH=1]' x",
    "read 'a[PATH=1]' < f",
    "unset 'a[PATH=1]'",
    "declare 'a[PATH=1]=x'",
    "wait -n -p 'a[PATH=1]'",
    "unset 'a[X]'",
];

/// Expansions that may be several words or an option, and expansions that assign.
const EXPANDING_WORDS: &[&str] = &[
    "X='1 CC=evil'; \\export a=$X",
    "X='1 CC=evil'; command export a=$X",
    "X='1 CC=evil'; builtin declare A=$X",
    "X='1 CC=evil'; export \"a\"=$X",
    "X='1 CC=evil'; env a=$X ls",
    "read -$X < f",
    "read \"-$X\" < f",
    "read -t $X y < f",
    "unset -$X",
    "printf -$X PATH bin",
    "printf $X PATH bin",
    "printf \"$X\" bin",
    "printf \"-v$X\" bin",
    "getopts $X",
    "getopts $X a",
    "export \"$X=1\"",
    "local x $X",
    // Assignments in expansions and redirections.
    ": \"${PATH:=bin}\"",
    ": ${PATH=bin}",
    ": \"${INHERITED:=bin}\"",
    ": {PATH}>/dev/null",
    ": {a[PATH=1]}>/dev/null",
    ": $((PATH=1))",
    ": $((PATH++))",
    "echo \"$((INHERITED += 1))\"",
    ": ${x:PATH=1}",
    ": ${a[PATH=1]}",
    "let PATH=1",
    "let \"$X\"",
];

/// Options of builtins and programs that set, export or remove variables.
const OPTIONS_OF_BUILTINS: &[&str] = &[
    "f() { local PATH; ls; }; f",
    "f() { declare INHERITED; ls; }; f",
    "read -p -d PATH < f",
    "read -pn PATH < f",
    "read -u3 -p -u PATH < f",
    "read -aPATH < f",
    "printf -vPATH bin",
    "printf -v a -v PATH bin",
    "getopts -- -a PATH -a",
    "getopts a PATH -a",
    "command -p mapfile -t PATH < f",
    "readarray -n 1 -t PATH < f",
    "mapfile -C 'sudo ls' -c 1 a < f",
    "mapfile $X < f",
    "wait -n -p PATH",
    "wait -npPATH",
    "X=p; command \"-$Xv\" export CC=1",
    "declare -a HOME",
    "declare -A HOME",
    "export -f name",
    "declare -fx name",
    "exec -c env",
    "exec -lc env",
    "exec -ca x env",
    "exec -a x -c env",
    "exec \"-$X\" env",
    "env -vi env",
    "env -vuHOME env",
    "env -u x -u HOME env",
    "env --uns=HOME env",
    "env \"-$X\" env",
    "GIT_PAGER=$'cat' git log",
    "export PAGER=cat; PAGER=./x; git log",
    "PAGER=./x",
    "PATH=x read a < f",
    "IFS=/ \\read a < f",
    "IFS=/ make",
    "env bash -c 'PATH=x'",
    "env X=1 bash -c 'ls'",
];

#[test]
fn words_that_may_set_another_variable_need_permission() {
    for line in [OPTIONS_AND_SUBSCRIPTS, EXPANDING_WORDS, OPTIONS_OF_BUILTINS].concat() {
        let reasons = find(line).reasons;
        let is_one = |reason: &RiskReason| {
            VARIABLE_REASONS.contains(&reason.key)
                || matches!(reason.key, "risk-evaluates" | "risk-unclear")
        };
        assert!(reasons.iter().any(is_one), "{line}: {reasons:?}");
    }
    for line in [
        "builtin -- alias ls=evil",
        "command builtin alias ls=evil",
        "hash -p file name",
        "hash \"$X\" file name",
    ] {
        assert!(has_reason(line, "risk-aliases"), "{line}");
    }
    for line in ["chdir /; rm -rf tmp", "chdir / && rm -rf tmp"] {
        assert!(has_reason(line, "risk-removes-vital"), "{line}");
    }
}

#[test]
fn code_after_any_option_of_a_shell_is_checked() {
    for line in [
        "bash + -c 'sudo ls'",
        "sh + -c 'sudo ls'",
        "bash -c + -x 'sudo ls'",
        "bash -e + -c 'sudo ls'",
        "bash --login -c 'sudo ls'",
        "bash -login -c 'sudo ls'",
    ] {
        assert!(has_reason(line, "risk-other-user"), "{line}: {:?}", find(line).reasons);
    }
}

#[test]
fn variables_of_a_shell_with_an_unknown_environment_need_permission() {
    for line in [
        "stdbuf -oL sh -c 'LD_PRELOAD=x; env'",
        "fakeroot sh -c 'LD_PRELOAD=x; env'",
        "ls | xargs --process-slot-var=CC sh -c 'CC=x; env'",
        "bash -lc 'CC=x; env'",
        "bash --login -c 'CC=x; env'",
        "bash -login -c 'CC=x; env'",
        "bash -i -c 'CC=x; env'",
        "bash -ic 'CC=x; env'",
        "mksh -c 'CC=x; env'",
        "exec -l bash -c 'CC=x; env'",
        "exec -a -bash bash -c 'CC=x; env'",
        "env -a -bash bash -c 'CC=x; env'",
        "timeout 5 stdbuf -oL sh -c 'CC=x; env'",
        "stdbuf -oL sh -c \"eval 'CC=x'; env\"",
        "stdbuf -oL sh <<'E'\nCC=x; env\nE",
        "watch 'CC=x; env'",
        ". ./f; CC=x; env",
        "source ./f && CC=x && env",
        "for i in 1 2; do CC=x; env; . ./f; done",
        "builtin source ./f; CC=x",
        "command . ./f; CC=x",
        "eval '. ./f'; CC=x; env",
        "trap '. ./f' DEBUG; CC=x; env",
    ] {
        assert!(has_reason(line, "risk-sets-variable"), "{line}: {:?}", find(line).reasons);
    }
    for line in [
        "sh -c 'CC=x; echo $CC'",
        "timeout 5 nice -n 5 bash -c 'CC=x; echo $CC'",
        "nohup bash -c 'CC=x; echo $CC'",
        "env CI=1 bash -c 'CC=x; echo $CC'",
        "exec bash -c 'CC=x; echo $CC'",
        "command bash -ec 'CC=x; echo $CC'",
        "eval 'CC=x; echo $CC'",
        "trap 'CC=x; echo $CC' EXIT",
        "source .venv/bin/activate && pytest",
        "find . -name x; CC=x",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
    let mut context = ShellContext::new(vec![Path::new("/p")]);
    context.environment = Some(["BASH_ENV"].into());
    assert_ne!(find_risks("X=1; make", context).reasons, []);
}

#[test]
fn arithmetic_that_assigns_a_variable_of_programs_needs_permission() {
    for line in [
        "[[ PATH=1 -eq 1 ]]",
        "declare -i N=PATH=1",
        "[ -v 'a[PATH=1]' ]",
        "builtin test -v 'a[$(sudo ls)]'",
        "declare -a 'A=($(sudo ls))'",
        ": $(( $X=1 ))",
        ": $(( \"PA\"TH=1 ))",
        ": $((a[PATH=1]))",
        "echo ${a[INHERITED++]} ${x:--PATH}",
        "let --PATH",
    ] {
        let is_one = |key: &str| has_reason(line, key);
        let is_found =
            ["risk-evaluates", "risk-unclear", "risk-sets-variable", "risk-sets-unknown"]
                .into_iter()
                .any(is_one);
        assert!(is_found, "{line}: {:?}", find(line).reasons);
    }
}

#[test]
fn other_arithmetic_needs_no_permission() {
    for line in [
        "i=0; i=$((i + 1)); echo $i",
        "COUNT=0; echo $((COUNT + 1))",
        "echo $((COUNT + 1)) $((1 << 3)) $((2 ** 3)) $(( (1 + 2) * 3 ))",
        "i=0; while [ $i -lt 5 ]; do i=$((i+1)); done",
        "i=0; echo $((i++)); : $((i += 2)) $((j = i == 2 ? 3 : 4))",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "for i in {1..5}; do echo $((i * 2)); done",
        "for i in $(seq 1 5); do echo $((i * 2)); done",
        "start=$(date +%s); make; echo $(( $(date +%s) - start ))",
        "n=$(wc -l < f); [[ $n -gt 5 ]] && echo many",
        "n=$(ls | wc -l); echo \"$((n - 1))\"",
        "n=$(grep -c a f); if [[ \"$n\" -eq 0 ]]; then echo none; fi",
        "[[ $# -eq 0 ]] || [[ $? -ne 0 ]] || [[ ${#x} -gt 3 ]]",
        "x=abcdef; echo ${x:1:3} ${x: -2} ${x:0:${#x}} ${x:-d} ${x#a} ${x/a/b} ${#x}",
        "a=(1 2 3); echo ${a[0]} ${a[@]} ${#a[@]} ${!a[@]} ${a[@]:1}; a[1]=5",
        "a=(x y); for i in \"${!a[@]}\"; do echo \"${a[$i]}\"; done",
        "n=$(cat f | wc -l | tr -d ' '); [[ $n -gt 3 ]]",
        "a=(x y); for i in 0 1; do echo ${a[i]} ${a[$i]}; done",
        "declare -i N=1; N=2; local -i m=$((N + 1))",
        "let i=1 i+=2; let 'i = i * 2'",
        "[[ -v X ]] && echo set",
        "f() { local x=$1; local y=\"$2\"; echo \"$x$y\"; }; f a b",
        "echo $((INHERITED + 1))",
        "total=0; while read -r n; do total=$((total + n)); done < f",
        "add() { echo $(( $1 + $2 )); }; add 1 2",
        "echo $(( $(cat f | head -1) * 2 )) $((arr[i] + 1))",
        "git diff --numstat | while read -r a d f; do echo \"$f $((a+d))\"; done",
        "declare -A count; while read -r w; do count[$w]=$((${count[$w]:-0}+1)); done < f",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn files_with_variables_in_their_names_can_be_removed() {
    for line in [
        "rm *.o build/*.o {a,b}.o",
        "rm \"$X\" *.o && rm -rf build/$X && mv \"$f\" \"${f%.txt}.md\"",
        "for f in *.txt; do rm \"$f\"; done",
        "for f in a.txt b.txt; do rm -f \"$f\" \"${f}.bak\" \"$f~\"; done",
        "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
        "for f in *.txt; do mv -- \"$f\" \"old/$f\"; done",
        "t=$(mktemp); ls > a; rm -f \"$t\"",
        "rm -rf \"build/${X:?}\" && rm \"${f%.txt}.md\"",
        "for f in *.txt; do mv \"$f\" \"${f/a/b}\"; done",
        "DIR=build; rm -f \"$DIR/a.o\" \"${DIR}/b/c.o\"; NAME=a; rm -f \"build/$NAME.o\"",
        "OUT=build/a.txt; rm -f \"$OUT\"; mv a \"$OUT\"",
        "for i in 1 2 3; do rm -f \"out$i.txt\"; done",
        "find . -name '*.txt' | while read -r f; do mv \"$f\" \"${f%.txt}.md\"; done",
        "files=(a.txt b.txt); rm -f \"${files[@]}\"",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn ordinary_lines_with_variables_need_no_permission() {
    for line in [
        "while IFS=: read -r USER_NAME _ ID; do echo \"$ID\"; done < a",
        "while IFS= read -r LINE; do echo \"$LINE\"; done < a",
        "IFS=, read -r A B < a",
        "IFS=$'\\t' read -r A B < a",
        "find . -name x -print0 | while IFS= read -r -d '' F; do echo \"$F\"; done",
        "COMPONENT=a COMPOSE=b; echo $COMPONENT",
        "COMPOSE_FILE=a; PSQL=b; HISTORY_FILE=c; GLOBAL=d; PROMPT_FILE=e; BASHFUL=f",
        "SECONDS=0; RANDOM=42; OPTIND=1; PS3='? '; MAIL=a",
        "FLAGS=(--color=never -n); ls \"${FLAGS[@]}\"",
        "ARGS=(-DCMAKE_BUILD_TYPE=Debug); echo \"${ARGS[@]}\"",
        "env bash -c 'X=1; echo $X'",
        "env CI=1 bash -c 'X=1; echo $X'",
        "set -o monitor; set -o vi; set +o histexpand; set +o history",
        "shopt -s nullglob; shopt -so pipefail; shopt -uo history",
        "export a=\"$X\"; export a=$X; export a=1 b=2",
        "printf '%s\\n' \"$X\"; printf \"%s $X\\n\" a; printf \"$RED error\\n\"; printf -- '%s' \"$X\"",
        "read -r LINE < a; read -p \"$M\" -t \"$T\" x",
        "unset -f f; unset -v X; unset 'A[0]'",
        "command -v alias; command -v read",
        "while getopts 'ab:' OPT; do echo \"$OPT\"; done",
        "make & wait $!; wait \"$p\" $q; wait",
        "p=; for d in a b; do make & p=\"$p $!\"; done; wait $p",
        "P=(); make & P+=($!); wait \"${P[@]}\"; wait $(jobs -p)",
        "[[ $1 == -v ]] && echo a",
        "[[ $1 == -v || $2 == -v ]] && echo a",
        "a=(1 2); echo $((${a[0]} + 1))",
        "declare -p PATH; declare -f f; readonly -f f",
        "hash -r",
        "mapfile -t lines < f; readarray -d '' -t LINES < <(ls); mapfile < f",
        "set +a; set +o allexport; set +xa; shopt -uo allexport",
        "exec make; exec 3> a",
        "env -u RUST_LOG -C sub cargo test",
        "a=(1 2); export c=$'x\\n'",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}
