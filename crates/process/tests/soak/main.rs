//! Runs a large number of commands, one hundred at a time. Measures which resources remain in use
//! in this process afterwards.
//!
//! `SOAK_COMMANDS` sets the number of commands; `cargo xtask accept soak` runs many more than a
//! plain test run, and checks the percentage of memory growth.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::time::{Duration, Instant};

use callboard_process::env::{base_env, own_env};
use callboard_process::{ExitCause, ShellCommand, Streams, WindowSize};
use futures::StreamExt as _;
use futures::stream;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The test framework provides `main`, but functions in this section are called before `main`.
#[used]
#[expect(unsafe_code, reason = "a section is named")]
#[unsafe(link_section = ".init_array")]
static HELPER: extern "C" fn() = {
    extern "C" fn init_before_main() {
        callboard_process::run_if_command_helper();
    }
    init_before_main
};

/// Number of commands that run at the same time.
const AT_ONCE: usize = 100;
/// Number of commands that run before the first measurement.
const WARM_UP: usize = 500;

/// Resources of a process while no command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ResourceCounts {
    descriptors: usize,
    threads: usize,
    resident_kib: usize,
}

impl ResourceCounts {
    fn measure() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_ascii_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
        Self { descriptors, threads: number("Threads:"), resident_kib: number("VmRSS:") }
    }

    /// Measures the resources once the threads of the last commands have exited.
    async fn measure_settled(threads: impl Fn(usize) -> bool) -> Self {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let holds = Self::measure();
            if threads(holds.threads) || Instant::now() > deadline {
                return holds;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs the command number `index` with a pipe or a terminal, until it ends or is cancelled.
async fn run(index: usize) {
    let (streams, cancel) = match index % 3 {
        0 => (Streams::Terminal(WindowSize::default()), CancellationToken::new()),
        _ => (Streams::Pipe, CancellationToken::new()),
    };
    let is_cancelled = index.is_multiple_of(5);
    let line = if is_cancelled { "echo hi; sleep 1000" } else { "echo hi; exit 3" };
    let env = base_env(own_env().filter(|(name, _)| name == "PATH"));
    let command = ShellCommand::new(line, std::env::temp_dir(), env).with_streams(streams);
    let token = cancel.clone();
    let output = move |_: &[u8]| {
        if is_cancelled {
            token.cancel();
        }
    };
    let exit = callboard_process::run_command(command, cancel, output).await.unwrap();
    if is_cancelled {
        assert_eq!(exit.cause, ExitCause::Cancelled, "{exit:?}");
    } else {
        assert_eq!(exit.code, Some(3), "{exit:?}");
    }
}

async fn run_all(count: usize) {
    stream::iter(0..count).map(run).buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_resource_remains_in_use_after_very_many_commands() {
    let asked = std::env::var("SOAK_COMMANDS").ok().and_then(|count| count.parse().ok());
    let (warm_up, count) = asked.map_or((60, 120), |count: usize| (WARM_UP, count));
    let idle = ResourceCounts::measure().threads;
    run_all(warm_up).await;
    let before = ResourceCounts::measure_settled(|threads| threads <= idle).await;
    run_all(count).await;
    let after = ResourceCounts::measure_settled(|threads| threads <= before.threads).await;
    let tell =
        |holds: ResourceCounts| json!([holds.descriptors, holds.threads, holds.resident_kib]);
    println!(
        "figures {}",
        json!({ "commands": count, "before": tell(before), "after": tell(after),
        "value": memory_growth_percent(before, after) })
    );
    assert!(after.descriptors <= before.descriptors, "{before:?} {after:?}");
    assert!(after.threads <= before.threads, "{before:?} {after:?}");
    // With few commands, memory growth is not significant.
    assert!(count < 5_000 || memory_growth_percent(before, after) <= 5.0, "{before:?} {after:?}");
}

/// Returns the growth of memory in percent.
fn memory_growth_percent(before: ResourceCounts, after: ResourceCounts) -> f64 {
    let (before, after) = (before.resident_kib as f64, after.resident_kib as f64);
    ((after / before - 1.0) * 1000.0).round() / 10.0
}
