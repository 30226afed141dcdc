//! Tests that evaluate the filters as the kernel does.

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
    let results = build_filter_programs(isolation, NetworkAccess::None)
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
    let filters = build_filter_programs(isolation, NetworkAccess::None).unwrap();
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
