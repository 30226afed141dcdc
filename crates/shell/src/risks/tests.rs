//! Tests for the files and the reasons that are found in a line.

use std::path::Path;

use super::{Risks, ShellContext, find_risks};
use pretty_assertions::assert_eq;

/// Finds the risks of a line in the project folder `/p` of the home directory `/home/me`.
fn find(line: &str) -> Risks {
    let mut place = ShellContext::new(vec![Path::new("/p")]);
    (place.cwd, place.home) = (Some(Path::new("/p")), Some(Path::new("/home/me")));
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
