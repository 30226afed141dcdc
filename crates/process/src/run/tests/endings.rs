//! Tests of the ways in which commands end, each without a left-over process.

use pretty_assertions::assert_eq;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_ends_the_command_and_its_output_stays() {
    let timed_out = async |supervision| {
        let sleep = endless();
        let line = format!("echo begun; sleep {sleep}; echo not reached");
        let timeout = Some(Duration::from_secs(5));
        let (exit, output) = finish(supervision, ShellCommand { timeout, ..command(&line) }).await;
        assert_eq!((exit.cause, exit.code), (ExitCause::TimedOut, None));
        assert!(exit.signal.is_some());
        assert_eq!((output.as_str(), alive(&sleep)), ("begun\n", 0));
    };
    futures::future::join_all(SUPERVISIONS.map(timed_out)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_leaves_nothing_behind() {
    for start in [
        "sleep @",
        "sleep @ & wait",
        // Processes in separate sessions, found by their parents or, if the parents are gone, by
        // their environment.
        "setsid sleep @ & sleep @",
        "(setsid sleep @ &); sleep @",
        "(setsid sh -c 'setsid sleep @ & setsid sleep @' &); sleep @",
        "env -i setsid env -i sleep @ & wait",
        "env -i setsid env -i sh -c 'trap \"\" TERM; sleep @' & wait",
        // Processes that ignore SIGTERM, and stopped processes.
        "trap '' TERM HUP INT; sleep @ & sleep @",
        "nohup sleep @ & until grep -qsx sleep /proc/$!/comm; do :; done; kill -STOP $!; disown; sleep @",
    ] {
        for supervision in SUPERVISIONS {
            let sleep = endless();
            let line = format!("echo begun; {}", start.replace('@', &sleep));
            let cancel = CancellationToken::new();
            let (begun, output) = watch("begun");
            let running =
                tokio::spawn(run_unrecorded(supervision, command(&line), cancel.clone(), output));
            begun.notified().await;
            until(start, || alive(&sleep) >= start.matches("sleep @").count()).await;
            cancel.cancel();
            let exit = running.await.unwrap().unwrap();
            assert_eq!((exit.cause, exit.code), (ExitCause::Cancelled, None), "{start}");
            // A process that handles SIGTERM may not be scheduled in time.
            let heard = !start.starts_with("trap") && exit.signal.as_deref() == Some("SIGTERM");
            assert!(heard || exit.signal.as_deref() == Some("SIGKILL"), "{start}: {exit:?}");
            assert_eq!(alive(&sleep), 0, "{start}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_tidies_up_when_asked_to_stop_may_finish() {
    for supervision in SUPERVISIONS {
        let line = "trap 'echo tidy; exit 5' TERM; sleep 600 & echo begun; wait";
        let life = || async {
            let (cancel, mut output) = (CancellationToken::new(), Vec::new());
            let exit = run_unrecorded(supervision, command(line), cancel.clone(), |chunk| {
                output.extend_from_slice(chunk);
                cancel.cancel();
            });
            let exit = exit.await.unwrap();
            (exit.cause, exit.code, terminal_output_to_text(&output))
        };
        let ended = in_time(life, |(_, code, _)| code.is_some()).await;
        assert_eq!(ended, (ExitCause::Cancelled, Some(5), "begun\ntidy\n".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn background_processes_are_ended_with_the_shell() {
    for start in [
        "sleep @ & echo hi",
        "setsid sleep @ & echo hi",
        "nohup sleep @ & echo hi",
        "trap '' HUP TERM; sleep @ & echo hi",
        "trap '' HUP TERM; setsid sleep @ & echo hi",
        "trap '' HUP; env -i sleep @ & echo hi",
    ] {
        for supervision in SUPERVISIONS {
            let sleep = endless();
            // The shell must not exit before the program runs; otherwise no process would be left
            // over.
            let line = format!(
                "{}; until grep -qsx sleep /proc/$!/comm; do :; done",
                start.replace('@', &sleep)
            );
            let (exit, output) = finish(supervision, command(&line)).await;
            assert_eq!((exit.cause, exit.code), (ExitCause::Exited, Some(0)), "{start}");
            assert_eq!(alive(&sleep), 0, "{start}");
            // The terminal sends a hangup to the first process when the shell exits, so this
            // process may end in time.
            let is_hung_up = start.starts_with("sleep") && exit.left_over == 0;
            assert!(is_hung_up || exit.left_over == 1, "{start}: {exit:?}");
            assert!(output.contains("hi\n"), "{start}: {output}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_holds_the_output_open_does_not_delay_the_call() {
    for supervision in SUPERVISIONS {
        for streams in [Streams::Pipe, Streams::Terminal(WindowSize::default())] {
            let sleep = endless();
            let line = format!("trap '' HUP; sleep {sleep} & echo hi");
            let (exit, output) =
                finish(supervision, ShellCommand { streams, ..command(&line) }).await;
            assert_eq!((exit.cause, exit.code, exit.left_over), (ExitCause::Exited, Some(0), 1));
            assert_eq!(
                (terminal_output_to_text(output.as_bytes()).as_str(), alive(&sleep)),
                ("hi\n", 0)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_soon_after_the_shell_is_not_killed() {
    let late = "read line; until [ ! -e /proc/$$/exe ]; do :; done; echo \"$line\"";
    for supervision in SUPERVISIONS {
        let line = format!("trap '' HUP; echo late > >({late})");
        let life = || finish(supervision, command(&line));
        let (exit, output) = in_time(life, |(_, output)| !output.is_empty()).await;
        assert_eq!(
            (exit.cause, exit.code, output.as_str()),
            (ExitCause::Exited, Some(0), "late\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_process_does_not_delay_the_call_and_a_helper_ends_it() {
    for supervision in SUPERVISIONS {
        let dir = TempDir::new().unwrap();
        let sleep = endless();
        let line =
            format!("mkfifo gate; (env -i setsid env -i sleep {sleep} &); echo ready; cat gate");
        let command = ShellCommand { cwd: dir.path().to_owned(), ..command(&line) };
        let mut has_begun = false;
        let running = run_unrecorded(supervision, command, CancellationToken::new(), |_| {
            // The output may arrive in two pieces, but the gate is read only once.
            if std::mem::replace(&mut has_begun, true) {
                return;
            }
            let begun = Instant::now();
            while alive(&sleep) == 0 && begun.elapsed() < PATIENCE {}
            fs::write(dir.path().join("gate"), "").unwrap();
        });
        let exit = timeout(PATIENCE, running).await.expect("it holds up the call").unwrap();
        assert_eq!((exit.cause, exit.code), (ExitCause::Exited, Some(0)));
        let escaped = find(&sleep);
        // The module `tree::group` documents that it does not find such a process.
        let expected = if supervision == Supervision::Helper { (1, 0) } else { (0, 1) };
        assert_eq!((exit.left_over, escaped.len()), expected);
        for escaped in escaped {
            kill_process(escaped, Signal::KILL).unwrap();
        }
    }
}

/// The helper is the parent of the shell and runs as the same user, so the command can signal it.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_kills_or_stops_its_helper_is_ended() {
    let sleep = endless();
    let line = format!("trap '' HUP TERM; setsid sleep {sleep} & kill -KILL $PPID; sleep {sleep}");
    let (exit, _) = finish(Supervision::Helper, command(&line)).await;
    assert_eq!(
        (exit.cause, exit.code, exit.signal.as_deref()),
        (ExitCause::Exited, None, Some("SIGKILL"))
    );
    assert_eq!(alive(&sleep), 0);

    let cancel = CancellationToken::new();
    let (begun, output) = watch("begun");
    let line = format!("kill -STOP $PPID; trap '' TERM; echo begun; sleep {sleep}");
    let running =
        tokio::spawn(run_unrecorded(Supervision::Helper, command(&line), cancel.clone(), output));
    begun.notified().await;
    cancel.cancel();
    let exit = running.await.unwrap().unwrap();
    assert_eq!((exit.cause, exit.signal.as_deref()), (ExitCause::Cancelled, Some("SIGKILL")));
    assert_eq!(alive(&sleep), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_call_kills_and_reaps() {
    for supervision in SUPERVISIONS {
        let sleep = endless();
        let line = format!("trap '' HUP; echo $$ begun; setsid sleep {sleep} & sleep {sleep}");
        let shell = Arc::new(Mutex::new(String::new()));
        let (begun, mut output) = watch("begun");
        let printed = Arc::clone(&shell);
        let running = tokio::spawn(run_unrecorded(
            supervision,
            command(&line),
            CancellationToken::new(),
            move |chunk| {
                printed.lock().unwrap().push_str(&terminal_output_to_text(chunk));
                output(chunk);
            },
        ));
        begun.notified().await;
        until("the programs", || alive(&sleep) == 2).await;
        running.abort();
        until("their end", || alive(&sleep) == 0).await;
        let shell = shell.lock().unwrap().split(' ').next().unwrap().to_owned();
        until("the reaping", || !Path::new("/proc").join(&shell).exists()).await;
    }
}

/// A process that ignores SIGTERM gets no time to exit by itself when the call is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_call_kills_at_once() {
    let mut fastest = Duration::MAX;
    // The machine may be busy, so only one of several tries has to be fast enough.
    for _ in 0..10 {
        let sleep = endless();
        let line = format!("trap '' HUP TERM; echo begun; setsid sleep {sleep} & wait");
        let (begun, output) = watch("begun");
        let running = tokio::spawn(run_unrecorded(
            Supervision::Helper,
            command(&line),
            CancellationToken::new(),
            output,
        ));
        begun.notified().await;
        until("the program", || alive(&sleep) == 1).await;
        let end = pidfd_open(find(&sleep)[0], PidfdFlags::empty()).unwrap();
        let dropped = Instant::now();
        running.abort();
        let patience = Timespec::try_from(PATIENCE).unwrap();
        let mut ends = [PollFd::new(&end, PollFlags::IN)];
        assert_eq!(poll(&mut ends, Some(&patience)), Ok(1), "its end");
        fastest = fastest.min(dropped.elapsed());
        if fastest < LEFT_OVER_GRACE.min(KILL_GRACE) {
            return;
        }
    }
    panic!("{fastest:?}");
}
