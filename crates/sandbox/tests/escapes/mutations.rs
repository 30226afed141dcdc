//! Random changes of paths, links and mounts, by several threads at once, while other sandboxes of
//! the same project start.
//!
//! `ESCAPES_MUTATIONS` sets the number of changes.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_sandbox::{Isolation, remove_unused_placeholders};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::world::World;
use crate::{attacks, kinds, shell};

const THREADS: u64 = 4;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn path(&mut self, paths: &[PathBuf]) -> PathBuf {
        let path = &paths[self.below(paths.len())];
        match self.below(12) {
            0 => path.join(".."),
            1 => path.join("file"),
            2 => path.join("../project/new"),
            3 => PathBuf::from("/proc/self/root").join(path.strip_prefix("/").unwrap_or(path)),
            4 => path.join("hooks"),
            _ => path.clone(),
        }
    }
}

/// Makes random changes in the sandbox in which this process runs.
pub(crate) fn mutate(seed: u64, count: u64) {
    let folder = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let (project, home) = (folder("PROJECT"), folder("HOME"));
    let (outside, state) = (folder("OUTSIDE"), folder("STATE"));
    let mut paths: Vec<_> = [
        "",
        "a",
        "b",
        "src",
        "src/main.rs",
        "AGENTS.md",
        "CLAUDE.md",
        "docs",
        "docs/rules.md",
        ".git",
        ".git/config",
        ".git/hooks",
        ".git/hooks/pre-commit",
        ".git/config.worktree",
        ".git/info",
        ".git/info/attributes",
        ".envrc",
        ".github",
        ".github/workflows",
        ".env",
        "link-out",
    ]
    .map(|name| project.join(name))
    .into();
    paths.extend([".ssh", ".ssh/id_ed25519", ".netrc", ".bashrc"].map(|name| home.join(name)));
    paths.extend(["file", "folder", "folder/file", "socket"].map(|name| outside.join(name)));
    paths.extend([home, outside, state.join("session.db"), state, folder("TMPDIR").join("t")]);
    paths.extend(["a", "../outside/file", ".git", ".envrc", "/tmp/x"].map(PathBuf::from));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let paths = &paths;
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_mul(THREADS) + thread + 1);
                for _ in 0..count / THREADS {
                    change(&mut random, paths);
                }
            });
        }
    });
}

/// Makes one change; whether it succeeds does not matter.
fn change(random: &mut Random, paths: &[PathBuf]) {
    let (one, two) = (random.path(paths), random.path(paths));
    let result = match random.below(14) {
        0 => fs::rename(&one, &two),
        1 => renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).map_err(Into::into),
        2 => fs::hard_link(&one, &two),
        3 => symlink(&one, &two),
        4 => fs::remove_file(&one),
        5 => fs::remove_dir(&one),
        6 => fs::create_dir(&one),
        7 => fs::write(&one, "changed"),
        8 => File::options().append(true).open(&one).and_then(|mut file| file.write_all(b"x")),
        9 => File::options().write(true).open(&one).and_then(|file| file.set_len(0)),
        10 => fs::copy(&one, &two).map(drop),
        11 => attacks::bind(&one, &two),
        12 => attacks::unmount(&one),
        _ => std::env::set_current_dir(&one),
    };
    drop(result);
}

#[test]
fn random_changes_do_not_escape() {
    let count = std::env::var("ESCAPES_MUTATIONS").unwrap_or_else(|_| "8000".to_owned());
    let seed = std::process::id();
    for isolation in kinds() {
        let world = World::new();
        let policy = world.policy();
        let before = world.snapshot();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (world, policy, is_done) = (&world, &policy, &is_done);
            let start = |line: &str| {
                let mut command = shell(world, policy, isolation, line);
                command.helper_command().stdout(Stdio::null()).stderr(Stdio::null());
                // A start may fail, because another thread is replacing the working directory or a
                // name that must be protected. The command then does not run.
                command.spawn().and_then(|child| Ok(child.wait()?)).is_ok()
            };
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    start(
                        "for name in AGENTS.md .envrc .git/config .git/hooks/x .github/x .git/info/x; \
                         do echo x > $name; rm -rf $name; mv a $name; done",
                    );
                }
            });
            let line = format!("exec \"$ATTACK\" mutate {seed} {count}");
            assert!(start(&line), "{isolation}");
            is_done.store(true, Ordering::Relaxed);
        });
        remove_unused_placeholders(&policy);
        let project = world.project.to_str().unwrap();
        let is_promised = |difference: &String| {
            isolation == Isolation::Namespaces || !difference.starts_with(project)
        };
        let mut differences = before.differences(&world.snapshot());
        let all = differences.len();
        differences.retain(is_promised);
        // Landlock does not protect the names, so with Landlock there must be differences. They
        // prove that the changes have an effect.
        assert!(isolation == Isolation::Namespaces || all > 0);
        assert_eq!(differences, [""; 0], "{isolation}, seed {seed}");
        assert_eq!(world.connections().collect::<Vec<_>>(), [""; 0]);
    }
}
