//! Files, sockets and processes that an escape could change, read or reach.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use callboard_sandbox::{MissingName, ReadOnlyPath, SandboxPolicy};

/// Contents of files that no command may read.
pub(crate) const SECRETS: [&str; 3] = ["SECRET-KEY", "SECRET-STATE", "SECRET-OF-ANOTHER-PROCESS"];

/// A project folder, a home folder, and files, sockets and processes outside of both.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    tcp: TcpListener,
    path_socket: UnixListener,
    abstract_socket: UnixListener,
    abstract_name: String,
    /// A process that the command must not signal.
    other: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.other.kill());
        drop(self.other.wait());
    }
}

impl World {
    pub(crate) fn new() -> Self {
        // The folder is not in `/tmp`, because a sandbox with namespaces would hide it there.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = folder.path().to_owned();
        let (project, home) = (base.join("project"), base.join("home"));
        let files = [
            ("project/src/main.rs", "fn main() {}\n"),
            ("project/AGENTS.md", "instructions\n"),
            ("project/docs/rules.md", "rules\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.git/HEAD", "ref: refs/heads/main\n"),
            ("project/.git/hooks/pre-commit", "#!/bin/sh\n"),
            ("project/.env", "SECRET-KEY\n"),
            ("home/.ssh/id_ed25519", "SECRET-KEY\n"),
            ("home/.netrc", "SECRET-KEY\n"),
            ("home/.bashrc", "# shell\n"),
            ("home/notes.txt", "private notes\n"),
            ("home/tools/tool", "tool\n"),
            ("outside/file", "outside\n"),
            ("outside/folder/file", "outside\n"),
            ("state/session.db", "SECRET-STATE\n"),
        ];
        for (path, text) in files {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for folder in ["tmp", "project/.git/objects", "project/.git/refs"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        symlink("docs/rules.md", project.join("CLAUDE.md")).unwrap();
        symlink(base.join("outside"), project.join("link-out")).unwrap();
        symlink(&project, base.join("project-link")).unwrap();
        let abstract_name = base.to_str().unwrap().trim_start_matches('/').to_owned();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let world = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            path_socket: UnixListener::bind(base.join("outside/socket")).unwrap(),
            abstract_socket: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            other: Command::new("sleep")
                .arg("1000")
                .env("SECRET", "SECRET-OF-ANOTHER-PROCESS")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
            folder,
            project,
            home,
        };
        world.tcp.set_nonblocking(true).unwrap();
        world.path_socket.set_nonblocking(true).unwrap();
        world.abstract_socket.set_nonblocking(true).unwrap();
        world
    }

    fn base(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn private_tmp(&self) -> PathBuf {
        self.base().join("tmp")
    }

    pub(crate) fn policy(&self) -> SandboxPolicy {
        let mut policy = SandboxPolicy::from_writable_folders([&self.project]);
        let names = [
            ("AGENTS.md", MissingName::Protected),
            ("CLAUDE.md", MissingName::Protected),
            (".git/config", MissingName::Protected),
            (".git/hooks", MissingName::Protected),
            (".git/config.worktree", MissingName::Protected),
            (".git/commondir", MissingName::Unprotected),
            (".git/info/attributes", MissingName::Protected),
            (".envrc", MissingName::Protected),
            (".github/workflows", MissingName::Protected),
        ];
        let entry = |(name, missing)| ReadOnlyPath::new(self.project.join(name), missing);
        policy.read_only = names.map(entry).into();
        // A name that is not UTF-8.
        let odd = OsString::from_vec(b"odd-\xff".to_vec());
        policy.read_only.push(ReadOnlyPath::new(self.project.join(odd), MissingName::Protected));
        policy.masked = [".ssh", ".netrc"].map(|name| self.home.join(name)).into();
        policy.masked.extend([self.base().join("state"), self.project.join(".env")]);
        policy.readable = vec![self.home.join("tools")];
        if let Ok(program) = std::env::current_exe() {
            policy.readable.push(program);
        }
        policy.home = Some(self.home.clone());
        policy.tmp = Some(self.private_tmp());
        policy.limits.processes = Some(400);
        policy.limits.file_bytes = Some(64 * 1024 * 1024);
        policy
    }

    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let path = |name: &str| self.base().join(name).into_os_string();
        let program = std::env::current_exe().unwrap();
        let mut variables: Vec<(OsString, OsString)> = [
            ("HOME", self.home.clone().into()),
            ("PROJECT", self.project.clone().into()),
            ("OUTSIDE", path("outside")),
            ("STATE", path("state")),
            ("TMPDIR", path("tmp")),
            ("PROJECT_LINK", path("project-link")),
            ("ATTACK", program.into_os_string()),
            ("PORT", self.tcp.local_addr().unwrap().port().to_string().into()),
            ("SOCKET", path("outside/socket")),
            ("ABSTRACT", self.abstract_name.clone().into()),
            ("OTHER", self.other.id().to_string().into()),
            ("LC_ALL", "C".into()),
        ]
        .into_iter()
        .map(|(name, value): (&str, OsString)| (name.into(), value))
        .collect();
        variables.push(("PATH".into(), system_path()));
        variables
    }

    /// Records everything outside of the project, and the protected names in it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot(BTreeMap::new());
        for folder in ["home", "outside", "state"] {
            snapshot.add_named(folder, &self.base().join(folder));
        }
        for name in ["AGENTS.md", "CLAUDE.md", "docs/rules.md", ".git/config", ".git/hooks"] {
            snapshot.add_named("project", &self.project.join(name));
        }
        for name in [".git/config.worktree", ".git/info", ".envrc", ".github", ".env"] {
            snapshot.add_named("project", &self.project.join(name));
        }
        let odd = OsString::from_vec(b"odd-\xff".to_vec());
        snapshot.add_named("project", &self.project.join(odd));
        snapshot
    }

    /// Returns the placeholders that are left in the project.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let odd = OsString::from_vec(b"odd-\xff".to_vec());
        let names = [".git/config.worktree", ".git/info", ".envrc", ".github"].map(OsString::from);
        let left = names
            .into_iter()
            .chain([odd])
            .filter(|name| fs::symlink_metadata(self.project.join(name)).is_ok());
        left.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Returns the sockets and processes of the world that the command has reached.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &'static str> {
        let reached = [
            ("TCP", self.tcp.accept().is_ok()),
            ("a socket with a path", self.path_socket.accept().is_ok()),
            ("an abstract socket", self.abstract_socket.accept().is_ok()),
            ("another process", !Path::new(&format!("/proc/{}/exe", self.other.id())).exists()),
        ];
        reached.into_iter().filter(|(_, is_reached)| *is_reached).map(|(what, _)| what)
    }
}

/// Returns the search path without the folders of the user's home. Programs there are often scripts
/// that select a version of a program, which takes longer than a line of the tables.
pub(crate) fn system_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::home_dir().filter(|home| home != Path::new("/"));
    let is_in_home = |folder: &PathBuf| home.as_ref().is_some_and(|home| folder.starts_with(home));
    let folders = std::env::split_paths(&path).filter(|folder| !is_in_home(folder));
    std::env::join_paths(folders).unwrap()
}

/// State of files: path, and owner, mode and content as text.
pub(crate) struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    /// Records a folder with its content.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut snapshot = Self(BTreeMap::new());
        snapshot.add(folder);
        snapshot
    }

    fn add_named(&mut self, kind: &str, path: &Path) {
        if fs::symlink_metadata(path).is_ok() {
            self.add(path);
        } else {
            self.0.insert(path.to_owned(), format!("{kind}: absent"));
        }
    }

    fn add(&mut self, path: &Path) {
        let metadata = fs::symlink_metadata(path).unwrap();
        let kind = metadata.file_type();
        let content = if kind.is_symlink() {
            format!("{:?}", fs::read_link(path).unwrap())
        } else if kind.is_file() {
            // An ordinary user may not be able to read the file any more.
            format!("{:?}", fs::read(path))
        } else {
            String::new()
        };
        let (mode, uid) = (metadata.mode(), metadata.uid());
        self.0.insert(path.to_owned(), format!("{mode:o} {uid} {content}"));
        if kind.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.add(&entry.unwrap().path());
            }
        }
    }

    /// Returns one text per difference.
    pub(crate) fn differences(&self, after: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (path, state) in &self.0 {
            match after.0.get(path) {
                Some(now) if now == state => {}
                now => found.push(format!("{}: {state} became {now:?}", path.display())),
            }
        }
        let new = after.0.keys().filter(|path| !self.0.contains_key(*path));
        found.extend(new.map(|path| format!("{}: is new", path.display())));
        found
    }
}
