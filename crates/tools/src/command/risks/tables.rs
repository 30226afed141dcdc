//! The names by which programs, files and variables are known that are asked about.

use crate::command::reader::Word;

/// Whether a word leads to a file that holds credentials or what was typed.
pub(super) fn is_secret(word: &Word) -> bool {
    let text = word.text.to_ascii_lowercase();
    let names: Vec<_> = text
        .split(['/', '=', ':', ',', '@'])
        .map(|name| if word.expands { name.trim_matches(['{', '}']) } else { name })
        .collect();
    let is_example = |name: &str| {
        ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end))
    };
    let is_one = |name: &&str| {
        SECRET_NAMES.iter().any(|secret| may_be(name, secret, word))
            || name.starts_with(".env.") && !is_example(name)
            || name.starts_with('.') && name.ends_with("_history")
    };
    let is_pair = |pair: &[&str]| {
        let both = |(folder, name): &(&str, &str)| {
            may_be(pair[0], folder, word) && may_be(pair[1], name, word)
        };
        SECRET_PAIRS.iter().any(both)
    };
    names.iter().any(is_one) || names.windows(2).any(is_pair)
}

/// Whether a name is another one, or a pattern that begins like it.
fn may_be(name: &str, other: &str, word: &Word) -> bool {
    let known = name.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let tells = known.len() >= if known.starts_with('.') { 2 } else { 3 };
    let is_pattern = word.expands && tells && known.len() < name.len();
    name == other || is_pattern && other.starts_with(known)
}

/// Returns the variable that a word sets, if other programs run what it names.
pub(super) fn running_variable(word: &Word) -> Option<&str> {
    let (name, value) = word.text.split_once('=')?;
    let name = name.trim_end_matches('+');
    let is_one = RUNNING_VARIABLES.contains(&name) || name.starts_with("GIT_CONFIG");
    let is_harmless = !word.expands && HARMLESS.contains(&value);
    (is_one && !is_harmless).then_some(name)
}

/// Variables that name what programs run, or where a shell goes.
const RUNNING_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "CDPATH",
    "DYLD_INSERT_LIBRARIES",
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "LD_AUDIT",
    "LD_PRELOAD",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "PS4",
    "SSH_ASKPASS",
    "VISUAL",
];

/// What does nothing but show, or nothing.
const HARMLESS: &[&str] = &["", ":", "cat", "echo", "false", "less", "more", "true"];

/// Words of the shell that read what they are told as an expression.
pub(super) const EVALUATING: &[&str] = &[
    "[", "declare", "export", "for", "let", "local", "printf", "read", "readonly", "select", "set",
    "test", "typeset", "unset",
];

/// Words of the shell that give another meaning to others, or run what they are told.
pub(super) const ALIASING: &[&str] =
    &["alias", "bind", "compgen", "complete", "enable", "fc", "mapfile", "readarray"];

/// Programs that show the files they name.
pub(super) const SHOWING: &[&str] =
    &["cat", "go", "grep", "head", "ls", "pytest", "rg", "tail", "wc"];

/// Programs that run a text as a command: after which switch.
pub(super) const TEXTS: &[(&str, &str, &str)] = &[
    ("entr", "s", "--shell"),
    ("env", "S", "--split-string"),
    ("flock", "c", "--command"),
    ("script", "c", "--command"),
    ("sg", "c", "--command"),
];

/// Long options of shells that have no word of their own.
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

/// Programs that are always asked about.
pub(super) const PROGRAMS: &[(&[&str], &str)] = &[
    (&["sudo", "doas", "su", "pkexec", "run0", "runuser"], "runs something as another user"),
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
        "overwrites files or disks for good",
    ),
    (&["halt", "poweroff", "reboot", "shutdown"], "stops the machine"),
    (&["at", "batch", "launchctl"], "makes something run later"),
    (&["history"], "shows or changes what was typed"),
];

pub(super) const SHELLS: &[&str] =
    &["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"];

/// Programs that run another one which stands among their words.
pub(super) const WRAPPERS: &[&str] = &[
    "builtin",
    "busybox",
    "bwrap",
    "caffeinate",
    "chroot",
    "chrt",
    "command",
    "doas",
    "entr",
    "env",
    "exec",
    "fakeroot",
    "firejail",
    "flock",
    "gtimeout",
    "hyperfine",
    "ionice",
    "ltrace",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xargs",
    "xvfb-run",
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
