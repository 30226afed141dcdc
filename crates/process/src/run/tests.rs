//! Tests of [`run_supervised`] with real shells, with and without a helper process.

mod endings;
mod piped;
mod sandbox;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use pretty_assertions::assert_eq;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;
use crate::env::base_env;
use crate::limits::{LEFT_OVER_GRACE, MAX_COMMAND_STRING_BYTES};
use crate::text::terminal_output_to_text;

/// The test framework provides `main`, but functions in this section are called before `main`.
#[used]
#[expect(unsafe_code, reason = "a section is named")]
#[unsafe(link_section = ".init_array")]
static HELPER: extern "C" fn() = {
    extern "C" fn init_before_main() {
        run_if_command_helper();
    }
    init_before_main
};

const SUPERVISIONS: [Supervision; 2] = [Supervision::Helper, Supervision::Outside];

/// Environment variable by which a copy of this program recognizes that it was started with SIGCHLD
/// ignored.
const DEAF: &str = "ACP_TOOLS_TEST_DEAF";

/// Time limit that is far above the run time of each command; a test that reaches it fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn command(line: &str) -> ShellCommand {
    ShellCommand {
        line: line.to_owned(),
        cwd: std::env::temp_dir(),
        env: base_env(std::iter::empty()),
        streams: Streams::Terminal(WindowSize::default()),
        timeout: Some(PATIENCE),
        sandbox: None,
    }
}

/// Runs a command to its end, and returns its output as text.
async fn finish(supervision: Supervision, command: ShellCommand) -> (CommandExit, String) {
    let mut output = Vec::new();
    let cancel = CancellationToken::new();
    let exit =
        run_unrecorded(supervision, command, cancel, |chunk| output.extend_from_slice(chunk))
            .await
            .unwrap();
    (exit, terminal_output_to_text(&output))
}

async fn check(line: &str, code: i32, expected: &str) {
    for supervision in SUPERVISIONS {
        check_streams(supervision, Streams::Terminal(WindowSize::default()), line, code, expected)
            .await;
    }
}

async fn check_streams(
    supervision: Supervision,
    streams: Streams,
    line: &str,
    code: i32,
    expected: &str,
) {
    let (exit, output) = finish(supervision, ShellCommand { streams, ..command(line) }).await;
    assert_eq!(
        (exit.cause, exit.code, exit.signal),
        (ExitCause::Exited, Some(code), None),
        "{line}"
    );
    assert_eq!(output, expected, "{supervision:?}, {streams:?}: {line}");
    assert_eq!(exit.left_over, 0, "{supervision:?}: {line}");
}

/// Returns a unique duration for `sleep`, by which the test finds the `sleep` process.
fn endless() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("600.{}00{count}", std::process::id())
}

/// Returns the live processes that run `sleep` with this duration. (A zombie process has no
/// arguments.)
fn find(duration: &str) -> Vec<Pid> {
    let line = format!("sleep\0{duration}\0");
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|process| {
            fs::read(process.path().join("cmdline")).is_ok_and(|read| read == line.as_bytes())
        })
        .filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn alive(duration: &str) -> usize {
    find(duration).len()
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        yield_now().await;
    }
}

/// Repeats a timed run a few times until `is_it` returns true, because a run may be slow on a busy
/// machine.
async fn in_time<T, F: Future<Output = T>>(
    mut life: impl FnMut() -> F,
    is_it: fn(&T) -> bool,
) -> T {
    for _ in 0..9 {
        let lived = life().await;
        if is_it(&lived) {
            return lived;
        }
    }
    life().await
}

/// Returns an `output` callback, and a notification that fires when the command has printed `word`.
fn watch(word: &'static str) -> (Arc<Notify>, impl FnMut(&[u8]) + Send) {
    let seen = Arc::new(Notify::new());
    let (notify, mut output) = (Arc::clone(&seen), Vec::new());
    let watch = move |chunk: &[u8]| {
        output.extend_from_slice(chunk);
        if terminal_output_to_text(&output).contains(word) {
            notify.notify_one();
        }
    };
    (seen, watch)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_exit_code_and_its_whole_output() {
    check("true", 0, "").await;
    check("exit 3", 3, "").await;
    check("echo out; echo err >&2; exit 3", 3, "out\nerr\n").await;
    check("printf 'no line end'", 0, "no line end").await;
    check("yes | head -n 2", 0, "y\ny\n").await;
    check(
        "echo \"$0 $#\"; [ -t 1 ] && [ -t 2 ] && ! [ -t 0 ] && stty size </dev/tty",
        0,
        "/bin/bash 0\n40 120\n",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_reports_a_command_that_does_not_exist() {
    for supervision in SUPERVISIONS {
        let (exit, output) = finish(supervision, command("no-such-command-anywhere")).await;
        assert_eq!(exit.code, Some(127));
        assert!(output.contains("no-such-command-anywhere: command not found"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_has_a_name_and_no_code() {
    for supervision in SUPERVISIONS {
        for (line, signal) in [("kill -9 $$", "SIGKILL"), ("kill -SEGV $$", "SIGSEGV")] {
            let (exit, _) = finish(supervision, command(line)).await;
            assert_eq!((exit.code, exit.signal.as_deref()), (None, Some(signal)));
            assert_eq!(exit.cause, ExitCause::Exited);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_arrives_completely_and_in_order() {
    for supervision in SUPERVISIONS {
        let (exit, output) = finish(supervision, command("seq 1 100000")).await;
        assert_eq!(exit.code, Some(0));
        let lines = output.lines().map(|line| line.parse::<u32>().unwrap());
        assert!(lines.eq(1..=100_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_callback_runs_while_the_command_runs() {
    for supervision in SUPERVISIONS {
        let dir = TempDir::new().unwrap();
        let waiting = ShellCommand {
            cwd: dir.path().to_owned(),
            ..command("mkfifo gate && echo ready && cat gate")
        };
        let gate = dir.path().join("gate");
        let mut output = Vec::new();
        let exit = run_unrecorded(supervision, waiting, CancellationToken::new(), |chunk| {
            // The gate is a FIFO: this write blocks until the command opens the gate, and the
            // command blocks until this write.
            if terminal_output_to_text(&output).is_empty() {
                fs::write(&gate, "go\n").unwrap();
            }
            output.extend_from_slice(chunk);
        });
        assert_eq!(exit.await.unwrap().cause, ExitCause::Exited);
        assert_eq!(terminal_output_to_text(&output), "ready\ngo\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_reads_finds_the_end_of_its_input() {
    check("cat; cat; echo done", 0, "done\n").await;
    check("read line || echo \"nothing: $line\"", 0, "nothing: \n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_the_given_one_and_the_command_id() {
    for supervision in SUPERVISIONS {
        let (_, output) = finish(
            supervision,
            ShellCommand {
                env: [("PATH", "/usr/bin:/bin"), ("A", "1 2")]
                    .map(|(n, v)| (n.into(), v.into()))
                    .into(),
                ..command("env")
            },
        )
        .await;
        let names: Vec<_> = output.lines().map(|line| line.split('=').next().unwrap()).collect();
        // The shell sets the last three variables.
        let mut expected = vec!["A", "ACP_TOOLS_COMMAND", "PATH", "PWD", "SHLVL", "_"];
        expected.retain(|name| !names.contains(name));
        assert_eq!((names.len(), expected), (6, vec![]), "{output}");
        assert!(output.contains("A=1 2\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_the_requested_streams() {
    let size = WindowSize { cols: 99, rows: 33 };
    let line = "[ -t 0 ] && echo reads; [ -t 1 ] && echo writes; [ -t 2 ] && echo errs
        stty size 2>/dev/null </dev/tty; echo bye >&2; : </dev/stdin; exit 0";
    for supervision in SUPERVISIONS {
        for (streams, expected) in [
            (Streams::Pipe, "bye\n"),
            (Streams::Terminal(size), "writes\nerrs\n33 99\nbye\n"),
            (Streams::Interactive(size), "reads\nwrites\nerrs\n33 99\nbye\n"),
        ] {
            check_streams(supervision, streams, line, 0, expected).await;
        }
        let pipe = ShellCommand { streams: Streams::Pipe, ..command("printf 'a\\nb\\n'") };
        let mut output = Vec::new();
        let cancel = CancellationToken::new();
        run_unrecorded(supervision, pipe, cancel, |chunk| output.extend_from_slice(chunk))
            .await
            .unwrap();
        assert_eq!(output, b"a\nb\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_of_a_pipe_continues_after_the_shell_closed_its_own() {
    for supervision in SUPERVISIONS {
        let line = "(until [ ! -e /proc/$$/fd/1 ]; do :; done; echo late) & exec >&- 2>&-; wait";
        check_streams(supervision, Streams::Pipe, line, 0, "late\n").await;
        check_streams(supervision, Streams::Pipe, "exec >&- 2>&-; exit 7", 7, "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_inherits_no_descriptor_and_no_ignored_signal() {
    let inherited = tempfile::tempfile().unwrap();
    // A client may leave such a descriptor open in our process.
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    ignore_hangups();
    // The C library may reserve two signals as ignored, and no other code can change that.
    let ignored = "0x$(sed -n 's/SigIgn:\\s*//p' /proc/self/status) & 0x7fffffff";
    let line = format!("ls /proc/self/fd | wc -l; echo $(( {ignored} )); ulimit -c");
    for supervision in SUPERVISIONS {
        // The count includes the three standard streams and the directory that is listed.
        check_streams(supervision, Streams::Pipe, &line, 0, "4\n0\n0\n").await;
    }
    drop(inherited);
}

/// Ignores SIGHUP, as `nohup` does for its child.
#[expect(unsafe_code, reason = "no safe interface has it")]
fn ignore_hangups() {
    // SAFETY: `SIG_IGN` installs no handler function.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_reports_the_resource_usage_of_the_processes() {
    let line = "head -c 60000000 /dev/zero | tail -c 60000000 >/dev/null; i=0; \
                while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let (exit, _) = finish(Supervision::Helper, command(line)).await;
    let usage = exit.usage.unwrap();
    assert!(usage.cpu > Duration::from_millis(5) && usage.cpu < PATIENCE, "{usage:?}");
    assert!((60_000_000..600_000_000).contains(&usage.peak_bytes), "{usage:?}");
    assert_eq!(finish(Supervision::Outside, command("true")).await.0.usage, None);
}

/// A client may start us with SIGCHLD ignored. A process cannot reset the signal for itself early
/// enough, so the test starts a copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_started_with_sigchld_ignored_observes_the_exit_of_its_children() {
    if std::env::var_os(DEAF).is_some() {
        let (exit, output) = finish(Supervision::Helper, command("echo heard; exit 3")).await;
        assert_eq!((exit.code, output.as_str()), (Some(3), "heard\n"));
        assert_eq!(finish(Supervision::Outside, command("exit 4")).await.0.code, Some(4));
        return;
    }
    let test =
        "run::tests::a_program_started_with_sigchld_ignored_observes_the_exit_of_its_children";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    let output = shell.args([test, "--exact"]).env(DEAF, "1").output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && report.contains("1 passed"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_input_is_ended_and_one_that_is_silent_is_not() {
    let interactive = Streams::Interactive(WindowSize::default());
    let silent = "exec 2>/dev/null; sleep 6; echo done";
    let lines = [
        (Supervision::Helper, interactive, "read -r line"),
        (Supervision::Outside, interactive, "read -r line"),
        (
            Supervision::Helper,
            Streams::Terminal(WindowSize::default()),
            "echo Password:; read -r x </dev/tty",
        ),
        (Supervision::Helper, interactive, silent),
        (Supervision::Helper, interactive, "sleep 6 | cat; echo done"),
    ];
    let running = lines.map(|(supervision, streams, line)| async move {
        let (exit, output) = finish(supervision, ShellCommand { streams, ..command(line) }).await;
        (line, exit, output)
    });
    for (line, exit, output) in futures::future::join_all(running).await {
        let expected =
            if line.ends_with("done") { ExitCause::Exited } else { ExitCause::WaitedForInput };
        assert_eq!(exit.cause, expected, "{line}");
        assert_eq!(output.contains("done"), expected == ExitCause::Exited, "{line}: {output}");
    }
}

/// A terminal for input keeps its output processing.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_without_input_does_not_process_output() {
    let line = "stty -a </dev/tty | tr ' ;' '\\n\\n' | grep opost";
    let size = WindowSize::default();
    for (streams, expected) in
        [(Streams::Terminal(size), "-opost\n"), (Streams::Interactive(size), "opost\n")]
    {
        check_streams(Supervision::Helper, streams, line, 0, expected).await;
    }
}

/// The reader does what a terminal does, until the command changes the mode of the terminal.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_terminal_end_in_a_carriage_return_and_a_line_feed() {
    let streams = [Streams::Terminal, Streams::Interactive].map(|it| it(WindowSize::default()));
    for (line, expected) in [
        ("printf 'a\\n\\nb\\r\\nc'", "a\r\n\r\nb\r\r\nc"),
        ("stty opost onlcr </dev/tty; printf 'a\\n'", "a\r\n"),
        ("stty raw </dev/tty; printf 'a\\nb'; sleep 0.3", "a\nb"),
        ("stty -icanon </dev/tty; printf 'a\\n'; sleep 0.1", "a\r\n"),
        ("stty raw </dev/tty; stty sane </dev/tty; printf 'a\\n'", "a\r\n"),
    ] {
        for (supervision, streams) in
            SUPERVISIONS.into_iter().flat_map(|it| streams.map(|streams| (it, streams)))
        {
            let mut output = Vec::new();
            let command = ShellCommand { streams, ..command(line) };
            let collect = |chunk: &[u8]| output.extend_from_slice(chunk);
            run_unrecorded(supervision, command, CancellationToken::new(), collect).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output), expected, "{streams:?}: {line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_fired_starts_nothing() {
    let dir = TempDir::new().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let line = ShellCommand { cwd: dir.path().to_owned(), ..command("touch started") };
    let exit = run_unrecorded(Supervision::Helper, line, cancel, |_| {}).await.unwrap();
    assert_eq!((exit.cause, exit.code, exit.signal), (ExitCause::Cancelled, None, None));
    assert!(!dir.path().join("started").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_be_started_reports_the_reason() {
    for supervision in SUPERVISIONS {
        let file = tempfile::NamedTempFile::new().unwrap();
        for cwd in [Path::new("/no/such/directory"), file.path()] {
            let error = run_unrecorded(
                supervision,
                ShellCommand { cwd: cwd.to_owned(), ..command("true") },
                CancellationToken::new(),
                |_| {},
            );
            let error = error.await.unwrap_err();
            assert!(matches!(&error, SpawnError::Cwd { path, .. } if path == cwd), "{error:?}");
            assert!(error.to_string().contains(&cwd.display().to_string()), "{error}");
        }
        let long = command(&"x".repeat(MAX_COMMAND_STRING_BYTES + 1));
        let error =
            run_unrecorded(supervision, long, CancellationToken::new(), |_| {}).await.unwrap_err();
        assert!(error.to_string().starts_with("the command is 131071 bytes long"), "{error}");
        let error = run_unrecorded(supervision, command("a\0b"), CancellationToken::new(), |_| {})
            .await
            .unwrap_err();
        assert!(matches!(error, SpawnError::Start(_)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_command_runs() {
    for supervision in SUPERVISIONS {
        let line = format!("echo {}", ":".repeat(MAX_COMMAND_STRING_BYTES - 5));
        let (exit, output) = finish(supervision, command(&line)).await;
        assert_eq!((exit.code, output.len()), (Some(0), MAX_COMMAND_STRING_BYTES - 4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_slow_reader() {
    for supervision in SUPERVISIONS {
        const BYTES: u64 = 10_000_000;
        let line = format!("echo $$; exec head -c {BYTES} /dev/zero");
        let (mut read, mut most, mut shell) = (0, 0, None);
        let exit = run_unrecorded(supervision, command(&line), CancellationToken::new(), |chunk| {
            read += chunk.len() as u64;
            let shell = shell.get_or_insert_with(|| {
                terminal_output_to_text(chunk).lines().next().unwrap().to_owned()
            });
            let io = fs::read_to_string(format!("/proc/{shell}/io")).unwrap_or_default();
            let written: Option<u64> =
                io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
            most = most.max(written.unwrap_or(0).saturating_sub(read));
        });
        let exit = exit.await.unwrap();
        assert_eq!(exit.code, Some(0));
        assert!(read > BYTES, "{read}");
        assert!(most > 0 && most <= MAX_DRAIN_BYTES as u64, "{most}");
    }
}
