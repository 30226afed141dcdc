//! Tests for the files and the reasons that are found in a line.

use std::path::Path;

use super::{RiskReason, Risks, ShellContext, find_risks};
use pretty_assertions::assert_eq;

/// Finds the risks of a line in the project folder `/p` of the home directory `/home/me`.
fn find(line: &str) -> Risks {
    let mut place = ShellContext::new(vec![Path::new("/p")]);
    (place.cwd, place.home) = (Some(Path::new("/p")), Some(Path::new("/home/me")));
    place.environment = Some(["GIT_CONFIG_COUNT", "HOME", "INHERITED", "PATH"].into());
    find_risks(line, place)
}

fn mentions(line: &str, path: &str) -> bool {
    find(line).mentions.iter().any(|mention| mention == Path::new(path))
}

#[test]
fn a_name_is_only_read_if_each_word_of_the_command_is_understood() {
    for (line, path, expected) in [
        ("cp evil .envrc", "/p/.envrc", true),
        ("sort -o .envrc evil", "/p/.envrc", true),
        ("sort -o.envrc evil", "/p/.envrc", true),
        ("sort evil --output=.envrc", "/p/.envrc", true),
        ("sort --compress-program=.envrc evil", "/p/.envrc", true),
        ("sort $X .envrc", "/p/.envrc", true),
        ("sort \"$X\" .envrc", "/p/.envrc", true),
        ("sort {-o,.envrc} .envrc", "/p/.envrc", true),
        ("find e -exec sort + -o .envrc {} \\;", "/p/.envrc", true),
        ("eval 'f=.envrc'; cp evil $f", "/p/.envrc", true),
        ("bash -c 'ls .envrc' | xargs cp evil", "/p/.envrc", true),
        ("ls .envrc | /usr/bin/xargs cp evil", "/p/.envrc", true),
        ("bash -c 'cat .envrc'", "/p/.envrc", false),
        ("sort -- \"$X\" .envrc", "/p/.envrc", false),
        ("find . -name evil -exec cp {} .git/hooks/h \\;", "/p/.git/hooks/h", true),
        ("find . -name evil -execdir cp {} .git/hooks/h +", "/p/.git/hooks/h", true),
        ("find . -exec cat {} + -ok cp {} .envrc \\;", "/p/.envrc", true),
        ("find . -fprintf .envrc x", "/p/.envrc", true),
        ("find . -fls .envrc", "/p/.envrc", true),
        ("find .github -name '*.yml' -delete", "/p/.github", true),
        ("find .github -name '*.yml' -exec cat", "/p/.github", true),
        ("find .github -name '*.yml' -exec ./cat {} +", "/p/.github", true),
        ("git archive -o .envrc HEAD", "/p/.envrc", true),
        ("git show --output=.envrc HEAD", "/p/.envrc", true),
        ("git --no-pager log --output .envrc HEAD", "/p/.envrc", true),
        ("git diff --no-index --output=.envrc /dev/null evil", "/p/.envrc", true),
        ("git checkout HEAD~1 -- AGENTS.md", "/p/AGENTS.md", true),
        ("git -c a=b rm AGENTS.md", "/p/AGENTS.md", true),
        ("git mv evil AGENTS.md", "/p/AGENTS.md", true),
        ("go build -o .envrc .", "/p/.envrc", true),
        ("go test -c -o .envrc .", "/p/.envrc", true),
        ("pytest --basetemp=.github", "/p/.github", true),
        ("pytest --junitxml .envrc", "/p/.envrc", true),
        ("rg --pre .envrc x", "/p/.envrc", true),
        ("./tools/cat .envrc", "/p/.envrc", true),
        ("/p/tools/sort .envrc", "/p/.envrc", true),
        // Commands that only read.
        ("cat .envrc", "/p/.envrc", false),
        ("cat ../p/.envrc ~/.profile", "/p/.envrc", false),
        ("/usr/bin/cat .envrc", "/p/.envrc", false),
        ("cat \"$X\" .envrc", "/p/.envrc", false),
        ("sort -u /p/.envrc", "/p/.envrc", false),
        ("grep -rn --include='*.yml' x .github", "/p/.github", false),
        ("diff -u .envrc evil", "/p/.envrc", false),
        ("test -f .envrc", "/p/.envrc", false),
        ("[ -f .envrc ]", "/p/.envrc", false),
        ("find .github -name '*.yml'", "/p/.github", false),
        ("find .github -name '*.yml' -exec grep -l x {} +", "/p/.github", false),
        ("find .github -type f -exec wc -l {} \\; -print", "/p/.github", false),
        ("git add .github/workflows/ci.yml", "/p/.github/workflows/ci.yml", false),
        ("git commit -m \"$M\" .envrc", "/p/.envrc", false),
        ("git --no-pager log --oneline -5 .envrc", "/p/.envrc", false),
        ("git -C sub diff -- .envrc", "/p/.envrc", false),
        ("source .venv/bin/activate", "/p/.venv/bin/activate", false),
    ] {
        assert_eq!(mentions(line, path), expected, "{line}");
    }
}

/// Returns the patterns of the files that a line may change.
fn mention_patterns(line: &str) -> Vec<String> {
    find(line)
        .mention_patterns
        .iter()
        .map(|path| path.to_wildcard_path().display().to_string())
        .collect()
}

fn has_reason(line: &str, key: &str) -> bool {
    find(line).reasons.iter().any(|reason| reason.key == key)
}

#[test]
fn words_with_unknown_parts_are_patterns_of_paths() {
    for (line, expected) in [
        ("sed -i s/hi/evil/ sub/AGENTS.m*", &["/p/sub/AGENTS.m*"][..]),
        ("chmod +x sub/.git/hooks/x?", &["/p/sub/.git/hooks/x?"]),
        ("cp evil ~/.bashr*", &["/home/me/.bashr*"]),
        ("cp evil \"$HOME\"/.bashr*", &["/home/me/.bashr*"]),
        (
            "cp evil --target-directory=.git/hook?",
            &["/p/.git/hook?", "/p/target-directory=.git/hook?"],
        ),
        ("cd sub && cp evil AGENT?.md", &["/p/sub/AGENT?.md"]),
        ("cd \"$X\" && cp evil ../AGENT?.md", &["/p/AGENT?.md"]),
        ("cp evil $X/.git/hooks/a", &["/p/*/.git/hooks/a"]),
        ("cp evil \"$(pwd)/.envrc\"", &["/p/*/.envrc"]),
        ("cp evil .git/hooks/$X", &["/p/.git/hooks/*"]),
        ("cp evil ~other/.bashrc", &["/p/*/.bashrc"]),
        ("cp evil ./*/../.envrc*", &["/p/.envrc*"]),
        ("cp evil /p/.e{nv,x}*", &["/p/.ex*", "/p/.env*"]),
        ("find . -name 'AGENTS.m*' -delete", &["/p/*/AGENTS.m*"]),
        ("find . -path './.github/*' -exec sed -i x {} +", &["/p/*/.github/*"]),
        ("find . ! ! -path './.github/*' -delete", &["/p/*/.github/*"]),
        ("find . -not -path '*/.git/*' ! -name '.*' -exec sed -i x {} +", &[]),
        ("find . -path './.git*' -prune -o -name a -exec sed -i x {} +", &[]),
        ("find . -name '.g*' -exec cat {} +", &[]),
        // A name that is completely unknown is no pattern.
        ("cp evil \"$X\" $(a) `b`", &[]),
        // The words of a line that only reads.
        ("cat *.md", &[]),
        ("for f in *.md; do cat \"$f\"; done", &[]),
        ("for f in *.md; do wc -l \"$f\" | sort -n; done", &[]),
        ("ls *.md | xargs wc -l", &[]),
        ("find . -name x | while read f; do grep -n a \"$f\"*; done", &[]),
        // The words of a line that may change the files that it lists.
        ("for f in *.md; do sed -i x \"$f\"; done", &["/p/*.md"]),
        ("ls *.md | xargs sed -i x", &["/p/*.md"]),
        ("ls *.md | xargs sort -u", &["/p/*.md"]),
        ("cat *.md | while read f; do rm \"$f\"; done", &["/p/*.md"]),
        ("f=$(ls *.md | head -1); sed -i x $f", &["/p/*.md"]),
        ("f=*.md; sed -i x $f", &["/p/*.md"]),
    ] {
        assert_eq!(mention_patterns(line), expected, "{line}");
    }
    for (line, path, expected) in [
        ("cp evil \"$PWD/.envrc\"", "/p/.envrc", true),
        ("cp evil \"${PWD}\"/.envrc", "/p/.envrc", true),
        ("cd sub && cp evil $PWD/.envrc", "/p/sub/.envrc", true),
        ("cp evil .git/hooks/pre-{commit,push}", "/p/.git/hooks/pre-push", true),
        ("cp evil {.envrc,a}", "/p/.envrc", true),
        ("f=.envrc; cp evil $f", "/p/.envrc", true),
        ("cd $X && cp evil .envrc", "/p/.envrc", true),
        ("cd $X && cp evil ../../.envrc", "/p/.envrc", true),
        ("ls .envrc | xargs cp evil", "/p/.envrc", true),
        ("ls .envrc | xargs -I{} cp evil {}", "/p/.envrc", true),
        ("cp evil $(ls .envrc)", "/p/.envrc", true),
        ("f=.envrc; cat $f", "/p/.envrc", false),
        ("cat .envrc | xargs grep x", "/p/.envrc", false),
        ("timeout 5 cat .envrc", "/p/.envrc", false),
        ("cat .envrc; make", "/p/.envrc", false),
        ("make \"$X\"; cat .envrc", "/p/.envrc", false),
    ] {
        assert_eq!(mentions(line, path), expected, "{line}");
    }
}

#[test]
fn files_of_processes_are_found_in_words_with_unknown_parts() {
    for (line, expected) in [
        ("cat /proc/1/environ", true),
        ("cat /proc/*/environ", true),
        ("cat /proc/[0-9]*/environ", true),
        ("strings /proc/$PPID/environ", true),
        ("cat /proc/$$/environ", true),
        ("cat /proc/{1,2}/environ", true),
        ("cat /pro*/1/environ", true),
        ("cat /pro?/self/environ", true),
        ("cat /*/1/environ", true),
        ("cat /*/*/environ", true),
        ("cat /*/*/*", true),
        ("cat < /proc/$PPID/environ", true),
        ("cd /proc && cat */environ", true),
        ("cd /proc && cat $PPID/environ", true),
        ("cd / && cat proc/1/environ", true),
        ("cd / && cat pro*/1/environ", true),
        ("env -C / cat proc/1/environ", true),
        ("env --chdir=/ cat proc/*/environ", true),
        ("env -C ../.. cat proc/1/environ", true),
        ("env -C/proc cat 1/environ", true),
        ("tar -C /proc -c 1/environ", true),
        ("grep -r TOKEN /proc", true),
        ("cd /proc && grep -r TOKEN .", true),
        ("x=/proc; cat $x/1/environ", true),
        ("for p in /proc/[0-9]*; do cat $p/environ; done", true),
        ("cat $X/proc/1/environ", true),
        ("cat $X/1/environ", true),
        ("cat ${X}1/environ ", false),
        ("ls /proc", false),
        ("cd /proc", false),
        ("cat /proc/cpuinfo /proc/meminfo", false),
        ("cd /proc && cat cpuinfo", false),
        ("cat /* /*/bin /*.txt", false),
        ("ls /usr/*/bin", false),
        ("cat $X/1/out", false),
        ("find / -name 'proc*'", false),
        ("find . -name 'proc*' -delete", false),
        ("awk -F/ '{ print $1 }' a", false),
        ("echo /proc/*/environ", false),
    ] {
        assert_eq!(has_reason(line, "risk-names-process"), expected, "{line}");
    }
}

#[test]
fn files_that_find_finds_outside_are_removed_by_its_commands() {
    for (line, key) in [
        ("find ~/docs -type f -exec rm {} \\;", "risk-removes-vital"),
        ("find ~/docs -type f -exec unlink {} \\;", "risk-removes-vital"),
        ("find ~/docs -type f -exec mv {} . \\;", "risk-removes-vital"),
        ("find ~/docs -type f -exec truncate -s 0 {} +", "risk-removes-vital"),
        ("find ~/docs -exec env rm -rf {} +", "risk-removes-vital"),
        ("find ~/docs -ok nice -n 5 timeout 5 rm -rf {} \\;", "risk-removes-vital"),
        ("find ~/docs -exec grep -q x {} \\; -execdir unlink {} \\;", "risk-removes-vital"),
        ("find ~/docs -exec sh -c 'rm \"$1\"' _ {} \\;", "risk-removes-vital"),
        ("find ~/docs -exec bash -c 'for f; do mv \"$f\" .; done' _ {} +", "risk-removes-vital"),
        ("timeout 60 find ~/docs -type f -exec unlink {} \\;", "risk-removes-vital"),
        ("find . -exec unlink {} \\;", "risk-removes-vital"),
        ("find $X -exec unlink {} \\;", "risk-removes-vital"),
        ("find ~/docs -exec sed -i x {} +", "risk-finds-outside"),
        ("find ../other -exec ./tool {} +", "risk-finds-outside"),
        ("find ../other -exec sort -o {} {} \\;", "risk-finds-outside"),
        // Removals of files whose names come from another command.
        ("ls -d ~/docs/* | xargs rm", "risk-removes-vital"),
        ("ls -d ~/docs/* | timeout 60 xargs -0 mv -t .", "risk-removes-vital"),
        ("find ~/docs -type f -print0 | xargs -0 rm -f", "risk-removes-vital"),
        ("find ~/docs | while read f; do unlink \"$f\"; done", "risk-removes-vital"),
        ("echo ~/docs/a | xargs rm", "risk-removes-vital"),
        ("rm $(ls ~/docs/*)", "risk-removes-vital"),
        ("for f in ~/docs/*; do rm \"$f\"; done", "risk-removes-vital"),
        ("f=~/docs/a; rm $f", "risk-removes-vital"),
        ("ls | timeout 60 xargs rm -rf", "risk-unknown-removal"),
        ("ls | env xargs rm -r", "risk-unknown-removal"),
    ] {
        assert!(has_reason(line, key), "{line}: {:?}", find(line).reasons);
    }
}

#[test]
fn all_operands_of_mv_are_moved_if_an_option_names_the_destination() {
    for (line, expected) in [
        ("mv ~/docs/a .", true),
        ("mv -t . ~/docs/a", true),
        ("mv -t. ~/docs/a", true),
        ("mv -ft . ~/docs/a", true),
        ("mv -vt. ~/docs/a", true),
        ("mv a ~/docs/a -t .", true),
        ("mv --target-directory=. ~/docs/a", true),
        ("mv --target-directory . ~/docs/a", true),
        ("mv --target . ~/docs/a", true),
        ("mv --t=. ~/docs/a", true),
        ("mv -t . -- ~/docs/a", true),
        ("mv -- ~/docs/a .", true),
        ("mv -St . ~/docs/a .", true),
        ("nice mv -t . ~/docs/a", true),
        ("mv a ../b", false),
        ("mv -t ../b a c", false),
        ("mv -ft ../b a", false),
        ("mv -t../b a", false),
        ("mv --target-directory=../b a", false),
        ("mv --target-dir ../b a", false),
        ("mv a -t ../b", false),
        ("mv -- a ../b", false),
        ("mv -v --backup=t a ../b", false),
    ] {
        assert_eq!(has_reason(line, "risk-removes-vital"), expected, "{line}");
    }
}

#[test]
fn a_command_may_run_in_the_folder_that_an_option_names() {
    for line in [
        "env -C / rm -rf tmp",
        "env -C .. rm a",
        "env -C.. rm a",
        "env --chdir=/ rm -rf tmp",
        "env --chd / rm -rf tmp",
        "timeout 5 env -iC / rm -rf tmp",
        "env -C $X rm -rf tmp",
        "env -C . -C . -C . -C . -C / rm -rf tmp",
    ] {
        assert!(has_reason(line, "risk-removes-vital"), "{line}");
    }
    assert_eq!(find("env -C build rm -rf tmp; rm a").reasons, []);
}

#[test]
fn commands_of_find_and_xargs_in_the_project_need_no_reason() {
    for line in [
        "find . -name '*.o' -exec rm {} +",
        "find . -name '*.txt' -exec mv {} docs \\;",
        "find . -name node_modules -prune -exec rm -rf {} +",
        "find src -name '*.rs' -exec sed -i 's/a/b/' {} +",
        "find . -type f -exec chmod a-x {} \\;",
        "find tests -name '*.py' -exec python3 {} \\;",
        "find . -name '*.rs' -exec sh -c 'wc -l \"$1\"' _ {} \\;",
        "find /usr/include -name '*.h' -exec grep -l x {} +",
        "find ~/docs -name '*.txt' -exec echo {} \\;",
        "find . -name '*.o' | xargs rm -f",
        "git ls-files -z '*.rs' | xargs -0 rustfmt --check",
        "ls *.txt | xargs -I{} cp {} docs/{}.bak",
        "ls | xargs -n1 -P4 gzip",
        "ls | xargs -I% sh -c 'cat \"$1\"' _ %",
        "ls | xargs env CI=1 make",
        "for f in *.o; do rm \"$f\"; done",
        "cat /etc/hosts; for f in *.o; do rm \"$f\"; done",
        "for f in *.log; do mv \"$f\" /tmp/; done",
        "parallel -j4 gzip ::: a.log b.log",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn a_text_that_a_program_replaces_is_unknown_code() {
    for (line, key) in [
        ("ls -d ~/docs | xargs -I{} sh -c 'rm -rf {}'", "risk-unknown-code"),
        ("find ~/docs -type d -exec sh -c 'rm -rf {}' \\;", "risk-unknown-code"),
        ("echo touch pwned1 | xargs -I{} sh -c '{}'", "risk-unknown-code"),
        ("ls | xargs -I % sh -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs -I% sh -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs -0I% sh -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs --replace=% sh -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs -i sh -c 'rm -rf {}'", "risk-unknown-code"),
        ("ls | xargs --unknown -I% sh -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | timeout 5 xargs -I% bash -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs -I% env A=1 bash -c 'rm -rf %'", "risk-unknown-code"),
        ("ls | xargs sh -c", "risk-unknown-code"),
        ("parallel 'rm -rf {}' ::: ~/docs", "risk-unknown-code"),
        ("parallel sh -c 'rm -rf {.}' ::: ~/docs", "risk-unknown-code"),
        ("find . -exec bash -ec 'a {}' \\;", "risk-unknown-code"),
        ("ls | xargs -I{} {} a", "risk-unknown-program"),
        ("ls | xargs -I{} ./{} a", "risk-unknown-program"),
        ("ls | xargs -I{} timeout 5 {} a", "risk-unknown-program"),
        ("ls | xargs env", "risk-unknown-program"),
        ("ls | xargs env A=1", "risk-unknown-program"),
        ("ls | xargs timeout 5", "risk-unknown-program"),
        ("ls | xargs nice -n 5", "risk-unknown-program"),
        ("ls | xargs command", "risk-unknown-program"),
        ("ls | xargs $X", "risk-unknown-program"),
        ("find . -exec {} \\;", "risk-unknown-program"),
        ("find . -exec env {} \\;", "risk-unknown-program"),
        ("find . -name x -execdir ./{} \\;", "risk-unknown-program"),
        ("parallel {} ::: a", "risk-unknown-program"),
        ("parallel ::: 'rm a'", "risk-runs-input"),
        ("parallel -j 4 < a", "risk-runs-input"),
        ("cat a | parallel", "risk-runs-input"),
        ("ls | xargs -n1 python3", "risk-runs-input"),
        ("ls | xargs bash", "risk-unknown-script"),
        ("find . -exec bash {} \\;", "risk-unknown-script"),
        ("ls | xargs tee", "risk-unknown-target"),
        ("ls | xargs -I{} tee {}", "risk-unknown-target"),
    ] {
        assert!(has_reason(line, key), "{line}: {:?}", find(line).reasons);
    }
}

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
            (reason.key == "risk-sets-variable").then_some(subject)
        };
        let found: Vec<_> = reasons.iter().filter_map(subject).collect();
        assert_eq!(found, [variable], "{line}: {reasons:?}");
    }
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

#[test]
fn words_that_may_set_another_variable_need_permission() {
    for line in [
        // Options of `set`, `shopt` and of shells.
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
        // Expansions that may be several words or an option.
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
        ": $((PATH=1))",
        ": $((PATH++))",
        "echo \"$((INHERITED += 1))\"",
        ": ${x:PATH=1}",
        ": ${a[PATH=1]}",
        "let PATH=1",
        "let \"$X\"",
        // Options of builtins.
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
        "wait -n -p PATH",
        "wait -npPATH",
        "X='-n -p PATH'; wait $X",
        "X='-n -p PATH'; wait \"$X\"",
        "wait $1",
        "X=p; command \"-$Xv\" export CC=1",
        "declare -a HOME",
        "declare -A HOME",
        "export -f name",
        "declare -fx name",
        "exec -c env",
        "exec -lc env",
        "exec -ca x env",
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
    ] {
        let reasons = find(line).reasons;
        let is_one = |reason: &RiskReason| {
            matches!(reason.key, "risk-sets-variable" | "risk-evaluates" | "risk-unclear")
        };
        assert!(reasons.iter().any(is_one), "{line}: {reasons:?}");
    }
    for line in [
        "command -p mapfile -t PATH < f",
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
        "zsh -c 'CC=x; env'",
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
fn text_is_not_evaluated_as_arithmetic() {
    for line in [
        "X=PATH=1; : $((X))",
        "x=PATH=1; : $((x))",
        "x='a[$(sudo ls)]'; : $((x + 1))",
        ": $((x)); x=PATH=1",
        "x=PATH=1; y=$x; : $((y))",
        "x=PATH=1; y=\"$x\"; z=$y; echo \"$((z))\"",
        "x=PATH=1; : $(( $x ))",
        "x=PATH=1; : $(( ${x} ))",
        "x=1; x+==1; : $((x))",
        "x=PA; y=TH=1; : $(( $x$y ))",
        "a1=PATH=1; b=1; : $(( a$b ))",
        "X=PATH=1; [[ X -eq 1 ]]",
        "X=PATH=1; [[ $X -eq 1 ]]",
        "X=PATH=1; [[ \"$X\" -gt 1 ]]",
        "[[ PATH=1 -eq 1 ]]",
        "X=PATH=1; let X",
        "declare -i N=PATH=1",
        "declare -i N; N=PATH=1",
        "X=PATH=1; declare -i N=$X",
        ": ${x:X}; X=PATH=1",
        "a[X]=1; X=PATH=1",
        "a[$X]=1; X=PATH=1",
        ": ${a[X]}; X=PATH=1",
        "read x < f; : $((x))",
        "read < f; : $((REPLY))",
        "while read -r n; do t=$((t + n)); done < f",
        "for i in PATH=1; do : $((i)); done",
        "for i in $X; do : $((i)); done",
        "f() { : $(($1)); }; f PATH=1",
        ": $(( $(cat f) ))",
        "x=$(cat f); : $((x))",
        "wc() { cat f; }; x=$(wc -l < f); : $((x))",
        "x=(1 PATH=1); : $((x))",
        "printf -v x PATH=1; : $((x))",
        "getopts a x; : $((x))",
        "eval x=PATH=1; : $((x))",
        "env x=PATH=1 bash -c ': $((x))'",
        "x=PATH=1 bash -c ': $((x))'",
        ": 'PATH=1'; : $((_))",
        ": $((BASH_COMMAND))",
        ": ${x:=PATH=1}; : $((x))",
        "x='a[$(sudo ls)]'; echo ${!x}",
        "x='a[$(sudo ls)]'; [[ -v $x ]]",
        "x='a[$(sudo ls)]'; [ -v \"$x\" ]",
        "builtin test -v 'a[$(sudo ls)]'",
        "[ -v 'a[PATH=1]' ]",
        "declare -a 'A=($(sudo ls))'",
        "declare -a B; declare B=\"($(cat f))\"",
        "X='($(sudo ls))'; declare -a A=$X",
        "X='($(sudo ls))'; a=(); declare a=$X",
    ] {
        let is_one = |key: &str| has_reason(line, key);
        let is_found =
            ["risk-evaluates", "risk-unclear", "risk-sets-variable"].into_iter().any(is_one);
        assert!(is_found, "{line}: {:?}", find(line).reasons);
    }
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
        "a=(x y); for i in 0 1; do echo ${a[i]} ${a[$i]}; done",
        "declare -i N=1; N=2; local -i m=$((N + 1))",
        "let i=1 i+=2; let 'i = i * 2'",
        "[[ -v X ]] && echo set",
        "f() { local x=$1; local y=\"$2\"; echo \"$x$y\"; }; f a b",
        "echo $((INHERITED + 1))",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn commands_that_remove_files_with_unknown_names_need_permission() {
    for line in [
        "X='-rf /var/x'; rm $X",
        "X=.; rm \"$X./$X./v\"",
        "printf -v X %s ../../v; rm -rf build/$X",
        "declare X=/outside; rm \"$X\"",
        ": ${X:=/outside}; rm \"$X\"",
        "read -r X < f; rm \"$X\"",
        "read -r X < f; rm a $X",
        "rm `cat f`",
        "read -r X < f; mv \"$X\" a",
        "read -r X < f; mv a b $X",
        "read -r X < f; mv a b \"$X\"",
        "read -r X < f; rmdir \"$X\"",
        "read -r X < f; unlink \"$X\"",
        "read -r X < f; timeout 5 rm \"$X\"",
        "read -r X < f; command rm \"$X\"",
        "f() { rm \"$1\"; }; f /outside",
        ": ../../x; rm \"$_\"",
        "read -r X < f; rm -rf build/$X",
        "read -r X < f; mv \"$f\" \"$X\"",
        "while read -r f; do rm \"$f\"; done < list",
        "for f; do rm \"$f\"; done",
        "for f in $X; do rm \"$f\"; done",
        "for f in *.o; do rm \"$f\"; done; f=$X",
        "for f in *.o; do rm \"${f/a/..}\"; done",
        "for f in .; do rm \"$f./v\"; done",
        "for f in .; do rm \"$f.\"; done",
        "for f in *.o; do rm $f; done",
        "rm \"$PWD/../x\"",
        "X=/outside; rm \"$X\"",
        ": ${X:=\"/outside\"}; rm \"$X\"",
        ": ${X:=~/docs}; rm \"$X\"",
        "cd sub && f=../x; cd ..; rm \"$f\"",
        "f=a; f+=$X; rm \"$f\"",
        "f=/ou; f+=tside; rm \"$f\"",
        "f=x bash -c 'rm \"$f\"'",
        "f=(a); rm \"$f\"",
    ] {
        let is_one = |key: &str| has_reason(line, key);
        let is_found = ["risk-unknown-removal", "risk-removes-vital"].into_iter().any(is_one);
        assert!(is_found, "{line}: {:?}", find(line).reasons);
    }
    for line in [
        "rm *.o build/*.o {a,b}.o",
        "rm \"$X\" *.o && rm -rf build/$X && mv \"$f\" \"${f%.txt}.md\"",
        "for f in *.txt; do rm \"$f\"; done",
        "for f in a.txt b.txt; do rm -f \"$f\" \"${f}.bak\" \"$f~\"; done",
        "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
        "for f in *.txt; do mv -- \"$f\" \"old/$f\"; done",
        "t=$(mktemp); ls > a; rm -f \"$t\"",
        "OUT=build/a.txt; rm -f \"$OUT\"; mv a \"$OUT\"",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn ordinary_lines_with_variables_need_no_permission() {
    for line in [
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
        "exec make; exec 3> a",
        "env -u RUST_LOG -C sub cargo test",
        "a=(1 2); export c=$'x\\n'",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn a_text_that_a_plain_shell_reads_in_another_way_is_not_trusted() {
    for (line, key) in [
        ("echo &>/dev/null rm $HOME/precious", "risk-unclear"),
        ("echo &>>/dev/null rm ~/precious", "risk-unclear"),
        ("[[ x > ~/file ]]", "risk-unclear"),
        ("cd build &> log && rm -rf *", "risk-removes-vital"),
        ("eval $'#; rm -rf ~'", "risk-unknown-code"),
        ("eval $'echo \"\\\"\"; rm -rf ~ #\"'", "risk-unknown-code"),
        ("sh -c $\"#; rm -rf ~\"", "risk-unknown-code"),
        ("$'rm' a", "risk-unknown-program"),
    ] {
        assert!(has_reason(line, key), "{line}: {:?}", find(line).reasons);
    }
    for line in [
        "cargo build &> log",
        "if command -v jq &>/dev/null; then jq . a; fi",
        "make &>> log || tail log",
        "[[ -f a && b > c ]] && cat a",
        "sort -t $'\\t' -k2 a && grep $'\\t' a",
        "git commit -m $'a\\n\\nb'",
    ] {
        assert_eq!(find(line).reasons, [], "{line}");
    }
}

#[test]
fn lines_that_need_too_much_work_need_permission() {
    let many = format!("cp {}", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} ".repeat(1_000));
    for (line, expected) in [
        (&*many, true),
        ("cp {a,b}{a,b} c", false),
        ("shopt -s globstar; sed -i x **/AGENTS.m*", true),
        ("shopt -s globstar; ls", false),
    ] {
        assert_eq!(has_reason(line, "risk-too-many-files"), expected, "{line:.40}");
    }
}
