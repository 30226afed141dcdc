//! Shell lines that try to reach other processes, the network and the kernel.

/// Lines that fail in each sandbox, and succeed without one.
pub(crate) const BOTH: &[&str] = &[
    // Other processes.
    r#"tr '\0' '\n' < /proc/$OTHER/environ"#,
    r#"tr '\0' '\n' < /proc/$OTHER/task/$OTHER/environ"#,
    r#"cat /proc/[0-9]*/environ | tr '\0' '\n' | grep ANOTHER-PROCESS"#,
    r#"ps eww -p "$OTHER""#,
    r#"python3 -c 'import os, re
process = "/proc/" + os.environ["OTHER"]
start, end = re.search("(\\w+)-(\\w+) .*stack", open(process + "/maps").read()).groups()
start, end = int(start, 16), int(end, 16)
memory = open(process + "/mem", "rb", 0)
memory.seek(start)
print(re.search(b"SECRET-OF[-A-Z]*", memory.read(end - start)))'"#,
    r#"grep -q . "/proc/$OTHER/maps" && echo ESCAPED"#,
    r#"grep -q . "/proc/$OTHER/io" && echo ESCAPED"#,
    r#"readlink "/proc/$OTHER/exe" && echo ESCAPED"#,
    r#"readlink "/proc/$OTHER/cwd" && echo ESCAPED"#,
    r#"readlink "/proc/$OTHER/ns/mnt" && echo ESCAPED"#,
    r#"(exec 3<> "/proc/$OTHER/fd/0") && echo ESCAPED"#,
    r#"cd "/proc/$OTHER/cwd" && echo ESCAPED"#,
    r#"grep -qz . "/proc/$PPID/environ" && echo ESCAPED"#,
    r#"readlink "/proc/$PPID/exe" && echo ESCAPED"#,
    r#"(exec 3<> "/proc/$PPID/mem") && echo ESCAPED"#,
    r#"echo 900 > "/proc/$OTHER/oom_score_adj" && echo ESCAPED"#,
    r#"echo 0 > "/proc/$OTHER/coredump_filter" && echo ESCAPED"#,
    r#"prlimit --pid "$OTHER" --nofile=64 && echo ESCAPED"#,
    r#"renice -n 19 -p "$OTHER" && echo ESCAPED"#,
    r#"ionice -c 3 -p "$OTHER" && echo ESCAPED"#,
    r#"python3 -c 'import os, resource
resource.prlimit(int(os.environ["OTHER"]), resource.RLIMIT_CPU, (9, 9))' && echo ESCAPED"#,
    // Limits.
    r#"truncate -s 65M large && echo ESCAPED"#,
    r#"dd if=/dev/zero of=large bs=1 count=1 seek=65M && echo ESCAPED"#,
    // Connections.
    r#"bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT && echo ESCAPED'"#,
    r#"bash -c 'exec 3<>/dev/tcp/0/$PORT && echo ESCAPED'"#,
    r#"curl -s --max-time 0.5 "http://127.0.0.1:$PORT/""#,
    r#"curl -s --max-time 0.5 "http://2130706433:$PORT/""#,
    r#"curl -s --max-time 0.5 --proxy "socks5h://127.0.0.1:$PORT" http://host.invalid/"#,
    r#"wget -q -T 0.5 -t 1 -O - "http://127.0.0.1:$PORT/""#,
    r#"timeout 1 git ls-remote "git://127.0.0.1:$PORT/x""#,
    r#"perl -e 'use IO::Socket::INET;
IO::Socket::INET->new("127.0.0.1:$ENV{PORT}") or die $!'"#,
    r#"python3 -c 'import os, socket
socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 1)'"#,
    r#"python3 -c 'import os, socket
socket.create_connection(("::ffff:127.0.0.1", int(os.environ["PORT"])), 1)'"#,
    r#"python3 -c 'import os, socket
socket.socket().sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", int(os.environ["PORT"])))'"#,
    r#"python3 -c 'import os, socket
multipath = socket.socket(type=socket.SOCK_STREAM, proto=262)
multipath.connect(("127.0.0.1", int(os.environ["PORT"])))'"#,
    r#"curl -s --max-time 0.5 --unix-socket "$SOCKET" http://x/"#,
    r#"curl -s --max-time 0.5 --unix-socket link-out/socket http://x/"#,
    r#"curl -s --max-time 0.5 --unix-socket "/proc/self/root$SOCKET" http://x/"#,
    r#"curl -s --max-time 0.5 --abstract-unix-socket "$ABSTRACT" http://x/"#,
    r#"cp "$SOCKET" s; mv "$SOCKET" s; ln "$SOCKET" s
curl -s --max-time 0.5 --unix-socket s http://x/"#,
    r#"ln -s "$SOCKET" s; curl -s --max-time 0.5 --unix-socket s http://x/"#,
    r#"cd "$OUTSIDE"; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("socket")'"#,
    r#"python3 -c 'import os, socket
file = os.open(os.environ["SOCKET"], os.O_PATH)
socket.socket(socket.AF_UNIX).connect(f"/proc/self/fd/{file}")'"#,
    r#"python3 -c 'import os, socket
socket.socket(socket.AF_UNIX).connect("\0" + os.environ["ABSTRACT"])'"#,
    r#"perl -MSocket -e 'socket S, AF_UNIX, SOCK_STREAM, 0;
connect S, sockaddr_un($ENV{SOCKET}) or die $!'"#,
    r#"SSH_AUTH_SOCK="$SOCKET" timeout 1 ssh-add -l"#,
    r#"DOCKER_HOST="unix://$SOCKET" timeout 1 docker ps"#,
    r#"DBUS_SESSION_BUS_ADDRESS="unix:path=$SOCKET" timeout 1 dbus-send --session / a.b.c"#,
    r#"DBUS_SESSION_BUS_ADDRESS="unix:abstract=$ABSTRACT" timeout 1 dbus-send --session / a.b.c"#,
];

/// Lines that fail in each sandbox, and that no test runs without a sandbox.
pub(crate) const BOTH_WITHOUT_CONTROL: &[&str] = &[
    // Other processes.
    r#"strace -p "$OTHER" & sleep 0.1; kill $!"#,
    r#"gdb -p "$OTHER" -batch -ex 'call (int) raise(9)'"#,
    r#"python3 -c 'import ctypes, os, sys
sys.exit(ctypes.CDLL(None).ptrace(0x4206, int(os.environ["OTHER"]), 0, 0) < 0)' && echo ESCAPED"#,
    r#"perl -e '$process = syscall(434, $ENV{OTHER} + 0, 0);
exit(syscall(438, $process, 0, 0) < 0)' && echo ESCAPED"#,
    // Namespaces, roots and mounts.
    r#"unshare -r true && echo ESCAPED"#,
    r#"unshare -rm sh -c 'mount -o remount,rw / && echo x > "$OUTSIDE/file"'"#,
    r#"unshare -U true && echo ESCAPED"#,
    r#"unshare -n true && echo ESCAPED"#,
    r#"unshare -i true && echo ESCAPED"#,
    r#"unshare -u true && echo ESCAPED"#,
    r#"unshare -C true && echo ESCAPED"#,
    r#"unshare -T true && echo ESCAPED"#,
    r#"unshare -fp true && echo ESCAPED"#,
    r#"unshare -rpf --mount-proc cat "/proc/$OTHER/environ""#,
    r#"nsenter -t 1 -m true && echo ESCAPED"#,
    r#"nsenter -t 1 -a true && echo ESCAPED"#,
    r#"nsenter -t "$OTHER" -m -U true && echo ESCAPED"#,
    r#"nsenter -t "$OTHER" -n true && echo ESCAPED"#,
    r#"nsenter --net=/proc/$PPID/ns/net true && echo ESCAPED"#,
    r#"nsenter --user=/proc/self/ns/user true && echo ESCAPED"#,
    r#"python3 -c 'import ctypes, sys
sys.exit(ctypes.CDLL(None).unshare(0x10020000))' && echo ESCAPED"#,
    r#"python3 -c 'import ctypes, os, sys
process = os.pidfd_open(int(os.environ["OTHER"]))
sys.exit(ctypes.CDLL(None).setns(process, 0x40000000))' && echo ESCAPED"#,
    r#"echo 0 0 1 > /proc/self/uid_map && echo ESCAPED"#,
    r#"newuidmap "$$" 0 0 1 && echo ESCAPED"#,
    r#"chroot / true && echo ESCAPED"#,
    r#"python3 -c 'import os; os.chroot(".")' && echo ESCAPED"#,
    r#"mkdir old; pivot_root . old && echo ESCAPED"#,
    r#"mount -t tmpfs none src && echo ESCAPED"#,
    r#"mount -t proc proc src && echo ESCAPED"#,
    r#"mount -t overlay none -o "lowerdir=$OUTSIDE,upperdir=src,workdir=docs" src && echo ESCAPED"#,
    r#"mount -o remount,rw / && echo ESCAPED"#,
    r#"mount -o remount,bind,suid,dev,exec "$PROJECT" && echo ESCAPED"#,
    r#"mount --bind src docs && echo ESCAPED"#,
    r#"mount --move src docs && echo ESCAPED"#,
    r#"mount --make-rshared "$PROJECT" && echo ESCAPED"#,
    r#"truncate -s 8M disk; mkfs.ext4 -q disk; mkdir mnt; mount -o loop disk mnt && echo ESCAPED"#,
    r#"truncate -s 1M disk; losetup -f disk && echo ESCAPED"#,
    r#"head -c 1M /dev/zero > swap; chmod 600 swap; mkswap swap; swapon swap && echo ESCAPED"#,
    r#"umount "$PROJECT" && echo ESCAPED"#,
    r#"umount -l /tmp && echo ESCAPED"#,
    r#"fusermount3 -u "$PROJECT" && echo ESCAPED; fusermount -u "$PROJECT" && echo ESCAPED"#,
    r#"perl -e '$path = "/"; exit(syscall(428, -100, $path, 1) < 0)' && echo ESCAPED"#,
    r#"perl -e '$name = "tmpfs"; exit(syscall(430, $name, 0) < 0)' && echo ESCAPED"#,
    // Rights.
    r#"sudo -n true && echo ESCAPED"#,
    r#"doas -n true && echo ESCAPED"#,
    r#"pkexec --disable-internal-agent true && echo ESCAPED"#,
    r#"su -c true 2>/dev/null < /dev/null && [ "$(id -u)" != 0 ] && echo ESCAPED"#,
    r#"setpriv --reuid=65534 --clear-groups true && echo ESCAPED"#,
    r#"setpriv --inh-caps=+sys_admin --ambient-caps=+sys_admin true && echo ESCAPED"#,
    r#"capsh --user=nobody -- -c true && echo ESCAPED"#,
    r#"python3 -c 'import os; os.setresuid(1, 1, 1)' && echo ESCAPED"#,
    r#"python3 -c 'import os; os.setgroups([0, 6])' && echo ESCAPED"#,
    r#"python3 -c 'import ctypes, sys
sys.exit(ctypes.CDLL(None).prctl(38, 0, 0, 0, 0) < 0)' && echo ESCAPED"#,
    r#"nice -n -20 true 2>&1 | grep -q . || echo ESCAPED"#,
    r#"chrt -f 1 true && echo ESCAPED"#,
    r#"ulimit -f unlimited && echo ESCAPED"#,
    r#"ulimit -c unlimited && echo ESCAPED"#,
    r#"prlimit --pid "$$" --fsize=unlimited:unlimited && echo ESCAPED"#,
    r#"echo -1000 > /proc/self/oom_score_adj && echo ESCAPED"#,
    // Devices and terminals.
    r#"mknod disk b 254 0 && echo ESCAPED"#,
    r#"mknod mem c 1 1 && echo ESCAPED"#,
    r#"python3 -c 'import os, stat
os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))' && echo ESCAPED"#,
    r#"head -c 1 /dev/vda && echo ESCAPED"#,
    r#"head -c 1 /dev/mem && echo ESCAPED"#,
    r#"find /dev -type b | grep . && echo ESCAPED"#,
    r#"for d in kvm fuse net/tun; do (exec 3<> /dev/$d) && echo ESCAPED; done"#,
    r#"for d in kmsg port loop-control userfaultfd uinput vhost-vsock vsock; do
[ -e /dev/$d ] && (exec 3< /dev/$d) && echo ESCAPED; done"#,
    r#"for d in /dev/input/event* /dev/snd/* /dev/dri/* /dev/video* /dev/hidraw*; do
[ -c "$d" ] && (exec 3< "$d") && echo ESCAPED; done"#,
    r#"for d in /dev/tty[0-9]* /dev/pts/[0-9]* /dev/console /dev/vcs*; do
[ -c "$d" ] && (exec 3>> "$d") && echo ESCAPED; done"#,
    r#"python3 -c 'import fcntl, os, termios
fcntl.ioctl(os.openpty()[1], termios.TIOCSTI, b"x")' && echo ESCAPED"#,
    r#"script -qec 'perl -e "\$x = 1; ioctl(STDIN, 0x5412, \$x) or die"' /dev/null &&
echo ESCAPED"#,
    // Files of the kernel. They keep their values.
    r#"cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo ESCAPED"#,
    r#"for f in kernel/modprobe kernel/randomize_va_space vm/swappiness fs/file-max; do
v=$(cat /proc/sys/$f) && echo "$v" > /proc/sys/$f && echo ESCAPED; done"#,
    r#"for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/core/somaxconn; do
v=$(cat $f) && echo "$v" > $f && echo ESCAPED; done"#,
    r#"for f in /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent; do
v=$(cat "$f") && echo "$v" > "$f" && echo ESCAPED; done"#,
    r#"for f in /sys/kernel/uevent_helper /sys/block/*/queue/nr_requests /sys/kernel/mm/ksm/run; do
v=$(cat "$f") && echo "$v" > "$f" && echo ESCAPED; done"#,
    r#"for f in tasks cgroup.procs; do for d in /sys/fs/cgroup /sys/fs/cgroup/*/; do
[ -e "$d/$f" ] && echo $$ > "$d/$f" && echo ESCAPED; done; done"#,
    r#"[ -e /proc/sys/fs/binfmt_misc/register ] &&
(exec 3> /proc/sys/fs/binfmt_misc/register) && echo ESCAPED"#,
    r#"cat /sys/kernel/tracing/tracing_on > /sys/kernel/tracing/tracing_on && echo ESCAPED"#,
    r#"(exec 3>> /sys/power/state) && echo ESCAPED; (exec 3>> /proc/acpi/wakeup) && echo ESCAPED"#,
    r#"echo 1 > /proc/sys/vm/drop_caches && echo ESCAPED"#,
    r#"echo h > /proc/sysrq-trigger && echo ESCAPED"#,
    r#"echo 0 > /proc/sys/kernel/yama/ptrace_scope && echo ESCAPED"#,
    r#"echo 1 > /sys/fs/cgroup/cgroup.procs && echo ESCAPED"#,
    r#"mkdir /sys/fs/cgroup/memory/evil && echo ESCAPED"#,
    r#"cat /proc/kcore | head -c 1 | grep -q . && echo ESCAPED"#,
    // System calls about the machine.
    r#"sysctl -w kernel.hostname="$(hostname)" && echo ESCAPED"#,
    r#"hostname "$(hostname)" && echo ESCAPED"#,
    r#"domainname "$(domainname)" && echo ESCAPED"#,
    r#"date -s "$(date)" && echo ESCAPED"#,
    r#"python3 -c 'import time; time.clock_settime(0, time.time())' && echo ESCAPED"#,
    r#"modprobe dummy && echo ESCAPED"#,
    r#"insmod src/main.rs && echo ESCAPED"#,
    r#"dmesg | grep -q . && echo ESCAPED"#,
    r#"keyctl show && echo ESCAPED"#,
    r#"perf stat true && echo ESCAPED"#,
    r#"bpftool prog list && echo ESCAPED"#,
    r#"perl -e '$p = "\0" x 120; exit(syscall(425, 4, $p) < 0)' && echo ESCAPED"#,
    r#"printf 'int main() { int r = 20; __asm__ volatile("int $0x80" : "+a"(r)); return r <= 0; }' |
cc -x c - -o a && ./a && echo ESCAPED"#,
    // Services that run commands for others.
    r#"systemd-run --quiet --wait true && echo ESCAPED"#,
    r#"systemd-run --user --quiet --wait true && echo ESCAPED"#,
    r#"run0 --no-ask-password true && echo ESCAPED"#,
    r#"busctl --system list && echo ESCAPED"#,
    r#"busctl --user list && echo ESCAPED"#,
    r#"dbus-send --system --print-reply --dest=org.freedesktop.DBus / \
org.freedesktop.DBus.ListNames && echo ESCAPED"#,
    r#"loginctl list-sessions && echo ESCAPED"#,
    r#"machinectl shell .host /bin/true && echo ESCAPED"#,
    r#"flatpak-spawn --host true && echo ESCAPED"#,
    r#"docker ps && echo ESCAPED; podman --remote ps && echo ESCAPED"#,
    r#"echo true | at now && echo ESCAPED"#,
    r#"crontab -l > c && crontab c && echo ESCAPED"#,
    r#"logger --socket-errors=on evil && echo ESCAPED"#,
    r#"systemd-cat true && echo ESCAPED"#,
    r#"ssh -o BatchMode=yes -o ConnectTimeout=1 localhost true && echo ESCAPED"#,
    r#"for s in /tmp/tmux-*/* /run/screen/*/*; do
tmux -S "$s" list-sessions && echo ESCAPED; done"#,
    r#"DISPLAY=:0 xset q && echo ESCAPED; DISPLAY=:0 xdotool getmouselocation && echo ESCAPED"#,
    r#"wl-paste && echo ESCAPED; xclip -o && echo ESCAPED"#,
    r#"gpg-connect-agent --no-autostart 'GETINFO version' /bye | grep -q OK && echo ESCAPED"#,
    r#"cmd.exe /c ver && echo ESCAPED"#,
    r#"ls /run/docker.sock /var/run/docker.sock /run/dbus /run/user/*/* 2>/dev/null &&
echo ESCAPED"#,
    // Networks.
    r#"curl -s --max-time 1 http://192.0.2.1/ && echo ESCAPED"#,
    r#"curl -s --max-time 1 http://169.254.169.254/ && echo ESCAPED"#,
    r#"curl -s --max-time 1 http://host.docker.internal/ && echo ESCAPED"#,
    r#"getent ahosts example.com && echo ESCAPED"#,
    r#"python3 -c 'import socket; socket.getaddrinfo("example.com", 80)' && echo ESCAPED"#,
    r#"bash -c 'echo x > /dev/udp/192.0.2.1/53' && echo ESCAPED"#,
    r#"bash -c 'echo x > /dev/udp/2001:db8::1/53' && echo ESCAPED"#,
    r#"python3 -c 'import socket
s = socket.socket(type=socket.SOCK_DGRAM); s.setsockopt(1, 6, 1)
s.sendto(b"x", ("255.255.255.255", 9))' && echo ESCAPED"#,
    r#"python3 -c 'import socket
socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("224.0.0.251", 5353))' && echo ESCAPED"#,
    r#"ping -c 1 -W 1 192.0.2.1 && echo ESCAPED; ping -c 1 -W 1 8.8.8.8 && echo ESCAPED"#,
    r#"python3 -c 'import socket; socket.socket(type=socket.SOCK_RAW, proto=1)' && echo ESCAPED"#,
    r#"python3 -c 'import socket
socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)' && echo ESCAPED"#,
    r#"python3 -c 'import socket; socket.socket(17, socket.SOCK_DGRAM, 0)' && echo ESCAPED"#,
    r#"python3 -c 'import itertools, socket
for family, kind in itertools.product({*range(3, 46)} - {10, 16}, [1, 2, 3, 5]):
    try: socket.socket(family, kind)
    except OSError: continue
    print("ESC" + "APED", family, kind)'"#,
    r#"python3 -c 'import socket
for protocol in range(1, 23):
    try: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    except OSError: continue
    print("ESC" + "APED", protocol)'"#,
    r#"ip link add evil type dummy && ip link del evil && echo ESCAPED"#,
    r#"ip link set lo mtu 65536 && echo ESCAPED"#,
    r#"iptables -L -n && echo ESCAPED; nft list ruleset && echo ESCAPED"#,
];

/// Lines that signal other processes.
pub(crate) const SIGNALS: &[&str] = &[
    r#"kill -0 "$OTHER" && echo ESCAPED"#,
    r#"kill -9 "$OTHER" && echo ESCAPED"#,
    r#"kill -STOP "$OTHER" && echo ESCAPED"#,
    r#"echo "$OTHER" > p; pkill -9 -F p && echo ESCAPED"#,
    r#"perl -e 'exit(kill("TERM", $ENV{OTHER}) == 0)' && echo ESCAPED"#,
    r#"python3 -c 'import os, signal
signal.pidfd_send_signal(os.pidfd_open(int(os.environ["OTHER"])), 9)' && echo ESCAPED"#,
    // The kernel sends a signal when there is something to read.
    r#"python3 -c 'import fcntl, os, time
reader, writer = os.pipe()
fcntl.fcntl(reader, fcntl.F_SETOWN, int(os.environ["OTHER"]))
fcntl.fcntl(reader, 10, 9)
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
os.write(writer, b"x")
time.sleep(0.05)'"#,
];

/// Lines that signal other processes, and that no test runs without a sandbox.
pub(crate) const SIGNALS_WITHOUT_CONTROL: &[&str] = &[r#"kill -9 -1"#, r#"kill -9 $PPID"#];

/// Lines that fail only in a sandbox with namespaces.
pub(crate) const ONLY_NAMESPACES: &[&str] = &[
    r#"ls -d "/proc/$OTHER" && echo ESCAPED"#,
    r#"grep -a sleep "/proc/$OTHER/cmdline" && echo ESCAPED"#,
    r#"grep -q State "/proc/$OTHER/status" && echo ESCAPED"#,
    r#"ls "/proc/$OTHER/fd" && echo ESCAPED"#,
    r#"ps -p "$OTHER" && echo ESCAPED"#,
    r#"python3 -c 'import os; os.pidfd_open(int(os.environ["OTHER"]))' && echo ESCAPED"#,
    r#"python3 -c 'import os; os.getsid(int(os.environ["OTHER"]))' && echo ESCAPED"#,
    r#"taskset -p "$OTHER" && echo ESCAPED"#,
    r#"chrt -i -p 0 "$OTHER" && echo ESCAPED"#,
];

/// Lines that fail only in a sandbox with namespaces, and that no test runs without a sandbox.
pub(crate) const ONLY_NAMESPACES_WITHOUT_CONTROL: &[&str] =
    &[r#"[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 9 ] && echo ESCAPED"#];
