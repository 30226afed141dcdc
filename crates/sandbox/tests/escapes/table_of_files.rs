//! Shell lines that try to change or read files.

/// Lines that fail in each sandbox, and succeed without one.
pub(crate) const BOTH: &[&str] = &[
    // Writes outside.
    r#"echo x > "$OUTSIDE/file""#,
    r#"echo x >> "$OUTSIDE/file""#,
    r#"echo x > "$OUTSIDE/new""#,
    r#"echo x > link-out/file"#,
    r#"echo x > ../outside/file"#,
    r#"cd /; echo x > "$OUTSIDE/file""#,
    r#"rm -f "$OUTSIDE/file""#,
    r#"rm -rf "$OUTSIDE""#,
    r#"rm -rf "$HOME""#,
    r#"rm -rf "$STATE""#,
    r#"rm -rf link-out/"#,
    r#"find "$OUTSIDE" -delete"#,
    r#"find .. -name session.db -delete"#,
    r#"find "$OUTSIDE" -type f -exec sh -c 'echo x > "$1"' _ {} ';'"#,
    r#"find "$OUTSIDE" -type f -print0 | xargs -0 rm -f"#,
    r#"find src -fprint "$OUTSIDE/file""#,
    r#"mkdir "$OUTSIDE/d""#,
    r#"rm -f "$OUTSIDE/folder/file"; rmdir "$OUTSIDE/folder""#,
    r#"mv "$OUTSIDE/file" "$PROJECT/""#,
    r#"mv "$OUTSIDE/file" "$OUTSIDE/moved""#,
    r#"mv src "$OUTSIDE/""#,
    r#"mv src/main.rs "$OUTSIDE/file""#,
    r#"cp src/main.rs "$OUTSIDE/file""#,
    r#"cp -a src/. "$OUTSIDE/folder/""#,
    r#"cp -rl src "$OUTSIDE/linked""#,
    r#"cp -rs "$PROJECT/src" "$OUTSIDE/linked""#,
    r#"ln src/main.rs "$OUTSIDE/hard""#,
    r#"ln "$OUTSIDE/file" hard && echo x > hard"#,
    r#"ln -s src "$OUTSIDE/soft""#,
    r#"ln -sfn / root && echo x > "root$OUTSIDE/file""#,
    r#"ln -sfn .. up && echo x > up/outside/file"#,
    r#"ln -s "$OUTSIDE/new" dangling && echo x > dangling"#,
    r#"ln -s ../outside a; ln -s ../a src/b; echo x > src/b/file"#,
    r#"truncate -s 0 "$OUTSIDE/file""#,
    r#"dd if=/dev/zero of="$OUTSIDE/file" bs=1 count=1 conv=notrunc"#,
    r#"shred -n 1 "$OUTSIDE/file""#,
    r#"sed -i s/outside/inside/ "$OUTSIDE/file""#,
    r#"sed -n "w $OUTSIDE/file" src/main.rs"#,
    r#"sed '1s|.*|echo x > "$OUTSIDE/file"|e' src/main.rs"#,
    r#"tee "$OUTSIDE/file" < src/main.rs"#,
    r#"sort -o "$OUTSIDE/file" src/main.rs"#,
    r#"uniq src/main.rs "$OUTSIDE/file""#,
    r#"split -b 4 src/main.rs "$OUTSIDE/part-""#,
    r#"csplit -s -f "$OUTSIDE/part-" src/main.rs 1"#,
    r#"install -D src/main.rs "$OUTSIDE/bin/tool""#,
    r#"gzip "$OUTSIDE/file""#,
    r#"printf 'w %s\n' "$OUTSIDE/file" | ed -s src/main.rs"#,
    r#"vim -es -u NONE -c "w! $OUTSIDE/file" -c q src/main.rs"#,
    r#"printf -- '--- a\n+++ b\n@@ -1 +1 @@\n-outside\n+x\n' | patch -s "$OUTSIDE/file""#,
    r#"script -qc true "$OUTSIDE/typescript""#,
    r#"strace -o "$OUTSIDE/trace" true"#,
    r#"echo 'int x;' | cc -x c -c -o "$OUTSIDE/x.o" -"#,
    r#"rsync -a --delete src/ "$OUTSIDE/""#,
    r#"mkfifo "$OUTSIDE/fifo""#,
    r#"touch "$OUTSIDE/new""#,
    r#"touch ../new && echo ESCAPED"#,
    r#"(cd "$OUTSIDE" && echo x > file)"#,
    r#"sh -c 'sh -c "echo x > $OUTSIDE/file"'"#,
    r#"(setsid sh -c 'echo x > "$OUTSIDE/file"' &) ; sleep 0.1"#,
    r#"nohup sh -c 'echo x > "$OUTSIDE/file"'"#,
    r#"trap 'echo x > "$OUTSIDE/file"' EXIT"#,
    r#"exec 3<> "$OUTSIDE/file"; echo x >&3"#,
    r#"env -i /bin/sh -c "echo x > $OUTSIDE/file""#,
    r#"bash -c 'echo x | tee >(cat > "$OUTSIDE/file")'; sleep 0.3"#,
    r#"HISTFILE="$OUTSIDE/history" bash -c 'set -o history; history -s x; history -a'"#,
    r#"awk 'BEGIN { print "x" > ENVIRON["OUTSIDE"] "/file" }'"#,
    r#"awk 'BEGIN { print "x" | "cat > \"$OUTSIDE/file\"" }'"#,
    r#"perl -e 'open F, ">", "$ENV{OUTSIDE}/file"; print F "x"'"#,
    r#"perl -i -pe 's/outside/x/' "$OUTSIDE/file""#,
    r#"perl -e 'unlink glob("$ENV{OUTSIDE}/*")'"#,
    r#"python3 -c 'import os; open(os.environ["OUTSIDE"] + "/file", "w")'"#,
    r#"python3 -c 'import os, shutil; shutil.rmtree(os.environ["OUTSIDE"])'"#,
    r#"echo > m.py; PYTHONPATH=. PYTHONPYCACHEPREFIX="$OUTSIDE" python3 -c 'import m'"#,
    r#"python3 -c 'import os, sqlite3
sqlite3.connect(os.environ["OUTSIDE"] + "/new.db").execute("create table t (x)")'"#,
    r#"node -e 'require("fs").writeFileSync(process.env.OUTSIDE + "/file", "x")'"#,
    // Archives.
    r#"tar cf "$OUTSIDE/t.tar" src"#,
    r#"tar cf t.tar src && tar xf t.tar -C "$OUTSIDE""#,
    r#"tar cPf t.tar --transform "s,src/main.rs,$OUTSIDE/file," src/main.rs && tar xPf t.tar"#,
    r#"tar cf t.tar --remove-files -C "$OUTSIDE" file"#,
    r#"tar cf t.tar --checkpoint=1 --checkpoint-action='exec=echo x > "$OUTSIDE/file"' src"#,
    r#"tar cf t.tar src; tar xf t.tar --to-command='cat > "$OUTSIDE/file"'"#,
    r#"mkdir d; ln -s "$OUTSIDE" d/l; tar cf t.tar d; rm d/l; mkdir d/l; echo x > d/l/new
tar rf t.tar d/l/new; rm -r d; tar xPf t.tar"#,
    r#"python3 -c 'import tarfile
tarfile.TarFile.extraction_filter = staticmethod(lambda member, path: member)
with tarfile.open("t.tar", "w") as tar:
    tar.add("src/main.rs", "../outside/new")
tarfile.open("t.tar").extractall()'"#,
    r#"python3 -c 'import zipfile
zipfile.ZipFile("t.zip", "w").write("src/main.rs", "../outside/new")'; unzip -:q t.zip"#,
    r#"cd src && echo main.rs | cpio -p --quiet "$OUTSIDE""#,
    // Git.
    r#"git init -q "$OUTSIDE/repository""#,
    r#"git init -q --separate-git-dir="$OUTSIDE/repository" r"#,
    r#"git config --global core.hooksPath "$PROJECT""#,
    r#"HOME="$OUTSIDE" git config --global alias.status '!evil'"#,
    r#"git config -f "$OUTSIDE/config" include.path "$PROJECT/src""#,
    r#"git init -q r; git --git-dir=r/.git --work-tree="$OUTSIDE" clean -fdxq"#,
    r#"git init -q r; cd r; echo x > file; git add file
git --work-tree="$OUTSIDE" checkout-index -f file"#,
    r#"git init -q r; cd r; git -c user.name=n -c user.email=e commit -q --allow-empty -m a
git worktree add -q "$OUTSIDE/tree""#,
    r#"git init -q r; cd r; git -c user.name=n -c user.email=e commit -q --allow-empty -m a
git bundle create -q "$OUTSIDE/bundle" HEAD"#,
    r#"git diff --no-index --output="$OUTSIDE/file" src/main.rs AGENTS.md"#,
    r#"printf -- '--- /dev/null\n+++ b/../outside/new\n@@ -0,0 +1 @@\n+x\n' |
git apply --unsafe-paths"#,
    r#"cd "$OUTSIDE"; printf -- '--- a/file\n+++ b/file\n@@ -1 +1 @@\n-outside\n+x\n' | git apply"#,
    // Commands that other programs start.
    r#"git -c alias.x='!echo x > "$OUTSIDE/file"' x"#,
    r#"git -c core.fsmonitor='echo x > "$OUTSIDE/file"; false' status"#,
    r#"git -c core.editor='echo x > "$OUTSIDE/file"; true' config -f c -e"#,
    r#"GIT_SSH_COMMAND='echo x > "$OUTSIDE/file"; false' git ls-remote ssh://host/x"#,
    r#"echo 'echo x > "$OUTSIDE/file"' > e
git -c protocol.ext.allow=always ls-remote 'ext::sh e'"#,
    r#"GIT_EXTERNAL_DIFF='echo x > "$OUTSIDE/file"; true' git diff --no-index src docs --ext-diff"#,
    r#"echo 'echo x > "$OUTSIDE/file"' > e; BASH_ENV=./e bash -c true"#,
    r#"mkdir b; printf '#!/bin/sh\necho x > "$OUTSIDE/file"\n' > b/ls; chmod +x b/ls
PATH=b:$PATH ls"#,
    r#"printf 'open F, ">$ENV{OUTSIDE}/file"; 1;' > E.pm; PERL5OPT='-I. -ME' perl -e 1"#,
    r#"printf 'a:\n\techo x > "$$OUTSIDE/file"\n' | make -sf -"#,
    r#"for l in /lib*/ld-linux*.so* /lib/ld-musl*; do
"$l" /bin/sh -c 'echo x > "$OUTSIDE/file"'; done"#,
    r#"python3 -c 'import os
program = os.memfd_create("program", 0)
os.write(program, b"\x23!/bin/sh\necho x > $OUTSIDE/file\n")
os.execve(f"/proc/self/fd/{program}", ["program"], os.environ)'"#,
    // Configuration that is executed or believed later.
    r#"echo x > "$HOME/.bashrc""#,
    r#"ln -sfn "$HOME" h && echo x > h/.bashrc"#,
    r#"ln -sf "$PROJECT/src/main.rs" "$HOME/.profile""#,
    r#"echo x >> "$HOME/.ssh/authorized_keys""#,
    r#"printf 'Host *\nProxyCommand evil\n' > c && mv c "$HOME/.ssh/config""#,
    r#"mkdir -p "$HOME/.config/systemd/user/default.target.wants" &&
ln -s "$PROJECT/src" "$HOME/.config/systemd/user/default.target.wants/evil.service""#,
    r#"mkdir -p "$HOME/.config/autostart" && cp src/main.rs "$HOME/.config/autostart/x.desktop""#,
    r#"mkdir -p "$HOME/.local/bin" && install -m 755 src/main.rs "$HOME/.local/bin/git""#,
    r#"mkdir -p "$HOME/.cargo" &&
printf '[build]\nrustc-wrapper = "x"\n' > "$HOME/.cargo/config.toml""#,
    r#"echo 'registry=http://192.0.2.1' > "$HOME/.npmrc""#,
    r#"python3 -c 'import os, site
os.makedirs(site.getusersitepackages())
open(site.getusersitepackages() + "/usercustomize.py", "w")'"#,
    r#"mkdir -p "$HOME/.config/git" && echo x > "$HOME/.config/git/config""#,
    r#"echo x >> "$HOME/tools/tool""#,
    r#"mv "$HOME/tools" "$HOME/t" && mkdir "$HOME/tools""#,
    r#"rm -f "$HOME/tools/tool" && cp src/main.rs "$HOME/tools/tool""#,
    r#"echo x > "$STATE/session.db""#,
    r#"mkdir -p "$STATE/sessions" && echo x > "$STATE/sessions/new""#,
    // Folders of the sandbox itself.
    r#"mv "$PROJECT" "$OUTSIDE/""#,
    r#"mv "$OUTSIDE" "$PROJECT/""#,
    r#"mv "$STATE" "$TMPDIR/s" && cat "$TMPDIR/s/session.db""#,
    r#"mv "$TMPDIR" ../t && ln -s "$OUTSIDE" "$TMPDIR" && echo x > "$TMPDIR/file""#,
    r#"rmdir "$TMPDIR" && ln -s "$OUTSIDE" "$TMPDIR" && echo x > "$TMPDIR/file""#,
    r#"rm "$PROJECT_LINK" && echo ESCAPED"#,
    r#"ln -sfn "$OUTSIDE" "$PROJECT_LINK" && echo ESCAPED"#,
    r#"mkdir ../project2 && echo ESCAPED"#,
    // System calls that shells do not make.
    r#"python3 -c 'import os; os.truncate(os.environ["OUTSIDE"] + "/file", 1)'"#,
    r#"python3 -c 'import os; os.mknod(os.environ["OUTSIDE"] + "/new")'"#,
    r#"python3 -c 'import os
folder = os.open(os.environ["OUTSIDE"], os.O_RDONLY)
os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=folder)'"#,
    r#"python3 -c 'import os
os.fchdir(os.open("..", os.O_PATH))
os.unlink("outside/file")'"#,
    r#"python3 -c 'import os
file = os.open("src", os.O_TMPFILE | os.O_RDWR)
os.link(f"/proc/self/fd/{file}", os.environ["OUTSIDE"] + "/new", src_dir_fd=file)'"#,
    r#"python3 -c 'import os
file = os.open(os.environ["OUTSIDE"] + "/file", os.O_RDONLY)
os.link(f"/proc/self/fd/{file}", "hard", src_dir_fd=file)
open("hard", "w")'"#,
    r#"python3 -c 'import os
file = os.open(os.environ["OUTSIDE"] + "/file", os.O_PATH)
open(f"/proc/self/fd/{file}", "w")'"#,
    r#"python3 -c 'import ctypes, os
there = os.environb[b"OUTSIDE"] + b"/file"
ctypes.CDLL(None).renameat2(-100, b"src/main.rs", -100, there, 2)'"#,
    r#"python3 -c 'import os, socket
socket.socket(socket.AF_UNIX).bind(os.environ["OUTSIDE"] + "/new")'"#,
    r#"python3 -c 'import os
file = os.open(os.environ["OUTSIDE"] + "/file", os.O_RDWR)
os.posix_fallocate(file, 0, 4096)'"#,
    r#"python3 -c 'import mmap, os
file = open(os.environ["OUTSIDE"] + "/file", "r+b")
mmap.mmap(file.fileno(), 0)[:1] = b"x"'"#,
    // The system call `openat2`.
    r#"perl -e '$how = pack("QQQ", 01101, 0644, 0)
; syscall(437, -100, "$ENV{OUTSIDE}/new", $how, 24) >= 0 or die $!'"#,
    // Set-user-ID bits.
    r#"chmod u+s "$OUTSIDE/file""#,
    r#"chmod g+s "$OUTSIDE/folder""#,
    r#"chmod -R 6755 "$HOME/tools""#,
    r#"install -m 4755 src/main.rs "$OUTSIDE/tool""#,
    r#"python3 -c 'import os
os.fchmod(os.open(os.environ["HOME"] + "/tools/tool", os.O_RDONLY), 0o4755)'"#,
    r#"perl -e 'syscall(452, -100, "$ENV{OUTSIDE}/file", 02755, 0) == 0 or die $!'"#,
    // Paths through /proc and descriptors.
    r#"echo x > "/proc/self/root$OUTSIDE/file""#,
    r#"echo x > "/proc/thread-self/root$OUTSIDE/file""#,
    r#"echo x > "/proc/self/cwd/../outside/file""#,
    r#"echo x > "/proc/$PPID/root$OUTSIDE/file""#,
    r#"echo x > "/proc/$OTHER/root$OUTSIDE/file""#,
    r#"echo x > "/proc/$OTHER/task/$OTHER/root$OUTSIDE/file""#,
    r#"for p in /proc/[0-9]*; do echo x > "$p/root$OUTSIDE/file"; done"#,
    r#"exec 3< "$OUTSIDE/file"; echo x > /proc/self/fd/3"#,
    r#"exec 3< "$OUTSIDE/file"; echo x > /dev/fd/3"#,
    r#"exec 3< "$OUTSIDE"; echo x > /proc/self/fd/3/new"#,
    r#"exec 3< ..; rm -f /proc/self/fd/3/outside/file"#,
    // Secrets.
    r#"cat "$HOME/.ssh/id_ed25519""#,
    r#"cat "$HOME/.netrc""#,
    r#"cat "$STATE/session.db""#,
    r#"cat "$PROJECT_LINK/../home/.netrc""#,
    r#"cd "$HOME/.ssh" && cat ./*"#,
    r#"ls "$STATE" | grep session && echo ESCAPED"#,
    r#"ls "$HOME/.ssh" | grep id_ && echo ESCAPED"#,
    r#"cp -r "$HOME/.ssh" . && cat .ssh/*"#,
    r#"cp -r "$STATE/." s; cat s/session.db"#,
    r#"ln -s "$HOME/.ssh/id_ed25519" k && cat k"#,
    r#"ln -s "$STATE" s && cat s/session.db"#,
    r#"ln "$HOME/.netrc" n && cat n"#,
    r#"mv "$HOME/.netrc" n && cat n"#,
    r#"mv "$HOME" h; cat h/.netrc"#,
    r#"tar c "$HOME" | cat"#,
    r#"tar c -C "$STATE" . | tar xO"#,
    r#"find "$HOME/.ssh" -type f -exec cat {} +"#,
    r#"find .. -name session.db -exec cat {} +"#,
    r#"grep -r SECRET "$HOME" "$STATE""#,
    r#"base64 "$HOME/.netrc" | base64 -d"#,
    r#"dd if="$STATE/session.db" bs=1"#,
    r#"diff /dev/null "$STATE/session.db""#,
    r#"while read -r line; do echo "$line"; done < "$HOME/.netrc""#,
    r#"bash -c 'mapfile < "$HOME/.netrc"; echo "${MAPFILE[@]}"'"#,
    r#"awk 1 "$HOME/.netrc""#,
    r#"perl -pe 1 "$HOME/.netrc""#,
    r#"curl -s "file://$STATE/session.db""#,
    r#"cc -E -x c "$HOME/.netrc""#,
    r#"vim -es -u NONE -c %p -c q "$HOME/.netrc""#,
    r#"cp "$HOME/.netrc" c && truncate -s +1 c && cat c"#,
    r#"python3 -c 'import os; print(open(os.environ["HOME"] + "/.netrc").read())'"#,
    r#"python3 -c 'import mmap, os
file = os.open(os.environ["STATE"] + "/session.db", os.O_RDONLY)
print(mmap.mmap(file, 0, prot=mmap.PROT_READ)[:])'"#,
    r#"python3 -c 'import os
file = os.open(os.environ["HOME"] + "/.netrc", os.O_PATH)
print(open(f"/proc/self/fd/{file}").read())'"#,
    r#"python3 -c 'import os
folder = os.open(os.environ["STATE"], os.O_PATH)
print(os.read(os.open("session.db", os.O_RDONLY, dir_fd=folder), 99))'"#,
    r#"git diff --no-index /dev/null "$STATE/session.db""#,
    r#"cd .. && git grep --no-index SECRET state"#,
    r#"git init -q r; cd r; git cat-file -p "$(git hash-object -w "$HOME/.netrc")""#,
    r#"git init -q r; git --git-dir=r/.git --work-tree="$STATE" add session.db
git --git-dir=r/.git show :session.db"#,
    r#"git init -q r; cd r
git -c user.name=n -c user.email=e commit -q --allow-empty -F "$STATE/session.db"; git log"#,
    // Secrets in error messages.
    r#". "$HOME/.netrc""#,
    r#"date -f "$HOME/.netrc""#,
    r#"python3 "$STATE/session.db""#,
    // Secrets by /proc.
    r#"cat "/proc/self/root$HOME/.ssh/id_ed25519""#,
    r#"cat "/proc/self/cwd/../home/.netrc""#,
    r#"cat "/proc/$PPID/root$HOME/.netrc""#,
    r#"cat "/proc/$OTHER/root$HOME/.netrc""#,
    r#"cat /proc/[0-9]*/root"$STATE"/session.db"#,
    r#"cat /proc/[0-9]*/cwd/../state/session.db"#,
    r#"exec 3< "$HOME"; cat /proc/self/fd/3/.netrc"#,
    r#"exec 3< "$HOME/.netrc"; cat /dev/fd/3"#,
    r#"cut -d ' ' -f 5 /proc/self/mountinfo | while read -r m; do cat "$m$STATE/session.db"; done"#,
];

/// Lines that fail in each sandbox, and that no test runs without a sandbox.
pub(crate) const BOTH_WITHOUT_CONTROL: &[&str] = &[
    r#"crontab - < src/main.rs"#,
    r#"echo x > /usr/bin/evil && rm /usr/bin/evil && echo ESCAPED"#,
    r#"echo x > /etc/evil && rm /etc/evil && echo ESCAPED"#,
    r#"echo x > /etc/cron.d/evil && rm /etc/cron.d/evil && echo ESCAPED"#,
    r#"touch /etc/ld.so.preload.evil && rm /etc/ld.so.preload.evil && echo ESCAPED"#,
    r#"echo x > /etc/systemd/system/evil.service &&
rm /etc/systemd/system/evil.service && echo ESCAPED"#,
    r#"echo x > /var/tmp/evil && rm /var/tmp/evil && echo ESCAPED"#,
    r#"echo x > /run/evil && rm /run/evil && echo ESCAPED"#,
    r#"echo x > /var/spool/cron/evil && rm /var/spool/cron/evil && echo ESCAPED"#,
    r#"touch /evil && rm /evil && echo ESCAPED"#,
    r#"for d in /boot /opt /srv /home /root /var/lib /var/cache /var/log /usr/local/bin; do
touch "$d/evil" && rm "$d/evil" && echo ESCAPED; done"#,
    r#"for d in /proc /sys /sys/fs/cgroup /sys/kernel /sys/kernel/debug /sys/fs/bpf; do
mkdir "$d/evil" && rmdir "$d/evil" && echo ESCAPED; done"#,
    r#"for d in /dev /dev/mqueue /dev/hugepages; do
touch "$d/evil" && rm "$d/evil" && echo ESCAPED; done"#,
    r#"find /tmp /run -type s | grep . && echo ESCAPED"#,
    r#"umount "$HOME/.ssh"; cat "$HOME/.ssh/id_ed25519""#,
    r#"umount -l "$STATE"; cat "$STATE/session.db""#,
    r#"mkdir mnt; mount --bind / mnt; cat "mnt$HOME/.netrc""#,
    r#"setcap cap_net_raw+ep "$OUTSIDE/file" && echo ESCAPED"#,
    r#"cd "/proc/1/cwd" && echo x > ../outside/file"#,
    r#"echo x > "/proc/1/root$OUTSIDE/file""#,
    r#"cat "/proc/1/root$HOME/.ssh/id_ed25519""#,
    r#"for fd in /proc/$PPID/fd/*; do echo x > "$fd"; done"#,
    r#"for fd in /proc/1/fd/*; do echo x > "$fd"; done"#,
    r#"for n in 3 4 5 6 7 8 9; do eval "echo x >&$n" && echo ESCAPED; done"#,
    // Links that change between a check and its use.
    r#"(for i in $(seq 50); do ln -sfn "$OUTSIDE" l; ln -sfn src l; done) 2>/dev/null &
for i in $(seq 50); do echo x > l/new; done 2>/dev/null; wait"#,
    r#"(for i in $(seq 50); do ln -sfn "$STATE" l; ln -sfn src l; done) 2>/dev/null &
for i in $(seq 50); do cat l/session.db; done 2>/dev/null; wait"#,
    // The root of a file system by its number.
    r#"python3 -c 'import ctypes, os, struct, sys
handle = ctypes.create_string_buffer(struct.pack("<IiQ", 8, 1, 2) + bytes(128))
here = os.open(".", 0)
sys.exit(ctypes.CDLL(None).open_by_handle_at(here, handle, 0) < 0)' && echo ESCAPED"#,
];

/// Lines that fail only in a sandbox with namespaces.
pub(crate) const ONLY_NAMESPACES: &[&str] = &[
    // Protected names in a writable folder.
    r#"echo x > AGENTS.md"#,
    r#"rm -f AGENTS.md"#,
    r#"mv AGENTS.md a && echo x > AGENTS.md"#,
    r#"mv -b src/main.rs AGENTS.md"#,
    r#"cp src/main.rs new && mv -f new AGENTS.md"#,
    r#"cp --remove-destination src/main.rs AGENTS.md"#,
    r#"sed -i s/instructions/evil/ AGENTS.md"#,
    r#"perl -i -pe 's/i/e/' AGENTS.md"#,
    r#"truncate -s 1 AGENTS.md"#,
    r#"shred -u AGENTS.md"#,
    r#"gzip AGENTS.md"#,
    r#"ln AGENTS.md hard && echo x > hard"#,
    r#"ln -sf src/main.rs AGENTS.md"#,
    r#"tar cf t.tar --transform s,src/main.rs,AGENTS.md, src/main.rs && tar xf t.tar"#,
    r#"printf -- '--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-instructions\n+x\n' | git apply"#,
    r#"printf -- '--- a\n+++ b\n@@ -1 +1 @@\n-instructions\n+x\n' | patch -s AGENTS.md"#,
    r#"exec 3< AGENTS.md; echo x > /proc/self/fd/3"#,
    r#"echo x > /proc/self/cwd/AGENTS.md"#,
    r#"echo x > "$PROJECT_LINK/AGENTS.md""#,
    r#"echo x > ../project/src/../AGENTS.md"#,
    r#"python3 -c 'import os; os.rename("src/main.rs", "AGENTS.md")'"#,
    r#"python3 -c 'import mmap
file = open("AGENTS.md", "r+b")
mmap.mmap(file.fileno(), 0)[:1] = b"x"'"#,
    r#"python3 -c 'import ctypes
ctypes.CDLL(None).renameat2(-100, b"src/main.rs", -100, b"AGENTS.md", 2)'"#,
    r#"rm CLAUDE.md; echo x > CLAUDE.md"#,
    r#"echo x > CLAUDE.md"#,
    r#"mv CLAUDE.md c; cp AGENTS.md CLAUDE.md"#,
    r#"ln -sfn /dev/null CLAUDE.md"#,
    r#"echo x > docs/rules.md"#,
    r#"ln docs/rules.md r && echo x > r"#,
    r#"mv docs d && mkdir docs && echo x > docs/rules.md"#,
    r#"rm -rf docs; ln -s src docs; echo x > src/rules.md"#,
    r#"find . -type f -exec rm -f {} +"#,
    r#"find . -name '*.md' | xargs sed -i 's/^/x/'"#,
    r#"rm -rf "$PROJECT" "$PROJECT"/.[a-z]*"#,
    r#"mv ../project ../p; mkdir ../project"#,
    r#"printf x > "$(printf 'odd-\377')""#,
    r#"umount .git/hooks AGENTS.md; echo x > AGENTS.md"#,
    // Protected names of Git.
    r#"echo x > .git/config"#,
    r#"echo x >> .git/hooks/../config"#,
    r#"cd .git/hooks && cp ../HEAD pre-push"#,
    r#"ln .git/config c && echo x > c"#,
    r#"cp .git/config c; echo x >> c; mv -f c .git/config"#,
    r#"git config -f .git/config core.fsmonitor evil"#,
    r#"git config core.hooksPath src"#,
    r#"git config --worktree core.sshCommand evil"#,
    r#"git remote add origin 'ext::sh -c evil'"#,
    r#"git config --rename-section core x"#,
    r#"git init -q --separate-git-dir=g"#,
    r#"mkdir -p t/hooks; echo x > t/hooks/post-checkout; git init -q --template=t"#,
    r#"mkdir -p t/info; echo x > t/info/attributes; git init -q --template=t"#,
    r#"git init -q s; cd s; git -c user.name=n -c user.email=e commit -q --allow-empty -m a; cd ..
git -c protocol.file.allow=always submodule add -q ./s m"#,
    r#"git add AGENTS.md; git rm -qf AGENTS.md"#,
    r#"git clean -fdxq"#,
    r#"git add -A; git -c user.name=n -c user.email=e commit -qm a; echo x > new
git rm -qrf ."#,
    r#"h=$(git hash-object -w src/main.rs)
git update-index --add --cacheinfo "100644,$h,AGENTS.md"
git checkout-index -f AGENTS.md"#,
    r#"git update-server-info"#,
    r#"echo x > .git/hooks/post-commit"#,
    r#"cp -r src .git/hooks/"#,
    r#"ln -sfn ../../src .git/hooks/x"#,
    r#"rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit"#,
    r#"rm -rf .git/hooks; ln -s ../src .git/hooks"#,
    r#"mv .git/hooks .git/h && mkdir .git/hooks && echo x > .git/hooks/pre-commit"#,
    r#"tar cf t.tar --transform s,src/main.rs,.git/hooks/x, src/main.rs && tar xf t.tar"#,
    r#"mv .git .g && mkdir -p .git/hooks && echo x > .git/config"#,
    r#"cp -r .git g; echo x > g/config; rm -rf .git; mv g .git"#,
    r#"mv .git src/; ln -s src/.git .git; echo x > .git/config"#,
    r#"echo 'gitdir: g' > g; mv .git r; mv g .git"#,
    r#"python3 -c 'import ctypes
ctypes.CDLL(None).renameat2(-100, b".git", -100, b"src", 2)'"#,
    r#"python3 -c 'import ctypes
ctypes.CDLL(None).renameat2(-100, b".git/hooks", -100, b"src", 2)'"#,
    r#"rm -rf .git"#,
    r#"find .git -delete"#,
    r#"chmod +x .git/config"#,
    r#"echo x > .git/config.worktree"#,
    r#"cp .git/HEAD .git/c; mv .git/c .git/config.worktree"#,
    r#"mkdir -p .git/info; echo x > .git/info/attributes"#,
    r#"rm -f .git/info; cp -r src .git/info"#,
    r#"ln -s ../src .git/info"#,
    r#"mkdir .git/i; echo x > .git/i/attributes; mv -T .git/i .git/info"#,
    // Protected names that do not exist.
    r#"echo x > .envrc"#,
    r#"rm -f .envrc; echo x > .envrc"#,
    r#"mv .envrc e; cp src/main.rs .envrc"#,
    r#"mkdir .envrc"#,
    r#"mkfifo .envrc"#,
    r#"ln -s src .envrc"#,
    r#"ln src/main.rs .envrc"#,
    r#"mv src/main.rs .envrc"#,
    r#"install -D src/main.rs .envrc"#,
    r#"printf -- '--- /dev/null\n+++ b/.envrc\n@@ -0,0 +1 @@\n+x\n' | git apply"#,
    r#"python3 -c 'import os, socket
os.path.exists(".envrc") and os.unlink(".envrc")
socket.socket(socket.AF_UNIX).bind(".envrc")'"#,
    r#"python3 -c 'import os
file = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.link(f"/proc/self/fd/{file}", ".envrc", src_dir_fd=file)'"#,
    r#"mkdir -p .github/workflows; echo x > .github/workflows/ci.yml"#,
    r#"install -D src/main.rs .github/workflows/ci.yml"#,
    r#"rmdir .github; mkdir .github && echo x > .github/x"#,
    r#"rm -f .github; ln -s src .github"#,
    r#"cp -r src .github"#,
    r#"mkdir g; mv -T g .github"#,
    // Masked names in a writable folder.
    r#"cat .env"#,
    r#"cat "$PROJECT_LINK/.env""#,
    r#"cat /proc/self/cwd/.env"#,
    r#"cat /proc/[0-9]*/cwd/.env"#,
    r#"cat "/proc/$OTHER/root$PROJECT/.env""#,
    r#"mv .env e; cat e"#,
    r#"ln .env e; cat e"#,
    r#"ln -s .env e; cat e"#,
    r#"mv ../project ../p; cat ../p/.env"#,
    r#"umount -l .env; cat .env"#,
    r#"rm -f .env; echo x > .env"#,
    r#"echo x >> .env"#,
    r#". ./.env"#,
    r#"grep -r KEY ."#,
    r#"tar c . | tar xO ./.env"#,
    r#"git add -f .env; git show :.env"#,
    r#"git diff --no-index /dev/null .env"#,
    r#"python3 -c 'import os
file = os.open(".env", os.O_PATH)
print(open(f"/proc/self/fd/{file}").read())'"#,
    // Metadata.
    r#"chmod 777 "$STATE"; cat "$STATE/session.db""#,
    r#"chmod 777 "$HOME/.bashrc""#,
    r#"chmod 000 "$OUTSIDE/file""#,
    r#"chmod -R 777 "$OUTSIDE""#,
    r#"chmod --reference=/bin/sh "$OUTSIDE/file""#,
    r#"chmod 777 .git/hooks/pre-commit"#,
    r#"chown 65534 "$OUTSIDE/file""#,
    r#"chown -R 65534 "$HOME""#,
    r#"chgrp 65534 "$OUTSIDE/file" && echo ESCAPED"#,
    r#"touch -d 2001-01-01 "$OUTSIDE/file" && echo ESCAPED"#,
    r#"touch -r src "$OUTSIDE" && echo ESCAPED"#,
    r#"cp --attributes-only -p AGENTS.md "$OUTSIDE/file" && echo ESCAPED"#,
    r#"setfacl -m u:65534:rw "$OUTSIDE/file" && echo ESCAPED"#,
    r#"python3 -c 'import os
os.setxattr(os.environ["OUTSIDE"] + "/file", "user.x", b"x")' && echo ESCAPED"#,
    r#"python3 -c 'import os
os.fchmod(os.open(os.environ["OUTSIDE"] + "/file", os.O_RDONLY), 0o777)'"#,
    r#"python3 -c 'import os; os.utime(os.environ["STATE"], (0, 0))' && echo ESCAPED"#,
    r#"exec 3< "$OUTSIDE/file"; chmod 777 /proc/self/fd/3"#,
    r#"perl -e 'syscall(452, -100, "$ENV{OUTSIDE}/file", 0777, 0) == 0 or die $!'"#,
];

/// Lines that fail only in a sandbox with namespaces, and that no test runs without a sandbox.
pub(crate) const ONLY_NAMESPACES_WITHOUT_CONTROL: &[&str] = &[
    r#"echo x > /dev/shm/evil; ls /dev/pts/0 && echo ESCAPED"#,
    r#"chattr +d "$OUTSIDE/file" && echo ESCAPED"#,
    r#"mount --bind src .git/hooks; [ -e .git/hooks/main.rs ] && echo ESCAPED"#,
    r#"(while :; do mv .git .g; mv .g .git; done) 2>/dev/null &
(while :; do echo x > .git/hooks/e; done) 2>/dev/null & sleep 0.2"#,
    r#"(while :; do rm -f .envrc; done) 2>/dev/null &
(while :; do cp src/main.rs .envrc; done) 2>/dev/null & sleep 0.2"#,
    r#"(while :; do mv -T docs d; mv -T d docs; done) 2>/dev/null &
(while :; do echo x > docs/rules.md; done) 2>/dev/null & sleep 0.2"#,
];
