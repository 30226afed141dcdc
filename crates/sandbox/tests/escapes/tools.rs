//! Work that must be possible in a sandbox, and special cases of policies.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::Stdio;
use std::time::Instant;

use callboard_sandbox::{
    Isolation, MissingGuarantee, MissingName, ProcessSession, ReadOnlyPath, SandboxCommand,
    SandboxPolicy, SessionNetwork, probe_isolation,
};

use crate::world::{World, system_path};
use crate::{is_supported, kinds, run};

/// Returns whether the commands of the tests find a program. Prints its name if they do not.
pub(crate) fn is_installed(program: &str) -> bool {
    let found = std::env::split_paths(&system_path()).any(|folder| folder.join(program).exists());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

#[test]
fn git_works() {
    if !is_installed("git") {
        return;
    }
    let identity = "git config user.name n; git config user.email e@example.com;";
    for isolation in kinds() {
        let world = World::new();
        let mut policy = SandboxPolicy::from_writable_folders([&world.project]);
        policy.tmp = Some(world.private_tmp());
        policy
            .read_only
            .push(ReadOnlyPath::new(world.project.join(".envrc"), MissingName::Protected));
        let init = format!("rm -rf .git; git init -q && {identity} git add -A && git commit -qm a");
        let output = run(&world, &policy, isolation, &init);
        assert_eq!((output.code, output.text.as_str()), (Some(0), ""), "{isolation}");
        // The repository now has hooks and a configuration, so they can be protected.
        for (name, missing) in [
            (".git/config", MissingName::Protected),
            (".git/config.worktree", MissingName::Protected),
            (".git/hooks", MissingName::Protected),
            (".git/info/attributes", MissingName::Protected),
        ] {
            policy.read_only.push(ReadOnlyPath::new(world.project.join(name), missing));
        }
        let commit = "set -e; echo x > f; git add -A; git commit -qm b; git checkout -qb other; \
                      git mv f g; git commit -qm c; git checkout -q -; git merge -q other; \
                      git status --porcelain; git gc -q; git stash -q -u || :; git log --oneline \
                      | wc -l; git ls-files | grep -c envrc || :";
        let output = run(&world, &policy, isolation, commit);
        assert_eq!((output.code, output.text.as_str()), (Some(0), "3\n0\n"), "{isolation}");
        assert_eq!(world.leftovers().iter().filter(|name| *name == ".envrc").count(), 0);
    }
}

#[test]
fn loopback_server_works_with_namespaces() {
    if !is_supported(Isolation::Namespaces) || !is_installed("python3") {
        return;
    }
    let world = World::new();
    let line = "python3 -c '\n\
        import socket, threading\n\
        for family, host in [(socket.AF_INET, \"127.0.0.1\"), (socket.AF_INET6, \"::1\")]:\n\
        \x20server = socket.socket(family); server.bind((host, 0)); server.listen()\n\
        \x20threading.Thread(target=lambda: server.accept()[0].sendall(b\"pong\")).start()\n\
        \x20client = socket.create_connection(server.getsockname()[:2])\n\
        \x20assert client.recv(4) == b\"pong\"\n\
        server = socket.socket(socket.AF_UNIX); server.bind(\"s\"); server.listen()\n\
        client = socket.socket(socket.AF_UNIX); client.connect(\"s\")\n'";
    let output = run(&world, &world.policy(), Isolation::Namespaces, line);
    assert_eq!((output.code, output.text.as_str()), (Some(0), ""));
}

#[test]
fn commands_of_a_session_share_a_network() {
    if !is_supported(Isolation::Namespaces) || !is_installed("python3") {
        return;
    }
    let world = World::new();
    let policy = world.policy();
    let network = SessionNetwork::create().unwrap();
    let command = |line: &str| {
        let mut command = crate::shell(&world, &policy, Isolation::Namespaces, line);
        command.join(&network.handle()).unwrap().helper_command().stdout(Stdio::piped());
        command
    };
    let serve = "exec python3 -c '\n\
        import socket, sys\n\
        server = socket.create_server((\"127.0.0.1\", 4000))\n\
        print(\"ready\", flush=True); server.accept()[0].sendall(b\"pong\")\n'";
    let mut server = command(serve).spawn().unwrap();
    let mut ready = [0; 6];
    server.helper().stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let ask = "python3 -c '\n\
        import socket, os\n\
        print(socket.create_connection((\"127.0.0.1\", 4000)).recv(4).decode())\n\
        try: socket.create_connection((\"127.0.0.1\", int(os.environ[\"PORT\"])))\n\
        except OSError: print(\"refused\")\n'; \
        unshare -r true 2>/dev/null || echo denied; ls -d /proc/$OTHER 2>/dev/null || echo alone; id -u; \
        echo x 2>/dev/null > AGENTS.md || echo protected";
    let mut client = command(ask).spawn().unwrap();
    let mut text = String::new();
    client.helper().stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(text, format!("pong\nrefused\ndenied\nalone\n{uid}\nprotected\n"));
    assert!(client.wait().unwrap().0.success() && server.wait().unwrap().0.success());
    assert_eq!(world.connections().collect::<Vec<_>>(), [""; 0]);
    assert_eq!(world.leftovers(), [""; 0]);
    // A command outside of the session does not reach the server.
    let mut server = command(serve).spawn().unwrap();
    server.helper().stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let output = run(&world, &policy, Isolation::Namespaces, ask);
    assert!(output.text.contains("Connection refused"), "{}", output.text);
    server.helper().kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn programs_with_several_processes_work() {
    if !is_installed("python3") {
        return;
    }
    for isolation in kinds() {
        let world = World::new();
        let line = "python3 -c '\n\
            import subprocess, threading, socket\n\
            a, b = socket.socketpair(); a.sendall(b\"x\"); assert b.recv(1) == b\"x\"\n\
            thread = threading.Thread(target=lambda: None); thread.start(); thread.join()\n\
            assert subprocess.check_output([\"sh\", \"-c\", \"echo $((1 + 1))\"]) == b\"2\\n\"\n'";
        let output = run(&world, &world.policy(), isolation, line);
        assert_eq!((output.code, output.text.as_str()), (Some(0), ""), "{isolation}");
    }
}

#[test]
fn terminals_work_with_namespaces() {
    if !is_supported(Isolation::Namespaces) || !is_installed("script") {
        return;
    }
    let world = World::new();
    let line = "script -qec 'test -t 0 && tty && echo x > /dev/tty' /dev/null";
    let output = run(&world, &world.policy(), Isolation::Namespaces, line);
    assert_eq!(output.text.lines().collect::<Vec<_>>(), ["/dev/pts/0", "x"]);
}

/// A terminal that the caller opens becomes the controlling terminal of the command.
#[test]
fn terminal_of_the_caller_works() {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    for isolation in kinds() {
        let world = World::new();
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let terminal =
            ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let line = "test -t 0 && echo terminal; echo tty > /dev/tty; echo out > /dev/stdout; \
                    trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.01; done";
        let mut command = crate::shell(&world, &world.policy(), isolation, line);
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        command.helper_command().stdin(stream()).stdout(stream()).stderr(stream());
        let child = command.spawn().unwrap();
        drop(terminal);
        let mut output = fs::File::from(controller);
        let mut text = String::new();
        let mut read_until = |end: &str, output: &mut fs::File| {
            while !text.contains(end) {
                let mut bytes = [0; 100];
                let count = output.read(&mut bytes).unwrap();
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            text.clone()
        };
        let seen = read_until("ready\r\n", &mut output);
        assert_eq!(seen, "terminal\r\ntty\r\nout\r\nready\r\n", "{isolation}");
        output.write_all(b"\x03").unwrap();
        read_until("interrupted", &mut output);
        assert_eq!(child.wait().unwrap().0.code(), Some(3), "{isolation}");
    }
}

#[test]
fn names_that_are_not_utf8_work() {
    for isolation in kinds() {
        let world = World::new();
        let odd = |prefix: &str| {
            let name = [prefix.as_bytes(), b"\xff \n"].concat();
            world.project.join(OsString::from_vec(name))
        };
        let (writable, masked) = (odd("writable"), odd("masked"));
        fs::create_dir(&writable).unwrap();
        fs::create_dir(&masked).unwrap();
        fs::write(masked.join("file"), "SECRET").unwrap();
        fs::write(writable.join("fixed"), "fixed").unwrap();
        let mut policy = SandboxPolicy::from_writable_folders([&writable]);
        policy.masked = vec![masked.clone()];
        policy.read_only = vec![ReadOnlyPath::new(writable.join("fixed"), MissingName::Protected)];
        let line = "echo x > new; echo x > fixed; echo x > ../new; cat \"$MASKED/file\" > stolen";
        let mut command = crate::shell(&world, &policy, isolation, line);
        command.envs([("MASKED", &masked)]);
        command.helper_command().current_dir(&writable).stderr(Stdio::null());
        command.spawn().unwrap().wait().unwrap();
        let read = |name: &str| fs::read_to_string(writable.join(name)).unwrap();
        assert_eq!((read("new").as_str(), read("stolen").as_str()), ("x\n", ""), "{isolation}");
        assert_eq!(read("fixed") == "fixed", isolation == Isolation::Namespaces, "{isolation}");
        assert!(!world.project.join("new").exists(), "{isolation}");
    }
}

#[test]
fn writable_folder_may_be_a_link() {
    for isolation in kinds() {
        let world = World::new();
        let link = world.home.with_file_name("project-link");
        let mut policy = SandboxPolicy::from_writable_folders([link.clone()]);
        let name = link.join("AGENTS.md");
        policy.read_only = vec![ReadOnlyPath::new(name, MissingName::Protected)];
        let line = "echo x > \"$PROJECT_LINK/new\" && echo y >> new; echo x > AGENTS.md";
        run(&world, &policy, isolation, line);
        assert_eq!(fs::read_to_string(world.project.join("new")).unwrap(), "x\ny\n");
        let agents = fs::read_to_string(world.project.join("AGENTS.md")).unwrap();
        assert_eq!(agents == "instructions\n", isolation == Isolation::Namespaces);
    }
}

/// A mount in a writable folder keeps its rights: a read-only mount does not become writable.
#[test]
fn mounts_in_a_writable_folder_keep_their_rights() {
    let program = std::env::current_exe().unwrap();
    let line = "mount -t tmpfs none docs && mkdir docs/x && mount -t tmpfs -o ro none src && \
                exec \"$0\" tools::report_mounts --exact --nocapture";
    let world = World::new();
    let mut command = std::process::Command::new("unshare");
    command.args(["-rm", "sh", "-c", line]).arg(program).env("MOUNTS", &world.project);
    let output = command.current_dir(&world.project).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        eprintln!("SKIPPED: unshare -rm does not work");
        return;
    }
    assert!(text.contains("docs writable\nsrc read-only\n") || text.contains("SKIPPED"), "{text}");
}

/// Test body of a copy of this program.
#[test]
fn report_mounts() {
    let Some(project) = std::env::var_os("MOUNTS") else { return };
    if !is_supported(Isolation::Namespaces) {
        println!("SKIPPED");
        return;
    }
    let (policy, session) =
        (SandboxPolicy::from_writable_folders([&project]), ProcessSession::Inherited);
    let mut command = SandboxCommand::new("sh", &policy, Isolation::Namespaces, session).unwrap();
    let line = "touch docs/x/new && echo docs writable; touch src/new || echo src read-only";
    command
        .args(["-c", line])
        .envs([("PATH", "/usr/bin:/bin")])
        .helper_command()
        .current_dir(&project);
    command.spawn().unwrap().wait().unwrap();
}

/// If a folder contains a masked file, each other file in it has a separate Landlock rule.
#[test]
fn many_rules_need_few_descriptors() {
    if !is_supported(Isolation::Landlock) {
        return;
    }
    let world = World::new();
    let folder = world.home.with_file_name("outside");
    for number in 0..300 {
        fs::write(folder.join(number.to_string()), "readable\n").unwrap();
    }
    let line = "ulimit -n 64; exec \"$0\" tools::report_rules --exact --nocapture";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line]).arg(std::env::current_exe().unwrap()).env("RULES", &folder);
    let output = command.current_dir(&world.project).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("readable\n").count(), 300, "{text}");
    assert!(!text.contains("outside"), "{text}");
}

/// Test body of a copy of this program.
#[test]
fn report_rules() {
    let Some(folder) = std::env::var_os("RULES") else { return };
    let folder = std::path::PathBuf::from(folder);
    let mut policy = SandboxPolicy::default();
    policy.masked = vec![folder.join("file")];
    let session = ProcessSession::Inherited;
    let mut command = SandboxCommand::new("sh", &policy, Isolation::Landlock, session).unwrap();
    let line = "cat \"$0/file\"; i=0; while [ $i -lt 300 ]; do read x < \"$0/$i\"; echo $x; \
                i=$((i + 1)); done";
    command
        .args(["-c".as_ref(), line.as_ref(), folder.as_os_str()])
        .envs([("PATH", "/usr/bin:/bin")]);
    command.spawn().unwrap().wait().unwrap();
}

#[test]
fn writable_folder_in_the_hidden_tmp_works() {
    for isolation in kinds() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let project = folder.path().join("a/project");
        fs::create_dir_all(&project).unwrap();
        fs::write(folder.path().join("beside"), "SECRET").unwrap();
        let program = std::env::current_exe().unwrap();
        let mut policy = SandboxPolicy::from_writable_folders([&project]);
        policy.readable = vec![program.clone()];
        let session = ProcessSession::Inherited;
        let mut command = SandboxCommand::new("sh", &policy, isolation, session).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(project.join("socket")).unwrap();
        let line = "echo x > new; cat ../../beside > stolen; echo x > ../../beside; \
                    exec \"$ATTACK\" attack connect-path";
        command.args(["-c", line]).helper_command().current_dir(&project).stderr(Stdio::null());
        command.envs([("ATTACK", program.as_os_str()), ("SOCKET", "socket".as_ref())]);
        command.envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        let (status, _) = command.spawn().unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(0), "{isolation}: the attack ran, and failed");
        assert_eq!(fs::read_to_string(project.join("new")).unwrap(), "x\n", "{isolation}");
        assert_eq!(fs::read_to_string(project.join("stolen")).unwrap(), "", "{isolation}");
        assert_eq!(fs::read_to_string(folder.path().join("beside")).unwrap(), "SECRET");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "{isolation}");
    }
}

/// If a command could move a parent folder of a masked path, the next command could read the masked
/// file at its new path.
#[test]
fn parents_of_masked_paths_and_sockets_stay_in_place() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let folder = world.home.join("config/deep/er");
    fs::create_dir_all(folder.join("keys")).unwrap();
    fs::write(folder.join("keys/key"), "SECRET-TOKEN").unwrap();
    fs::write(folder.join("token"), "SECRET-TOKEN").unwrap();
    fs::create_dir(world.home.join("run")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(world.home.join("run/socket")).unwrap();
    let mut policy = SandboxPolicy::from_writable_folders([&world.home]);
    policy.masked = [folder.join("keys"), folder.join("token")].into();
    let line = "cd \"$HOME\"; mv config c && mkdir config; mv run r; cd config; mv deep d; cd deep; \
                mv er e; echo x > beside; echo x > er/beside; cd er; rm -rf * 2>/dev/null; ls; \
                exit 3";
    let moved = "cannot move 'config'|cannot move 'run'|cannot move 'deep'|cannot move 'er'";
    for _ in 0..2 {
        let output = run(&world, &policy, Isolation::Namespaces, line);
        let text = output.text;
        assert!(moved.split('|').all(|complaint| text.contains(complaint)), "{text}");
        assert!(text.ends_with("keys\ntoken\n"), "{text}");
        let read = "exec 2>/dev/null; cat $(find \"$HOME\" -type f) | grep SECRET-TOKEN";
        assert_eq!(run(&world, &policy, Isolation::Namespaces, read).text, "");
    }
    assert!(folder.join("keys/key").exists() && folder.join("../beside").exists());
    drop(socket);
}

/// If the file appeared empty, the commit would empty it.
#[test]
fn masked_paths_in_a_writable_folder_cannot_be_opened() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let mut policy = SandboxPolicy::from_writable_folders([&world.project]);
    policy.masked = ["r/token", "r/keys"].map(|name| world.project.join(name)).into();
    let git = "git -c user.name=n -c user.email=e";
    fs::create_dir_all(world.project.join("r/keys")).unwrap();
    for name in ["token", "keys/key"] {
        fs::write(world.project.join("r").join(name), "SECRET").unwrap();
    }
    let prepare = format!("git init -q r; cd r; git add .; {git} commit -qm first");
    let open = SandboxPolicy::from_writable_folders([&world.project]);
    assert_eq!(run(&world, &open, Isolation::Namespaces, &prepare).text, "");
    let line = format!(
        "cd r; cat token; echo x > token; {git} commit -qam second; echo x > beside; git add beside; \
         {git} commit -qm third; git log --oneline --name-only"
    );
    let text = run(&world, &policy, Isolation::Namespaces, &line).text;
    assert_eq!(text.matches("token: Permission denied").count(), 2, "{text}");
    assert!(!text.contains("second") && text.contains("third\nbeside\n"), "{text}");
    // Root may list every folder, so for root the folder is empty.
    let text = run(&world, &policy, Isolation::Namespaces, "ls r/keys").text;
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(text.contains("Permission denied"), !is_root, "{text}");
    // A folder that leads to a readable path can be entered.
    policy.readable = vec![world.project.join("r/keys/key")];
    assert_eq!(run(&world, &policy, Isolation::Namespaces, "cat r/keys/key").text, "SECRET");
}

#[test]
fn commands_share_placeholders() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let policy = world.policy();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (world, policy) = (&world, &policy);
            scope.spawn(move || {
                for _ in 0..10 {
                    let line = format!(
                        "sleep 0.0{number}; for name in .envrc .github/x .git/info/x; do \
                         echo x > $name; done"
                    );
                    let output = run(world, policy, Isolation::Namespaces, &line);
                    assert!(output.text.contains("cannot create"), "{}", output.text);
                }
            });
        }
    });
    assert_eq!(world.leftovers(), [""; 0]);
}

#[test]
fn file_that_the_user_creates_meanwhile_is_kept() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let line = "echo ready; read line < fifo";
    let mut command = crate::shell(&world, &world.policy(), Isolation::Namespaces, line);
    let fifo = world.project.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    command.helper_command().stdout(Stdio::null());
    let child = command.spawn().unwrap();
    // Replaces the file as an editor does.
    fs::write(world.project.join("new"), "mine").unwrap();
    fs::rename(world.project.join("new"), world.project.join(".envrc")).unwrap();
    fs::write(fifo, "go\n").unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(world.project.join(".envrc")).unwrap(), "mine");
}

#[test]
fn working_directory_is_the_one_that_was_opened() {
    for isolation in kinds() {
        let world = World::new();
        let folder = fs::File::open(world.project.join("src")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
        let session = ProcessSession::Inherited;
        let policy = world.policy();
        let mut command = SandboxCommand::new("sh", &policy, isolation, session).unwrap();
        command.args(["-c", "echo x > here; pwd -P > where"]);
        command.helper_command().current_dir(format!("/proc/self/fd/{number}"));
        fs::rename(world.project.join("src"), world.project.join("moved")).unwrap();
        fs::create_dir(world.project.join("src")).unwrap();
        command.spawn().unwrap().wait().unwrap();
        assert!(world.project.join("moved/here").exists(), "{isolation}");
        let place = fs::read_to_string(world.project.join("moved/where")).unwrap();
        assert!(place.ends_with("/project/moved\n"), "{isolation}: {place}");
    }
}

#[test]
fn hidden_working_directory_is_refused() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let (policy, session) = (world.policy(), ProcessSession::Inherited);
    let mut command = SandboxCommand::new("true", &policy, Isolation::Namespaces, session).unwrap();
    command.helper_command().current_dir(world.home.join(".ssh"));
    let error = command.spawn().unwrap_err().to_string();
    assert!(error.contains("cannot enter the folder"), "{error}");
    assert_eq!(world.leftovers(), [""; 0]);
}

#[test]
fn limits_apply() {
    for isolation in kinds() {
        let world = World::new();
        let mut policy = world.policy();
        policy.limits.file_bytes = Some(1024 * 1024);
        policy.limits.memory_bytes = Some(64 * 1024 * 1024);
        let line = "head -c 9000000 /dev/zero > big; stat -c %s big; ulimit -c; \
                    truncate -s 100G huge; head -c 200M /dev/zero | tail | wc -c";
        let output = run(&world, &policy, isolation, line);
        let has = |text: &str| output.text.lines().any(|line| line == text);
        assert!(has("1048576") && has("0") && !has("209715200"), "{isolation}: {}", output.text);
        let huge = fs::metadata(world.project.join("huge"));
        assert!(huge.is_ok_and(|metadata| metadata.len() <= 1024 * 1024), "{isolation}");
    }
}

#[test]
fn files_in_memory_are_limited_by_size_and_by_number() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let mut policy = world.policy();
    policy.tmp = None;
    // The maximum number of files: those that the limit permits, and those that each sandbox has in
    // addition.
    for (bytes, most) in [(0, 64), (1024 * 1024, 256 + 64)] {
        policy.limits.tmp_bytes = bytes;
        let line = "head -c 2M /dev/zero > /tmp/big 2>/dev/null; stat -c %s /tmp/big; cd /dev/shm; \
                    (i=0; while [ $i -lt 999 ]; do : > $i || exit; i=$((i + 1)); done) 2>/dev/null; \
                    ls | wc -l";
        let output = run(&world, &policy, Isolation::Namespaces, line).text;
        let numbers: Vec<u64> = output.lines().map(|line| line.parse().unwrap()).collect();
        let [size, count] = numbers[..] else { panic!("{output}") };
        assert!(size <= bytes.max(4096) && count <= most, "{bytes}: {output}");
        assert!(size >= bytes / 2 && count >= bytes / 8192, "{bytes}: {output}");
    }
}

#[test]
fn number_of_processes_is_limited_with_namespaces() {
    if !is_supported(Isolation::Namespaces) {
        return;
    }
    let world = World::new();
    let mut policy = world.policy();
    policy.limits.processes = Some(320);
    let line = "i=0; while [ $i -lt 600 ]; do sleep 9 & i=$((i + 1)); done 2>/dev/null; \
                ls -d /proc/[0-9]* | wc -l";
    let mut command = crate::shell(&world, &policy, Isolation::Namespaces, line);
    command.helper_command().stderr(Stdio::null()).stdout(Stdio::null());
    let (_, end) = command.spawn().unwrap().wait().unwrap();
    let probe = probe_isolation();
    if probe.missing_guarantees(&policy).contains(&MissingGuarantee::ProcessLimit) {
        eprintln!("SKIPPED: root has no limit of processes before Linux 6.14");
    } else {
        assert!(end.left_over <= 320, "{}", end.left_over);
    }
}

/// Prints the cost of a sandbox: `cargo test --release -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    const RUNS: usize = 100;
    let world = World::new();
    let mut policy = world.policy();
    policy.limits = callboard_sandbox::SandboxLimits::default();
    let median = |run: &dyn Fn()| {
        let mut times: Vec<_> = (0..RUNS)
            .map(|_| {
                let begun = Instant::now();
                run();
                begun.elapsed()
            })
            .collect();
        times.sort();
        times[RUNS / 2].as_secs_f64() * 1000.0
    };
    let plain = median(&|| {
        std::process::Command::new("true").current_dir(&world.project).status().unwrap();
    });
    eprintln!("not sandboxed: {plain:.2} ms");
    let cost = |isolation: Isolation, network: Option<&SessionNetwork>| {
        median(&|| {
            let session = ProcessSession::Inherited;
            let mut command = SandboxCommand::new("true", &policy, isolation, session).unwrap();
            command.envs(std::env::vars_os()).helper_command().current_dir(&world.project);
            if let Some(network) = network {
                command.join(&network.handle()).unwrap();
            }
            command.spawn().unwrap().wait().unwrap();
        }) - plain
    };
    for isolation in kinds() {
        eprintln!("{isolation}: {:.2} ms more", cost(isolation, None));
    }
    if let Ok(network) = SessionNetwork::create() {
        let more = cost(Isolation::Namespaces, Some(&network));
        eprintln!("namespaces with a shared network: {more:.2} ms more");
    }
}
