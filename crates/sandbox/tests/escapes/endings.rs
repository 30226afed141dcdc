//! Ends of commands: nothing is left, even if the helper, its init process or the caller is killed.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callboard_sandbox::{
    Isolation, MissingName, ProcessSession, ReadOnlyPath, SandboxCommand, SandboxPolicy,
    SessionNetwork, remove_unused_placeholders,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

use crate::world::World;
use crate::{is_supported, run, shell};

/// Timeout for the end of killed processes, far above the time needed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A command that starts processes of all kinds and reports when they run.
const LINE: &str = "sleep 999 & setsid sleep 999 & (sleep 999 &) ; nohup sleep 999 > /dev/null & \
                    echo ready; sleep 999";

/// Environment variable of a copy of this program that runs [`LINE`] in the folder of a world.
const WORLD: &str = "ESCAPES_WORLD";

/// Returns the ids of the processes whose environment contains a text.
fn processes_with(text: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id().cast_signed();
    ids.filter(|id| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let found = environment.windows(text.len()).any(|window| window == text.as_bytes());
        *id != own && found
    })
    .collect()
}

fn wait_until_gone(text: &str) {
    let begun = Instant::now();
    while !processes_with(text).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "left: {:?}", processes_with(text));
    }
}

fn kill(id: i32) {
    kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
}

/// Starts [`LINE`] with a variable by which its processes are found.
fn start(world: &World, tag: &str) -> callboard_sandbox::SandboxedChild {
    let mut command = shell(world, &world.policy(), Isolation::Namespaces, LINE);
    command.envs([("TAG", tag)]).helper_command().stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let output = child.helper().stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert!(!world.leftovers().is_empty(), "placeholders are there meanwhile");
    child
}

/// Stops the set-up of each sandbox of a project before the first process of the sandbox is
/// started. The set-up continues when the returned value is dropped.
pub(crate) fn stop_set_up(project: &Path) -> File {
    let folder = File::open(project).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    folder
}

/// Waits until a helper in a project has installed its signal handlers. The set-up of the helper
/// must be stopped. Returns a pidfd of the helper.
pub(crate) fn stopped_helper(project: &Path) -> OwnedFd {
    let begun = Instant::now();
    let is_stopped = |id: &i32| {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let is_here = fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd == project);
        let status = read("status");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = u64::from_str_radix(caught.unwrap_or_default(), 16).unwrap_or_default();
        let is_caught = caught & 1 << (libc::SIGQUIT - 1) != 0;
        // The init process also has an id in its own process namespace, so its line lists two ids.
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:\t"));
        let is_init = numbers.is_some_and(|numbers| numbers.contains('\t'));
        is_here && is_caught && !is_init && read("cmdline").starts_with("callboard-sandbox: ")
    };
    loop {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        if let Some(id) = ids.find(is_stopped) {
            return pidfd_open(Pid::from_raw(id).unwrap(), PidfdFlags::empty()).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "there is no helper");
    }
}

/// Returns the process to which a pidfd refers.
fn process_of(descriptor: &OwnedFd) -> Pid {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let info = fs::read_to_string(path).unwrap();
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:\t")).unwrap();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

fn new_tag(name: &str) -> String {
    format!("escapes-{name}-{}", std::process::id())
}

#[test]
fn nothing_is_left_when_a_command_ends() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let tag = new_tag("end");
    let line = "sleep 999 & setsid sleep 999 & trap '' TERM; (sleep 999 &) ; exit 3";
    let mut command = shell(&world, &world.policy(), Isolation::Namespaces, line);
    command.envs([("TAG", &tag)]);
    let (status, end) = command.spawn().unwrap().wait().unwrap();
    assert_eq!((status.code(), end.left_over), (Some(3), 3));
    wait_until_gone(&tag);
    assert_eq!(world.leftovers(), [""; 0]);
}

#[test]
fn nothing_is_left_when_the_helper_is_killed() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let tag = new_tag("helper");
    let mut child = start(&world, &tag);
    child.helper().kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(&tag);
    // The helper cannot remove its placeholders, so the caller does.
    remove_unused_placeholders(&world.policy());
    assert_eq!(world.leftovers(), [""; 0]);
}

#[test]
fn nothing_is_left_when_the_init_process_is_killed() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let tag = new_tag("init");
    let mut child = start(&world, &tag);
    let helper = child.helper().id();
    let children = fs::read_to_string(format!("/proc/{helper}/task/{helper}/children")).unwrap();
    kill(children.trim().parse().unwrap());
    let (status, _) = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    wait_until_gone(&tag);
    assert_eq!(world.leftovers(), [""; 0]);
}

#[test]
fn nothing_is_left_when_the_caller_is_killed() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    for network in ["own", "shared"] {
        let world = World::new();
        let tag = new_tag(network);
        let mut caller = start_caller(&world, &tag, network);
        let lines = BufReader::new(caller.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
        assert!(!processes_with(&tag).is_empty());
        caller.kill().unwrap();
        caller.wait().unwrap();
        wait_until_gone(&tag);
        // The helper outlives its caller until it has removed its placeholders.
        let begun = Instant::now();
        while fs::symlink_metadata(world.project.join("missing")).is_ok() {
            assert!(begun.elapsed() < PATIENCE);
        }
    }
}

#[test]
fn no_command_is_started_for_a_caller_that_was_killed_meanwhile() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    for network in ["own", "shared"] {
        let world = World::new();
        let tag = new_tag(&format!("set-up-{network}"));
        let stop = stop_set_up(&world.project);
        let mut caller = start_caller(&world, &tag, network);
        let helper = stopped_helper(&world.project);
        caller.kill().unwrap();
        caller.wait().unwrap();
        drop(stop);
        let patience = PATIENCE.try_into().unwrap();
        let ended = poll(&mut [PollFd::new(&helper, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ended, 1, "the helper goes on");
        wait_until_gone(&tag);
        assert!(!world.project.join("missing").exists());
    }
}

#[test]
fn signal_during_the_set_up_ends_the_command() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let passed_on = [
        (Signal::TERM, libc::SIGTERM),
        (Signal::HUP, libc::SIGTERM),
        (Signal::INT, libc::SIGINT),
        (Signal::QUIT, libc::SIGQUIT),
    ];
    for (signal, expected) in passed_on {
        let world = World::new();
        let stop = stop_set_up(&world.project);
        let status = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let line = "echo x > ran; exit 3";
                let mut command = shell(&world, &world.policy(), Isolation::Namespaces, line);
                command.helper_command().process_group(0);
                command.spawn().unwrap().wait().unwrap().0
            });
            let helper = stopped_helper(&world.project);
            if [Signal::INT, Signal::QUIT].contains(&signal) {
                // A terminal sends this signal to all processes.
                kill_process_group(process_of(&helper), signal).unwrap();
            } else {
                pidfd_send_signal(helper, signal).unwrap();
            }
            drop(stop);
            started.join().unwrap()
        });
        assert_eq!(status.signal(), Some(expected), "{status}");
        assert!(!world.project.join("ran").exists(), "{signal:?}");
        assert_eq!(world.leftovers(), [""; 0]);
    }
}

/// Starts a copy of this program that runs [`caller`].
fn start_caller(world: &World, tag: &str, network: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["endings::caller", "--exact", "--nocapture"])
        .envs(world.environment())
        .env(WORLD, &world.project)
        .env("TAG", tag)
        .env("NETWORK", network)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Test body of a copy of this program.
#[test]
fn caller() {
    let Some(project) = std::env::var_os(WORLD) else { return };
    let mut policy = SandboxPolicy::from_writable_folders([&project]);
    let name = Path::new(&project).join("missing");
    policy.read_only = vec![ReadOnlyPath::new(name, MissingName::Protected)];
    let session = ProcessSession::Inherited;
    let mut command = SandboxCommand::new("sh", &policy, Isolation::Namespaces, session).unwrap();
    command.args(["-c", LINE]).envs(std::env::vars_os()).helper_command().current_dir(&project);
    if std::env::var_os("NETWORK").is_some_and(|network| network == "shared") {
        let network = SessionNetwork::create().unwrap();
        command.join(&network.handle()).unwrap();
    }
    command.spawn().unwrap().wait().unwrap();
}

#[test]
fn exit_code_and_signal_of_the_command_are_passed_on() {
    for isolation in crate::kinds() {
        let world = World::new();
        assert_eq!(run(&world, &world.policy(), isolation, "exit 200").code, Some(200));
        let child = shell(&world, &world.policy(), isolation, "kill -SEGV $$").spawn().unwrap();
        let (status, _) = child.wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
    }
}

#[test]
fn termination_is_passed_on_to_the_command() {
    for isolation in crate::kinds() {
        let world = World::new();
        let line = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
        let mut command = shell(&world, &world.policy(), isolation, line);
        command.helper_command().stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.helper().stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "ready");
        let helper = Pid::from_child(child.helper());
        kill_process(helper, Signal::TERM).unwrap();
        assert_eq!(output.next().unwrap().unwrap(), "bye");
        assert_eq!(child.wait().unwrap().0.code(), Some(5), "{isolation}");
    }
}

#[test]
fn output_ends_when_the_command_closes_it() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let line = "echo one; exec > /dev/null 2>&1; sleep 999";
    let mut command = shell(&world, &world.policy(), Isolation::Namespaces, line);
    command.helper_command().stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines: Vec<_> =
        BufReader::new(child.helper().stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["one"]);
    child.helper().kill().unwrap();
    child.wait().unwrap();
    remove_unused_placeholders(&world.policy());
}
