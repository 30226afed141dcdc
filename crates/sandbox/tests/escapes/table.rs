//! Shell lines that try to escape.

use callboard_sandbox::{Isolation, probe_isolation};

/// A shell line that tries to change, read or reach something outside of the sandbox. It prints
/// `ESCAPED` if it can see that it succeeded.
pub(crate) struct Escape {
    pub(crate) line: &'static str,
    only_namespaces: bool,
    /// Whether the line succeeds without a sandbox. The others would then harm the system, or depend
    /// on rights, devices and programs that a test cannot expect.
    pub(crate) has_control: bool,
}

impl Escape {
    pub(crate) fn holds_in(&self, isolation: Isolation) -> bool {
        isolation == Isolation::Namespaces || !self.only_namespaces
    }
}

/// All lines. Those of [`ONLY_NAMESPACES`] succeed under Landlock; its gaps name them.
pub(crate) fn escapes() -> impl Iterator<Item = Escape> {
    // Without the restriction, a signal would end processes of the test's user.
    let signals_are_free = probe_isolation().landlock_abi < 6;
    let tables = [
        (BOTH, false, true),
        (BOTH_WITHOUT_CONTROL, false, false),
        (SIGNALS, signals_are_free, true),
        (SIGNALS_WITHOUT_CONTROL, signals_are_free, false),
        (ONLY_NAMESPACES, true, true),
        (ONLY_NAMESPACES_WITHOUT_CONTROL, true, false),
    ];
    tables.into_iter().flat_map(|(lines, only_namespaces, has_control)| {
        lines.iter().map(move |line| Escape { line, only_namespaces, has_control })
    })
}

const BOTH: &[&str] = &[
    // Writes outside.
    r#"echo x > "$OUTSIDE/file""#,
    r#"echo x >> "$OUTSIDE/file""#,
    r#"echo x > "$OUTSIDE/new""#,
    r#"echo x > "$HOME/.bashrc""#,
    r#"echo x > link-out/file"#,
    r#"echo x > ../outside/file"#,
    r#"cd /; echo x > "$OUTSIDE/file""#,
    r#"rm -f "$OUTSIDE/file""#,
    r#"rm -rf "$OUTSIDE""#,
    r#"rm -rf "$HOME""#,
    r#"rm -rf "$STATE""#,
    r#"rm -rf link-out/"#,
    r#"find "$OUTSIDE" -delete"#,
    r#"mkdir "$OUTSIDE/d""#,
    r#"rm -f "$OUTSIDE/folder/file"; rmdir "$OUTSIDE/folder""#,
    r#"mv "$OUTSIDE/file" "$PROJECT/""#,
    r#"mv "$OUTSIDE/file" "$OUTSIDE/moved""#,
    r#"mv src "$OUTSIDE/""#,
    r#"mv src/main.rs "$OUTSIDE/file""#,
    r#"cp src/main.rs "$OUTSIDE/file""#,
    r#"ln src/main.rs "$OUTSIDE/hard""#,
    r#"ln "$OUTSIDE/file" hard && echo x > hard"#,
    r#"ln -s src "$OUTSIDE/soft""#,
    r#"ln -sfn / root && echo x > "root$OUTSIDE/file""#,
    r#"ln -sfn "$HOME" h && echo x > h/.bashrc"#,
    r#"truncate -s 0 "$OUTSIDE/file""#,
    r#"dd if=/dev/zero of="$OUTSIDE/file" bs=1 count=1 conv=notrunc"#,
    r#"sed -i s/outside/inside/ "$OUTSIDE/file""#,
    r#"tee "$OUTSIDE/file" < src/main.rs"#,
    r#"mkfifo "$OUTSIDE/fifo""#,
    r#"touch "$OUTSIDE/new""#,
    r#"tar cf "$OUTSIDE/t.tar" src"#,
    r#"tar cf t.tar src && tar xf t.tar -C "$OUTSIDE""#,
    r#"tar cPf t.tar --transform "s,src/main.rs,$OUTSIDE/file," src/main.rs && tar xPf t.tar"#,
    r#"(cd "$OUTSIDE" && echo x > file)"#,
    r#"sh -c 'sh -c "echo x > $OUTSIDE/file"'"#,
    r#"(setsid sh -c 'echo x > "$OUTSIDE/file"' &) ; sleep 0.1"#,
    r#"trap 'echo x > "$OUTSIDE/file"' EXIT"#,
    r#"exec 3<> "$OUTSIDE/file"; echo x >&3"#,
    r#"env -i /bin/sh -c "echo x > $OUTSIDE/file""#,
    r#"awk 'BEGIN { print "x" > ENVIRON["OUTSIDE"] "/file" }'"#,
    r#"perl -e 'open F, ">", "$ENV{OUTSIDE}/file"; print F "x"'"#,
    r#"python3 -c 'import os; open(os.environ["OUTSIDE"] + "/file", "w")'"#,
    // Paths through /proc and descriptors.
    r#"echo x > "/proc/self/root$OUTSIDE/file""#,
    r#"echo x > "/proc/self/cwd/../outside/file""#,
    r#"echo x > "/proc/$PPID/root$OUTSIDE/file""#,
    r#"echo x > "/proc/$OTHER/root$OUTSIDE/file""#,
    r#"for p in /proc/[0-9]*; do echo x > "$p/root$OUTSIDE/file"; done"#,
    // Secrets.
    r#"cat "$HOME/.ssh/id_ed25519""#,
    r#"cat "$HOME/.netrc""#,
    r#"cat "$STATE/session.db""#,
    r#"ls "$STATE" | grep session && echo ESCAPED"#,
    r#"cp -r "$HOME/.ssh" . && cat .ssh/*"#,
    r#"ln -s "$HOME/.ssh/id_ed25519" k && cat k"#,
    r#"ln "$HOME/.netrc" n && cat n"#,
    r#"mv "$HOME/.netrc" n && cat n"#,
    r#"tar c "$HOME" | cat"#,
    r#"find "$HOME/.ssh" -type f -exec cat {} +"#,
    r#"grep -r SECRET "$HOME" "$STATE""#,
    r#"cat "/proc/self/root$HOME/.ssh/id_ed25519""#,
    r#"cat "/proc/$PPID/root$HOME/.netrc""#,
    r#"cat "/proc/$OTHER/root$HOME/.netrc""#,
    r#"tr '\0' '\n' < /proc/$OTHER/environ"#,
    r#"cat /proc/[0-9]*/environ | tr '\0' '\n' | grep ANOTHER-PROCESS"#,
    // Other processes.
    // Rights and namespaces.
    // Connections.
    r#"bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT && echo ESCAPED'"#,
    r#"curl -s --max-time 1 "http://127.0.0.1:$PORT/""#,
    r#"curl -s --max-time 1 --unix-socket "$SOCKET" http://x/"#,
    r#"curl -s --max-time 1 --abstract-unix-socket "$ABSTRACT" http://x/"#,
    r#"cp "$SOCKET" s; mv "$SOCKET" s; ln "$SOCKET" s; curl -s --max-time 1 --unix-socket s http://x/"#,
];

/// Lines of this kind for which there is no control.
const BOTH_WITHOUT_CONTROL: &[&str] = &[
    r#"crontab - < src/main.rs"#,
    r#"echo x > /usr/bin/evil && rm /usr/bin/evil && echo ESCAPED"#,
    r#"echo x > /etc/evil && rm /etc/evil && echo ESCAPED"#,
    r#"echo x > /var/tmp/evil && rm /var/tmp/evil && echo ESCAPED"#,
    r#"touch /evil && rm /evil && echo ESCAPED"#,
    r#"for fd in /proc/$PPID/fd/*; do echo x > "$fd"; done"#,
    r#"for fd in /proc/1/fd/*; do echo x > "$fd"; done"#,
    r#"for n in 3 4 5 6 7 8 9; do eval "echo x >&$n" && echo ESCAPED; done"#,
    r#"umount "$HOME/.ssh"; cat "$HOME/.ssh/id_ed25519""#,
    r#"mount --bind / mnt; cat "mnt$HOME/.netrc""#,
    r#"strace -p "$OTHER" & sleep 0.1; kill $!"#,
    r#"unshare -r true && echo ESCAPED"#,
    r#"unshare -rm sh -c 'mount -o remount,rw / && echo x > "$OUTSIDE/file"'"#,
    r#"unshare -U true && echo ESCAPED"#,
    r#"nsenter -t 1 -m true && echo ESCAPED"#,
    r#"nsenter -t "$OTHER" -m -U true && echo ESCAPED"#,
    r#"chroot / true && echo ESCAPED"#,
    r#"mount -t tmpfs none src && echo ESCAPED"#,
    r#"mount -o remount,rw / && echo ESCAPED"#,
    r#"mount --bind src docs && echo ESCAPED"#,
    r#"umount "$PROJECT" && echo ESCAPED"#,
    r#"sudo -n true && echo ESCAPED"#,
    r#"su -c true 2>/dev/null < /dev/null && [ "$(id -u)" != 0 ] && echo ESCAPED"#,
    r#"mknod disk b 254 0 && echo ESCAPED"#,
    r#"mknod mem c 1 1 && echo ESCAPED"#,
    r#"cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo ESCAPED"#,
    r#"echo 1 > /proc/sys/vm/drop_caches && echo ESCAPED"#,
    r#"echo h > /proc/sysrq-trigger && echo ESCAPED"#,
    r#"echo 0 > /proc/sys/kernel/yama/ptrace_scope && echo ESCAPED"#,
    r#"sysctl -w kernel.hostname="$(hostname)" && echo ESCAPED"#,
    r#"hostname "$(hostname)" && echo ESCAPED"#,
    r#"date -s "$(date)" && echo ESCAPED"#,
    r#"echo 1 > /sys/fs/cgroup/cgroup.procs && echo ESCAPED"#,
    r#"mkdir /sys/fs/cgroup/memory/evil && echo ESCAPED"#,
    r#"modprobe dummy && echo ESCAPED"#,
    r#"dmesg | grep -q . && echo ESCAPED"#,
    r#"cat /proc/kcore | head -c 1 | grep -q . && echo ESCAPED"#,
    r#"head -c 1 /dev/vda && echo ESCAPED"#,
    r#"head -c 1 /dev/mem && echo ESCAPED"#,
    r#"for d in kvm fuse net/tun; do (exec 3<> /dev/$d) && echo ESCAPED; done"#,
    r#"curl -s --max-time 1 http://192.0.2.1/ && echo ESCAPED"#,
    r#"curl -s --max-time 1 http://169.254.169.254/ && echo ESCAPED"#,
    r#"getent ahosts example.com && echo ESCAPED"#,
    r#"ls /run/docker.sock /var/run/docker.sock /run/dbus /run/user/*/* 2>/dev/null && echo ESCAPED"#,
    r#"echo x > "/proc/1/root$OUTSIDE/file""#,
    r#"cd "/proc/1/cwd" && echo x > ../outside/file"#,
    r#"cat "/proc/1/root$HOME/.ssh/id_ed25519""#,
    r#"gdb -p "$OTHER" -batch -ex 'call (int) raise(9)'"#,
];

const SIGNALS: &[&str] =
    &[r#"kill -9 "$OTHER" && echo ESCAPED"#, r#"kill -STOP "$OTHER" && echo ESCAPED"#];

/// Lines of this kind for which there is no control.
const SIGNALS_WITHOUT_CONTROL: &[&str] = &[r#"kill -9 -1"#, r#"kill -9 $PPID"#];

const ONLY_NAMESPACES: &[&str] = &[
    // Protected names in a writable folder.
    r#"echo x > AGENTS.md"#,
    r#"rm -f AGENTS.md"#,
    r#"mv AGENTS.md a && echo x > AGENTS.md"#,
    r#"cp src/main.rs new && mv -f new AGENTS.md"#,
    r#"sed -i s/instructions/evil/ AGENTS.md"#,
    r#"ln AGENTS.md hard && echo x > hard"#,
    r#"ln -sf src/main.rs AGENTS.md"#,
    r#"python3 -c 'import os; os.rename("src/main.rs", "AGENTS.md")'"#,
    r#"rm CLAUDE.md; echo x > CLAUDE.md"#,
    r#"echo x > CLAUDE.md"#,
    r#"echo x > docs/rules.md"#,
    r#"mv docs d && mkdir docs && echo x > docs/rules.md"#,
    r#"ln -sfn /dev/null CLAUDE.md"#,
    r#"echo x > .git/config"#,
    r#"git config -f .git/config core.fsmonitor evil"#,
    r#"echo x > .git/hooks/post-commit"#,
    r#"rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit"#,
    r#"mv .git/hooks .git/h && mkdir .git/hooks && echo x > .git/hooks/pre-commit"#,
    r#"mv .git .g && mkdir -p .git/hooks && echo x > .git/config"#,
    r#"rm -rf .git"#,
    r#"mv ../project ../p; mkdir ../project"#,
    r#"chmod +x .git/config"#,
    r#"echo x > .git/config.worktree"#,
    r#"mkdir -p .git/info; echo x > .git/info/attributes"#,
    r#"echo x > .envrc"#,
    r#"rm -f .envrc; echo x > .envrc"#,
    r#"mkdir .envrc"#,
    r#"ln -s src .envrc"#,
    r#"mv src/main.rs .envrc"#,
    r#"mkdir -p .github/workflows; echo x > .github/workflows/ci.yml"#,
    r#"rmdir .github; mkdir .github && echo x > .github/x"#,
    r#"cp -r src .github"#,
    r#"rm -rf "$PROJECT" "$PROJECT"/.[a-z]*"#,
    r#"printf x > "$(printf 'odd-\377')""#,
    r#"umount .git/hooks AGENTS.md; echo x > AGENTS.md"#,
    // Masked names in a writable folder.
    r#"cat .env"#,
    r#"mv .env e; cat e"#,
    r#"ln .env e; cat e"#,
    r#"rm -f .env; echo x > .env"#,
    // Metadata.
    r#"chmod 777 "$STATE"; cat "$STATE/session.db""#,
    r#"chmod 777 "$HOME/.bashrc""#,
    r#"chmod 000 "$OUTSIDE/file""#,
    r#"chmod -R 777 "$OUTSIDE""#,
    r#"chown 65534 "$OUTSIDE/file""#,
    // Other processes and terminals.
    r#"ls -d "/proc/$OTHER" && echo ESCAPED"#,
];

/// Lines of this kind for which there is no control.
const ONLY_NAMESPACES_WITHOUT_CONTROL: &[&str] = &[
    r#"echo x > /dev/shm/evil; ls /dev/pts/0 && echo ESCAPED"#,
    r#"(while :; do mv .git .g; mv .g .git; done) 2>/dev/null & (while :; do echo x > .git/hooks/e; done) 2>/dev/null & sleep 0.2"#,
];
