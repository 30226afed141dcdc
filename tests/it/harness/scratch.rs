//! A separate folder for every test. The folder contains the agent's working directory, home folder
//! and script.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::CALLBOARD;
use super::script::Model;

/// Files that are in the working directory at the start of a test.
const FILES: [(&str, &[u8]); 5] = [
    ("README.md", b"# Scratch\n\nA folder for one test.\n"),
    ("src/lib.rs", b"//! Nothing.\n\nfn main() {}\n"),
    ("notes.txt", b"one\ntwo\nthree\n"),
    ("binary.bin", b"\0\x01\x02\0\xff"),
    (".gitignore", b"target/\n"),
];

/// The value of an environment variable of the agent. The agent must never show this value.
pub(crate) const SECRET: &str = "s3cr3t/of+the~agent\u{e4}";

/// The folder of one test. The folder is deleted when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Scratch(Arc<TempDir>);

impl Scratch {
    /// Creates the folder and its initial files.
    pub(crate) fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    /// Creates the folder outside of `/tmp`, which sandboxed commands do not see.
    pub(crate) fn outside_tmp() -> Self {
        Self::new_in(Path::new("/var/tmp"))
    }

    fn new_in(parent: &Path) -> Self {
        let folder = TempDir::with_prefix_in("callboard-it-", parent).unwrap();
        let scratch = Self(Arc::new(folder));
        fs::create_dir(scratch.0.path().join("home")).unwrap();
        for (name, bytes) in FILES {
            let path = scratch.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        scratch
    }

    /// Returns the working directory of the agent and its sessions.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.0.path().join("work")
    }

    /// Changes the owner of the folder and everything in it. Only root can do this.
    pub(crate) fn give_to(&self, user: u32) {
        let given =
            Command::new("chown").args(["-R", &user.to_string()]).arg(self.0.path()).status();
        assert!(given.unwrap().success());
    }

    /// Returns the folder in which the agent stores sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.0.path().join("home/STATE_HOME/callboard/sessions")
    }

    /// Returns the absolute path of a file in the working directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.cwd().join(name)
    }

    /// Returns the text of a file in the working directory.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the path of the user's configuration file, which does not exist at the start.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.0.path().join("home/CONFIG_HOME/callboard/config.toml")
    }

    /// Writes the user's configuration file, and returns its path.
    pub(crate) fn write_config(&self, text: &str) -> PathBuf {
        let path = self.config_path();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns a path of the program that a sandboxed command sees, also if the program was built
    /// in `/tmp`, which is hidden.
    pub(crate) fn visible_program(&self) -> PathBuf {
        if !Path::new(CALLBOARD).starts_with("/tmp") {
            return CALLBOARD.into();
        }
        let copy = self.path("program");
        fs::copy(CALLBOARD, &copy).unwrap();
        copy
    }

    /// Writes the user's rules about permissions.
    pub(crate) fn write_rules(&self, rules: &[Value]) {
        let path = self.sessions().with_file_name("permissions/user.json");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json!({ "rules": rules }).to_string()).unwrap();
    }

    /// Creates a FIFO in the working directory. Opening one end of a FIFO blocks until the other
    /// end is opened.
    pub(crate) fn fifo(&self, name: &str) {
        let made = Command::new("mkfifo").arg(self.path(name)).status().unwrap();
        assert!(made.success());
    }

    /// Waits until a command has opened a FIFO for reading. The FIFO is then opened for writing,
    /// and closed.
    pub(crate) async fn open_fifo(&self, name: &str) {
        let path = self.path(name);
        let opened = tokio::task::spawn_blocking(|| fs::write(path, ""));
        let opened = timeout(super::DEADLINE, opened).await;
        opened.expect("a command waits at the FIFO").unwrap().unwrap();
    }

    /// Returns the result of [`Scratch::snapshot`] at the start of a test.
    pub(crate) fn untouched(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        FILES.iter().map(|(name, bytes)| (self.path(name), bytes.to_vec())).collect()
    }

    /// Returns the path and the bytes of every file in the working directory.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.cwd()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    /// Returns the value of the option `--model` for a model. A script is written to a file outside
    /// of the working directory.
    pub(crate) fn model(&self, model: &Model) -> String {
        match model {
            Model::Direct => "direct".to_owned(),
            Model::Script(text) => {
                let path = self.0.path().join("script.jsonl");
                fs::write(&path, text).unwrap();
                format!("script:{}", path.display())
            }
        }
    }

    /// Returns all environment variables of the agent.
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        let home = self.0.path().join("home");
        let folder = |name: &str| home.join(name).to_string_lossy().into_owned();
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), folder("")),
            ("CALLBOARD_TEST_TOKEN".to_owned(), SECRET.to_owned()),
        ]);
        for name in ["CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"] {
            env.insert(format!("XDG_{name}"), folder(name));
        }
        env
    }

    /// Returns descriptions of the processes of this test except `spared`. A process belongs to
    /// this test if its environment or its working directory contains the path of the folder.
    pub(crate) fn processes(&self, spared: Option<u32>) -> Vec<String> {
        let folder = self.0.path().to_string_lossy().into_owned();
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
        let ours = all.filter(|process| {
            let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
            let env = fs::read(process.join("environ")).unwrap_or_default();
            cwd.starts_with(&folder) || String::from_utf8_lossy(&env).contains(&folder)
        });
        let not_spared = ours
            .filter(|process| spared.is_none_or(|spared| !process.ends_with(spared.to_string())));
        not_spared.map(|process| describe(&process)).collect()
    }

    /// Waits until the database of sessions contains a text.
    pub(crate) async fn until_stored(&self, text: &str) {
        let contains = |path: PathBuf| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|part| part == text.as_bytes())
        };
        let is_stored = || {
            let files = fs::read_dir(self.sessions()).unwrap();
            files.map(|file| file.unwrap().path()).any(contains)
        };
        let stored = async {
            while !is_stored() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(super::DEADLINE, stored).await.is_ok(), "{text} is not stored");
    }

    /// Waits until this test has no processes except `spared`.
    pub(crate) async fn until_alone(&self, spared: Option<u32>, deadline: Duration) {
        let alone = async {
            while !self.processes(spared).is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let alone = timeout(deadline, alone).await;
        assert!(alone.is_ok(), "left behind: {:#?}", self.processes(spared));
    }
}

fn describe(process: &Path) -> String {
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    format!("{} {command}", process.display())
}
