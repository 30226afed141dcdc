//! Folders that the helper cannot use because of their mode, although the command could change the
//! mode.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use callboard_sandbox::{
    Isolation, MissingName, ReadOnlyPath, SandboxError, SandboxPolicy, SetupStep,
    remove_unused_placeholders,
};

use crate::endings::{PATIENCE, stop_set_up, stopped_helper};
use crate::world::World;
use crate::{is_supported, run, shell};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn protect(world: &World, names: &[(PathBuf, MissingName)]) -> SandboxPolicy {
    let mut policy = SandboxPolicy::from_writable_folders([&world.project]);
    let names = names.iter().map(|(path, missing)| ReadOnlyPath::new(path, *missing));
    policy.read_only = names.collect();
    policy
}

#[test]
fn missing_name_in_a_closed_folder_of_the_user_is_refused() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    for mode in [0o555, 0o333, 0o444, 0o000] {
        let world = World::new();
        let name = world.project.join("closed/name");
        let folder = name.parent().unwrap();
        fs::create_dir(folder).unwrap();
        set_mode(folder, mode);
        let policy = protect(&world, &[(name.clone(), MissingName::Protected)]);
        let line = "chmod 755 closed; echo x > closed/name";
        let result = shell(&world, &policy, Isolation::Namespaces, line).spawn();
        let result = result.map(|child| child.wait().unwrap());
        set_mode(folder, 0o755);
        // The mode does not restrict root, so the helper of root can protect the name.
        assert_eq!(result.is_ok(), is_root, "{mode:o}");
        if let Err(error) = result {
            let advice = format!("because {} is your own folder", folder.display());
            assert!(error.to_string().contains(&advice), "{error}");
        }
        assert!(!name.exists(), "{mode:o}");
    }
}

/// The command could open the folder: Landlock does not restrict modes.
#[test]
fn masked_path_in_a_closed_folder_of_the_user_is_refused() {
    if !is_supported(Isolation::Landlock) {
        return;
    }
    let world = World::new();
    let key = world.home.join(".ssh/id_ed25519");
    let mut policy = SandboxPolicy::from_writable_folders([&world.project]);
    policy.masked = vec![key.clone()];
    set_mode(key.parent().unwrap(), 0o000);
    let line = "chmod 700 \"$HOME/.ssh\"; cat \"$HOME/.ssh/id_ed25519\" > stolen";
    let result = shell(&world, &policy, Isolation::Landlock, line).spawn();
    let result = result.map(|child| child.wait().unwrap());
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(result.is_ok(), is_root);
    if let Err(SandboxError::Setup(failure)) = result {
        assert_eq!((failure.step, failure.path), (SetupStep::Mask, Some(key)));
    }
    assert_eq!(fs::read_to_string(world.project.join("stolen")).unwrap_or_default(), "");
    set_mode(&world.home.join(".ssh"), 0o700);
}

#[test]
fn missing_name_in_a_folder_of_another_user_needs_no_placeholder() {
    if !is_supported(Isolation::Namespaces) || rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new();
    let mut policy = SandboxPolicy::from_writable_folders(["/usr"]);
    let name = ReadOnlyPath::new("/usr/share/escapes-missing", MissingName::Protected);
    policy.read_only.push(name);
    let mut command = shell(&world, &policy, Isolation::Namespaces, "exit 3");
    command.helper_command().current_dir("/usr");
    assert_eq!(command.spawn().unwrap().wait().unwrap().0.code(), Some(3));
}

#[test]
fn placeholders_are_removed_from_folders_that_the_command_closed() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    for closed in [0o555, 0o333, 0o000] {
        let world = World::new();
        let folders = [world.project.join(".git"), world.project.clone()];
        let line = format!("chmod {closed:o} .git .");
        assert_eq!(run(&world, &world.policy(), Isolation::Namespaces, &line).text, "");
        check_closed(&world, &folders, closed);
        // A killed helper leaves its placeholders behind, and the caller removes them.
        let line = format!("chmod {closed:o} .git . && echo ready && sleep 999");
        let mut command = shell(&world, &world.policy(), Isolation::Namespaces, &line);
        command.helper_command().stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.helper().stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        child.helper().kill().unwrap();
        child.wait().unwrap();
        remove_unused_placeholders(&world.policy());
        check_closed(&world, &folders, closed);
    }
}

/// Opens closed folders, and checks that no placeholders are in them.
fn check_closed(world: &World, folders: &[PathBuf; 2], closed: u32) {
    for folder in folders.iter().rev() {
        assert_eq!(mode(folder), closed);
        set_mode(folder, 0o755);
    }
    assert_eq!(world.leftovers(), [""; 0], "{closed:o}");
}

/// Nothing would protect a name that disappears after the placeholders were created.
#[test]
fn name_that_disappears_during_the_set_up_is_refused() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    for missing in [MissingName::Protected, MissingName::Unprotected] {
        let world = World::new();
        let name = world.project.join("src/main.rs");
        // The placeholder of the second name shows that the first name was found.
        let [second, last] = ["src/second", "last"].map(|name| world.project.join(name));
        let others = [&second, &last].map(|name| (name.clone(), MissingName::Protected));
        let policy = protect(&world, &[&[(name.clone(), missing)], &others[..]].concat());
        let stop = stop_set_up(&world.project);
        let result = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let command = shell(&world, &policy, Isolation::Namespaces, "exit 3");
                command.spawn().map(|child| child.wait().unwrap().0.code())
            });
            stopped_helper(&world.project);
            let begun = Instant::now();
            while fs::symlink_metadata(&second).is_err() {
                assert!(begun.elapsed() < PATIENCE, "there is no placeholder");
            }
            fs::remove_file(&name).unwrap();
            drop(stop);
            started.join().unwrap()
        });
        match (missing, result) {
            (MissingName::Unprotected, Ok(code)) => assert_eq!(code, Some(3)),
            (MissingName::Protected, Err(SandboxError::Setup(failure))) => {
                assert_eq!((failure.step, failure.path), (SetupStep::ReadOnlyName, Some(name)));
            }
            (_, other) => panic!("{missing:?}: {other:?}"),
        }
        assert!(!second.exists() && !last.exists());
    }
}
