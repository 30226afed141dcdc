//! Rights and resources that a process gives up before it becomes the command.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::sys::system_process_count;
use crate::isolation::Isolation;
use crate::policy::SandboxLimits;

/// Capabilities that root keeps. They concern the permissions of files, so that root can work with
/// files of other users in the writable folders. Mounts and Landlock restrict root nevertheless.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Limit of the size of core dumps. A program outside of the sandbox may handle the dumps of all
/// processes (`core_pattern`). With this limit, the kernel does not pass a dump to such a program
/// either. With a limit of 0, it would pass the dump.
pub(super) const NO_CORE_DUMP: u64 = 1;

/// Gives up capabilities for good. Also prevents this process and its children from gaining rights
/// by set-user-ID bits.
pub(super) fn drop_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let is_root = rustix::process::geteuid().is_root();
    let kept = if is_root { KEPT_BY_ROOT } else { CapabilitySet::empty() };
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(kept).iter() {
            match remove_capability_from_bounding_set(capability) {
                Ok(()) => {}
                // The kernel knows neither this capability nor any capability with a higher number.
                Err(Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    let permitted = capabilities(None)?.permitted.intersection(kept);
    let sets =
        CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Sets the limits of a command. A limit never exceeds the maximum that this process may set.
pub(super) fn limit_resources(limits: &SandboxLimits, isolation: Isolation) -> io::Result<()> {
    let processes = limits.processes.map(|count| match isolation {
        // The kernel counts the processes of a user in each user namespace separately.
        Isolation::Namespaces => count,
        Isolation::Landlock | Isolation::None => count.saturating_add(system_process_count()),
    });
    let wanted = [
        (Resource::Nproc, processes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Data, limits.memory_bytes),
        (Resource::Core, Some(NO_CORE_DUMP)),
    ];
    for (resource, limit) in wanted {
        if let Some(limit) = limit {
            let maximum = getrlimit(resource).maximum;
            let limit = maximum.map_or(limit, |maximum| maximum.min(limit));
            setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
        }
    }
    Ok(())
}
