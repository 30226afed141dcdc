//! Systems that refuse a kind of isolation. The tests simulate such systems by filters and
//! namespaces.

use std::collections::BTreeMap;
use std::process::Command;

use callboard_sandbox::{Isolation, SetupStep, probe_isolation};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

use crate::is_supported;
use crate::world::World;

/// Environment variable of a copy of this program that prints the isolation that it finds. The
/// value of the variable lists the system calls that fail in the copy, separated by commas.
const REPORT: &str = "ESCAPES_REPORT";

/// Test body of a copy of this program.
#[test]
fn report() {
    let Ok(denied) = std::env::var(REPORT) else { return };
    let numbers = denied.split(',').filter_map(|name| match name {
        "unshare" => Some(vec![libc::SYS_unshare, libc::SYS_clone]),
        "mount" => Some(vec![libc::SYS_move_mount, libc::SYS_mount, libc::SYS_mount_setattr]),
        "landlock" => Some(vec![libc::SYS_landlock_create_ruleset]),
        _ => None,
    });
    let rules: BTreeMap<i64, Vec<SeccompRule>> =
        numbers.flatten().map(|call| (call, namespace_rules(call))).collect();
    if !rules.is_empty() {
        let errno = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&filter).unwrap();
    }
    let probe = probe_isolation();
    // The test framework has begun a line.
    eprintln!();
    for refusal in &probe.refusals {
        eprintln!("REFUSED {:?} {}", refusal.failure.step, refusal);
    }
    eprintln!("FOUND {:?}", probe.isolation);
}

/// A process must still be able to start others, so `clone` is denied only for user namespaces.
fn namespace_rules(call: i64) -> Vec<SeccompRule> {
    use seccompiler::{SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq, SeccompCondition};
    if call != libc::SYS_clone {
        return Vec::new();
    }
    let flag = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let condition = SeccompCondition::new(0, Dword, MaskedEq(flag), flag).unwrap();
    vec![SeccompRule::new(vec![condition]).unwrap()]
}

/// Runs a copy of this program, after `setup` in a shell. Returns the isolation and the step of
/// each refusal that the copy reports.
fn probe_after(setup: &str, denied: &str) -> (String, Vec<String>) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    let line = format!("{setup} exec \"$0\" refusals::report --exact --nocapture");
    command.arg("-c").arg(line).arg(program).env(REPORT, denied);
    parse(&command.output().unwrap().stderr)
}

fn parse(output: &[u8]) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(output);
    eprintln!("{text}");
    let found = text.lines().find_map(|line| line.strip_prefix("FOUND ")).unwrap_or("nothing");
    let refused = text.lines().filter_map(|line| line.strip_prefix("REFUSED "));
    let steps = refused.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    (found.to_owned(), steps)
}

fn step(step: SetupStep) -> String {
    format!("{step:?}")
}

/// The isolation that is found if namespaces are refused.
fn second_best() -> String {
    let kind = match probe_isolation().landlock_abi {
        0..3 => Isolation::None,
        _ => Isolation::Landlock,
    };
    format!("{kind:?}")
}

/// Returns whether a shell can simulate another system in a separate user namespace.
fn can_play() -> bool {
    let played = Command::new("unshare").args(["-rm", "true"]).status();
    let can = played.is_ok_and(|status| status.success());
    if !can {
        eprintln!("SKIPPED: unshare -rm does not work");
    }
    can && is_supported(Isolation::Namespaces)
}

#[test]
fn system_calls_for_namespaces_are_denied() {
    let (found, steps) = probe_after("", "unshare");
    assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::Namespaces)));
}

#[test]
fn mounts_are_denied() {
    if is_supported(Isolation::Namespaces) {
        let (found, steps) = probe_after("", "mount");
        assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::Mounts)));
    }
}

#[test]
fn everything_is_denied() {
    let (found, steps) = probe_after("", "unshare,landlock");
    let expected = [step(SetupStep::Namespaces), step(SetupStep::Landlock)];
    assert_eq!((found.as_str(), steps), ("None", expected.to_vec()));
}

#[test]
fn namespaces_work_without_landlock() {
    if is_supported(Isolation::Namespaces) {
        assert_eq!(probe_after("", "landlock"), ("Namespaces".to_owned(), Vec::new()));
    }
}

#[test]
fn user_namespaces_are_switched_off() {
    if can_play() {
        let setup = "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; \
                     exec \"$0\" refusals::report --exact --nocapture' \"$0\";";
        let (found, steps) = probe_after(setup, "");
        assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::Namespaces)));
    }
}

#[test]
fn proc_is_read_only() {
    if can_play() {
        let setup = "exec unshare -rm sh -c 'mount --bind /proc /proc; \
                     mount -o remount,bind,ro /proc; \
                     exec \"$0\" refusals::report --exact --nocapture' \"$0\";";
        let (found, steps) = probe_after(setup, "");
        assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::UserMap)));
    }
}

#[test]
fn parts_of_proc_are_covered() {
    if can_play() {
        let setup = "exec unshare -rm sh -c 'mount -t tmpfs none /proc/sys; \
                     exec \"$0\" refusals::report --exact --nocapture' \"$0\";";
        let (found, steps) = probe_after(setup, "");
        assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::Proc)));
    }
}

#[test]
fn sandbox_in_a_sandbox_is_a_weaker_one() {
    for outer in crate::kinds() {
        let world = World::new();
        let line = format!(
            "{REPORT}= exec \"$ATTACK\" refusals::report --exact --nocapture --test-threads=1"
        );
        let output = crate::run(&world, &world.policy(), outer, &line);
        let (found, steps) = parse(output.text.as_bytes());
        assert_eq!((found, &steps[0]), (second_best(), &step(SetupStep::Namespaces)), "{outer}");
    }
}
