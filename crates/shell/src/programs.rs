//! The table of programs. For each program, the table lists the words that are understood.
//!
//! A word is in the table only if it meets two conditions at every position in the command. First,
//! the word never makes the program read a file outside of the folder in which it runs. Second, the
//! word never makes the program write other files, or run other programs, than without arguments.
//! Every other word counts as unknown, even if it is harmless.

/// A program, or a subcommand of a program, and the words that may follow.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The program's name and the subcommand: `cargo`, `test`.
    pub words: &'static [&'static str],
    /// The options of the program, separated by blanks. For the meaning of the last character of an
    /// option, see [`parse_option_entry`].
    pub(crate) options: &'static str,
    pub(crate) style: OptionStyle,
    pub(crate) operands: Operands,
    /// The words that may follow `--`; `None` if only operands may follow.
    pub(crate) after_double_dash: Option<AfterDoubleDash>,
    /// Programs that the program starts itself, with any arguments. `.` means files of the project
    /// and its build: scripts, tests, build scripts.
    pub starts: &'static [&'static str],
    /// Whether one answer of the user may allow all commands that begin with `words`.
    pub(crate) can_allow_prefix: bool,
}

/// The syntax of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionStyle {
    /// `-abc`, `--long`, `--long=value`.
    Gnu,
    /// `-long`, `-long=value`, and `--long` with the same meaning. Letters cannot be combined in
    /// one word.
    Single,
}

/// The meaning of words that are not options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operands {
    /// No such words may follow.
    None,
    /// Names, e.g. of tests: see [`is_plain_name`](crate::analyze::is_plain_name).
    Names,
    /// Paths that are read. Patterns of `grep` and revisions of `git` count as paths.
    Paths,
    /// One folder, which becomes the shell's directory.
    Folder,
    /// Any text.
    Text,
}

/// The words that may follow `--`: options of another program, and names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AfterDoubleDash {
    pub(crate) options: &'static str,
}

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionValueKind {
    /// A name or a number.
    Name,
    /// Any text.
    Text,
    /// A path that is read.
    Path,
    /// A format of git, which must not run a program.
    Format,
}

/// An option of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramOption {
    /// The name with its dashes.
    pub(crate) name: &'static str,
    pub(crate) value: Option<OptionValueKind>,
    /// Whether the value is optional. An optional value must be attached to the option, e.g. with
    /// `=`.
    pub(crate) is_optional: bool,
}

/// Parses an option of the table. A character after the name specifies the kind of value: `:` for a
/// name, `~` for any text, `@` for a path, and `%` for a format. An option without such a character
/// is a flag. A `=` before this character means that the value is optional and must be attached.
pub(crate) fn parse_option_entry(text: &'static str) -> ProgramOption {
    let (name, value) = match text.as_bytes().last() {
        Some(b':') => (&text[..text.len() - 1], Some(OptionValueKind::Name)),
        Some(b'~') => (&text[..text.len() - 1], Some(OptionValueKind::Text)),
        Some(b'@') => (&text[..text.len() - 1], Some(OptionValueKind::Path)),
        Some(b'%') => (&text[..text.len() - 1], Some(OptionValueKind::Format)),
        _ => (text, None),
    };
    let bare = name.strip_suffix('=');
    ProgramOption { name: bare.unwrap_or(name), value, is_optional: bare.is_some() }
}

/// Returns the programs whose words are understood.
#[must_use]
pub fn programs() -> &'static [Program] {
    PROGRAMS
}

/// Returns the longest entry whose words are the first words of a command. A program in a folder
/// that is not a folder of the system has no entry.
pub(crate) fn find_program(command: &[String]) -> Option<&'static Program> {
    let (program, args) = command.split_first()?;
    let name = system_program_name(program)?;
    let follows = |program: &&Program| {
        let words = [name].into_iter().chain(args.iter().map(String::as_str));
        command.len() >= program.words.len()
            && words.zip(program.words).all(|(word, known)| word == *known)
    };
    PROGRAMS.iter().filter(follows).max_by_key(|program| program.words.len())
}

/// Returns the name of a program without the folder of the system that contains it. Returns `None`
/// if the word names a file in another folder, because this file may be any program.
pub(crate) fn system_program_name(program: &str) -> Option<&str> {
    match program.rsplit_once('/') {
        None => Some(program),
        Some((folder, name)) => SYSTEM_FOLDERS.contains(&folder).then_some(name),
    }
}

/// Folders that contain the programs of the system.
const SYSTEM_FOLDERS: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];

/// Returns whether a command may run files of the project: scripts, tests, hooks. The result is
/// also true for every program that is not in the table, and for a program in a folder that is not
/// a folder of the system.
#[must_use]
pub fn may_run_project_files(command: &[String]) -> bool {
    find_program(command).is_none_or(|program| program.starts.contains(&"."))
}

/// Returns whether a program is in the table and reads the files that its operands name.
pub(crate) fn reads_operand_files(name: &str) -> bool {
    let reads = |program: &&Program| program.operands == Operands::Paths;
    // `diff` has no row in the table. If two folders are compared, `diff` follows the links in
    // them. The words do not show whether they name folders.
    name == "diff" || PROGRAMS.iter().filter(reads).any(|program| program.words[0] == name)
}

/// Returns whether no option makes this program write a file or run another program.
pub(crate) fn never_writes(name: &str) -> bool {
    is_in_blank_separated_list(NEVER_WRITE, name)
}

/// Returns whether the arguments of a program may name another program that it runs, or contain a
/// text that it runs as commands.
#[must_use]
pub fn wraps_commands(name: &str) -> bool {
    is_in_blank_separated_list(WRAPPERS, name) || is_shell(name)
}

/// Returns whether a program is a shell.
pub(crate) fn is_shell(name: &str) -> bool {
    is_in_blank_separated_list(SHELLS, name)
}

/// Returns whether a program is an interpreter, i.e. runs code that it reads. The name may end with
/// a version.
#[must_use]
pub fn is_interpreter(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    is_in_blank_separated_list(INTERPRETERS, name) || is_in_blank_separated_list(INTERPRETERS, bare)
}

/// Returns whether a name is in a list separated by blanks.
fn is_in_blank_separated_list(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

const SHELLS: &str = "ash bash csh dash fish ksh mksh pwsh rbash sh tcsh zsh";

/// Programs that write no file and run no program, with any arguments.
const NEVER_WRITE: &str = "\
    [ basename cat cksum cmp cut diff dirname du egrep fgrep grep head ls md5sum nl od readlink \
    realpath sha1sum sha256sum sha512sum stat tail test tr wc";

/// Programs whose arguments name another program that they run.
const WRAPPERS: &str = "\
    builtin bunx busybox bwrap caffeinate chroot chrt command coproc direnv doas docker entr env \
    eval exec expect fakeroot firejail flock gtimeout hyperfine ionice just ltrace make mise \
    nice nix nix-shell nohup npx nsenter parallel perf pipx pkexec podman prlimit runcon runuser \
    script setarch setpriv setsid source ssh stdbuf strace su sudo systemd-run taskset time \
    timeout tmux trap unbuffer unshare uv uvx valgrind watch xargs xvfb-run .";

/// Interpreters of languages in which a text can run commands.
const INTERPRETERS: &str = "\
    awk bun deno ed emacs ex gawk gdb julia less lldb lua m4 man mawk more nawk node nodejs nvim \
    osascript perl php pypy python rscript ruby sed sqlite tclsh vi vim";

const BASE: Program = Program {
    words: &[],
    options: "",
    style: OptionStyle::Gnu,
    operands: Operands::None,
    after_double_dash: None,
    starts: &[],
    can_allow_prefix: true,
};

/// Programs that read the named files.
const SHOWS: Program = Program { operands: Operands::Paths, ..BASE };

/// Programs that cargo starts during a build.
const RUSTC: &[&str] =
    &["rustc", "rustdoc", "cc", "gcc", "collect2", "ld", "ld.lld", "rust-lld", "rustup", "."];

const CARGO: Program = Program { starts: RUSTC, ..BASE };

/// Options of git for showing commits and differences.
macro_rules! git_shows {
    ($($more:literal)?) => {
        concat!(
            "-p -u --patch -s --no-patch -U=: --unified=: --raw --minimal --patience --histogram \
             --diff-algorithm: --stat=: --compact-summary --numstat --shortstat --dirstat \
             --summary -z --name-only --name-status --color=: --no-color --color-words \
             --word-diff=: --no-renames --check --full-index --binary --abbrev=: -M=: --find-renames=: -C=: --find-copies -D -R -a --text \
             --ignore-cr-at-eol --ignore-space-at-eol -b --ignore-space-change -w \
             --ignore-all-space --ignore-blank-lines -W --function-context --exit-code --quiet \
             --no-ext-diff --no-textconv --ignore-submodules --submodule --no-prefix --diff-filter=: \
             -S~ -G~ --pickaxe-all --pickaxe-regex ",
            $($more)?
        )
    };
}

/// Options of git for selecting and showing commits.
macro_rules! git_logs {
    () => {
        git_shows!(
            "-n: -# --max-count: --skip: --since~ --after~ --until~ --before~ --author~ --committer~ \
             --grep~ -i -E -F -P --all-match --invert-grep --merges --no-merges --first-parent --not \
             --all --branches --tags --remotes --reverse --follow --oneline --graph --no-graph \
             --decorate=: --no-decorate --date: --relative-date --parents --children \
             --abbrev-commit --no-abbrev-commit --topo-order --date-order --author-date-order \
             --left-right --cherry-pick --cherry-mark --boundary --source --full-history \
             --simplify-merges --ancestry-path --no-walk --walk-reflogs -g --notes --no-notes \
             --pretty=% --format=% --cc -c -m --log-size --no-mailmap --clear-decorations"
        )
    };
}

/// Options of cargo for building and testing.
macro_rules! cargo_builds {
    ($($more:literal)?) => {
        concat!(
            "-v --verbose -q --quiet --offline --locked --frozen -r --release --workspace --all \
             --all-features --no-default-features --all-targets --lib --bins --examples --tests \
             --benches -p: --package: --exclude: --bin: --example: --test: --bench: -F: --features: \
             -j: --jobs: --keep-going --profile: --message-format: --color: --timings \
             --ignore-rust-version --future-incompat-report ",
            $($more)?
        )
    };
}

/// Options of the test harness of Rust.
const LIBTEST: &str = "--nocapture --no-capture --show-output --ignored --include-ignored --exact \
                       --list -q --quiet --test --bench --test-threads: --skip: --color: --format: \
                       --report-time --shuffle --force-run-in-process";

const GO: Program = Program {
    style: OptionStyle::Single,
    operands: Operands::Paths,
    starts: &[
        "compile", "link", "asm", "cgo", "gcc", "cc", "cc1", "as", "collect2", "ld", "git", "vet",
        "cover", "buildid", "pack", ".",
    ],
    ..BASE
};

/// Options of go for building.
macro_rules! go_builds {
    ($($more:literal)?) => {
        concat!(
            "-a -n -p: -race -msan -asan -cover -covermode: -v -x -work -buildvcs=: -json \
             -mod: -tags: -trimpath ",
            $($more)?
        )
    };
}

/// A program that runs a script of a package. The project defines the script.
const SCRIPT: Program =
    Program { options: "-s --silent --if-present", starts: &["node", "sh", "."], ..BASE };

const PROGRAMS: &[Program] = &[
    Program {
        words: &["cargo", "bench"],
        options: cargo_builds!("--no-run --no-fail-fast"),
        operands: Operands::Names,
        after_double_dash: Some(AfterDoubleDash { options: LIBTEST }),
        ..CARGO
    },
    Program { words: &["cargo", "build"], options: cargo_builds!(), ..CARGO },
    Program { words: &["cargo", "check"], options: cargo_builds!(), ..CARGO },
    Program {
        words: &["cargo", "clippy"],
        options: cargo_builds!("--no-deps"),
        after_double_dash: Some(AfterDoubleDash {
            options: "-D: --deny: -W: --warn: -A: --allow: -F: --forbid: --force-warn: --cap-lints:",
        }),
        starts: &[
            "cargo-clippy",
            "clippy-driver",
            "rustc",
            "cc",
            "gcc",
            "collect2",
            "ld",
            "ld.lld",
            "rust-lld",
            "rustup",
            ".",
        ],
        ..CARGO
    },
    Program {
        words: &["cargo", "doc"],
        options: cargo_builds!("--no-deps --document-private-items"),
        ..CARGO
    },
    Program {
        words: &["cargo", "fmt"],
        options: "-v --verbose -q --quiet --all --check -p: --package: --message-format:",
        after_double_dash: Some(AfterDoubleDash {
            options: "--check -v --verbose -q --quiet --color:",
        }),
        starts: &["rustfmt", "rustup", "cargo", "cargo-fmt"],
        ..BASE
    },
    Program {
        words: &["cargo", "metadata"],
        options: "-v --verbose -q --quiet --offline --locked --frozen --all-features -F: --features: \
                  --no-default-features --no-deps --format-version: --filter-platform: --color:",
        ..CARGO
    },
    Program {
        words: &["cargo", "nextest", "run"],
        options: cargo_builds!(
            "--no-run --no-capture --nocapture --test-threads: -E~ --filterset~ --filter-expr~ \
             --run-ignored: --partition: --retries: --fail-fast --no-fail-fast --max-fail: -P: \
             --cargo-profile: --failure-output: --success-output: --status-level: \
             --final-status-level: --no-tests: --hide-progress-bar --show-progress:"
        ),
        operands: Operands::Names,
        starts: &[
            "cargo-nextest",
            "rustc",
            "cc",
            "gcc",
            "collect2",
            "ld",
            "ld.lld",
            "rust-lld",
            "rustup",
            ".",
        ],
        ..BASE
    },
    Program {
        words: &["cargo", "test"],
        options: cargo_builds!("--doc --no-run --no-fail-fast"),
        operands: Operands::Names,
        after_double_dash: Some(AfterDoubleDash { options: LIBTEST }),
        ..CARGO
    },
    Program {
        words: &["cargo", "tree"],
        options: "-v --verbose -q --quiet --offline --locked --frozen --workspace --all-features -F: \
                  --features: --no-default-features -p: --package: --exclude: -e: --edges: -i= \
                  --invert= --prune: --depth: --prefix: --no-dedupe -d --duplicates --charset: \
                  --color:",
        ..CARGO
    },
    Program {
        words: &["cat"],
        options: "-A --show-all -b --number-nonblank -e -E --show-ends -n --number -s \
                  --squeeze-blank -t -T --show-tabs -u -v --show-nonprinting",
        ..SHOWS
    },
    // `cd` is only allowed as a part of lines with several commands.
    Program { words: &["cd"], operands: Operands::Folder, can_allow_prefix: false, ..BASE },
    Program { words: &["echo"], operands: Operands::Text, can_allow_prefix: false, ..BASE },
    Program { words: &["false"], operands: Operands::Text, can_allow_prefix: false, ..BASE },
    Program {
        words: &["find"],
        options: "-name~ -iname~ -path~ -ipath~ -wholename~ -regex~ -iregex~ -regextype: -type: \
                  -maxdepth: -mindepth: -size: -mtime: -mmin: -newer@ -empty -print -print0 -printf~ \
                  -ls -not -o -or -a -and -prune -depth -xdev -mount -perm: -readable -writable \
                  -executable -true -false -quit",
        style: OptionStyle::Single,
        ..SHOWS
    },
    Program {
        words: &["git", "add"],
        options: "-A --all -u --update -v --verbose -n --dry-run -N --intent-to-add",
        ..SHOWS
    },
    Program {
        words: &["git", "blame"],
        options: "-L~ -b --root --show-stats -l -t -s -e --show-email -w -M=: -C=: -f --show-name -n \
                  --show-number -p --porcelain --line-porcelain --date: --first-parent --since~ \
                  --abbrev=: --color-lines --color-by-age -c --minimal",
        ..SHOWS
    },
    Program {
        words: &["git", "branch"],
        // Operands are not allowed, because a name would create a branch.
        options: "-a --all -r --remotes -v -vv --verbose --list --show-current --merged \
                  --no-merged --color=: --no-color --column --no-column",
        ..BASE
    },
    Program {
        words: &["git", "commit"],
        options: "-a --all -m~ --message~ -v --verbose -q --quiet --amend --no-edit --allow-empty \
                  --dry-run --short --porcelain -s --signoff --no-signoff",
        // The command starts hooks and an editor. The environment of the agent's commands sets the
        // editor to `true`.
        starts: &["true", "."],
        can_allow_prefix: false,
        ..SHOWS
    },
    Program {
        words: &["git", "diff"],
        options: git_shows!("--cached --staged --merge-base -1 -2 -3 --ours --theirs --base"),
        ..SHOWS
    },
    Program { words: &["git", "log"], options: git_logs!(), ..SHOWS },
    Program {
        words: &["git", "ls-files"],
        options: "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u \
                  --unmerged -k --killed --directory --no-empty-directory --eol --deduplicate -x~ \
                  --exclude~ --exclude-standard --error-unmatch --full-name --abbrev=: -z \
                  -t -v -f",
        ..SHOWS
    },
    Program {
        words: &["git", "rev-parse"],
        options: "--show-toplevel --show-prefix --show-cdup --is-inside-work-tree --abbrev-ref \
                  --short=: --verify -q --quiet --symbolic-full-name --git-dir \
                  --absolute-git-dir --is-bare-repository",
        ..SHOWS
    },
    Program { words: &["git", "show"], options: git_logs!(), ..SHOWS },
    Program {
        words: &["git", "status"],
        options: "-s --short -b --branch --show-stash --porcelain=: --long -v --verbose \
                  -u=: --untracked-files=: --ignored=: -z --column \
                  --no-column --ahead-behind --no-ahead-behind --renames --no-renames \
                  --find-renames=: --ignore-submodules=:",
        ..SHOWS
    },
    Program { words: &["go", "build"], options: go_builds!(), ..GO },
    Program {
        words: &["go", "test"],
        options: go_builds!(
            "-bench~ -benchtime: -benchmem -count: -cpu: -failfast -fullpath -list~ -parallel: \
             -run~ -short -shuffle: -skip~ -timeout: -vet:"
        ),
        ..GO
    },
    Program { words: &["go", "vet"], options: go_builds!(), ..GO },
    Program {
        words: &["grep"],
        options: "-# -A: --after-context: -B: --before-context: -C: --context: -E --extended-regexp \
                  -F --fixed-strings -G --basic-regexp -P --perl-regexp -H --with-filename -I -L \
                  --files-without-match -T --initial-tab -U --binary -Z --null -a --text -b \
                  --byte-offset -c --count -e~ --regexp~ -f@ --file@ -h --no-filename -i \
                  --ignore-case -y --no-ignore-case -l --files-with-matches -m: --max-count: -n \
                  --line-number -o --only-matching -q --quiet --silent -r --recursive -s \
                  --no-messages -v --invert-match -w --word-regexp -x --line-regexp -z --null-data \
                  --color=: --colour=: --line-buffered --include~ --exclude~ \
                  --exclude-dir~ --binary-files:",
        ..SHOWS
    },
    Program {
        words: &["head"],
        options: "-# -c: --bytes: -n: --lines: -q --quiet --silent -v --verbose -z \
                  --zero-terminated",
        ..SHOWS
    },
    Program {
        words: &["ls"],
        options: "-1 -A --almost-all -B -C -F --classify -G -N -Q -R --recursive -S -U -X -Z -a \
                  --all -b -c -d --directory -f -g -h --human-readable -i --inode -k -l -m -n -o -p \
                  -q -r --reverse -s --size -t -u -v -x -w: --color=: --sort: --time: \
                  --time-style: --format: --full-time --group-directories-first --no-group \
                  --numeric-uid-gid --si -I~ --ignore~ --hide~",
        ..SHOWS
    },
    Program {
        words: &["npm", "test"],
        options: "-s --silent --if-present -w: --workspace: --workspaces",
        ..SCRIPT
    },
    Program { words: &["pnpm", "test"], ..SCRIPT },
    Program { words: &["pushd"], operands: Operands::Folder, can_allow_prefix: false, ..BASE },
    Program { words: &["pwd"], options: "-L -P", ..BASE },
    Program {
        words: &["pytest"],
        options: "-v --verbose -q --quiet -x --exitfirst -s -l --showlocals --no-showlocals -k~ -m~ \
                  --tb: -r: --lf --last-failed --ff --failed-first --nf --new-first --sw --stepwise \
                  --maxfail: --collect-only --co --durations: --durations-min: -n: --no-header \
                  --no-summary --color: --disable-warnings --disable-pytest-warnings --capture: \
                  --strict-markers --strict-config --fixtures --markers --full-trace --runxfail",
        starts: &["python", "python3", "."],
        ..SHOWS
    },
    Program {
        words: &["rg"],
        options: "-# -A: --after-context: -B: --before-context: -C: --context: -E: --encoding: -F \
                  --fixed-strings -H --with-filename -I --no-filename -M: --max-columns: -N \
                  --no-line-number -P --pcre2 -S --smart-case -T: --type-not: -U --multiline -a \
                  --text -b --byte-offset -c --count --count-matches -d: --max-depth: -e~ --regexp~ \
                  -f@ --file@ -g~ --glob~ --iglob~ -i --ignore-case -j: --threads: -l \
                  --files-with-matches --files-without-match --files -m: --max-count: -n \
                  --line-number -o --only-matching -p --pretty -q --quiet -r~ --replace~ -s \
                  --case-sensitive -t: --type: -u --unrestricted -v --invert-match -w --word-regexp \
                  -x --line-regexp -0 --null -. --hidden --no-hidden --no-ignore --no-ignore-vcs \
                  --no-config --no-messages --no-heading --heading --column --trim --json --stats \
                  --vimgrep --passthru --sort: --sortr: --color: --type-list --multiline-dotall \
                  --max-filesize: --one-file-system --line-buffered",
        ..SHOWS
    },
    Program {
        words: &["sort"],
        options: "-b -d -f -g -i -h -n -r -R -V -M -k~ -t~ -u --unique -s --stable -z -c -C -m \
                  --ignore-leading-blanks --ignore-case --general-numeric-sort \
                  --human-numeric-sort --numeric-sort --reverse --version-sort --key~ \
                  --field-separator~ --check",
        ..SHOWS
    },
    Program {
        words: &["tail"],
        options: "-# -c: --bytes: -n: --lines: -q --quiet --silent -v --verbose -z \
                  --zero-terminated",
        ..SHOWS
    },
    Program { words: &["true"], operands: Operands::Text, can_allow_prefix: false, ..BASE },
    Program {
        words: &["wc"],
        options: "-c --bytes -m --chars -l --lines -L --max-line-length -w --words --total:",
        ..SHOWS
    },
    Program { words: &["yarn", "test"], ..SCRIPT },
];
