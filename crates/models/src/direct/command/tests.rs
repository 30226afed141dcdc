//! Tests of parsing prompts.

use pretty_assertions::assert_eq;

use super::*;

/// Returns each call of a prompt as the text `tool arguments`, or the word `help`, or the text of
/// the error.
fn read_back(prompt: &str) -> Result<Vec<String>, String> {
    match parse_prompt(prompt).map_err(|error| error.to_string())? {
        ParsedPrompt::Help => Ok(vec!["help".to_owned()]),
        ParsedPrompt::Calls(calls) => {
            let show = |call: ToolUse| format!("{} {}", call.tool, call.arguments);
            Ok(calls.into_iter().map(show).collect())
        }
    }
}

fn check(cases: &[(&str, &[&str])]) {
    for (prompt, expected) in cases {
        assert_eq!(
            read_back(prompt),
            Ok(expected.iter().map(|&call| call.into()).collect()),
            "{prompt}"
        );
    }
}

#[test]
fn a_line_becomes_a_call() {
    check(&[
        ("read README.md", &[r#"read_file {"path":"README.md"}"#]),
        ("/read README.md", &[r#"read_file {"path":"README.md"}"#]),
        (" \t read  a.rs:7 ", &[r#"read_file {"path":"a.rs","offset":7}"#]),
        ("read a.rs:3-5", &[r#"read_file {"path":"a.rs","offset":3,"limit":3}"#]),
        ("read a.rs:5-5", &[r#"read_file {"path":"a.rs","offset":5,"limit":1}"#]),
        ("read 'my file':2-3", &[r#"read_file {"path":"my file","offset":2,"limit":2}"#]),
        ("read 'a:5'", &[r#"read_file {"path":"a:5"}"#]),
        ("read c:notes.txt", &[r#"read_file {"path":"c:notes.txt"}"#]),
        ("read /src/ä/日本.rs", &[r#"read_file {"path":"/src/ä/日本.rs"}"#]),
        ("list", &[r#"list_directory {"path":"."}"#]),
        ("list \"my src\"", &[r#"list_directory {"path":"my src"}"#]),
        ("find **/*.rs", &[r#"find_path {"pattern":"**/*.rs"}"#]),
        ("find *.rs src", &[r#"find_path {"pattern":"*.rs","path":"src"}"#]),
        ("grep it's", &[r#"grep {"pattern":"it's"}"#]),
        (r"grep 'fn \w+' src", &[r#"grep {"pattern":"fn \\w+","path":"src"}"#]),
        (r#"grep "it's" 'my src'"#, &[r#"grep {"pattern":"it's","path":"my src"}"#]),
        ("run echo  'a b' | wc -c", &[r#"terminal {"command":"echo  'a b' | wc -c"}"#]),
        ("think twice: 'it", &[r#"think {"thought":"twice: 'it"}"#]),
        ("undo", &["undo {}"]),
        ("tool fetch {\"url\": 1}", &["fetch {\"url\": 1}"]),
        ("tool think", &["think {}"]),
        ("todo", &[r#"todo_write {"todos":[]}"#]),
        (
            "todo [ ] a; [~]b ;[x] c d; [-] e;",
            &[concat!(
                r#"todo_write {"todos":[{"content":"a","status":"pending"},"#,
                r#"{"content":"b","status":"in_progress"},"#,
                r#"{"content":"c d","status":"completed"},"#,
                r#"{"content":"e","status":"cancelled"}]}"#
            )],
        ),
    ]);
}

#[test]
fn blocks_keep_their_lines_unchanged() {
    let edit = |old: &str, new: &str| {
        format!(r#"edit_file {{"path":"f","old_text":"{old}","new_text":"{new}"}}"#)
    };
    check(&[
        ("edit f\n<<<\na\n===\nb\n>>>", &[&edit("a", "b")]),
        ("edit f\r\n<<<\r\na\r\n  b\r\n=== \r\nc\r\n>>>\r\n", &[&edit("a\\n  b", "c")]),
        ("edit f\n<<<\n\na\n\n===\n\nb\n===\n>>>", &[&edit("\\na\\n", "\\nb\\n===")]),
        ("edit f\n<<<\na\nb\n===\n>>>", &[&edit("a\\nb\\n", "")]),
        ("edit f\n<<<\na\n===\n\n>>>", &[&edit("a", "")]),
        ("write f\n<<<\n>>>", &[r#"write_file {"path":"f","content":""}"#]),
        ("write f\n<<<\n\n>>>", &[r#"write_file {"path":"f","content":"\n"}"#]),
        (
            "write 'a b'\n<<<\nHeading\n===\nread me\n>>>\nread 'a b'",
            &[
                r#"write_file {"path":"a b","content":"Heading\n===\nread me\n"}"#,
                r#"read_file {"path":"a b"}"#,
            ],
        ),
    ]);
}

#[test]
fn an_empty_prompt_and_the_word_help_show_the_help() {
    let cases = ["", " ", "\n \r\n\t", "help", "/help", "help me", "read a\nhelp\nread b"];
    check(&cases.map(|prompt| (prompt, ["help"].as_slice())));
}

#[test]
fn a_prompt_with_one_invalid_line_makes_no_call_and_names_the_line() {
    let cases = [
        ("hello", "Line 1 is not a command"),
        ("please read a", "Line 1 is not a command"),
        ("Read a", "Line 1 is not a command"),
        ("//read a", "Line 1 is not a command"),
        ("/", "Line 1 is not a command"),
        ("read a\n\nand then?", "Line 3 is not a command"),
        ("write f\n<<<\na\n>>>\nand then?", "Line 5 is not a command"),
        ("read", "Line 1: a path is missing. The syntax is `read PATH[:FROM-TO]`"),
        ("read :3", "Line 1: a path is missing"),
        ("read a b", "Line 1: too many words; quote a path"),
        ("read 'a", "Line 1: ' is never closed"),
        ("read 'a'b", "Line 1: a space is missing after 'a'"),
        ("read a:0", "Line 1: `0` is not a range"),
        ("read a:5-4", "Line 1: `5-4` is not a range"),
        ("read a:5-", "Line 1: `5-` is not a range"),
        ("read a:1-2-3", "Line 1: `1-2-3` is not a range"),
        ("read a:99999999999999999999", "Line 1: `99999999999999999999` is not a range"),
        ("list a b", "Line 1: too many words"),
        ("find", "Line 1: a pattern is missing. The syntax is `find GLOB [PATH]`"),
        ("grep a b c", "Line 1: too many words"),
        ("grep \"a", "Line 1: \" is never closed"),
        ("run", "Line 1: the command is missing"),
        ("think \t", "Line 1: the thought is missing"),
        ("todo a", "Line 1: `a` is not an entry"),
        ("todo [ ] a; b", "Line 1: `b` is not an entry"),
        ("todo [ ]", "Line 1: `[ ]` is not an entry"),
        ("todo [?] a", "Line 1: `[?] a` is not an entry"),
        ("undo that", "Line 1: it takes no arguments. The syntax is `undo`"),
        ("tool", "Line 1: the tool's name is missing"),
        ("tool x [1]", "Line 1: the arguments are not a JSON object"),
        ("tool x {\"a\": ", "Line 1: the arguments are not a JSON object"),
        ("list\nedit", "Line 2: a path is missing"),
        ("edit f", "Line 1: the next line must be `<<<`"),
        ("edit f\n\n<<<", "Line 1: the next line must be `<<<`"),
        ("edit f\n<<<\na", "Line 1: the line `===` is missing"),
        ("edit f\n<<<\na\n>>>\nedit g\n<<<\na\n===\nb\n>>>", "Line 1: the line `===` is missing"),
        ("edit f\n<<<\na\n===\nb", "Line 1: the line `>>>` is missing"),
        ("edit f\n<<<\n===\nb\n>>>", "Line 1: the old text is empty"),
        ("edit f\n<<<\n\n===\nb\n>>>", "Line 1: the old text is empty"),
        ("write f\n<<<\na\nwrite g\n<<<\nb\n>>>", "Line 1: the line `>>>` is missing"),
        ("write f\n<<<", "Line 1: the line `>>>` is missing"),
    ];
    for (prompt, expected) in cases {
        let error = read_back(prompt).expect_err(prompt);
        assert!(error.starts_with(expected), "{prompt}: {error}");
        assert!(error.contains("Nothing was run."), "{prompt}: {error}");
    }
}

#[test]
fn every_example_calls_the_tool_of_its_command() {
    for command in COMMANDS {
        let call = read_back(command.example).expect(command.name).remove(0);
        let tool = call.split(' ').next();
        match command.tool {
            Some(expected) => assert_eq!(tool, Some(expected)),
            None => assert!(["tool", "help"].contains(&command.name), "{}", command.name),
        }
    }
}

#[test]
fn a_huge_prompt_is_parsed_and_too_many_calls_are_rejected() {
    let megabyte = "é".repeat(1 << 19);
    let text = read_back(&format!("think {megabyte}")).unwrap().remove(0);
    assert_eq!(text.len(), megabyte.len() + r#"think {"thought":""}"#.len());
    assert!(read_back(&megabyte).unwrap_err().starts_with("Line 1 is not a command"));
    assert!(read_back(&"write f\n<<<\n".repeat(1 << 17)).is_err());

    assert_eq!(read_back(&"list\n".repeat(MAX_CALLS)).unwrap().len(), MAX_CALLS);
    let error = read_back(&"list\n".repeat(MAX_CALLS + 1)).unwrap_err();
    assert_eq!(error, "A prompt can make at most 256 calls. Nothing was run.");
}
