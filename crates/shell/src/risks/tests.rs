//! Tests for the files and the reasons that are found in a line.

mod evasions;
mod variables;

use std::path::Path;

use super::{Risks, ShellContext, find_risks};
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
        ("cp evil /p/.e{nv,x}*", &["/p/.env*", "/p/.ex*"]),
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
        "[[ -f a && b != c ]] && cat a",
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
