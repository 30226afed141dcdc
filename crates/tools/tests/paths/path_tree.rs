//! Creates two project folders with other folders around them. Links in many positions lead from
//! one to another.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use acp_lifecycle::{AllowInProjectPolicy, OpenCall, Session, SessionHandle};
use acp_tools::files::Durability;
use acp_tools::{Context, PreparedCall, Registry, Workspace};
use acp_types::ToolCallId;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The content of every file outside of the project folders.
pub(crate) const SECRET: &str = "outside, and nobody's business";

const FILES: [&str; 8] = [
    "root/file",
    "root/dir/file",
    "root/dir/deep/file",
    "root/.git/config",
    "root/.git/hooks/sample",
    "root/.gitignore",
    "more/file",
    "more/dir/file",
];

const FILES_OUTSIDE: [&str; 4] = ["secret", "root-evil/secret", ".ssh/key", "home/.bashrc"];

/// Links and their targets. In a target, `{}` stands for the folder that contains the whole tree.
const LINKS: [(&str, &str); 24] = [
    ("root/in", "dir/file"),
    ("root/in-dir", "dir"),
    ("root/abs-in", "{}/root/dir/file"),
    ("root/chain", "in"),
    ("root/dir/up", ".."),
    ("root/dir/across", "../in-dir"),
    ("root/again", "{}/root"),
    ("root/to-more", "../more/file"),
    ("root/out", "../secret"),
    ("root/out-dir", ".."),
    ("root/abs-out", "{}/secret"),
    ("root/abs-out-dir", "{}"),
    ("root/chain-out", "out-dir/secret"),
    ("root/dangling", "none"),
    ("root/dangling-out", "../none"),
    ("root/circle", "circle"),
    ("root/loop-a", "loop-b"),
    ("root/loop-b", "loop-a"),
    ("root/proc", "/proc/self/root"),
    ("root/here", "/proc/self/cwd"),
    ("root/git-link", ".git/config"),
    ("root/hooks", ".git/hooks"),
    ("link-in", "root"),
    ("link-out", "root-evil"),
];

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::builtin);

pub(crate) struct PathTree {
    outer: TempDir,
    context: Context,
    session: SessionHandle,
    calls: AtomicUsize,
    _socket: UnixListener,
}

impl PathTree {
    pub(crate) fn new() -> Self {
        // If possible, the folder is in a file system in memory, because each row creates such a
        // tree.
        let mut folder = tempfile::Builder::new();
        folder.prefix("tree");
        let outer = folder.tempdir_in("/dev/shm").or_else(|_| folder.tempdir()).unwrap();
        let at = |path: &str| outer.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        FILES.iter().for_each(|path| write(path, "inside"));
        FILES_OUTSIDE.iter().for_each(|path| write(path, SECRET));
        let around = outer.path().to_str().unwrap();
        for (link, target) in LINKS {
            symlink(target.replace("{}", around), at(link)).unwrap();
        }
        for fifo in ["root/fifo", "fifo"] {
            mknodat(CWD, at(fifo), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let odd = at("root").join(OsStr::from_bytes(b"odd\xff"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("file"), "inside").unwrap();
        symlink(odd, at("root/to-odd")).unwrap();
        fs::hard_link(at("root/.git/config"), at("root/hard")).unwrap();
        let socket = UnixListener::bind(at("root/socket")).unwrap();
        let roots = (at("root"), vec![at("more")]);
        let workspace = Workspace::new(roots.0.clone(), roots.1).unwrap();
        let workspace = workspace.with_durability(Durability::System);
        let session = SessionHandle::new(Session::new(roots.0), SystemTime::now);
        session.update(|session, _| session.replace_policy(Arc::new(AllowInProjectPolicy)));
        Self {
            context: Context::new(Arc::new(workspace)),
            session,
            calls: AtomicUsize::new(0),
            _socket: socket,
            outer,
        }
    }

    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.context.workspace.roots().map(Path::to_owned).collect()
    }

    /// Replaces the placeholder in a path by the folder of this tree.
    pub(crate) fn expand_placeholders(&self, given: &str) -> String {
        given.replace("{}", self.outer.path().to_str().unwrap())
    }

    /// Announces a call and prepares it.
    pub(crate) fn call(&self, tool: &str, args: &Value) -> (OpenCall, PreparedCall) {
        let id = ToolCallId::new(format!("call{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        let cancel = CancellationToken::new();
        let open = REGISTRY
            .announce_call(&self.session, &id, &"t".into(), tool, &self.context, &cancel)
            .unwrap();
        (open, REGISTRY.prepare_call(tool, args.clone(), &self.context))
    }

    /// Returns the paths and contents of all files outside of the project folders.
    pub(crate) fn files_outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.outer.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let is_root = self.roots().contains(&path);
                let bytes = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                found.insert(path.clone(), bytes);
                if kind.is_dir() && !is_root {
                    folders.push(path);
                }
            }
        }
        found
    }
}
