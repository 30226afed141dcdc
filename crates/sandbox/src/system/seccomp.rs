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
        compile(isolation, network).map(Self).map_err(io::Error::other).step(SetupStep::Seccomp)
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

fn compile(isolation: Isolation, network: NetworkAccess) -> FilterResult<Vec<BpfProgram>> {
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
                NetworkAccess::None => deny_all_sockets(&mut denied),
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
fn deny_all_sockets(denied: &mut SeccompRules) {
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
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use libc::c_long;
    use pretty_assertions::assert_eq;

    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;
    #[cfg(target_arch = "riscv64")]
    const ARCHITECTURE: u32 = 0xc000_00f3;
    /// 32-bit programs on x86-64.
    const OTHER_ARCHITECTURE: u32 = 0x4000_0003;

    /// Higher than the number of any system call that the filters know.
    const END_OF_NUMBERS: c_long = 600;

    /// Result of filters for a system call.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Verdict {
        Kill,
        Errno(u32),
        Allow,
    }
    use Verdict::{Allow, Errno, Kill};

    const EPERM: Verdict = Errno(libc::EPERM.cast_unsigned());
    const ENOSYS: Verdict = Errno(libc::ENOSYS.cast_unsigned());

    /// Runs a filter as the kernel does.
    fn evaluate(program: &BpfProgram, data: &[u32; 16]) -> u32 {
        let (mut accumulator, mut position) = (0, 0);
        loop {
            let instruction = &program[position];
            let (code, k) = (u32::from(instruction.code), instruction.k);
            position += 1;
            let jump =
                |is_true: bool| usize::from(if is_true { instruction.jt } else { instruction.jf });
            const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
            const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
            const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
            const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
            const GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
            const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
            match code {
                LOAD => accumulator = data[k as usize / 4],
                AND => accumulator &= k,
                JUMP => position += k as usize,
                EQUAL => position += jump(accumulator == k),
                AT_LEAST => position += jump(accumulator >= k),
                GREATER => position += jump(accumulator > k),
                RETURN => return k,
                _ => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    /// Returns the result of all filters of an isolation. The strictest one applies.
    fn verdict(isolation: Isolation, arch: u32, number: c_long, args: &[u64]) -> Verdict {
        let mut data = [0; 16];
        (data[0], data[1]) = (u32::try_from(number).unwrap(), arch);
        for (index, arg) in args.iter().enumerate() {
            data[4 + 2 * index] = (arg & 0xffff_ffff) as u32;
            data[5 + 2 * index] = (arg >> 32) as u32;
        }
        let results = compile(isolation, NetworkAccess::None)
            .unwrap()
            .into_iter()
            .map(|it| evaluate(&it, &data));
        let verdicts = results.map(|result| match result & libc::SECCOMP_RET_ACTION_FULL {
            libc::SECCOMP_RET_KILL_PROCESS => Kill,
            libc::SECCOMP_RET_ERRNO => Errno(result & libc::SECCOMP_RET_DATA),
            libc::SECCOMP_RET_ALLOW => Allow,
            other => panic!("unknown action {other:#x}"),
        });
        verdicts.min().unwrap()
    }

    fn check(isolation: Isolation, number: c_long, args: &[u64], expected: Verdict) {
        let actual = verdict(isolation, ARCHITECTURE, number, args);
        assert_eq!(actual, expected, "{isolation}: system call {number} {args:?}");
    }

    fn check_both(number: c_long, args: &[u64], expected: Verdict) {
        check(Isolation::Namespaces, number, args, expected);
        check(Isolation::Landlock, number, args, expected);
    }

    /// Returns the system calls that are denied if all arguments are zero.
    fn denied(isolation: Isolation) -> BTreeSet<c_long> {
        let filters = compile(isolation, NetworkAccess::None).unwrap();
        let is_denied = |number: &c_long| {
            let mut data = [0; 16];
            (data[0], data[1]) = (u32::try_from(*number).unwrap(), ARCHITECTURE);
            filters.iter().any(|it| evaluate(it, &data) != libc::SECCOMP_RET_ALLOW)
        };
        (0..END_OF_NUMBERS).filter(is_denied).collect()
    }

    /// All of [`DENIED`] again, so that no entry is lost by mistake.
    fn denied_in_both() -> BTreeSet<c_long> {
        let mut numbers = BTreeSet::from([
            libc::SYS_acct,
            libc::SYS_add_key,
            libc::SYS_bpf,
            libc::SYS_chroot,
            libc::SYS_clock_settime,
            libc::SYS_clone3,
            libc::SYS_delete_module,
            libc::SYS_fanotify_init,
            libc::SYS_finit_module,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fsopen,
            libc::SYS_fspick,
            libc::SYS_init_module,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_io_uring_setup,
            libc::SYS_kcmp,
            libc::SYS_kexec_file_load,
            libc::SYS_kexec_load,
            libc::SYS_keyctl,
            libc::SYS_mount,
            libc::SYS_mount_setattr,
            libc::SYS_move_mount,
            libc::SYS_open_by_handle_at,
            libc::SYS_open_tree,
            SYS_OPEN_TREE_ATTR,
            libc::SYS_perf_event_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pivot_root,
            libc::SYS_process_madvise,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
            libc::SYS_quotactl,
            SYS_QUOTACTL_FD,
            libc::SYS_reboot,
            libc::SYS_request_key,
            libc::SYS_setdomainname,
            libc::SYS_sethostname,
            libc::SYS_setns,
            libc::SYS_settimeofday,
            // The family 0 is not one of the permitted families.
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_swapoff,
            libc::SYS_swapon,
            libc::SYS_syslog,
            libc::SYS_umount2,
            libc::SYS_userfaultfd,
            libc::SYS_vhangup,
        ]);
        #[cfg(target_arch = "x86_64")]
        numbers.extend([libc::SYS_ioperm, libc::SYS_iopl]);
        numbers
    }

    #[test]
    fn denied_system_calls_with_namespaces_are_these() {
        assert_eq!(denied(Isolation::Namespaces), denied_in_both());
    }

    #[test]
    fn denied_system_calls_with_landlock_are_these() {
        let mut expected = denied_in_both();
        expected.extend([
            libc::SYS_accept4,
            libc::SYS_bind,
            libc::SYS_connect,
            libc::SYS_listen,
            libc::SYS_mq_open,
            libc::SYS_mq_unlink,
            libc::SYS_msgctl,
            libc::SYS_msgget,
            libc::SYS_msgrcv,
            libc::SYS_msgsnd,
            libc::SYS_semctl,
            libc::SYS_semget,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_shmat,
            libc::SYS_shmctl,
            libc::SYS_shmget,
        ]);
        assert_eq!(denied(Isolation::Landlock), expected);
    }

    #[test]
    fn denied_system_calls_fail_with_eperm_whatever_their_arguments() {
        for number in DENIED {
            check_both(*number, &[u64::MAX; 6], EPERM);
            check_both(*number, &[1, 2, 3, 4, 5, 6], EPERM);
        }
        check_both(libc::SYS_clone3, &[], ENOSYS);
    }

    #[test]
    fn namespaces_are_denied_by_flags() {
        let high = 1 << 40;
        let threads = u64::from((libc::CLONE_VM | libc::CLONE_THREAD).cast_unsigned());
        for flag in NAMESPACE_FLAGS.map(|flag| u64::from(flag.cast_unsigned())) {
            for number in [libc::SYS_clone, libc::SYS_unshare] {
                for flags in [flag, flag | threads, flag | high] {
                    check_both(number, &[flags], EPERM);
                }
            }
        }
        check_both(libc::SYS_clone, &[threads | high], Allow);
        check_both(libc::SYS_unshare, &[u64::from(CLONE_NEWTIME.cast_unsigned())], EPERM);
        check_both(libc::SYS_unshare, &[u64::from(libc::CLONE_FILES.cast_unsigned())], Allow);
    }

    #[test]
    fn input_of_terminals_is_denied() {
        for request in INPUT_REQUESTS {
            check_both(libc::SYS_ioctl, &[0, request], EPERM);
            check_both(libc::SYS_ioctl, &[0, request | 1 << 32], EPERM);
        }
        check_both(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ], Allow);
    }

    #[test]
    fn sockets_are_denied_by_family_and_type() {
        let socket = |family: libc::c_int, kind: libc::c_int, protocol: libc::c_int| {
            let args = [family, kind, protocol].map(|arg| u64::from(arg.cast_unsigned()));
            verdict(Isolation::Namespaces, ARCHITECTURE, libc::SYS_socket, &args)
        };
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_STREAM | flags] {
                assert_eq!(socket(family, kind, 0), Allow, "{family}, {kind}");
            }
            for kind in [libc::SOCK_RAW, SOCK_PACKET, libc::SOCK_RAW | flags, SOCK_PACKET | flags] {
                assert_eq!(socket(family, kind, 0), EPERM, "{family}, {kind}");
            }
        }
        assert_eq!(socket(libc::AF_UNIX, libc::SOCK_STREAM, 0), Allow);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE), Allow);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT), EPERM);
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH] {
            assert_eq!(socket(family, libc::SOCK_DGRAM, 0), EPERM, "{family}");
        }
        // Landlock permits only connected pairs.
        let unix = u64::from(libc::AF_UNIX.cast_unsigned());
        for (kind, expected) in [
            (libc::SOCK_STREAM, Allow),
            (libc::SOCK_SEQPACKET | flags, Allow),
            (libc::SOCK_DGRAM, EPERM),
            (libc::SOCK_RAW | flags, EPERM),
            (SOCK_PACKET, EPERM),
        ] {
            let args = [unix, u64::from(kind.cast_unsigned())];
            check(Isolation::Landlock, libc::SYS_socket, &args, EPERM);
            check(Isolation::Landlock, libc::SYS_socketpair, &args, expected);
            check(Isolation::Namespaces, libc::SYS_socketpair, &args, Allow);
        }
    }

    #[test]
    fn set_user_id_bits_and_properties_of_others_are_denied_with_landlock() {
        for (number, argument) in CHANGES_OF_MODE {
            for (mode, expected) in [(0o755, Allow), (0o4755, EPERM), (0o2755, EPERM)] {
                let mut args = [0; 4];
                args[usize::from(*argument)] = mode;
                check(Isolation::Landlock, *number, &args, expected);
                check(Isolation::Namespaces, *number, &args, Allow);
            }
        }
        check(Isolation::Landlock, libc::SYS_prlimit64, &[1], EPERM);
        check(Isolation::Namespaces, libc::SYS_prlimit64, &[1], Allow);
        for number in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
            check(Isolation::Landlock, number, &[0, 1], EPERM);
            check(Isolation::Landlock, number, &[1, 0], Allow);
            check(Isolation::Namespaces, number, &[0, 1], Allow);
        }
        check(Isolation::Landlock, libc::SYS_setpriority, &[2, 0], EPERM);
        check(Isolation::Landlock, libc::SYS_ioprio_set, &[3, 0], EPERM);
    }

    #[test]
    fn programs_of_another_architecture_are_killed() {
        for isolation in [Isolation::Namespaces, Isolation::Landlock] {
            let verdict = |number| verdict(isolation, OTHER_ARCHITECTURE, number, &[]);
            assert_eq!((verdict(0), verdict(20), verdict(400)), (Kill, Kill, Kill));
        }
        if cfg!(target_arch = "x86_64") {
            check_both(c_long::from(X32_BIT), &[], ENOSYS);
            check_both(libc::SYS_getpid | c_long::from(X32_BIT), &[], ENOSYS);
        }
    }
}
