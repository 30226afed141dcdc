//! Tests for lines in which the syntax of a shell hides an effect.

use super::{find, has_reason, mentions};
use pretty_assertions::{assert_eq, assert_ne};

/// Hidden commands, and files that a plain shell opens.
const HIDDEN_COMMANDS: &[&str] = &[
    // A line continuation directly after a word.
    "if true; then\\\n sudo ls; fi",
    "while true; do\\\n sudo ls; done",
    "while\\\n sudo ls; do :; done",
    "!\\\n sudo ls",
    "{\\\n sudo ls; }",
    "cat <<E\\\n \n$(sudo ls)\nE",
    "cat <<\\\n-E\nE\nsudo ls\n-E",
    "cd build && false |\\\n| rm -rf *",
    "ls &\\\n> /dev/null a b",
    "(\\\n( a[PATH=1] ))",
    "[[ PATH=1 \\\n -eq 1 ]]",
    "[[ -v\\\n a[GIT_CONFIG_COUNT=0] ]]",
    "[[ 1 -eq\\\n GIT_CONFIG_COUNT=0 ]]",
    // Bash moves the redirection to the end of the command.
    "ls $(> y ! sudo ls)",
    // A heredoc keeps the backslash before a quote.
    "bash <<E\necho \\\"; sudo ls; echo \\\"\nE",
    // The body of a heredoc begins inside a condition or an array.
    "cat <<E && [[ -n x\nE\n]]\nsudo ls\nE",
    "cat <<E; a=(x\nE\n)\nsudo ls\nE",
    // A plain shell opens these files.
    "[[ x && a > keep2 ]]",
    "[[ x && a < keep2 ]]",
    "[[ x && a << E ]]\n: '\nE\nsudo ls #'",
    "jobs -x sudo ls",
    "jobs -x export GIT_CONFIG_COUNT=0",
    "jobs {-x,sudo,ls}",
    "builtin jobs -lx sudo ls",
    "LC_ALL=C.UTF-8; TEXTDOMAINDIR=./tr; echo $\"foo\"",
    "LC_ALL=C.UTF-8; TEXTDOMAIN=x; echo $\"foo\"",
];

/// Texts that a shell or another interpreter reads from another input than it seems.
const INPUTS: &[&str] = &[
    "bash <<'A' <<'B'\n: '\nA\nsudo ls #'\nB",
    "echo sudo ls | sh 3<<'A'\nls\nA",
    "echo sudo ls | bash 3<<<x",
    "echo sudo ls | bash {x}<<<x",
    "exec 3< evil.sh; sh <<'A' <&3\ntrue\nA",
    "exec 3< evil.sh; sh <<'A' 0>&3\ntrue\nA",
    "sh <<'A' <> evil.sh\ntrue\nA",
    "exec 3< evil.sh; sh /dev/fd/3 <<'A'\ntrue\nA",
    "echo x | python3 3<<'A'\npass\nA",
    "python3 <<'A' <<'B'\npass\nA\npass\nB",
    "echo sudo ls | sh //dev/stdin",
    "cd /dev; echo sudo ls | sh ./stdin",
    "cd /dev && echo sudo ls | sh stdin",
    "echo sudo ls | sh /dev/../dev/stdin",
    "echo x | source //dev/stdin",
    "echo x | python3 -I",
    "echo x | python3 /dev/stdin",
    "echo x | python3 //dev/stdin a",
    "echo x | python3 -X dev",
    "echo x | python3 -Wdefault -u - a",
    "echo x | perl -w",
    "echo x | perl -Mstrict",
    "echo x | node --no-warnings",
    "echo x | ruby -r json",
    "echo x | php -d a=b",
    "zsh -c 'path=(./zb $path); ls'",
    "zsh -c 'repeat 1 sudo ls'",
    "zsh -c \"emulate sh -c 'sudo ls'\"",
    "zsh <<'E'\nls\nE",
    "tcsh -c 'setenv PATH ./zb; ls'",
    "fish -c ls",
];

/// Variables that are assigned.
const VARIABLES: &[&str] = &[
    "printf '1%n' GIT_CONFIG_COUNT",
    "printf '%d%n' 7 PATH; ls",
    "printf '%-3ln' PATH",
    "printf \"$X%n\\n\" PATH",
    "declare -i n; n=GIT_CONFIG_COUNT=0",
    "declare -i n; n+=GIT_CONFIG_COUNT=0",
    "declare -i n; read n <<< GIT_CONFIG_COUNT=0",
    "declare -i n; while read n; do :; done <<< 'GIT_CONFIG_COUNT++'",
    "declare -i n; for n in GIT_CONFIG_COUNT=0; do :; done",
    "declare -i n; printf -v n GIT_CONFIG_COUNT=0",
    "declare -i n; : ${n:=GIT_CONFIG_COUNT=0}",
    "declare -i n; n=${x:-GIT_CONFIG_COUNT=0}",
    "f() { local -i n; n=GIT_CONFIG_COUNT=0; }; f",
    "eval 'typeset -i n'; n=GIT_CONFIG_COUNT=0",
    "while read -r x; do n=--PATH; declare -i n; done < f",
    "declare -ai a; a=(GIT_CONFIG_COUNT=0)",
    "declare -i a=1 b; b=a[GIT_CONFIG_COUNT=0]",
    ": ${a[b[0],GIT_CONFIG_COUNT=0]}",
    ": ${CDPATH[b[0]]:=/x}; cd build",
    ": ${a[\"]\",GIT_CONFIG_COUNT=0]}",
    ": ${a[$(echo ]),GIT_CONFIG_COUNT=0]}",
    "[[ GIT_CONFIG_COUNT-\"-\" -eq 2 ]]",
    "[[ -'-'PATH -eq 2 ]]",
    "[[ -\\-PATH -eq 2 ]]",
    ": ${a[PATH-\"-\"]}",
    ": ${x:PATH-\"-\"}",
    "[[ -n == && -v a[GIT_CONFIG_COUNT=0] ]]",
    "[[ ( -n == ) && -v a[GIT_CONFIG_COUNT=0] ]]",
];

/// Removals in another folder than it seems, and folders that options hide.
const FOLDERS: &[&str] = &[
    "cd build && trap 'rm -rf *' EXIT && cd ../../out/x/build",
    "cd build && eval \"trap 'rm -rf *' EXIT\" && cd ../../out/x/build",
    "cd build && eval 'f() { rm -rf *; }' && cd ../../out/x/build && f",
    "cd build && trap 'rm -rf *' EXIT && eval 'c\"d\" ../../out/x/build'",
    "cd build && trap 'rm -rf *' EXIT && eval \"$X\"",
    "eval 'cd() { :; }'; cd build && rm -rf *",
    "cd() { :; }; cd build && rm -rf *",
    "function pushd { :; }; pushd build && rm -rf *",
    "pushd build && pushd +1 && rm -rf *",
    "pushd build && popd +0 && rm -rf *",
    "set -o physical; cd link/../build && rm -rf *",
    "shopt -s cdable_vars; b=/x/build; cd b && rm -rf *",
    "shopt -s glob\"star\"",
    "bash -O cdable_vars -c 'b=/x/build; cd b && rm -rf *'",
    "rm -f {../out/x/build/precious,nothing}",
    "rm {-rf,build,../out/x}",
    "rm -f build/{a,../../out/x}",
    "find . {-delete,-name,x}",
    "find . -delete -name x",
    "find . -{d..d}elete",
    "find -- /outside -name x -delete",
    "find -L -- /outside -name x -exec rm {} +",
    "find -files0-from f -name x -delete",
    "rm -rf build/${X:-../../out/x}",
    "rm -f ${X:-a ../x}",
    "rm -rf build/${X:-${Y:-../../out/x}}",
];

/// Names of protected files.
const PROTECTED_NAMES: &[(&str, &str)] = &[
    ("cp evil \"${x:-.git/hooks/x}\"", "/p/.git/hooks/x"),
    ("cp evil .git/${x:-hooks/x}", "/p/.git/hooks/x"),
    ("cp evil ${x:-a .git/hooks/x}", "/p/.git/hooks/x"),
    ("cp evil ${x:-.git/hook\\s/x}", "/p/.git/hooks/x"),
    ("cp evil ${x:+.git/hooks/x}", "/p/.git/hooks/x"),
    ("cp evil \"${1-.git/hooks/x}\"", "/p/.git/hooks/x"),
    ("cp evil \"${!x:-.git/hooks/x}\"", "/p/.git/hooks/x"),
    ("cp evil \"${x[0]:-${y:-.git/hooks/x}}\"", "/p/.git/hooks/x"),
    ("f=${x:-.git/hooks/x}; cp evil $f", "/p/.git/hooks/x"),
    ("xargs cp evil <<< .git/hooks/x", "/p/.git/hooks/x"),
    ("xargs cp evil <<< '\".git\"/hooks/x'", "/p/.git/hooks/x"),
    ("xargs -d, cp evil <<< a,.git/hooks/x", "/p/.git/hooks/x"),
    ("while read f; do cp evil \"$f\"; done <<E\na\n.git/hooks/x\nE", "/p/.git/hooks/x"),
    ("while read f; do cp evil \"$f\"; done <<E >log\n.git/hooks/x\nE", "/p/.git/hooks/x"),
    ("read f <<< .git/hooks/x; cp evil $f", "/p/.git/hooks/x"),
    ("cat <<E | xargs cp evil\n.git/hooks/x\nE", "/p/.git/hooks/x"),
    ("printf -v f .git/hooks/x; cp evil \"$f\"", "/p/.git/hooks/x"),
    ("echo .git/hooks/x; cp evil $_", "/p/.git/hooks/x"),
    ("cp -ft.git/hooks evil", "/p/.git/hooks"),
    ("sort -uoAGENTS.md evil", "/p/AGENTS.md"),
    ("sort -uo.envrc evil", "/p/.envrc"),
    ("sort -bdfuo.git/hooks/x evil", "/p/.git/hooks/x"),
];

/// Names of functions that other checks understand.
const FUNCTIONS: &[&str] = &[
    "cat() { cp evil \"$1\"; }; cat .git/hooks/x",
    "function cat { cp evil \"$1\"; }; cat .git/hooks/x",
    "echo() { cp evil \"$1\"; }; echo .git/hooks/x",
    "ECHO() { cp evil \"$1\"; }; ECHO .git/hooks/x",
    "'printf'() { cp evil \"$1\"; }; printf .git/hooks/x",
    "/bin/cat() { cp evil \"$1\"; }; /bin/cat .git/hooks/x",
    "timeout() { cp evil \"$3\"; }; timeout 5 cat .git/hooks/x",
    "test() { cp evil \"$2\"; }; test -f .git/hooks/x",
    "source() { cp evil \"$1\"; }; source .git/hooks/x",
    "read() { :; }; PATH=x read a",
    "set() { :; }",
];

/// Lines that contain the same syntax without such an effect.
const ORDINARY: &[&str] = &[
    "if make; then \\\n  ls \\\n    -l; fi",
    "make &&\\\n  ls |\\\nwc -l",
    "bash <<'E'\necho \\\"a\\\"\nE",
    "cat <<'E' > a && [[ -n x ]]\na\nE",
    "jobs; jobs -l; jobs -p %1",
    "log() { echo \"$*\"; }; watch() { make; }; run_tests() { cargo test; }; log a && run_tests",
    "echo \"${PORT:-8080}\" ${X:-a b} ${1:-/usr/local} \"${HOME:-/root}\"",
    "OUT=${OUT:-build}; mkdir -p \"$OUT\"; cp a \"${OUT:-build}/a\"",
    "make -j${N:-4} && cargo test ${FLAGS:---workspace}",
    "rm -f build/${X:-a}.o {a,b}.o",
    "mkdir -p src/{a,b}/{c,d} && touch src/{a,b}/x.{c,h}",
    "cp a.{txt,bak} && mv {a,b}.txt docs/ && git diff -- '*.{js,ts}'",
    "for i in {1..3}; do touch a{1..20}b{1..20}; done; rm -f x{1..3}.{a..c}",
    "find . -name '*.o' -delete; find -L src -name x -exec rm {} +",
    "while read -r line; do echo \"$line\"; done <<< \"$X\"; xargs wc -l <<< 'a.txt ../b'",
    "cat <<'E' > a.md\n.git AGENTS.md\nE\nls | xargs -n1 gzip",
    "printf -v f '%s' a; mkdir -p build && cd $_",
    "gcc -O2 -Iinclude/x -oout.o -lm a.c; tar -xzf a.tgz; sort -k2nr -uoout.txt a",
    "ls | python3 a.py; ls | python3 - <<'E'\npass\nE",
    "ls | python3 -m json.tool; python3 -mvenv x; python3 -Wd -c pass; python3 -V; python3 -X dev a",
    "ls | perl -pe's/a/b/'; perl -Mstrict -we 'print 1'; perl -v; perl -i.bak -pe 's/a/b/' f",
    "node -e '1'; node --test; node --version; node -pe 1; ls | node --no-warnings a.js",
    "ruby -rjson -e 'p 1'; php -r 'echo 1;'; php -v; php -d a=b x.php; php -S localhost:80",
    "bash a.sh; sh ./stdin.sh; zsh a.sh; bash -s <<'E'\nls\nE",
    "sh /dev/stdin <<'E'\nls\nE",
    "printf '%s %d%%\\n' N 5; printf '100%\\n'; printf '%5.1f\\n' 1",
    "declare -i n=0 m; n=$((n + 1)); n+=2; m=n*2; for x in a b; do n=n+1; done; echo $n",
    "local -i n; n=$(wc -l < f); while read -r line; do n+=1; done <<< \"$X\"",
    "echo ${a[${#a[@]}-1]} ${a[b[0]]} ${a[$((i + 1))]} \"${m[\"$k\"]}\" ${a[${i}]:-d}",
    "[[ \"$n\" -eq \"$m\" ]] || [[ $a -ge 5 && ( $b -le 3 ) ]]; echo $((a <= b)) $((a == b))",
    "set -o pipefail; shopt -s nullglob extglob; shopt -u cdable_vars; bash -O extglob -c ls",
    "cd build && trap 'rm -f a.txt' EXIT && make; pushd sub && rm -rf target",
    "trap 'rm -rf build/tmp' EXIT; trap 'exit 1' INT; make; bash -c 'f() { rm -rf build; }; f'; eval 'f() { ls; }'",
    "a=(\n  # the first\n  x\n  # -- second: y/z.\n  y\n)\nls \"${a[@]}\"",
    "exec {fd}>log; echo $((16#ff + 2))",
    "curl -d \"{\\\"a\\\": $X, \\\"b\\\": 1}\" localhost",
];

#[test]
fn lines_that_hide_an_effect_need_permission() {
    for line in [HIDDEN_COMMANDS, INPUTS, VARIABLES, FOLDERS, FUNCTIONS].concat() {
        assert_ne!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn hidden_names_of_files_are_found() {
    for (line, path) in PROTECTED_NAMES {
        assert!(mentions(line, path), "{line}");
    }
    for line in ["cat \"${X:-~/.ssh/id_rsa}\"", "xargs cat <<< ~/.ssh/id_rsa"] {
        assert!(has_reason(line, "risk-names-secret"), "{line}");
    }
}

#[test]
fn ordinary_lines_with_such_syntax_need_no_permission() {
    for line in ORDINARY {
        assert_eq!(find(line).reasons, [], "{line}");
    }
    let words: String = (0..300).map(|number| format!(" word{number}")).collect();
    for line in [
        format!("python3 <<'E'\n{words}\nE\nls | xargs rm -f"),
        format!("while read -r a b; do echo $b; done <<'E'\n{words}\nE"),
        format!("cat > a <<'E'\n{words}\nE\nwhile read -r f; do gzip $f; done < b"),
    ] {
        assert_eq!(find(&line).reasons, [], "{line}");
    }
}
