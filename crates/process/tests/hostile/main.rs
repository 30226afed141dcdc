//! Processes that try to outlive their command. The command is cancelled at a random time, or the
//! program that runs the command is killed or loses its client.
//!
//! `HOSTILE_TREES` and `HOSTILE_DEATHS` set the number of runs; `cargo xtask accept hostile` uses
//! many more than a plain test run. Each test prints its figures as one line; the field `value` is
//! the 99th percentile in milliseconds.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "figures are told by it")]

mod census;
mod random;
mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use callboard_process::env::base_env;
use callboard_process::{ExitCause, Streams, WindowSize};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use random::Random;

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

/// Environment variable of a copy of this program: the seed of the process trees that the copy
/// runs.
const SEED: &str = "HOSTILE_SEED";
/// Environment variable by which a copy of this program recognizes that it runs as another user.
const AS: &str = "HOSTILE_AS";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Returns a seed that differs between runs; failure reports contain it.
fn seed() -> u64 {
    u64::from(std::process::id())
}

fn command(line: String, streams: Streams) -> callboard_process::ShellCommand {
    let env: BTreeMap<_, _> = base_env(exec_path());
    callboard_process::ShellCommand::new(line, std::env::temp_dir(), env).with_streams(streams)
}

fn exec_path() -> impl Iterator<Item = (String, String)> {
    callboard_process::env::own_env().filter(|(name, _)| name == "PATH")
}

fn streams(random: &mut Random) -> Streams {
    let size = WindowSize::default();
    match random.below(3) {
        0 => Streams::Pipe,
        1 => Streams::Terminal(size),
        _ => Streams::Interactive(size),
    }
}

/// Prints figures in addition to the output of the test framework.
fn print_figures(figures: serde_json::Value) {
    println!("figures {figures}");
}

fn user_name() -> String {
    let user = if rustix::process::geteuid().is_root() { "root" } else { "unprivileged" };
    let way = if callboard_process::has_helper() { "helper" } else { "outside" };
    format!("{user}, {way}")
}

/// Returns the 50th and the 99th percentile of `times` in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len() - 1);
        (times[index].as_secs_f64() * 10_000.0).round() / 10.0
    };
    (at(50), at(99))
}

/// Starts a tree, cancels it, and returns the duration, the number of surviving processes and the
/// number of zombies.
async fn cancel_tree(random: &mut Random) -> (Duration, usize, usize) {
    let tree = tree::HostileTree::new(random);
    let cancel = CancellationToken::new();
    let begun = CancellationToken::new();
    let seen = begun.clone();
    let running = tokio::spawn(callboard_process::run_command(
        command(tree.line.clone(), streams(random)),
        cancel.clone(),
        move |_| seen.cancel(),
    ));
    // Cancels at a random time: before any process runs, while the tree forks, or when all
    // processes exist.
    if random.one_in(2) {
        begun.cancelled().await;
    }
    sleep(Duration::from_micros(random.below(60_000) as u64)).await;
    let asked = Instant::now();
    cancel.cancel();
    let exit = running.await.unwrap().unwrap();
    let took = asked.elapsed();
    assert!(matches!(exit.cause, ExitCause::Cancelled | ExitCause::Exited), "{exit:?}");
    let survivors = census::count(&tree.tag);
    if survivors > 0 {
        eprintln!("{survivors} left of: {}", tree.line);
        census::kill(&tree.tag);
    }
    (took, survivors, census::zombies())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_cancel() {
    let (trees, mut random) = (number("HOSTILE_TREES", 12), Random::new(seed()));
    let (mut times, mut survivors, mut zombies) = (Vec::new(), 0, 0);
    for _ in 0..trees {
        let (took, left, dead) = cancel_tree(&mut random).await;
        times.push(took);
        survivors += left;
        zombies += dead;
    }
    let (p50, p99) = percentiles(times);
    print_figures(
        json!({ "who": user_name(), "trees": trees, "survivors": survivors, "zombies": zombies,
        "p50_ms": p50, "value": p99 }),
    );
    assert_eq!((survivors, zombies), (0, 0));
}

/// Test body of a copy of this program. The copy runs three trees until its input ends.
#[test]
fn agent() {
    if std::env::var_os(SEED).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _runtime = runtime.enter();
    for tree in start_trees(number(SEED, 0)) {
        let command = command(tree.line, tree.streams);
        drop(tokio::spawn(callboard_process::run_command(
            command,
            CancellationToken::new(),
            |_| {},
        )));
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

struct RunningTree {
    tag: String,
    line: String,
    streams: Streams,
}

fn start_trees(seed: u64) -> Vec<RunningTree> {
    let random = &mut Random::new(seed);
    let mut trees = Vec::new();
    for _ in 0..=random.below(3) {
        let tree::HostileTree { tag, line } = tree::HostileTree::new(random);
        trees.push(RunningTree { tag, line, streams: streams(random) });
    }
    trees
}

fn start_agent(seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["agent", "--exact", "--nocapture"])
        .env(SEED, seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Timeout for the exit of an agent's processes: far above the time needed, and far below the
/// lifetime of each process in the trees.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends agents, and reports how long it took until only zombies were left.
async fn left_behind(kind: &str, end: impl Fn(&mut Child)) {
    let (deaths, mut random) = (number("HOSTILE_DEATHS", 6), Random::new(seed()));
    let (mut times, mut zombies) = (Vec::new(), 0);
    for _ in 0..deaths {
        let seed = random.next();
        let mut agent = start_agent(seed);
        sleep(Duration::from_micros(random.below(200_000) as u64)).await;
        let asked = Instant::now();
        end(&mut agent);
        let left = || start_trees(seed).iter().map(|tree| census::count(&tree.tag)).sum::<usize>();
        while left() > 0 {
            let left = left();
            if asked.elapsed() > PATIENCE && left > 0 {
                start_trees(seed).iter().for_each(|tree| census::kill(&tree.tag));
                assert_eq!(left, 0, "left of the agent with seed {seed}");
            }
        }
        times.push(asked.elapsed());
        agent.wait().unwrap();
        zombies += census::zombies();
    }
    let (p50, p99) = percentiles(times);
    print_figures(
        json!({ "who": user_name(), kind: deaths, "survivors": 0, "zombies": zombies, "p50_ms": p50,
        "value": p99 }),
    );
    assert_eq!(zombies, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_an_agent_that_is_killed() {
    left_behind("kills", |agent| agent.kill().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_an_agent_whose_client_is_gone() {
    left_behind("closes", |agent| drop(agent.stdin.take())).await;
}

/// Runs the other tests again as an unprivileged user, if the current user may switch to another
/// user.
#[test]
fn the_other_tests_pass_for_an_unprivileged_user() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || std::env::var_os(AS).is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("hostile");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut copy = Command::new("setpriv");
    copy.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    copy.args(["nothing_", "--nocapture", "--test-threads=1"]).env(AS, "nobody").current_dir("/");
    assert!(copy.status().expect("setpriv, of util-linux").success());
}
