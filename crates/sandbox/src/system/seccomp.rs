//! System calls that a sandboxed command may not make.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::StepResult as _;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::Isolation;
use crate::policy::NetworkAccess;

/// System calls that fail with `EPERM`. Programs work without these calls, or use them for actions
/// that a sandbox must not permit.
const DENIED: &[libc::c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Namespaces.
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Large interfaces of the kernel with a history of holes.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// System calls for objects that all processes of a user share without an IPC namespace.
const SHARED_OBJECTS: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// System calls that change the mode of a file, and the index of their argument with the mode.
/// Landlock does not restrict them, so they could make any program of the user set-user-ID.
const CHANGES_OF_MODE: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
];
const SET_USER_ID: u64 = 0o4000;
const SET_GROUP_ID: u64 = 0o2000;

/// Values of the first argument of `setpriority` and `ioprio_set` that select all processes of a
/// user. `libc` does not define the value for `ioprio_set`.
const PRIORITY_OF_USER: u64 = 2;
const IO_PRIORITY_OF_USER: u64 = 3;

/// A system call of Linux 6.6, which `libc` does not define for every architecture.
const SYS_FCHMODAT2: libc::c_long = 452;
/// A system call of Linux 6.15, which `libc` does not define.
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
/// A system call of Linux 5.14, which `libc` does not define for every architecture.
const SYS_QUOTACTL_FD: libc::c_long = 443;

/// Flags of `clone` and `unshare` that create namespaces.
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// A flag of `unshare`; in `clone`, the bit belongs to the exit signal.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// Terminal requests that insert input, as if the user had typed it.
const INPUT_REQUESTS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// The kinds of sockets that a command with a network namespace may create.
const SOCKET_FAMILIES: [libc::c_int; 4] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The kinds of sockets that a command without a network namespace may create in the network of the
/// host. Local sockets are not among them, because the command could connect to local sockets of
/// other programs.
const INTERNET_FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Mask of a socket's type, without the flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Obsolete socket type. In an Internet family, a socket of this type is a packet socket.
const SOCK_PACKET: libc::c_int = 10;

/// Bit of a system call number that selects the x32 interface of x86-64. The numbers of system
/// calls differ in this interface, so the filters would not apply.
const X32_BIT: u32 = 0x4000_0000;

/// The filters of a command.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    pub(super) fn compile(
        isolation: Isolation,
        network: NetworkAccess,
    ) -> Result<Self, SetupFailure> {
        build_filter_programs(isolation, network)
            .map(Self)
            .map_err(io::Error::other)
            .step(SetupStep::Seccomp)
    }

    /// Applies the filters to this process, which must have given up new privileges.
    pub(super) fn install(&self) -> Result<(), SetupFailure> {
        self.0.iter().try_for_each(|filter| {
            apply_filter(filter).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
                    SetupFailure::new(SetupStep::Seccomp, error)
                }
                error => SetupFailure::new(SetupStep::Seccomp, io::Error::other(error)),
            })
        })
    }
}

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;
type FilterResult<T> = Result<T, seccompiler::BackendError>;

fn build_filter_programs(
    isolation: Isolation,
    network: NetworkAccess,
) -> FilterResult<Vec<BpfProgram>> {
    let mut denied: SeccompRules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACE_FLAGS.map(|flag| u64::from(flag.cast_unsigned()));
    let has_flag = |flag| rule(&[(0, MaskedEq(flag), flag)]);
    let cloned = namespaces.into_iter().map(has_flag).collect::<FilterResult<Vec<_>>>()?;
    let mut unshared = cloned.clone();
    unshared.push(has_flag(u64::from(CLONE_NEWTIME.cast_unsigned()))?);
    denied.insert(libc::SYS_clone, cloned);
    denied.insert(libc::SYS_unshare, unshared);
    let inserts_input = INPUT_REQUESTS.map(|request| rule(&[(1, Eq, request)]));
    denied.insert(libc::SYS_ioctl, inserts_input.into_iter().collect::<FilterResult<_>>()?);
    match isolation {
        Isolation::Namespaces => deny_unusual_sockets(&mut denied, &SOCKET_FAMILIES)?,
        Isolation::Landlock | Isolation::None => {
            match network {
                NetworkAccess::Host => deny_unusual_sockets(&mut denied, &INTERNET_FAMILIES)?,
                NetworkAccess::None => deny_sockets_except_pairs(&mut denied),
            }
            deny_datagram_pairs(&mut denied)?;
            denied.extend(SHARED_OBJECTS.iter().map(|call| (*call, Vec::new())));
            for (call, mode_argument) in CHANGES_OF_MODE {
                let sets = |bit| rule(&[(*mode_argument, MaskedEq(bit), bit)]);
                denied.insert(*call, vec![sets(SET_USER_ID)?, sets(SET_GROUP_ID)?]);
            }
            // The limits and priorities of other processes of the user.
            denied.insert(libc::SYS_prlimit64, vec![rule(&[(0, Ne, 0)])?]);
            for (call, all_of_user) in [
                (libc::SYS_setpriority, PRIORITY_OF_USER),
                (libc::SYS_ioprio_set, IO_PRIORITY_OF_USER),
            ] {
                let rules = [rule(&[(1, Ne, 0)])?, rule(&[(0, Eq, all_of_user)])?];
                denied.insert(call, rules.into());
            }
        }
    }
    // `clone3` passes its flags in memory, which a filter cannot read. The C libraries fall back to
    // `clone` if the call does not exist.
    let absent = SeccompRules::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![compile_filter(denied, libc::EPERM)?, compile_filter(absent, libc::ENOSYS)?])
}

/// Denies all sockets except those of `families`. Also denies raw and packet sockets of the
/// Internet families, and Netlink sockets other than those for routing information.
fn deny_unusual_sockets(denied: &mut SeccompRules, families: &[libc::c_int]) -> FilterResult<()> {
    let family = |family: libc::c_int| u64::from(family.cast_unsigned());
    let other_families: Vec<_> = families.iter().map(|known| (0, Ne, family(*known))).collect();
    let route = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
    let mut sockets =
        vec![rule(&other_families)?, rule(&[(0, Eq, family(libc::AF_NETLINK)), (2, Ne, route)])?];
    for internet in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_RAW, SOCK_PACKET] {
            sockets.push(rule(&[(0, Eq, family(internet)), socket_type(kind)])?);
        }
    }
    denied.insert(libc::SYS_socket, sockets);
    denied.insert(libc::SYS_socketpair, vec![rule(&[(0, Ne, family(libc::AF_UNIX))])?]);
    Ok(())
}

/// Denies all sockets except connected pairs.
fn deny_sockets_except_pairs(denied: &mut SeccompRules) {
    let calls =
        [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4];
    denied.extend(calls.map(|call| (call, Vec::new())));
}

/// Denies connected pairs that are not streams or sequenced packets: a datagram socket of a pair
/// could still send to any address (and a raw local socket is a datagram socket).
fn deny_datagram_pairs(denied: &mut SeccompRules) -> FilterResult<()> {
    let unix = u64::from(libc::AF_UNIX.cast_unsigned());
    let connectionless = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP];
    let mut pairs = vec![rule(&[(0, Ne, unix)])?];
    for kind in connectionless.into_iter().chain([SOCK_PACKET]) {
        pairs.push(rule(&[socket_type(kind)])?);
    }
    denied.insert(libc::SYS_socketpair, pairs);
    Ok(())
}

/// Returns the condition for a type of socket.
fn socket_type(kind: libc::c_int) -> (u8, SeccompCmpOp, u64) {
    (1, MaskedEq(SOCKET_TYPE_MASK), u64::from(kind.cast_unsigned()))
}

/// Creates a rule that matches if all conditions on arguments (index, operator, value) are met.
///
/// Only the lower half of an argument is compared, because the kernel ignores the upper half in all
/// calls in question.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> FilterResult<SeccompRule> {
    let conditions = conditions.iter().map(|(index, operator, value)| {
        SeccompCondition::new(*index, Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<FilterResult<_>>()?)
}

/// Compiles a filter. Calls that match a rule fail with `errno`, and processes that use another
/// architecture are killed.
fn compile_filter(rules: SeccompRules, errno: libc::c_int) -> FilterResult<BpfProgram> {
    let errno = SeccompAction::Errno(errno.cast_unsigned());
    let arch = TargetArch::try_from(ARCH)?;
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)?.try_into()?;
    Ok(if cfg!(target_arch = "x86_64") { [x32_denial(), filter].concat() } else { filter })
}

/// Instructions that end a filter with `ENOSYS` for every system call of the x32 interface.
fn x32_denial() -> BpfProgram {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| seccompiler::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let enosys = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    vec![
        // The number of the system call is the first field of `seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(enosys)),
    ]
}

#[cfg(test)]
mod tests;
