//! The descendants of one of our own processes, read from `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::proc_table::{self, Process};

/// A process with an open pidfd, so that a signal cannot reach another process that reuses the
/// process id.
#[derive(Debug)]
pub(super) struct PinnedProcess {
    process: Process,
    /// The pidfd of the process; `None` before Linux 5.3.
    pidfd: Option<OwnedFd>,
}

impl PinnedProcess {
    /// Sends a signal; the signal is ignored if the process has exited.
    pub(super) fn signal(&self, signal: Signal) {
        match &self.pidfd {
            Some(pinned) => drop(pidfd_send_signal(pinned, signal)),
            None => drop(kill_process(self.process.pid, signal)),
        }
    }
}

/// Lists all live processes beneath `top`; each process comes after its ancestors.
pub(super) fn list_descendants(top: Pid) -> Vec<Process> {
    let mut found = Vec::new();
    visit_descendants(top, |it| found.push(it.process));
    found
}

/// Visits each live process beneath `top` as soon as it is found and before its children are read.
/// A process that the visitor kills therefore starts no more children.
pub(super) fn visit_descendants(top: Pid, visit: impl FnMut(PinnedProcess)) {
    walk(&ChildrenSource::detect(top), top, visit);
}

/// Stops all processes beneath `top` and returns them; each process comes after its ancestors.
pub(super) fn stop_descendants(top: Pid) -> Vec<Process> {
    proc_table::repeat_until_all_stopped(|| {
        let mut found = Vec::new();
        visit_descendants(top, |it| {
            if !it.process.stopped {
                it.signal(Signal::STOP);
            }
            found.push(it.process);
        });
        found
    })
}

fn walk(children: &ChildrenSource, top: Pid, mut visit: impl FnMut(PinnedProcess)) {
    let mut seen = HashSet::from([top]);
    let mut parents = vec![(top, ThreadCount::Several)];
    while let Some((parent, threads)) = parents.pop() {
        for pid in children.children_of(parent, threads) {
            if seen.contains(&pid) {
                continue;
            }
            // The process is pinned before it is read. If its parent is not one of the visited
            // processes, one of two things happened. Either another process has reused the id, or
            // the process has a new parent and is found below that parent.
            let pinned = pidfd_open(pid, PidfdFlags::empty()).ok();
            let Some(process) = Process::from_live_pid(pid) else { continue };
            if !Pid::from_raw(process.parent).is_some_and(|parent| seen.contains(&parent)) {
                continue;
            }
            seen.insert(pid);
            parents.push((
                pid,
                if process.threads > 1 { ThreadCount::Several } else { ThreadCount::One },
            ));
            visit(PinnedProcess { process, pidfd: pinned });
        }
    }
}

/// Number of threads of a process; each thread has separate children.
#[derive(Debug, Clone, Copy)]
enum ThreadCount {
    One,
    Several,
}

/// Source of the parent-child relation.
enum ChildrenSource {
    /// The kernel lists the children of each process.
    FromKernel,
    /// The kernel does not list children, so all processes were read.
    Scanned(HashMap<i32, Vec<Pid>>),
}

impl ChildrenSource {
    fn detect(top: Pid) -> Self {
        match fs::exists(format!("/proc/{top}/task/{top}/children")) {
            Ok(true) => Self::FromKernel,
            _ => Self::scan_all_processes(),
        }
    }

    fn scan_all_processes() -> Self {
        let mut children: HashMap<_, Vec<_>> = HashMap::new();
        for process in proc_table::list() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        Self::Scanned(children)
    }

    fn children_of(&self, parent: Pid, threads: ThreadCount) -> Vec<Pid> {
        let folder = format!("/proc/{parent}/task");
        match (self, threads) {
            (Self::Scanned(children), _) => {
                children.get(&parent.as_raw_pid()).cloned().unwrap_or_default()
            }
            (Self::FromKernel, ThreadCount::One) => {
                read_pids(&format!("{folder}/{parent}/children"))
            }
            (Self::FromKernel, ThreadCount::Several) => {
                let threads = fs::read_dir(folder).into_iter().flatten().flatten();
                threads
                    .flat_map(|it| read_pids(&format!("{}/children", it.path().display())))
                    .collect()
            }
        }
    }
}

/// Parses process ids separated by spaces.
fn read_pids(path: &str) -> Vec<Pid> {
    let ids = fs::read_to_string(path).unwrap_or_default();
    ids.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A shell with running children and grandchildren.
    struct ShellTree(Child);

    impl ShellTree {
        fn start(processes: usize) -> Self {
            let line = "sh -c 'sleep 70001 & sleep 70001 & wait' & sleep 70001 & wait";
            let child = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).spawn().unwrap();
            let tree = Self(child);
            tree.wait_until(|found| found == processes);
            tree
        }

        /// Waits until `is_so` returns true for the number of processes.
        fn wait_until(&self, is_so: impl Fn(usize) -> bool) {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !is_so(list_descendants(self.top()).len()) {
                assert!(Instant::now() < deadline, "{:?}", list_descendants(self.top()));
            }
        }

        /// Kills everything beneath the shell. The search ends before the first kill, because
        /// orphans get another parent.
        fn kill(&self) {
            let mut found = Vec::new();
            visit_descendants(self.top(), |it| found.push(it));
            found.iter().for_each(|found| found.signal(Signal::KILL));
        }

        fn top(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    impl Drop for ShellTree {
        fn drop(&mut self) {
            self.kill();
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }

    #[test]
    fn descendants_are_found_with_and_without_a_list_of_children() {
        let tree = ShellTree::start(4);
        for children in [ChildrenSource::FromKernel, ChildrenSource::scan_all_processes()] {
            let mut found = Vec::new();
            walk(&children, tree.top(), |it| found.push(it.process));
            assert_eq!(found.len(), 4, "{found:?}");
            let is_below = |at: usize| {
                let above = found[..at].iter().map(|process| process.pid).chain([tree.top()]);
                above.map(Pid::as_raw_pid).any(|pid| pid == found[at].parent)
            };
            assert!((0..4).all(is_below), "{found:?}");
        }
    }

    #[test]
    fn stopped_descendants_have_stopped_and_killed_ones_are_gone() {
        let tree = ShellTree::start(4);
        assert_eq!(stop_descendants(tree.top()).len(), 4);
        // `stop_descendants` does not wait for a process that does not stop.
        while !list_descendants(tree.top()).iter().all(|process| process.stopped) {
            assert_eq!(stop_descendants(tree.top()).len(), 4);
        }
        tree.kill();
        tree.wait_until(|found| found == 0);
    }
}
