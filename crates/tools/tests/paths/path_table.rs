//! The table of paths as models write them. Each row has the expected decisions for reading and
//! writing.

use super::ExpectedVerdict::{self, Inside, Obeyed, Outside, Protected, Refused};

/// A row of the table. In the path, `{}` stands for the folder that contains the project folders.
pub(crate) struct PathCase {
    pub(crate) given: String,
    pub(crate) read: ExpectedVerdict,
    pub(crate) write: ExpectedVerdict,
}

const DIRECTORY: ExpectedVerdict = Refused("is_a_directory");
const INVALID: ExpectedVerdict = Refused("invalid_arguments");
const IO: ExpectedVerdict = Refused("io");
const OUTSIDE_ROOTS: ExpectedVerdict = Refused("outside_roots");
const NOT_A_DIRECTORY: ExpectedVerdict = Refused("not_a_directory");
const NOT_A_REGULAR_FILE: ExpectedVerdict = Refused("not_a_regular_file");
const NOT_FOUND: ExpectedVerdict = Refused("not_found");

pub(crate) fn path_cases() -> Vec<PathCase> {
    let mut rows = Vec::new();
    let mut add = |paths: &[&str], read: ExpectedVerdict, write: ExpectedVerdict| {
        for given in paths {
            let (read, write) = (read.clone(), write.clone());
            rows.push(PathCase { given: (*given).to_owned(), read, write });
        }
    };
    add(PLAIN_PATHS, Inside, Inside);
    add(ONLY_NAMES, Inside, Inside);
    add(PATH_SPELLINGS, Inside, Inside);
    add(LINKED_PATHS, Inside, Inside);
    add(UNGUARDED_PATHS, Inside, Inside);
    add(
        &[".", "dir", "dir/", "./dir/.", "in-dir", "dir/up", "again", "{}/root"],
        Inside,
        DIRECTORY,
    );
    add(&[".git", ".git/hooks", "hooks"], Inside, DIRECTORY);
    add(EXECUTED_FILES, Inside, Obeyed);
    add(PROTECTED_PATHS, Inside, Protected);
    add(OUTSIDE_PATHS, Outside, Outside);
    add(&["..", "/", "out-dir", "abs-out-dir", "../link-out", "../root-evil"], Outside, DIRECTORY);
    add(
        &["../.ssh/key", "../.SSH/new", "../home/.bashrc", "out-dir/.ssh/key"],
        Protected,
        Protected,
    );
    add(PROC_PATHS, OUTSIDE_ROOTS, OUTSIDE_ROOTS);
    add(&["dangling/x", "dangling-out/x"], OUTSIDE_ROOTS, OUTSIDE_ROOTS);
    add(&["", "a\0b", "\0", "file\0.txt", "../\0secret"], INVALID, INVALID);
    add(&["file/x", "file/x/y", "in/x", "fifo/x"], NOT_A_DIRECTORY, NOT_A_DIRECTORY);
    add(&["dangling", "dangling-out"], NOT_FOUND, NOT_FOUND);
    add(&["circle", "circle/x", "loop-a", "loop-b/x"], OUTSIDE_ROOTS, OUTSIDE_ROOTS);
    let devices = ["fifo", "socket", "../fifo", "out-dir/fifo", "/dev/null", "/dev/zero"];
    add(&devices, NOT_A_REGULAR_FILE, NOT_A_REGULAR_FILE);
    // Paths at the length limits of a whole path, of a file name, and of the operating system.
    let whole = format!("{}file", "./".repeat(2_046));
    add(&[&whole, &"n".repeat(255)], Inside, Inside);
    add(&[&"n".repeat(256)], IO, IO);
    add(&[&"n".repeat(4_097), &"../".repeat(1_366), &format!("./{whole}")], INVALID, INVALID);
    rows
}

const PLAIN_PATHS: &[&str] = &[
    "file",
    "./file",
    "dir/file",
    "dir//file",
    "dir/./file",
    "dir/../file",
    "missing/../file",
    "dir/deep/../../file",
    "file/",
    "file/.",
    "new",
    "dir/new",
    "new/deep/er",
    "../root/file",
    "../root/new",
    "{}/root/file",
    concat!("{}//ro", "ot///file"),
    "{}/root/../root/file",
    "{}/root/./dir/../file",
    "{}/more/file",
    "{}/more/new",
    "../more/file",
    "../more/../more/dir/file",
];

/// File names that look like special syntax.
const ONLY_NAMES: &[&str] = &[
    " ",
    "file ",
    "file.",
    "...",
    "..file",
    "dir/.. /x",
    "~",
    "~/x",
    "~root/x",
    "$HOME/x",
    "%2e%2e/secret",
    "..%2fsecret",
    "..%c0%af..",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "..\\secret",
    "C:\\Windows\\x",
    "\\\\server\\share",
    "-rf",
    "*",
    "a;b|c&d",
];

/// Unusual spellings of letters, dots and slashes, invisible characters, and changes of the writing
/// direction.
const PATH_SPELLINGS: &[&str] = &[
    "nf\u{e9}",
    "nfe\u{301}",
    "\u{ff0e}\u{ff0e}/secret",
    "\u{2024}\u{2024}/secret",
    "\u{2025}/secret",
    "..\u{2215}secret",
    "..\u{ff0f}secret",
    ".\u{200b}./secret",
    "..\u{200d}/secret",
    "\u{202e}txt.elif",
    "\u{5e9}\u{5dc}\u{5d5}\u{5dd}/\u{627}",
    "\u{feff}file",
    "FILE",
    "a\nb",
    "a\tb\u{1b}[31m",
    "\u{1f980}/x",
];

const LINKED_PATHS: &[&str] = &[
    "in",
    "in-dir/file",
    "in-dir/new",
    "in-dir/new/deep",
    "abs-in",
    "chain",
    "dir/up/file",
    "dir/across/file",
    "dir/across/up/dir/up/new",
    "again/again/file",
    "to-more",
    "to-odd/file",
    "to-odd/new",
    "out-dir/root/file",
    "abs-out-dir/root/new",
    "../link-in/file",
    "{}/link-in/new",
];

const UNGUARDED_PATHS: &[&str] = &[".gitignore", ".env.example", "git/config", "my.git/config"];

/// Files that other programs execute or obey. Even if the session accepts edits, changing these
/// files requires permission.
const EXECUTED_FILES: &[&str] = &[
    "x.code-workspace",
    "lefthook.yml",
    "mise.toml",
    "rust-toolchain.toml",
    "dir/package.json",
    "Makefile",
    "vite.config.ts",
    "settings.json",
];

const PROTECTED_PATHS: &[&str] = &[
    ".github/dependabot.yml",
    ".env",
    ".config/other",
    ".cargo/audit.toml",
    "AGENTS.md",
    "venv/bin/python",
    ".git/config",
    ".git/new",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".Git/hooks/x",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    "GIT~1/config",
    ".g\u{200c}it/config",
    ".git\u{ad}/config",
    ".git\u{fe0f}/config",
    "dir/.git/config",
    "dir/../.git/config",
    "again/.git/config",
    "git-link",
    "hooks/post-checkout",
    "hard",
    "{}/more/.git",
    ".gitmodules",
    ".gitattributes",
    "dir/.gitattributes",
    ".vscode/settings.json",
    ".VSCODE/tasks.json",
    ".v\u{17f}code/tasks.json",
    ".idea/workspace.xml",
    ".zed/settings.json",
    ".helix/config.toml",
    ".dir-locals.el",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".mcp.json",
    ".devcontainer/devcontainer.json",
    ".github/workflows/ci.yml",
    ".github/WORKFLOWS/ci.yml",
    ".gitlab-ci.yml",
    ".hus\u{212a}y/pre-commit",
    ".pre-commit-config.yaml",
    ".envrc",
    ".mvn/extensions.xml",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".ripgreprc",
    ".bashrc",
    "dir/.zshrc",
    ".ssh/authorized_keys",
    ".config/callboard/config.toml",
];

const OUTSIDE_PATHS: &[&str] = &[
    "../secret",
    "../root-evil/secret",
    "{}/root-evil/secret",
    "{}/root/../root-evil/secret",
    "{}/more-evil/x",
    "{}/roo",
    "dir/../../secret",
    "../none",
    "../none/deep",
    "../link-out/secret",
    "../link-out/new",
    "/etc/passwd",
    "//etc/passwd",
    "/etc/./../etc/passwd",
    "out",
    "out-dir/secret",
    "out-dir/none",
    "out-dir/root-evil/secret",
    "abs-out",
    "abs-out-dir/secret",
    "chain-out",
    "dir/up/out-dir/secret",
    "again/out",
];

/// Paths in `/proc` that give access to the files and the state of processes.
const PROC_PATHS: &[&str] = &[
    "/proc/self/root/etc/passwd",
    "/proc/self/root/none",
    "/proc/self/cwd",
    "/proc/self/cwd/file",
    "/proc/self/fd/0",
    "/proc/self/exe",
    "/proc/self/environ",
    "/proc/self/mem",
    "/proc/self",
    "/proc/thread-self/root/etc/passwd",
    "/proc/sys/kernel/core_pattern",
    "/dev/fd",
    "/dev/fd/0",
    "/dev/stdin",
    "proc",
    "proc/etc/passwd",
    "here",
    "here/Cargo.toml",
];
