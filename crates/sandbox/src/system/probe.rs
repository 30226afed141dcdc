//! Finds the best isolation by trying it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::launch::{SandboxCommand, SandboxedChild};
use super::order::AfterSetup;
use super::remembered;
use super::sys::{kernel_version, landlock_abi};
use crate::command::ProcessSession;
use crate::error::{SandboxError, SetupFailure, SetupStep};
use crate::isolation::{Isolation, IsolationProbe, Refusal};
use crate::policy::SandboxPolicy;

static PROBED: Mutex<Option<Probed>> = Mutex::new(None);

struct Probed {
    probe: &'static IsolationProbe,
    /// The file that the result was read from, if nothing was tried.
    remembered_in: Option<PathBuf>,
}

/// Finds the best isolation that works, by setting up a sandbox in which nothing is started.
///
/// The first call takes some milliseconds, and its result is kept. A result that
/// [`probe_isolation_with_memory`] has only read is tried now, and its file is removed if namespaces
/// do not work.
pub fn probe_isolation() -> &'static IsolationProbe {
    let mut probed = lock_probed();
    let remembered_in = match &*probed {
        Some(Probed { probe, remembered_in: None }) => return probe,
        Some(Probed { remembered_in: Some(file), .. }) => file.clone(),
        None => return keep(&mut probed, try_all(), None),
    };
    // Meanwhile, other threads get the remembered result.
    drop(probed);
    let probe = try_all();
    if probe.isolation != Isolation::Namespaces {
        drop(fs::remove_file(remembered_in));
    }
    keep(&mut lock_probed(), probe, None)
}

/// Like [`probe_isolation`], but tries nothing if a process of the same program has found before
/// that namespaces work, and these conditions have not changed since: the boot, the namespaces, the
/// credentials, the security modules, and the system's limits for namespaces. `file` contains the
/// conditions; its folder must exist.
///
/// A caller that needs the result soon calls this function, and [`probe_isolation`] later, which
/// tries namespaces in any case. If they no longer work then, `file` is removed, and commands that
/// were to run in namespaces fail.
pub fn probe_isolation_with_memory(file: &Path) -> &'static IsolationProbe {
    let mut probed = lock_probed();
    if let Some(Probed { probe, .. }) = &*probed {
        return probe;
    }
    let Ok(conditions) = remembered::read_conditions() else {
        return keep(&mut probed, try_all(), None);
    };
    if remembered::contains(file, &conditions) {
        let probe = IsolationProbe::new(Isolation::Namespaces, Vec::new());
        return keep(&mut probed, probe, Some(file.to_owned()));
    }
    let probe = try_all();
    if probe.isolation == Isolation::Namespaces {
        drop(remembered::write(file, &conditions));
    }
    keep(&mut probed, probe, None)
}

fn lock_probed() -> MutexGuard<'static, Option<Probed>> {
    PROBED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a result until the process ends.
fn keep(
    probed: &mut Option<Probed>,
    probe: IsolationProbe,
    remembered_in: Option<PathBuf>,
) -> &'static IsolationProbe {
    let probe = Box::leak(Box::new(probe));
    *probed = Some(Probed { probe, remembered_in });
    probe
}

impl IsolationProbe {
    fn new(isolation: Isolation, refusals: Vec<Refusal>) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let (landlock_abi, kernel_version) = (landlock_abi(), kernel_version());
        Self { isolation, refusals, landlock_abi, is_root, kernel_version }
    }
}

fn try_all() -> IsolationProbe {
    let mut refusals = Vec::new();
    for isolation in [Isolation::Namespaces, Isolation::Landlock] {
        match start_empty_sandbox(SandboxPolicy::default(), isolation) {
            Ok(child) => {
                // The result is known before the namespaces are removed.
                let wait = thread::Builder::new().spawn(|| drop(child.wait()));
                drop(wait);
                return IsolationProbe::new(isolation, refusals);
            }
            Err(failure) => {
                let hint = hint(isolation, &failure);
                refusals.push(Refusal { isolation, failure, hint });
            }
        }
    }
    IsolationProbe::new(Isolation::None, refusals)
}

/// Sets up a sandbox with namespaces for a policy, starts nothing in it, and returns the error of
/// the set-up. Use it to find out whether a [preview](SandboxPolicy::preview) works. A layer that
/// is empty can still be used by a command afterwards.
///
/// # Errors
/// Returns the step that failed.
pub fn probe_preview(policy: &SandboxPolicy) -> Result<(), SetupFailure> {
    drop(start_empty_sandbox(policy.clone(), Isolation::Namespaces)?.wait());
    Ok(())
}

/// Sets up a sandbox in which nothing is started. Returns the helper, which ends by itself.
fn start_empty_sandbox(
    policy: SandboxPolicy,
    isolation: Isolation,
) -> Result<SandboxedChild, SetupFailure> {
    let failed = |error: SandboxError| match error {
        SandboxError::Setup(failure) => failure,
        SandboxError::Io(error) => SetupFailure::new(SetupStep::Helper, error),
        error => SetupFailure {
            step: SetupStep::Helper,
            path: None,
            errno: None,
            reason: error.to_string(),
        },
    };
    let session = ProcessSession::Inherited;
    let mut command = SandboxCommand::without_program(policy, isolation, session, AfterSetup::Exit)
        .map_err(failed)?;
    command.helper_command().current_dir("/");
    command.helper_command().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(failed)
}

/// Returns what the user can do about a refusal.
fn hint(isolation: Isolation, failure: &SetupFailure) -> Option<String> {
    let is = |file: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(file)).is_ok_and(|is| is.trim() == value)
    };
    let denials = [libc::EPERM, libc::EACCES, libc::ENOSPC, libc::EROFS];
    let is_denied = failure.errno.is_some_and(|errno| denials.contains(&errno));
    let hint = match isolation {
        Isolation::Landlock if failure.errno == Some(libc::EOPNOTSUPP) => {
            "Isolation by Landlock needs Linux 6.2 or newer, and Landlock must be in the kernel's list \
             of security modules (boot parameter lsm=landlock,...)"
        }
        Isolation::Namespaces if failure.errno == Some(libc::ENOSYS) => {
            "Isolation by namespaces needs Linux 5.12 or newer"
        }
        Isolation::Namespaces if !is_denied => return None,
        Isolation::Namespaces if is("kernel/apparmor_restrict_unprivileged_userns", "1") => {
            "Ubuntu's AppArmor restricts user namespaces. An administrator can permit them for this \
             program by an AppArmor profile with the rule `userns,`, or for all programs by `sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0`"
        }
        Isolation::Namespaces if is("user/max_user_namespaces", "0") => {
            "An administrator can permit user namespaces by `sysctl user.max_user_namespaces=10000`"
        }
        Isolation::Namespaces if is("kernel/unprivileged_userns_clone", "0") => {
            "An administrator can permit user namespaces by `sysctl \
             kernel.unprivileged_userns_clone=1`"
        }
        Isolation::Namespaces
            if failure.step == SetupStep::Proc || failure.errno == Some(libc::EROFS) =>
        {
            "Parts of /proc are covered or read-only, as in containers. Docker leaves them \
             uncovered with `--security-opt systempaths=unconfined`"
        }
        Isolation::Namespaces if is_container() => {
            "The container's profiles forbid it. Docker permits it with `--security-opt \
             seccomp=unconfined --security-opt apparmor=unconfined`"
        }
        Isolation::Landlock | Isolation::None | Isolation::Namespaces => return None,
    };
    Some(hint.to_owned())
}

fn is_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].into_iter().any(|file| Path::new(file).exists())
}
