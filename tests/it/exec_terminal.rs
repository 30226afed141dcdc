//! `callboard exec` in a terminal: width, colours, and a user who answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use pretty_assertions::assert_eq;

use crate::harness::normalized::normalized;
use crate::harness::scratch::Scratch;
use crate::harness::{CALLBOARD, DEADLINE};

const COLUMNS: u16 = 60;

/// A shell in a terminal that the test controls.
pub(crate) struct TestTerminal {
    shell: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn std::io::Write + Send>,
    pieces: Receiver<Vec<u8>>,
    shown: String,
    _master: Box<dyn MasterPty + Send>,
}

impl TestTerminal {
    /// Runs a line of shell in which `$0` is the program.
    fn run(scratch: &Scratch, line: &str) -> Self {
        Self::wide(scratch, COLUMNS, line)
    }

    /// Runs a line as [`Self::run`] does, in a terminal with `cols` columns.
    pub(crate) fn wide(scratch: &Scratch, cols: u16, line: &str) -> Self {
        let size = PtySize { rows: 24, cols, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", line, CALLBOARD]);
        command.cwd(scratch.cwd());
        command.env_clear();
        let terminal = BTreeMap::from([("TERM".to_owned(), "xterm-256color".to_owned())]);
        for (name, value) in scratch.env().into_iter().chain(terminal) {
            command.env(name, value);
        }
        let shell = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, pieces) = channel();
        drop(std::thread::spawn(move || {
            let mut piece = vec![0; 4096];
            while let Ok(bytes @ 1..) = reader.read(&mut piece) {
                if sender.send(piece[..bytes].to_vec()).is_err() {
                    return;
                }
            }
        }));
        let keyboard = pair.master.take_writer().unwrap();
        Self { shell, keyboard, pieces, shown: String::new(), _master: pair.master }
    }

    /// Waits until the terminal shows a text. Returns the whole output so far.
    fn until(&mut self, text: &str) -> &str {
        self.until_times(text, 1)
    }

    /// Waits until the terminal has shown a text `times` times. Returns the whole output so far.
    pub(crate) fn until_times(&mut self, text: &str, times: usize) -> &str {
        let end = Instant::now() + DEADLINE;
        while self.shown.matches(text).count() < times {
            let left = end.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| panic!("no {text:?} in {}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&piece));
        }
        &self.shown
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until the shell has ended. Returns its exit code and the whole output.
    pub(crate) fn end(mut self) -> (u32, String) {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.shown.push_str(&String::from_utf8_lossy(&piece)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.shell.kill().unwrap();
                    panic!("it did not end: {}", self.shown)
                }
            }
        }
        let status = self.shell.wait().unwrap();
        (status.exit_code(), self.shown)
    }
}

#[test]
fn the_user_is_asked_at_the_terminal_even_if_standard_input_is_a_pipe() {
    let exec = "\"$0\" exec --no-sandbox --model direct 'run touch made'";
    for line in [exec, &format!("echo context | {exec}")] {
        for allows in [true, false] {
            let scratch = Scratch::new();
            let mut terminal = TestTerminal::run(&scratch, line);
            let shown = terminal.until("] ");
            let last = shown.rsplit_once("Which? [1-").unwrap().1;
            let last = last.strip_suffix("] ").unwrap().to_owned();
            terminal.types(&format!("{}\n", if allows { "1" } else { &last }));
            let (code, shown) = terminal.end();
            assert_eq!(code, u32::from(!allows), "{line}: {shown}");
            assert_eq!(scratch.path("made").exists(), allows, "{shown}");
            assert!(!shown.contains("no terminal to ask at"), "{shown}");
        }
    }
}

#[test]
fn a_prompt_can_be_typed() {
    let scratch = Scratch::new();
    let line = "\"$0\" exec --no-sandbox --mode auto --model direct -";
    let mut terminal = TestTerminal::run(&scratch, line);
    terminal.until("Ctrl-D ends it");
    terminal.types("run touch made\n\u{4}");
    let (code, shown) = terminal.end();
    assert_eq!((code, scratch.path("made").exists()), (0, true), "{shown}");
}

#[test]
fn a_question_is_visible_even_if_standard_output_is_a_file() {
    let exec = "\"$0\" exec --no-sandbox --model direct 'run touch made'";
    for (streams, is_asked) in [("> out.txt", true), ("> out.txt 2>&1", false)] {
        let scratch = Scratch::new();
        let mut terminal = TestTerminal::run(&scratch, &format!("{exec} {streams}"));
        if is_asked {
            assert!(terminal.until("] ").contains("Run `touch made`"));
            terminal.types("1\n");
        }
        let (code, shown) = terminal.end();
        assert_eq!(code, if is_asked { 0 } else { 3 }, "{streams}: {shown}");
        assert_eq!(scratch.path("made").exists(), is_asked, "{streams}: {shown}");
        assert!(fs::read_to_string(scratch.path("out.txt")).unwrap().contains("touch made"));
    }
}

#[test]
fn an_invalid_answer_is_explained_and_letters_are_answers() {
    let exec = "exec \"$0\" exec --no-sandbox --model direct 'run touch made'";
    // The second call is asked about too, so the letters allow and reject only once.
    let twice = "exec \"$0\" exec --no-sandbox --model direct 'run touch made\nrun touch made'";
    for (exec, answers, code, is_made, says) in [
        (exec, vec!["maybe", "y"], 0, true, "Type a number from 1 to 5, y to allow"),
        (exec, vec!["0", "N"], 1, false, "Type a number from 1 to 5, y to allow"),
        (twice, vec!["yes", "no"], 1, true, "Which? [1-5] no"),
        (twice, vec!["nein", "ja"], 1, true, "Which? [1-5] ja"),
        (exec, vec!["6"; 5], 4, false, "There was no valid answer, so the turn is cancelled."),
        (exec, vec!["\u{3}"], 130, false, "Interrupted."),
    ] {
        let scratch = Scratch::new();
        let mut terminal = TestTerminal::run(&scratch, exec);
        for (number, answer) in answers.iter().enumerate() {
            terminal.until_times("Which? [1-5] ", number + 1);
            terminal.types(&format!("{answer}\n"));
        }
        let (ended, shown) = terminal.end();
        assert_eq!((ended, scratch.path("made").exists()), (code, is_made), "{shown}");
        assert!(shown.contains(says), "{shown}");
    }
}

#[test]
fn the_user_is_asked_in_the_language_of_the_locale() {
    let scratch = Scratch::new();
    let write = "write notes.txt\n<<<\neins\n>>>";
    let exec = format!("\"$0\" exec --model direct --locale de '{write}'");
    let mut terminal = TestTerminal::run(&scratch, &exec);
    terminal.until("Welche? [1-");
    terminal.types("1\n");
    let (code, shown) = terminal.end();
    assert_eq!((code, scratch.read("notes.txt").as_str()), (0, "eins\n"), "{shown}");
    let shown = anstream::adapter::strip_str(&shown).to_string();
    insta::assert_snapshot!(normalized(&scratch, &shown));
}

#[test]
fn exec_waits_for_no_answer_if_the_question_cannot_be_shown() {
    let scratch = Scratch::new();
    let exec = "\"$0\" exec --no-sandbox --model direct 'run touch made'";
    let terminal =
        TestTerminal::run(&scratch, &format!("{{ {exec}; echo code $? >&2; }} | head -c 1"));
    let (_, shown) = terminal.end();
    assert!(shown.contains("code 3"), "{shown}");
    assert!(!scratch.path("made").exists());
}

#[test]
fn ctrl_c_ends_exec() {
    let scratch = Scratch::new();
    let exec = "exec \"$0\" exec --approve-all --model direct 'run sleep 60'";
    let mut terminal = TestTerminal::run(&scratch, exec);
    terminal.until("sleep 60");
    terminal.types("\u{3}");
    assert_eq!(terminal.end().0, 130);
}

#[test]
fn a_message_is_laid_out_for_the_terminal() {
    let scratch = Scratch::new();
    let words = "some **bold** words ".repeat(10);
    let script = format!("{{\"text\":\"{words}\"}}\n{{\"end\":\"end_turn\"}}\n");
    fs::write(scratch.path("script.jsonl"), script).unwrap();
    let (code, shown) =
        TestTerminal::run(&scratch, "exec \"$0\" exec --model script:script.jsonl hello").end();
    assert_eq!(code, 0, "{shown}");
    assert_eq!(shown.matches("\u{1b}[1mbold\u{1b}[0m").count(), 10, "{shown:?}");
    let plain = anstream::adapter::strip_str(&shown).to_string();
    insta::assert_snapshot!(normalized(&scratch, &plain));
}

#[test]
fn a_command_keeps_its_colours_and_draws_its_progress() {
    let scratch = Scratch::new();
    let run = "run printf \"\\033[31mred\\033[0m\\n\"; for i in 1 2 3; do printf \"\\r$i %%\"; sleep 0.3; done";
    let line = format!("exec \"$0\" exec --approve-all --model direct '{run}'");
    let (code, shown) = TestTerminal::run(&scratch, &line).end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\u{1b}[31mred\u{1b}[0m"), "{shown:?}");
    let plain = anstream::adapter::strip_str(&shown).to_string();
    assert!(plain.contains(" %\r  │ 3 %"), "{plain:?}");
}
