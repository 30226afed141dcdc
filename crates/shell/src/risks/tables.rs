//! The names of programs, files and variables that need permission.

use crate::parser::ShellWord;

/// Returns whether a word names a file that holds credentials or an input history.
pub(super) fn names_secret_file(word: &ShellWord) -> bool {
    let text = word.text.to_ascii_lowercase();
    let names: Vec<_> = text
        .split(['/', '=', ':', ',', '@'])
        .map(|name| if word.expands { name.trim_matches(['{', '}']) } else { name })
        .collect();
    let is_example = |name: &str| {
        ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end))
    };
    let is_one = |name: &&str| {
        SECRET_NAMES.iter().any(|secret| may_match(name, secret, word))
            || name.starts_with(".env.") && !is_example(name)
            || name.starts_with('.') && name.ends_with("_history")
    };
    let is_pair = |pair: &[&str]| {
        let both = |(folder, name): &(&str, &str)| {
            may_match(pair[0], folder, word) && may_match(pair[1], name, word)
        };
        SECRET_PAIRS.iter().any(both)
    };
    names.iter().any(is_one) || names.windows(2).any(is_pair)
}

/// Returns whether `name` equals `other`, or is a pattern that may match `other`. A pattern may
/// match if `other` begins with the part of the pattern before the first wildcard.
fn may_match(name: &str, other: &str, word: &ShellWord) -> bool {
    let known = name.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let tells = known.len() >= if known.starts_with('.') { 2 } else { 3 };
    let is_pattern = word.expands && tells && known.len() < name.len();
    name == other || is_pattern && other.starts_with(known)
}

/// Returns the variable that an assignment sets, if it may change the behaviour of programs. A name
/// of only lower-case letters and digits is harmless, because programs ignore such variables.
pub(super) fn risky_variable_in_assignment(word: &ShellWord) -> Option<&str> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.trim_end_matches('+');
    let name = name.split('[').next().unwrap_or(name);
    let is_harmless = !word.expands && HARMLESS_ASSIGNMENTS.contains(&(name, value));
    (!is_harmless && is_risky_variable_name(name)).then_some(name)
}

/// Returns whether a variable with this name may change the behaviour of programs.
pub(super) fn is_risky_variable_name(name: &str) -> bool {
    let is_own = name.bytes().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    !is_own && !HARMLESS_VARIABLES.contains(&name) && !name.starts_with("LC_")
}

/// Returns whether an option of a shell, or of `set -o`, is known to export no variable.
pub(super) fn is_understood_set_option(name: &str) -> bool {
    SET_OPTIONS.contains(&name)
}

/// The option `history` is left out: with a history, `!` in a word may stand for another text.
const SET_OPTIONS: &[&str] = &[
    "braceexpand",
    "emacs",
    "errexit",
    "errtrace",
    "functrace",
    "hashall",
    "histexpand",
    "ignoreeof",
    "monitor",
    "noclobber",
    "noexec",
    "noglob",
    "nolog",
    "notify",
    "nounset",
    "onecmd",
    "pipefail",
    "posix",
    "privileged",
    "verbose",
    "vi",
    "xtrace",
];

/// Returns whether an option of `shopt` is known to change no folder and no variable.
pub(super) fn is_understood_shopt_option(name: &str) -> bool {
    SHOPT_OPTIONS.contains(&name)
}

const SHOPT_OPTIONS: &[&str] = &[
    "checkhash",
    "checkjobs",
    "checkwinsize",
    "cmdhist",
    "dotglob",
    "expand_aliases",
    "extglob",
    "failglob",
    "globasciiranges",
    "globskipdots",
    "globstar",
    "gnu_errfmt",
    "histappend",
    "huponexit",
    "inherit_errexit",
    "lastpipe",
    "lithist",
    "login_shell",
    "nocaseglob",
    "nocasematch",
    "nullglob",
    "progcomp",
    "restricted_shell",
    "shift_verbose",
    "xpg_echo",
];

/// Returns whether a shell obeys a variable with this name, or exports it by itself, or whether
/// programs receive the variable because a harmless value of it was exported.
pub(super) fn is_shell_variable(name: &str) -> bool {
    SHELL_VARIABLES.contains(&name)
        || SHELL_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || HARMLESS_ASSIGNMENTS.iter().any(|(exported, _)| *exported == name)
}

/// Variables that bash, dash, busybox or zsh obeys, except those with a prefix in
/// [`SHELL_VARIABLE_PREFIXES`].
const SHELL_VARIABLES: &[&str] = &[
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "CDPATH",
    "CHILD_MAX",
    "COMPREPLY",
    "DIRSTACK",
    "ENV",
    "EXECIGNORE",
    "FCEDIT",
    "FIGNORE",
    "FPATH",
    "FUNCNEST",
    "GLOBIGNORE",
    "GLOBSORT",
    "HISTCMD",
    "HISTCONTROL",
    "HISTFILE",
    "HISTFILESIZE",
    "HISTIGNORE",
    "HISTSIZE",
    "HISTTIMEFORMAT",
    "HOME",
    "IFS",
    "IGNOREEOF",
    "INPUTRC",
    "KEYTIMEOUT",
    "LINENO",
    "MAILCHECK",
    "MAILPATH",
    "MODULE_PATH",
    "NULLCMD",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "PATH",
    "POSIXLY_CORRECT",
    "POSTEDIT",
    "PROMPT",
    "PROMPT2",
    "PROMPT3",
    "PROMPT4",
    "PROMPT_COMMAND",
    "PROMPT_DIRTRIM",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "READNULLCMD",
    "REPORTTIME",
    "RPROMPT",
    "SAVEHIST",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "TIMEFMT",
    "TIMEFORMAT",
    "TMOUT",
    "TMPDIR",
    "TMPPREFIX",
    "WORDCHARS",
    "ZDOTDIR",
];

/// Prefixes of the variables that shells obey.
const SHELL_VARIABLE_PREFIXES: &[&str] = &["BASH_", "COMP_", "READLINE_"];

/// Assignments of variables that can change the behaviour of programs. These values are harmless:
/// they only suppress prompts and paging.
const HARMLESS_ASSIGNMENTS: &[(&str, &str)] =
    &[("GIT_EDITOR", "true"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("PAGER", "cat")];

/// Variables that change the amount, language or colours of output, or that tests read.
const HARMLESS_VARIABLES: &[&str] = &[
    "_",
    "APP_ENV",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_VERBOSE",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOGLEVEL",
    "LOG_LEVEL",
    "NO_COLOR",
    "NODE_ENV",
    "PORT",
    "PROPTEST_CASES",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RACK_ENV",
    "RAILS_ENV",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
    "SOURCE_DATE_EPOCH",
    "TERM",
    "TZ",
    "VERBOSE",
];

/// Builtins that evaluate their arguments as expressions.
pub(crate) const EVALUATING_BUILTINS: &[&str] = &[
    "[",
    "declare",
    "export",
    "for",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "select",
    "set",
    "test",
    "typeset",
    "unset",
    "wait",
];

/// Builtins that redefine other commands, or run their arguments.
pub(super) const ALIASING_BUILTINS: &[&str] =
    &["alias", "bind", "compgen", "complete", "enable", "fc"];

/// Programs that run a text as a command. Each entry contains the program, and the short and the
/// long switch that precede the text.
pub(super) const TEXT_RUNNING_SWITCHES: &[(&str, &str, &str)] = &[
    ("entr", "s", "--shell"),
    ("env", "S", "--split-string"),
    ("flock", "c", "--command"),
    ("script", "c", "--command"),
    ("sg", "c", "--command"),
];

/// Long options of shells that take no separate value.
pub(super) const SHELL_SWITCHES: &[&str] = &[
    "debugger",
    "login",
    "noediting",
    "noprofile",
    "norc",
    "posix",
    "pretty-print",
    "restricted",
    "verbose",
];

/// Programs that always need permission, with the key of the reason.
pub(super) const ALWAYS_ASKED_PROGRAMS: &[(&[&str], &str)] = &[
    (&["sudo", "doas", "su", "pkexec", "run0", "runuser"], "risk-other-user"),
    (
        &[
            "blkdiscard",
            "cryptsetup",
            "diskutil",
            "fdisk",
            "gdisk",
            "hdparm",
            "lvremove",
            "mkfs",
            "mkswap",
            "parted",
            "pvremove",
            "sfdisk",
            "sgdisk",
            "shred",
            "vgremove",
            "wipefs",
        ],
        "risk-overwrites",
    ),
    (&["halt", "poweroff", "reboot", "shutdown"], "risk-stops-machine"),
    (&["at", "batch", "launchctl"], "risk-runs-later"),
    (&["history"], "risk-shows-typed"),
];

const SECRET_NAMES: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".env",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".ssh",
    ".vault-token",
    ".zsh_history",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

const SECRET_PAIRS: &[(&str, &str)] = &[
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".config", "callboard"),
    (".config", "gcloud"),
    (".config", "gh"),
    (".docker", "config.json"),
    ("etc", "shadow"),
];
