//! What a program can be told that makes another command of it.
//!
//! A rule allows by the first words of a command. For programs that run, load or write whatever
//! their arguments name, that would be a rule for everything; this table says which words a rule
//! has to hold itself. It is a list of what is known, and no fence.

use super::argv::{ArgvPrefix, Command};

/// Whether a rule for the first `held` words speaks of the whole command: nothing that follows
/// them is told to be something else.
pub(super) fn is_same(command: &[String], held: usize) -> bool {
    let rest = &command[held.min(command.len())..];
    of(command).all(|(_, told)| match told {
        Told::All => rest.is_empty(),
        Told::Options => !rest.iter().any(|word| word.starts_with('-') && word != "--"),
        Told::Code => is_script(command, held),
        Told::Switches(switches) => !rest.iter().any(|word| is_one_of(word, switches)),
        Told::Elsewhere => !rest.iter().any(|word| leads_elsewhere(word)),
        Told::Folder => match command {
            [_, folder] if held < 2 => !folder.starts_with(['-', '+']) && !leads_elsewhere(folder),
            _ => rest.is_empty() && held > 1,
        },
    })
}

/// Whether a command is a program that runs what it is told or reads.
pub(super) fn is_runner(command: &[String]) -> bool {
    of(command).any(|(_, told)| matches!(told, Told::All | Told::Code))
}

/// Returns the first words of the one command in a line, if all commands that begin with them may
/// be allowed by one button.
pub(crate) fn common(line: &str) -> Option<ArgvPrefix> {
    let plain = Command::read(line).plain?;
    let [command] = &*plain.commands else { return None };
    let follow = |words: &&&[&str]| words.iter().zip(command).all(|(word, other)| word == other);
    let held =
        COMMON.iter().filter(follow).map(|words| words.len()).find(|n| *n <= command.len())?;
    let is_one = plain.writes.is_empty() && is_same(command, held);
    ArgvPrefix::try_new(command[..held].to_vec()).filter(|_| is_one)
}

/// What is to be said of words that follow those of a rule.
#[derive(Debug)]
enum Told {
    /// Each of them can make it anything.
    All,
    /// Each option can.
    Options,
    /// It runs a script; without one, what it is told or reads.
    Code,
    /// These can, also where they are shortened or joined with others.
    Switches(&'static [&'static str]),
    /// It reads or runs what they name: what lies outside of the folder it runs in is not meant.
    Elsewhere,
    /// It moves what follows to the one folder that they name, which must lie beneath.
    Folder,
}

fn of(command: &[String]) -> impl Iterator<Item = &'static (&'static [&'static str], Told)> {
    TABLE.iter().filter(|(words, _)| begins(command, words))
}

/// Whether a command is one of an entry: by the program's name behind any path, whatever its
/// version is.
fn begins(command: &[String], words: &[&str]) -> bool {
    let program = command[0].rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let bare = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is_program = |name: &str| name == program || name == bare;
    words.split_first().is_some_and(|(name, words)| {
        let follow = || command[1..].iter().zip(words).all(|(word, other)| word == other);
        command.len() > words.len() && is_program(name) && follow()
    })
}

/// Whether an interpreter is given a script, by the rule or by the first word after it.
fn is_script(command: &[String], held: usize) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let names_one = command[1..held.max(1)].iter().any(|word| !is_option(word));
    names_one || command.get(held).is_some_and(|word| !is_option(word))
}

/// Whether a word is a switch, its beginning or its value; of several letters behind one dash,
/// each may be one.
fn is_one_of(word: &str, switches: &[&str]) -> bool {
    let (name, letters) = (word.split('=').next().unwrap_or(word), word.strip_prefix('-'));
    switches.iter().any(|switch| match (switch.as_bytes(), letters) {
        ([b'-', letter], Some(letters)) if !letters.starts_with('-') => {
            letters.as_bytes().contains(letter)
        }
        ([b'-', ..], Some(_)) => {
            word.starts_with(switch) || name.len() > 2 && switch.starts_with(name)
        }
        ([b'-', ..], None) => false,
        _ => word.starts_with(switch),
    })
}

fn leads_elsewhere(word: &str) -> bool {
    word.starts_with('/')
        || word.starts_with('-') && word.contains('/')
        || word.split(['/', '=']).any(|name| name == "..")
}

/// What can be remembered by one button: programs that build, test or look, told nothing from
/// [`TABLE`]. They run what the project says; so does the command that the user saw.
const COMMON: &[&[&str]] = &[
    &["cargo", "bench"],
    &["cargo", "build"],
    &["cargo", "check"],
    &["cargo", "clippy"],
    &["cargo", "doc"],
    &["cargo", "fmt"],
    &["cargo", "metadata"],
    &["cargo", "nextest", "run"],
    &["cargo", "test"],
    &["cargo", "tree"],
    &["cat"],
    &["git", "blame"],
    &["git", "diff"],
    &["git", "log"],
    &["git", "ls-files"],
    &["git", "show"],
    &["git", "status"],
    &["go", "build"],
    &["go", "test"],
    &["go", "vet"],
    &["grep"],
    &["head"],
    &["ls"],
    &["npm", "test"],
    &["pnpm", "test"],
    &["pwd"],
    &["pytest"],
    &["rg"],
    &["tail"],
    &["wc"],
    &["yarn", "test"],
];

/// By the first words of commands: what may not follow unless a rule holds it. Each entry that
/// fits counts.
const TABLE: &[(&[&str], Told)] = &[
    // Shells and what runs another command: the rule holds all of it.
    (&["ash"], Told::All),
    (&["bash"], Told::All),
    (&["bunx"], Told::All),
    (&["busybox"], Told::All),
    (&["bwrap"], Told::All),
    (&["caffeinate"], Told::All),
    (&["chroot"], Told::All),
    (&["command"], Told::All),
    (&["csh"], Told::All),
    (&["dash"], Told::All),
    (&["direnv"], Told::All),
    (&["doas"], Told::All),
    (&["docker"], Told::All),
    (&["env"], Told::All),
    (&["exec"], Told::All),
    (&["entr"], Told::All),
    (&["expect"], Told::All),
    (&["firejail"], Told::All),
    (&["fish"], Told::All),
    (&["flock"], Told::All),
    (&["hyperfine"], Told::All),
    (&["ionice"], Told::All),
    (&["just"], Told::All),
    (&["ksh"], Told::All),
    (&["mise"], Told::All),
    (&["nice"], Told::All),
    (&["nix"], Told::All),
    (&["nix-shell"], Told::All),
    (&["nohup"], Told::All),
    (&["npx"], Told::All),
    (&["nsenter"], Told::All),
    (&["parallel"], Told::All),
    (&["perf"], Told::All),
    (&["pipx"], Told::All),
    (&["pkexec"], Told::All),
    (&["podman"], Told::All),
    (&["poetry", "run"], Told::All),
    (&["pwsh"], Told::All),
    (&["runcon"], Told::All),
    (&["runuser"], Told::All),
    (&["script"], Told::All),
    (&["setpriv"], Told::All),
    (&["setsid"], Told::All),
    (&["sh"], Told::All),
    (&["ssh"], Told::All),
    (&["stdbuf"], Told::All),
    (&["strace"], Told::All),
    (&["su"], Told::All),
    (&["sudo"], Told::All),
    (&["systemd-run"], Told::All),
    (&["tcsh"], Told::All),
    (&["time"], Told::All),
    (&["timeout"], Told::All),
    (&["tmux"], Told::All),
    (&["unshare"], Told::All),
    (&["uv"], Told::All),
    (&["uvx"], Told::All),
    (&["valgrind"], Told::All),
    (&["watch"], Told::All),
    (&["xargs"], Told::All),
    (&["zsh"], Told::All),
    // What changes how the shell reads the rest of the line.
    (&["."], Told::All),
    (&["alias"], Told::All),
    (&["builtin"], Told::All),
    (&["cd"], Told::Folder),
    (&["coproc"], Told::All),
    (&["declare"], Told::All),
    (&["enable"], Told::All),
    (&["eval"], Told::All),
    (&["export"], Told::All),
    (&["hash"], Told::All),
    (&["local"], Told::All),
    (&["mapfile"], Told::All),
    (&["popd"], Told::All),
    (&["printf"], Told::Switches(&["-v"])),
    (&["pushd"], Told::Folder),
    (&["read"], Told::All),
    (&["readonly"], Told::All),
    (&["set"], Told::All),
    (&["shopt"], Told::All),
    (&["source"], Told::All),
    (&["trap"], Told::All),
    (&["typeset"], Told::All),
    (&["unset"], Told::All),
    // Programs with a language of their own that runs commands, and editors.
    (&["awk"], Told::All),
    (&["ed"], Told::All),
    (&["emacs"], Told::All),
    (&["ex"], Told::All),
    (&["gawk"], Told::All),
    (&["gdb"], Told::All),
    (&["less"], Told::All),
    (&["lldb"], Told::All),
    (&["m4"], Told::All),
    (&["man"], Told::All),
    (&["mawk"], Told::All),
    (&["more"], Told::All),
    (&["nawk"], Told::All),
    (&["nvim"], Told::All),
    (&["sed"], Told::All),
    (&["sqlite"], Told::All),
    (&["vi"], Told::All),
    (&["vim"], Told::All),
    // Interpreters.
    (&["bun"], Told::Code),
    (&["bun", "exec"], Told::All),
    (&["bun", "x"], Told::All),
    (&["deno"], Told::Code),
    (&["deno", "eval"], Told::All),
    (&["julia"], Told::Code),
    (&["lua"], Told::Code),
    (&["node"], Told::Code),
    (&["nodejs"], Told::Code),
    (&["osascript"], Told::Code),
    (&["perl"], Told::Code),
    (&["php"], Told::Code),
    (&["pypy"], Told::Code),
    (&["python"], Told::Code),
    (&["rscript"], Told::Code),
    (&["ruby"], Told::Code),
    (&["tclsh"], Told::Code),
    // Switches that run, load or write something.
    (
        &["cargo"],
        Told::Switches(&[
            "--config",
            "--manifest-path",
            "-C",
            "-Z",
            "--archive-file",
            "--artifact-dir",
            "--binaries-metadata",
            "--cargo-metadata",
            "--extract-to",
            "--fix",
            "--out-dir",
            "--target",
            "--tool-config-file",
            "--workspace-remap",
        ]),
    ),
    (&["cargo", "fmt"], Told::Elsewhere),
    (
        &["curl"],
        Told::Switches(&[
            "-K",
            "--config",
            "-o",
            "-O",
            "--output",
            "--remote-name",
            "--create-dirs",
        ]),
    ),
    (
        &["find"],
        Told::Switches(&[
            "-delete",
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-fls",
            "-fprint",
            "-files0-from",
        ]),
    ),
    (&["fd"], Told::Switches(&["-x", "-X", "--exec", "--exec-batch"])),
    (
        &["git"],
        Told::Switches(&[
            "-c",
            "-C",
            "-O",
            "-u",
            "-x",
            "--config-env",
            "--contents",
            "--exec",
            "--exec-path",
            "--ext-diff",
            "--extcmd",
            "--git-dir",
            "--no-index",
            "--open-files-in-pager",
            "--output",
            "--receive-pack",
            "--template",
            "--textconv",
            "--upload-pack",
            "--work-tree",
            "ext::",
        ]),
    ),
    (&["git", "diff"], Told::Elsewhere),
    (&["git", "bisect"], Told::All),
    (&["git", "config"], Told::All),
    (&["git", "difftool"], Told::All),
    (&["git", "filter-branch"], Told::All),
    (&["git", "mergetool"], Told::All),
    (&["git", "submodule"], Told::All),
    (&["go"], Told::Elsewhere),
    (&["go"], Told::Options),
    (&["make"], Told::All),
    (&["npm"], Told::Options),
    (&["pnpm"], Told::Options),
    (&["pytest"], Told::Elsewhere),
    (&["pytest"], Told::Options),
    (&["rsync"], Told::Switches(&["-e", "--rsh", "--rsync-path"])),
    (&["scp"], Told::Switches(&["-S", "-o", "-F"])),
    (&["sort"], Told::Switches(&["-o", "--output", "--compress-program"])),
    (&["tar"], Told::All),
    (
        &["wget"],
        Told::Switches(&[
            "--use-askpass",
            "--config",
            "-e",
            "--execute",
            "-o",
            "-O",
            "-P",
            "--output",
            "--directory-prefix",
        ]),
    ),
    (&["yarn"], Told::Options),
    (&["zip"], Told::Switches(&["-T", "--unzip-command"])),
    // Programs that show what files hold.
    (&["cat"], Told::Elsewhere),
    (&["grep"], Told::Elsewhere),
    (&["grep"], Told::Switches(&["-R", "--dereference-recursive"])),
    (&["head"], Told::Elsewhere),
    (&["ls"], Told::Elsewhere),
    (&["rg"], Told::Elsewhere),
    (&["rg"], Told::Switches(&["-L", "--follow", "--pre", "--hostname-bin"])),
    (&["tail"], Told::Elsewhere),
    (&["wc"], Told::Elsewhere),
    (&["wc"], Told::Switches(&["--files0-from"])),
];
