//! Tests of programs that exchange data with their caller.

use std::io::{Read, Write as _};
use std::net::Shutdown;

use pretty_assertions::assert_eq;

use super::*;

async fn start(line: &str) -> (PipedProgram, PipedStreams) {
    let env = base_env(std::iter::empty());
    let command = PipedCommand::new("sh", std::env::temp_dir(), env).with_args(["-c", line]);
    command.start().await.unwrap()
}

fn read_all(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn data_and_errors_have_their_own_streams() {
    let (mut program, PipedStreams { mut data, errors }) =
        start("echo problem >&2; while read -r line; do echo got $line; done; exit 3").await;
    data.write_all(b"one\ntwo\n").unwrap();
    data.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(data), "got one\ngot two\n");
    assert_eq!(read_all(errors), "problem\n");
    let exit = timeout(PATIENCE, program.wait()).await.unwrap().unwrap();
    assert_eq!((exit.code, exit.cause), (Some(3), ExitCause::Exited));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_and_dropping_leave_nothing_behind() {
    for is_stopped in [true, false] {
        let sleep = endless();
        let line =
            format!("trap '' TERM; setsid sleep {sleep} & (sleep {sleep} &); echo; sleep {sleep}");
        let (program, PipedStreams { mut data, .. }) = start(&line).await;
        assert_eq!(data.read(&mut [0; 9]).unwrap(), 1);
        until("all run", || alive(&sleep) >= 3).await;
        if is_stopped {
            timeout(PATIENCE, program.stop()).await.unwrap();
            assert_eq!(alive(&sleep), 0);
        } else {
            drop(program);
            until("none is left", || alive(&sleep) == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_reported() {
    let env = base_env(std::iter::empty());
    let command = PipedCommand::new("no-such-program", std::env::temp_dir(), env);
    let error = match command.start().await {
        Ok((mut program, _streams)) => program.wait().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("No such file"), "{error}");
}
