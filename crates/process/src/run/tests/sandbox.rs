//! Tests of commands in a sandbox, with each isolation that works here.

use callboard_sandbox::{Isolation, SandboxPolicy, probe_isolation};

use pretty_assertions::assert_eq;

use super::*;

/// Returns the isolations to test. A system without namespaces tests only Landlock, and says so.
fn isolations() -> Vec<Isolation> {
    let probe = probe_isolation();
    let mut all = vec![Isolation::Namespaces, Isolation::Landlock];
    all.retain(|isolation| *isolation >= probe.isolation);
    eprintln!("tested: {all:?}, refused: {:?}", probe.refusals);
    assert!(!all.is_empty());
    all
}

struct SandboxedFolders {
    outer: TempDir,
    isolation: Isolation,
}

impl SandboxedFolders {
    fn new(isolation: Isolation) -> Self {
        let outer = TempDir::new_in("/var/tmp").unwrap();
        fs::create_dir(outer.path().join("project")).unwrap();
        fs::write(outer.path().join("canary"), "canary").unwrap();
        Self { outer, isolation }
    }

    fn command(&self, line: &str) -> ShellCommand {
        let cwd = self.outer.path().join("project");
        let policy = SandboxPolicy::from_writable_folders([cwd.clone()]);
        let sandbox = Some(CommandSandbox::new(policy, self.isolation));
        ShellCommand { cwd, sandbox, ..command(line) }
    }

    async fn finish(&self, command: ShellCommand) -> (CommandExit, String) {
        let ended = finish(Supervision::Helper, command).await;
        assert_eq!(fs::read_to_string(self.outer.path().join("canary")).unwrap(), "canary");
        ended
    }
}

#[tokio::test]
async fn a_sandboxed_command_writes_only_in_its_folder_and_has_its_own_exit() {
    for isolation in isolations() {
        for streams in [
            Streams::Pipe,
            Streams::Terminal(WindowSize::default()),
            Streams::Interactive(WindowSize::default()),
        ] {
            let folders = SandboxedFolders::new(isolation);
            let line = "echo in > here; echo out > ../canary; cat here; exit 7";
            let command = ShellCommand { streams, ..folders.command(line) };
            let (exit, output) = folders.finish(command).await;
            assert_eq!((exit.code, exit.cause), (Some(7), ExitCause::Exited), "{output}");
            assert!(output.ends_with("in\n") && output.contains("canary"), "{output}");
            let (exit, _) = folders.finish(folders.command("kill -9 $$")).await;
            assert_eq!((exit.code, exit.signal.as_deref()), (None, Some("SIGKILL")));
        }
    }
}

#[tokio::test]
async fn a_sandboxed_command_has_its_terminal() {
    for isolation in isolations() {
        let folders = SandboxedFolders::new(isolation);
        let (exit, output) =
            folders.finish(folders.command("stty size < /dev/tty; echo shown > /dev/tty")).await;
        assert_eq!(exit.code, Some(0), "{isolation}: {output}");
        assert!(output.contains("40 120") && output.contains("shown"), "{isolation}: {output}");
    }
}

#[tokio::test]
async fn nothing_of_a_sandboxed_command_outlives_it() {
    for isolation in isolations() {
        let folders = SandboxedFolders::new(isolation);
        let line = "setsid sh -c 'trap \"\" TERM HUP; sleep 600' & echo $! > child; wait $!";
        let mut waiting = folders.command(line);
        waiting.timeout = Some(Duration::from_millis(700));
        let (exit, _) = folders.finish(waiting).await;
        assert_eq!(exit.cause, ExitCause::TimedOut);
        let (exit, _) =
            folders.finish(folders.command("setsid sleep 600 & sleep 0.3; exit 0")).await;
        assert_eq!((exit.code, exit.left_over), (Some(0), 1), "{isolation}");
        let id = folders.outer.path().display().to_string();
        let is_left = |process: &fs::DirEntry| {
            fs::read_link(process.path().join("cwd"))
                .is_ok_and(|cwd| cwd.display().to_string().contains(&id))
        };
        let left = fs::read_dir("/proc").unwrap().flatten().filter(is_left).count();
        assert_eq!(left, 0, "{isolation}");
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_set_up_starts_nothing() {
    for isolation in isolations() {
        let folders = SandboxedFolders::new(isolation);
        let mut command = folders.command("touch here");
        let policy = SandboxPolicy::from_writable_folders([folders.outer.path().join("missing")]);
        command.sandbox = Some(CommandSandbox::new(policy, isolation));
        let cancel = CancellationToken::new();
        let error = run_unrecorded(Supervision::Helper, command, cancel, |_| ()).await.unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert!(!folders.outer.path().join("project/here").exists());
        // Without a helper, a command is never started without its sandbox.
        let outside = run_unrecorded(
            Supervision::Outside,
            folders.command("touch here"),
            CancellationToken::new(),
            |_| (),
        );
        assert!(outside.await.is_err() && !folders.outer.path().join("project/here").exists());
    }
}
