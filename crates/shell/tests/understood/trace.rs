//! Checks an strace log for violations.

use std::collections::{HashMap, HashSet};

use crate::scratch::{CANARIES, HOME, PROJECT};
use crate::table::Program;

/// System calls that read, change or start files, or that open connections. `?` marks system calls
/// that are missing on some architectures.
pub(crate) const CALLS: &str = "trace=?execve,?execveat,?connect,?sendto,?sendmsg,?open,?openat,?openat2,?creat,?rename,\
     ?renameat,?renameat2,?unlink,?unlinkat,?rmdir,?mkdir,?mkdirat,?link,?linkat,?symlink,\
     ?symlinkat,?truncate,?chmod,?fchmodat,?chown,?lchown,?fchownat,?utimensat,?mknod,?mknodat,\
     ?setxattr,?lsetxattr,?removexattr";

/// Folders besides the project where writing is harmless: caches of tools, devices.
const WRITABLE: &[&str] =
    &["/srv/me/.cargo", "/srv/me/.cache", "/srv/me/go", "/srv/me/.npm", "/tmp", "/dev", "/proc"];

/// Returns the violations in the log of a line, without duplicates.
pub(crate) fn violations(log: &str, program: &Program) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut folders = HashMap::new();
    // The first program is the shell that parses the line.
    let mut execs = 0;
    for (pid, call) in calls(log) {
        let Some(call) =
            TracedCall::parse(&call, folders.entry(pid).or_insert_with(|| PROJECT.to_owned()))
        else {
            continue;
        };
        execs += usize::from(call.name.starts_with("execve"));
        if call.name.starts_with("execve") && execs == 1 {
            continue;
        }
        for violation in call.violations(program) {
            if seen.insert(violation.clone()) {
                found.push(violation);
            }
        }
    }
    if execs == 0 {
        found.push("was not traced".to_owned());
    }
    found
}

/// Returns the system calls with their process ids. The two parts of an interrupted call are
/// joined.
fn calls(log: &str) -> Vec<(&str, String)> {
    let mut unfinished: HashMap<&str, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(start) = call.strip_suffix(" <unfinished ...>") {
            unfinished.insert(pid, start);
        } else if let Some((_, end)) =
            call.split_once(" resumed>").filter(|_| call.starts_with("<..."))
        {
            calls.push((pid, unfinished.remove(pid).unwrap_or_default().to_owned() + end));
        } else {
            calls.push((pid, call.to_owned()));
        }
    }
    calls.extend(unfinished.into_iter().map(|(pid, call)| (pid, call.to_owned())));
    calls
}

struct TracedCall {
    name: String,
    args: String,
    /// Absolute paths with all `..` resolved.
    paths: Vec<String>,
    /// The opened file, with links resolved.
    opened: Option<String>,
    failed: bool,
}

impl TracedCall {
    /// Parses a call of a process whose last known working directory is `folder`.
    fn parse(call: &str, folder: &mut String) -> Option<Self> {
        let (name, rest) = call.split_once('(')?;
        let (args, result) = rest.rsplit_once(" = ").unwrap_or((rest, ""));
        let opened = result.split_once('<').map(|(_, path)| path.trim_end_matches('>').to_owned());
        let mut paths = Vec::new();
        let (mut base, mut left) = (None, args);
        while let Some(at) = left.find(['"', '<']) {
            let (end, is_base) =
                if left[at..].starts_with('<') { ('>', true) } else { ('"', false) };
            let (inner, behind) = left[at + 1..].split_once(end)?;
            if is_base {
                if left[..at].ends_with("AT_FDCWD") {
                    inner.clone_into(folder);
                }
                base = Some(inner);
            } else {
                paths.push(normalize_path(base.take().unwrap_or(folder), inner));
                // The other strings of the call are arguments.
                if name.starts_with("execve") {
                    break;
                }
            }
            left = behind;
        }
        if name.starts_with("symlink") && !paths.is_empty() {
            // The first path is the target of the link, which may not exist.
            paths.remove(0);
        }
        Some(Self {
            name: name.to_owned(),
            args: args.to_owned(),
            paths,
            opened,
            failed: result.starts_with("-1"),
        })
    }

    fn violations(&self, program: &Program) -> Vec<String> {
        match &*self.name {
            "connect" | "sendto" | "sendmsg" => {
                let is_network = self.args.contains("sa_family=AF_INET");
                is_network
                    .then(|| format!("connects: {}({}", self.name, self.args))
                    .into_iter()
                    .collect()
            }
            "execve" | "execveat" => {
                let path = self.paths.first().map_or("", String::as_str);
                let may = may_start(program, path) && !is_canary(path);
                (!may).then(|| format!("starts {path}")).into_iter().collect()
            }
            "open" | "openat" | "openat2" | "creat" => self.open_violations(),
            _ => {
                // strace occasionally misreads a path. Such a call has failed, and its path
                // contains escaped bytes.
                let is_misread = |path: &str| self.failed && path.contains('\\');
                let outside =
                    self.paths.iter().filter(|path| !is_writable(path) && !is_misread(path));
                outside.map(|path| format!("changes {path}: {}", self.name)).collect()
            }
        }
    }

    fn open_violations(&self) -> Vec<String> {
        let files = self.paths.iter().chain(&self.opened).filter(|path| path.starts_with('/'));
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"];
        let is_writing = self.name == "creat" || writes.iter().any(|flag| self.args.contains(flag));
        if is_writing {
            let outside = files.filter(|path| !is_writable(path));
            return outside.map(|path| format!("writes {path}")).collect();
        }
        let is_reading = !self.args.contains("O_PATH");
        let canaries = files.filter(|path| is_reading && is_canary(path));
        canaries.map(|path| format!("reads {path}")).collect()
    }
}

/// Returns whether a program of the table may start another program.
fn may_start(program: &Program, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // Programs in /tmp were built by the line.
    let is_own = is_beneath(path, PROJECT) || is_beneath(path, "/tmp");
    program.words[0] == name
        // The running program itself.
        || path == "/proc/self/exe"
        || program.starts.contains(&name)
        || (is_own && program.starts.contains(&"."))
}

fn is_canary(path: &str) -> bool {
    let folders = ["/.ssh", "/src/beside"].map(|folder| HOME.to_owned() + folder);
    CANARIES.contains(&path) || folders.iter().any(|folder| is_beneath(path, folder))
}

fn is_writable(path: &str) -> bool {
    is_beneath(path, PROJECT) || WRITABLE.iter().any(|folder| is_beneath(path, folder))
}

fn is_beneath(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Joins a path to its folder and resolves `.` and `..`.
fn normalize_path(folder: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut names: Vec<&str> = Vec::new();
    for name in whole.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[test]
fn calls_outside_of_the_project_are_found() {
    let program = crate::table::programs().iter().find(|program| program.words == ["wc"]);
    let program = program.expect("wc is in the table");
    let openat = "2 openat(AT_FDCWD</srv/me/src/project>, ";
    for (log, expected) in [
        (format!("{openat}\"a.txt\", O_RDONLY) = 3</srv/me/src/project/a.txt>"), &[][..]),
        (
            format!("{openat}\"links/secret.txt\", O_RDONLY) = 3</srv/me/.ssh/id>"),
            &["reads /srv/me/.ssh/id"],
        ),
        (
            format!("{openat}\"../beside/args\", O_WRONLY|O_CREAT, 0666) = -1 EROFS (x)"),
            &["writes /srv/me/src/beside/args"],
        ),
        (format!("{openat}\"/dev/null\", O_WRONLY) = 3</dev/null>"), &[]),
        ("2 unlink(\"../x\") = 0".to_owned(), &["changes /srv/me/src/x: unlink"]),
        ("2 rename(\"x\", \"/tmp/x\") = 0".to_owned(), &[]),
        ("2 execve(\"/bin/wc\", [\"wc\", \"/x\"], 0x1 /* 3 vars */) = 0".to_owned(), &[]),
        (
            "2 execve(\"/bin/less\", <unfinished ...>\n2 <... execve resumed>[\"less\"]) = 0"
                .to_owned(),
            &["starts /bin/less"],
        ),
        (
            "2 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(53)}, 16) = -1 E (x)"
                .to_owned(),
            &["connects: connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(53)}, 16)"],
        ),
        ("2 connect(3<socket:[1]>, {sa_family=AF_UNIX, sun_path=\"/x\"}, 110) = 0".to_owned(), &[]),
    ] {
        let log = format!("2 execve(\"/bin/bash\", [\"bash\"], 0x1 /* 3 vars */) = 0\n{log}\n");
        assert_eq!(violations(&log, program), expected, "{log}");
    }
    assert_eq!(violations("", program), ["was not traced"]);
}
