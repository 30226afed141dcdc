//! System calls that a sandboxed command may not make.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};

use super::StepResult as _;
use crate::error::{SetupFailure, SetupStep};
use crate::isolation::Isolation;

/// System calls that fail with `EPERM`. Programs do without them, or ask for what a sandbox must
/// not give.
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

/// Linux 6.6; `libc` does not have it for every architecture.
const SYS_FCHMODAT2: libc::c_long = 452;
/// Linux 6.15; `libc` does not have it.
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
/// Linux 5.14; `libc` does not have it for every architecture.
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

/// Mask of a socket's type, without the flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Bit of a system call number that selects the x32 interface of x86-64. Its numbers differ, so
/// that the filters would not apply.
const X32_BIT: u32 = 0x4000_0000;

/// The filters of a command.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    pub(super) fn compile(isolation: Isolation) -> Result<Self, SetupFailure> {
        compile(isolation).map(Self).map_err(io::Error::other).step(SetupStep::Seccomp)
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

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type FilterResult<T> = Result<T, seccompiler::BackendError>;

fn compile(isolation: Isolation) -> FilterResult<Vec<BpfProgram>> {
    let mut denied: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
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
        Isolation::Namespaces => deny_unusual_sockets(&mut denied)?,
        Isolation::Landlock | Isolation::None => {
            deny_all_sockets(&mut denied)?;
            denied.extend(SHARED_OBJECTS.iter().map(|call| (*call, Vec::new())));
            for (call, mode_argument) in CHANGES_OF_MODE {
                let sets = |bit| rule(&[(*mode_argument, MaskedEq(bit), bit)]);
                denied.insert(*call, vec![sets(SET_USER_ID)?, sets(SET_GROUP_ID)?]);
            }
            // The limits of other processes of the user.
            denied.insert(libc::SYS_prlimit64, vec![rule(&[(0, Ne, 0)])?]);
        }
    }
    // `clone3` passes its flags in memory, which a filter cannot read. The C libraries fall back to
    // `clone` if the call does not exist.
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![filter(denied, libc::EPERM)?, filter(absent, libc::ENOSYS)?])
}

/// Denies the sockets that reach more than the command's own network namespace.
fn deny_unusual_sockets(denied: &mut Rules) -> FilterResult<()> {
    let family = |family: libc::c_int| u64::from(family.cast_unsigned());
    let other_families = SOCKET_FAMILIES.map(|known| (0, Ne, family(known)));
    let raw = (1, MaskedEq(SOCKET_TYPE_MASK), u64::from(libc::SOCK_RAW.cast_unsigned()));
    let route = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
    denied.insert(
        libc::SYS_socket,
        vec![
            rule(&other_families)?,
            rule(&[(0, Eq, family(libc::AF_INET)), raw.clone()])?,
            rule(&[(0, Eq, family(libc::AF_INET6)), raw])?,
            rule(&[(0, Eq, family(libc::AF_NETLINK)), (2, Ne, route)])?,
        ],
    );
    denied.insert(libc::SYS_socketpair, vec![rule(&[(0, Ne, family(libc::AF_UNIX))])?]);
    Ok(())
}

/// Denies all sockets except connected pairs.
///
/// A datagram socket of a pair could still send to any address (and a raw one is a datagram
/// socket), so a pair must consist of streams or of sequenced packets.
fn deny_all_sockets(denied: &mut Rules) -> FilterResult<()> {
    let unix = u64::from(libc::AF_UNIX.cast_unsigned());
    let other_type =
        |kind: libc::c_int| (1, MaskedEq(SOCKET_TYPE_MASK), u64::from(kind.cast_unsigned()));
    denied.insert(libc::SYS_socket, Vec::new());
    let connectionless = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_DCCP];
    let mut pairs = vec![rule(&[(0, Ne, unix)])?];
    for kind in connectionless.into_iter().chain([SOCK_PACKET]) {
        pairs.push(rule(&[other_type(kind)])?);
    }
    denied.insert(libc::SYS_socketpair, pairs);
    for call in [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4] {
        denied.insert(call, Vec::new());
    }
    Ok(())
}

/// `SOCK_PACKET`, which is obsolete.
const SOCK_PACKET: libc::c_int = 10;

/// Creates a rule that matches if all conditions on arguments (index, operator, value) do.
///
/// Only the lower half of an argument is compared, because the kernel ignores the upper half in all
/// calls in question.
fn rule(conditions: &[(u8, seccompiler::SeccompCmpOp, u64)]) -> FilterResult<SeccompRule> {
    let conditions = conditions.iter().map(|(index, operator, value)| {
        SeccompCondition::new(*index, Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<FilterResult<_>>()?)
}

/// Compiles a filter that fails matching calls, and kills processes that use another architecture.
fn filter(rules: Rules, errno: libc::c_int) -> FilterResult<BpfProgram> {
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
