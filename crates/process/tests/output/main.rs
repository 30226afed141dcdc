//! Records and shows a long command output at the same time. The output must be complete and
//! counted, memory must be bounded, and the speed must equal that of a plain loop that reads the
//! terminal and writes the file.
//!
//! `OUTPUT_BYTES` sets the length of the output. The measurements are printed; `cargo xtask accept
//! output` compares them with the target.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail by a panic")]

use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_process::env::base_env;
use callboard_process::escapes::EscapeFilter;
use callboard_process::record::{RecordedOutput, Recording};
use callboard_process::{
    OutputBytesOrGap, ShellCommand, Streams, WindowSize, run_command_and_record,
};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::setsid;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

const LINE: &str = "\u{1b}[32m0123456789abcdef\u{1b}[0m";

/// Maximum peak memory of the process in MiB.
const PEAK_MIB: u64 = 96;

/// Number of measurements of each variant; the fastest one counts.
const ROUNDS: u64 = 3;

/// Returns a command that writes `bytes` bytes; a terminal adds carriage returns.
fn command(bytes: u64) -> String {
    format!("yes $'{LINE}' | head -c {bytes}")
}

fn recorded(bytes: u64, streams: Streams, path: &Path) -> (RecordedOutput, RecordingTimes) {
    let at = path.to_owned();
    let open = move || Ok(Some((File::create_new(&at)?, at)));
    let recording = Arc::new(Recording::new(u64::MAX, open));
    let command =
        ShellCommand::new(command(bytes), std::env::temp_dir(), base_env(std::iter::empty()))
            .with_streams(streams);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_time().build().unwrap();
    let (mut filter, mut shown, mut updates, mut first) = (EscapeFilter::default(), 0, 0, None);
    let (mut told, mut left_out) = (0, 0);
    let begun = Instant::now();
    let running = run_command_and_record(
        command,
        CancellationToken::new(),
        Arc::clone(&recording),
        None,
        |piece| {
            first.get_or_insert_with(|| begun.elapsed());
            match piece {
                OutputBytesOrGap::Bytes(bytes) => {
                    told += bytes.len() as u64;
                    shown += filter.push(bytes).len();
                }
                OutputBytesOrGap::Omitted(bytes) => left_out += bytes,
            }
        },
        || {
            updates += 1;
            Box::pin(std::future::ready(()))
        },
    );
    assert_eq!(runtime.block_on(running).unwrap().code, Some(0));
    let recorded = recording.finish();
    assert_eq!(told + left_out, recorded.bytes, "all of it is shown or counted");
    (recorded, RecordingTimes { took: begun.elapsed(), first: first.unwrap(), shown, updates })
}

struct RecordingTimes {
    took: Duration,
    first: Duration,
    shown: usize,
    updates: u32,
}

/// Reads the output of the same command from the same kind of streams and writes it to a file, with
/// as little code as possible. As in our implementation, a terminal does not process the output,
/// and the command runs in a new session: Linux distributes CPU time by session, and a pipe between
/// two sessions is slower.
fn read_plainly(bytes: u64, streams: Streams, path: &Path) -> Duration {
    let begun = Instant::now();
    let mut line = command(bytes);
    if matches!(streams, Streams::Terminal(_)) {
        line.insert_str(0, "stty -opost; ");
    }
    let argv = ["/bin/bash", "--noprofile", "--norc", "-c", &line];
    if let Streams::Terminal(size) = streams {
        let size = PtySize { rows: size.rows, cols: size.cols, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let argv = argv.iter().map(Into::into).collect();
        let mut child = pair.slave.spawn_command(CommandBuilder::from_argv(argv)).unwrap();
        drop(pair.slave);
        copy(pair.master.try_clone_reader().unwrap(), path);
        child.wait().unwrap();
    } else {
        let mut command = std::process::Command::new(argv[0]);
        in_session(command.args(&argv[1..]).stdout(Stdio::piped()));
        let mut child = command.spawn().unwrap();
        copy(child.stdout.take().unwrap(), path);
        child.wait().unwrap();
    }
    begun.elapsed()
}

#[expect(unsafe_code, reason = "a session can only be begun by the new process itself")]
fn in_session(command: &mut std::process::Command) {
    // SAFETY: the closure makes a single system call, acquires no lock and allocates no memory.
    unsafe { command.pre_exec(|| setsid().map(drop).map_err(Into::into)) };
}

fn copy(mut from: impl Read, path: &Path) {
    let mut file = File::create_new(path).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        file.write_all(&buffer[..read]).unwrap();
    }
}

/// Returns the expected output of the command: its bytes, its lines, and its hash.
fn expected(bytes: u64, streams: Streams) -> (u64, u64, Vec<u8>) {
    let line = format!("{LINE}\n");
    let (mut hash, mut total, mut left) = (Sha256::new(), 0, bytes);
    let lines = bytes / line.len() as u64;
    // A terminal inserts a carriage return before each newline.
    let end = if streams == Streams::Pipe { "\n" } else { "\r\n" };
    let block = line.repeat(1_000);
    while left > 0 {
        let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = block[..length].replace('\n', end);
        hash.update(&read);
        (total, left) = (total + read.len() as u64, left - length as u64);
    }
    (total, lines, hash.finalize().to_vec())
}

fn hash(path: &Path) -> Vec<u8> {
    let (mut hash, mut file) = (Sha256::new(), File::open(path).unwrap());
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = file.read(&mut buffer) {
        hash.update(&buffer[..read]);
    }
    hash.finalize().to_vec()
}

/// Returns the peak memory of this process.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Measures one kind of streams and returns the figures.
fn measure(bytes: u64, streams: Streams) -> Value {
    let (total, lines, right) = expected(bytes, streams);
    let folder = tempfile::tempdir().unwrap();
    let (mut ours, mut plain) = (Duration::MAX, Duration::MAX);
    let mut first = Duration::ZERO;
    for round in 0..ROUNDS {
        let path = folder.path().join(format!("recorded-{round}"));
        let (recorded, measured) = recorded(bytes, streams, &path);
        assert_eq!((recorded.bytes, recorded.lines), (total, lines));
        assert_eq!(recorded.file.unwrap().bytes, total);
        assert!(hash(&path) == right, "the file is not what was written");
        assert!(recorded.excerpt.text.starts_with("0123456789abcdef\n0123456789abcdef\n"));
        let shown = recorded.excerpt.text.matches('\n').count() as u64;
        // The line that replaces the gap adds two newlines.
        assert_eq!(shown - 2 + recorded.excerpt.left_out_lines, lines);
        // The amount of shown output is bounded by the elapsed time.
        let intervals = measured.took.as_millis() / 25 + 3;
        assert!(u128::from(measured.updates) <= intervals, "{} updates", measured.updates);
        assert!(measured.shown as u128 <= intervals * 70_000, "{} bytes", measured.shown);
        fs::remove_file(&path).unwrap();
        ours = ours.min(measured.took);
        first = first.max(measured.first);
        let path = folder.path().join(format!("plain-{round}"));
        plain = plain.min(read_plainly(bytes, streams, &path));
        fs::remove_file(&path).unwrap();
    }
    json!({
        "value": ours.as_secs_f64() / plain.as_secs_f64(),
        "seconds": ours.as_secs_f64(),
        "referenceSeconds": plain.as_secs_f64(),
        "streams": format!("{streams:?}"),
        "firstMs": first.as_secs_f64() * 1000.0,
    })
}

/// This file has a single test, because the test measures the memory of its process.
#[test]
fn a_long_output_is_recorded_completely_at_the_cost_of_reading_it() {
    let number = std::env::var("OUTPUT_BYTES").ok().and_then(|bytes| bytes.parse().ok());
    let bytes = number.unwrap_or(10_000_000);
    let terminal = measure(bytes, Streams::Terminal(WindowSize::default()));
    let pipe = measure(bytes, Streams::Pipe);
    let peak = peak_mib();
    assert!(peak <= PEAK_MIB, "{peak} MiB");
    println!("figures {terminal}");
    println!("figures {pipe}");
}
