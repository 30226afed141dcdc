//! The scratch project, in namespaces where everything else is read-only and there is no network.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::table::Program;
use crate::trace;

pub(crate) const HOME: &str = "/srv/me";
pub(crate) const PROJECT: &str = "/srv/me/src/project";
/// Files outside the project that no command may read or change.
pub(crate) const CANARIES: &[&str] = &[
    "/srv/me/.bashrc",
    "/srv/me/.ssh/id",
    "/srv/me/src/beside/secret.txt",
    "/srv/me/src/beside/secret.rs",
    "/srv/me/src/beside/args",
];
const CANARY: &str = "--canary=/srv/me/.bashrc\n";
const TRACE: &str = "/srv/trace.log";
/// Output file of the commands. The output file is not `/dev/null`, because `grep` reads less when
/// it writes to `/dev/null`.
const OUTPUT: &str = "/srv/output";
const TEMPLATE: &str = "/srv/template";
const TIMEOUT_SECONDS: &str = "10";

/// Runs one test of this binary again inside the namespaces.
pub(crate) fn run_inside(test: &str, variable: &str) {
    let namespaces = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork"]);
        unshare.args(["--kill-child", "--mount-proc"]);
        unshare
    };
    let permitted = namespaces().args(["mount", "-t", "tmpfs", "tmpfs", "/srv"]).status();
    let is_permitted = permitted.is_ok_and(|status| status.success());
    assert!(is_permitted, "user, mount, net and pid namespaces are not permitted here");
    let binary = env::current_exe().expect("this binary has a path");
    let mut inside = namespaces();
    inside.arg(binary).args(["--ignored", "--exact", "--nocapture", "--quiet", test]);
    // Standard output is reserved for the result of the outer test.
    inside.env(variable, "1").stdin(Stdio::null()).stdout(Stdio::null());
    let status = inside.status().expect("unshare runs");
    assert!(status.success(), "the run in the namespaces failed: {status}");
}

/// The scratch home and project, on a separate file system.
pub(crate) struct Scratch(());

/// Outcome of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    Success,
    Failure,
    Timeout,
}

impl Scratch {
    /// Makes all file systems read-only and creates the scratch files.
    pub(crate) fn create() -> Self {
        close_file_systems();
        for folder in ["/srv/me/.ssh", "/srv/me/src/beside", PROJECT] {
            fs::create_dir_all(folder).expect("/srv is writable");
        }
        for canary in CANARIES {
            fs::write(canary, CANARY).expect("/srv is writable");
        }
        let git = "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n";
        fs::write("/srv/me/.gitconfig", git).expect("/srv is writable");
        let scratch = Self(());
        create_project();
        // The repository is required. The lock file is optional, because cargo may be missing.
        let is_made = scratch.command("bash").args(["-ec", COMMITS]).status();
        assert!(is_made.is_ok_and(|status| status.success()), "git makes no repository");
        scratch.succeeds("cargo", &["generate-lockfile", "--offline"]);
        copy(PROJECT, TEMPLATE);
        scratch
    }

    /// Restores the project to its initial state.
    pub(crate) fn reset_project(&self) {
        fs::remove_dir_all(PROJECT).expect("the project can be removed");
        copy(TEMPLATE, PROJECT);
    }

    /// Returns whether a program can be started and has the subcommand.
    pub(crate) fn is_installed(&self, program: &Program) -> bool {
        match program.words {
            ["cargo", rest @ ..] => self.succeeds("cargo", &[rest, &["--help"]].concat()),
            ["git", _] => self.succeeds("git", &["--version"]),
            [name, ..] => self.succeeds("bash", &["-c", &format!("type {name}")]),
            [] => false,
        }
    }

    /// Returns the output of a command on standard output and standard error.
    pub(crate) fn output(&self, words: &[&str]) -> String {
        let [program, rest @ ..] = words else { return String::new() };
        let Ok(output) = self.command(program).args(rest).output() else { return String::new() };
        let bytes = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a line as an agent would run it. Returns the outcome and the violations.
    pub(crate) fn run(&self, line: &str, program: &Program) -> (RunOutcome, Vec<String>) {
        let output = File::create(OUTPUT).expect("/srv is writable");
        let errors = output.try_clone().expect("a file has several handles");
        let mut command = self.command("timeout");
        command.args([
            "--signal=KILL",
            TIMEOUT_SECONDS,
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
        ]);
        command.args(["--mount-proc", "strace", "-f", "-y", "-qq", "--seccomp-bpf"]);
        command.args(["-e", "signal=none", "-e", trace::CALLS, "-o", TRACE, "--"]);
        let status = command.args(["bash", "-c", line]).stdout(output).stderr(errors).status();
        let status = status.expect("timeout runs");
        let log = fs::read(TRACE).expect("strace writes its log");
        let mut violations = trace::violations(&String::from_utf8_lossy(&log), program);
        for canary in CANARIES {
            if fs::read(canary).ok().as_deref() != Some(CANARY.as_bytes()) {
                violations.push(format!("changed {canary}"));
                fs::write(canary, CANARY).expect("/srv is writable");
            }
        }
        fs::remove_file(TRACE).expect("the log can be removed");
        let ending = match status.code() {
            Some(0) => RunOutcome::Success,
            // For these programs, exit code 1 is a regular result, e.g. no match.
            Some(1) if matches!(program.words, ["false" | "grep" | "rg"]) => RunOutcome::Success,
            Some(124 | 137) | None => RunOutcome::Timeout,
            Some(_) => RunOutcome::Failure,
        };
        (ending, violations)
    }

    fn succeeds(&self, program: &str, words: &[&str]) -> bool {
        let mut command = self.command(program);
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Returns a command that runs a program in the project folder, with the environment that an
    /// agent passes to commands.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(PROJECT).env_clear().stdin(Stdio::null());
        let rustup =
            env::var("RUSTUP_HOME").or_else(|_| env::var("HOME").map(|home| home + "/.rustup"));
        command.env("RUSTUP_HOME", rustup.unwrap_or_default());
        for name in ["PATH", "RUSTUP_TOOLCHAIN"] {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs([
            ("HOME", HOME),
            ("LANG", "C.UTF-8"),
            ("GIT_EDITOR", "true"),
            ("GIT_PAGER", "cat"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
            ("GIT_CONFIG_VALUE_0", "explicit"),
            ("PAGER", "cat"),
            ("TERM", "xterm-256color"),
            ("MANWIDTH", "200"),
        ]);
        command
    }
}

/// Makes all file systems read-only, and mounts new file systems at `/srv` and `/tmp`.
fn close_file_systems() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    for mount in mounts.lines() {
        let fields: Vec<_> = mount.split(' ').collect();
        let (target, flags) = (fields[4], fields[5]);
        // A mount is not reachable if another mount or the new /proc covers it.
        let is_reachable = Path::new(target).exists() && !target.starts_with("/proc");
        if is_reachable && flags.split(',').any(|flag| flag == "rw") {
            let flags = flags.replacen("rw", "remount,bind,ro", 1);
            mount_or_panic(&["-n", "-o", &flags, target]);
        }
    }
    for target in ["/srv", "/tmp"] {
        mount_or_panic(&["-n", "-t", "tmpfs", "tmpfs", target]);
    }
    let home = env::var("HOME").unwrap_or_default();
    for folder in ["/", "/var/tmp", "/run", "/dev/shm", env!("CARGO_MANIFEST_DIR"), home.as_str()] {
        let probe = Path::new(folder).join(".understood-probe");
        assert!(File::create(&probe).is_err(), "{folder} is writable");
    }
}

fn mount_or_panic(words: &[&str]) {
    let status = Command::new("mount").args(words).status().expect("mount runs");
    assert!(status.success(), "mount {words:?}: {status}");
}

fn copy(from: &str, to: &str) {
    let status = Command::new("cp").args(["-a", from, to]).status().expect("cp runs");
    assert!(status.success(), "cp {from} {to}: {status}");
}

fn create_project() {
    for (path, text) in FILES {
        let path = Path::new(PROJECT).join(path);
        let folder = path.parent().expect("it lies in the project");
        fs::create_dir_all(folder).expect("/srv is writable");
        fs::write(path, text).expect("/srv is writable");
    }
    let many = (0..200).fold(String::new(), |mut text, line| {
        let _infallible = writeln!(text, "{line} word");
        text
    });
    fs::write(Path::new(PROJECT).join("many.txt"), many).expect("/srv is writable");
    // The links are for tests of programs that walk through folders. Links in operands need no
    // test, because the tools resolve them.
    for (link, target) in LINKS {
        let link = Path::new(PROJECT).join(link);
        let folder = link.parent().expect("it lies in the project");
        fs::create_dir_all(folder).expect("/srv is writable");
        std::os::unix::fs::symlink(target, link).expect("/srv is writable");
    }
}

const LINKS: &[(&str, &str)] = &[
    ("links/secret.txt", "/srv/me/.ssh/id"),
    ("links/beside", "/srv/me/src/beside"),
    ("one/deep/link.txt", "/srv/me/.ssh/id"),
    ("two/deep/link.txt", "/srv/me/src/beside/secret.txt"),
];

const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\nextra = []\n\
         [[bench]]\nname = \"speed\"\nharness = false\n",
    ),
    (
        "src/lib.rs",
        "//! Adds.\n\n/// Adds.\n///\n/// ```\n/// assert_eq!(demo::add(1, 2), 3);\n/// ```\n\
         pub fn add(a: u8, b: u8) -> u8 { a+b }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    \
         fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n",
    ),
    ("src/bin/tool.rs", "fn main() {}\n"),
    ("examples/show.rs", "fn main() {}\n"),
    ("tests/whole.rs", "#[test]\nfn whole() {}\n"),
    ("benches/speed.rs", "fn main() {}\n"),
    ("go.mod", "module example.org/demo\n\ngo 1.19\n"),
    ("demo.go", "package demo\n\nfunc Add(a, b int) int { return a + b }\n"),
    (
        "demo_test.go",
        "package demo\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\
         \t\tt.Fail()\n\t}\n}\n\nfunc BenchmarkAdd(b *testing.B) {\n}\n",
    ),
    (
        "package.json",
        "{\"name\": \"demo\", \"version\": \"0.1.0\", \"scripts\": {\"test\": \"true\"}}\n",
    ),
    ("test_demo.py", "def test_demo():\n    assert True\n"),
    ("a.txt", "a word\nand more\n"),
    ("b.txt", "b word\n"),
    ("args", "--canary=/srv/me/.bashrc\n"),
    ("one/same.txt", "one\n"),
    ("two/same.txt", "two\n"),
    ("two/more.txt", "more\n"),
    (".gitignore", "/target\n"),
];

const COMMITS: &str = "
    git init -q
    git add -A
    git commit -qm first
    git branch other
    git tag v1
    echo 'and again' >> a.txt
    git mv b.txt c.txt
    git commit -qam second
    cp c.txt b.txt
    git add b.txt
    echo changed >> a.txt
";
