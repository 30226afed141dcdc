//! The commands of the `direct` model, and the parser that turns a prompt into tool calls.

use std::{iter::Enumerate, str::Lines};

use serde_json::{Map, Value, json};

/// Maximum number of calls in one prompt.
const MAX_CALLS: usize = 256;

pub(super) const UNDO: &str = "undo";

/// A command. The parser, the help and the command menus of clients all use this description.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectCommand {
    /// Word with which the command begins.
    pub(super) name: &'static str,
    /// Arguments after the name; empty if the command has no arguments.
    pub(super) hint: &'static str,
    /// Description in one phrase.
    pub(super) description: &'static str,
    /// A prompt that uses the command.
    pub(super) example: &'static str,
    /// Tool that the command calls, if the command always calls the same tool.
    pub(super) tool: Option<&'static str>,
    /// Parser of the arguments; `None` for the help.
    parse: Option<ParseArgumentsFn>,
}

/// Parses the rest of the command's line, and the lines after it that belong to the command.
type ParseArgumentsFn = fn(&str, &mut FollowingLines<'_>) -> Result<ToolUse, String>;

type FollowingLines<'a> = Enumerate<Lines<'a>>;

/// All commands of the `direct` model, in the order in which the help lists them.
pub(super) const COMMANDS: &[DirectCommand] = &[
    DirectCommand {
        name: "read",
        hint: "PATH[:FROM-TO]",
        description: "read a file, or some of its lines",
        example: "read README.md:1-20",
        tool: Some("read_file"),
        parse: Some(parse_read),
    },
    DirectCommand {
        name: "list",
        hint: "[PATH]",
        description: "list a folder",
        example: "list src",
        tool: Some("list_directory"),
        parse: Some(parse_list),
    },
    DirectCommand {
        name: "find",
        hint: "GLOB [PATH]",
        description: "find files by name",
        example: "find **/*.rs src",
        tool: Some("find_path"),
        parse: Some(|rest, _| parse_pattern_and_path("find_path", rest)),
    },
    DirectCommand {
        name: "grep",
        hint: "REGEX [PATH]",
        description: "find lines in files",
        example: "grep 'fn main' src",
        tool: Some("grep"),
        parse: Some(|rest, _| parse_pattern_and_path("grep", rest)),
    },
    DirectCommand {
        name: "run",
        hint: "COMMAND…",
        description: "run a command in a terminal",
        example: "run cargo test",
        tool: Some("terminal"),
        parse: Some(|rest, _| parse_single_text_argument("terminal", "command", rest)),
    },
    DirectCommand {
        name: "edit",
        hint: "PATH, then the lines <<<, old…, ===, new…, >>>",
        description: "replace lines of a file; without new lines, delete the old ones",
        example: "edit notes.txt\n<<<\ncolour\n===\ncolor\n>>>",
        tool: Some("edit_file"),
        parse: Some(parse_edit),
    },
    DirectCommand {
        name: "write",
        hint: "PATH, then the lines <<<, text…, >>>",
        description: "write a whole file",
        example: "write notes.txt\n<<<\nfirst line\nsecond line\n>>>",
        tool: Some("write_file"),
        parse: Some(parse_write),
    },
    DirectCommand {
        name: "think",
        hint: "TEXT",
        description: "note a thought",
        example: "think the cache is stale",
        tool: Some("think"),
        parse: Some(|rest, _| parse_single_text_argument("think", "thought", rest)),
    },
    DirectCommand {
        name: "todo",
        hint: "[ ] a; [~] b; [x] c; [-] d",
        description: "set the plan: to do, in progress, done, cancelled",
        example: "todo [x] read the code; [~] fix the bug; [ ] test it",
        tool: Some("todo_write"),
        parse: Some(parse_todo),
    },
    DirectCommand {
        name: "undo",
        hint: "",
        description: "undo the last change, if the session supports it",
        example: "undo",
        tool: Some(UNDO),
        parse: Some(parse_undo),
    },
    DirectCommand {
        name: "tool",
        hint: "NAME {json}",
        description: "call any tool",
        example: "tool read_file {\"path\": \"README.md\"}",
        tool: None,
        parse: Some(parse_tool_call),
    },
    DirectCommand {
        name: "help",
        hint: "",
        description: "show this help",
        example: "help",
        tool: None,
        parse: None,
    },
];

impl DirectCommand {
    /// Returns the command's syntax: its name and its arguments.
    pub(super) fn usage(&self) -> String {
        format!("{} {}", self.name, self.hint).trim_end().to_owned()
    }
}

/// The meaning of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParsedPrompt {
    /// Tool calls in this order; the list is never empty.
    Calls(Vec<ToolUse>),
    /// The help was requested: the prompt is empty, or one of its lines is `help`.
    Help,
}

/// A tool and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolUse {
    /// Name of the tool.
    pub(super) tool: String,
    /// Arguments, a JSON object.
    pub(super) arguments: String,
}

impl ToolUse {
    fn new(tool: &str, arguments: &Value) -> Self {
        Self { tool: tool.to_owned(), arguments: arguments.to_string() }
    }
}

/// The reason why a prompt is rejected without any call. The message is Markdown for the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum PromptRejection {
    /// A line does not begin with a command. The reply to the user includes the help.
    #[error("Line {line} is not a command of the `direct` model. Nothing was run.")]
    Unknown {
        /// Number of the line, counted from 1.
        line: usize,
    },
    /// A line begins with a command, but the rest of it is invalid.
    #[error(
        "Line {line}: {message}. The syntax is `{}`, for example:\n\n```\n{}\n```\n\n\
         Nothing was run. `help` shows every command, and how to connect another model.",
        command.usage(),
        command.example
    )]
    Syntax {
        /// Number of the line, counted from 1.
        line: usize,
        /// Command with which the line begins.
        command: &'static DirectCommand,
        /// Reason of the error, without the line number.
        message: String,
    },
    /// The prompt contains more than [`MAX_CALLS`] commands. Send the commands in several prompts.
    #[error("A prompt can make at most {MAX_CALLS} calls. Nothing was run.")]
    TooMany,
}

impl PromptRejection {
    pub(super) fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// Parses a prompt with one command per line. The character `/` may precede a command; empty lines
/// are skipped.
///
/// Lines of the prompt end with `\n` or `\r\n`. In texts that are passed to tools, all lines end
/// with `\n`.
///
/// # Errors
/// Returns an error for the first line that is not a valid command. A single invalid line rejects
/// the whole prompt.
pub(super) fn parse_prompt(prompt: &str) -> Result<ParsedPrompt, PromptRejection> {
    let mut lines = prompt.lines().enumerate();
    let mut calls = Vec::new();
    while let Some((index, text)) = lines.next() {
        let line = index + 1;
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let (command, rest) = find_command(text).ok_or(PromptRejection::Unknown { line })?;
        let Some(parse) = command.parse else {
            return Ok(ParsedPrompt::Help);
        };
        let call = parse(rest, &mut lines).map_err(|message| PromptRejection::Syntax {
            line,
            command,
            message,
        })?;
        if calls.len() == MAX_CALLS {
            return Err(PromptRejection::TooMany);
        }
        calls.push(call);
    }
    Ok(if calls.is_empty() { ParsedPrompt::Help } else { ParsedPrompt::Calls(calls) })
}

fn find_command(line: &str) -> Option<(&'static DirectCommand, &str)> {
    let line = line.strip_prefix('/').unwrap_or(line);
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    Some((command, rest.trim_start()))
}

fn parse_read(rest: &str, _: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let (path, range) = match rest.rsplit_once(':') {
        Some((path, range)) if looks_like_range(range) => (path, Some(range)),
        _ => (rest, None),
    };
    let mut arguments = json!({ "path": parse_single_path(path)? });
    if let Some(range) = range {
        let (from, limit) =
            parse_range(range).ok_or_else(|| format!("`{range}` is not a range of lines"))?;
        arguments["offset"] = from.into();
        if let Some(limit) = limit {
            arguments["limit"] = limit.into();
        }
    }
    Ok(ToolUse::new("read_file", &arguments))
}

fn looks_like_range(text: &str) -> bool {
    let is_of_range = |c: char| c.is_ascii_digit() || c == '-';
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_of_range)
}

/// Parses `FROM` or `FROM-TO`, both 1-based and inclusive, into the first line and the number of
/// lines.
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let Some((from, to)) = text.split_once('-') else {
        return text.parse().ok().filter(|from| *from > 0).map(|from| (from, None));
    };
    let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    (0 < from && from <= to).then(|| (from, Some((to - from).saturating_add(1))))
}

fn parse_list(rest: &str, _: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let path = if rest.is_empty() { "." } else { parse_single_path(rest)? };
    Ok(ToolUse::new("list_directory", &json!({ "path": path })))
}

fn parse_pattern_and_path(tool: &str, rest: &str) -> Result<ToolUse, String> {
    let arguments = match split_words(rest)?[..] {
        [] => return Err("a pattern is missing".to_owned()),
        [pattern] => json!({ "pattern": pattern }),
        [pattern, path] => json!({ "pattern": pattern, "path": path }),
        _ => return Err("too many words; quote a word that contains spaces".to_owned()),
    };
    Ok(ToolUse::new(tool, &arguments))
}

fn parse_single_text_argument(tool: &str, argument: &str, rest: &str) -> Result<ToolUse, String> {
    if rest.is_empty() {
        return Err(format!("the {argument} is missing"));
    }
    Ok(ToolUse::new(tool, &json!({ argument: rest })))
}

/// The old and the new text are whole lines without their last line break, so this line break stays
/// in the file. If the new text has no lines, the old lines are removed together with their line
/// breaks. If the new text is a single empty line, the last line break stays in the file.
fn parse_edit(rest: &str, lines: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let path = parse_single_path(rest)?;
    expect_block_start(lines)?;
    let old = read_block_until(lines, "===")?;
    let new = read_block_until(lines, ">>>")?;
    let mut old_text = old.join("\n");
    if old_text.is_empty() {
        return Err("the old text is empty".to_owned());
    }
    if new.is_empty() {
        old_text.push('\n');
    }
    let arguments = json!({ "path": path, "old_text": old_text, "new_text": new.join("\n") });
    Ok(ToolUse::new("edit_file", &arguments))
}

/// The content ends with a line break, unless it is empty.
fn parse_write(rest: &str, lines: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let path = parse_single_path(rest)?;
    expect_block_start(lines)?;
    let text = read_block_until(lines, ">>>")?;
    let content: String = text.iter().flat_map(|line| [line, "\n"]).collect();
    Ok(ToolUse::new("write_file", &json!({ "path": path, "content": content })))
}

/// The entries of the plan are separated by `;`. An empty list of entries clears the plan.
fn parse_todo(rest: &str, _: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let entries = rest.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let todos: Vec<Value> = entries
        .map(|entry| parse_todo_entry(entry).ok_or_else(|| format!("`{entry}` is not an entry")))
        .collect::<Result<_, _>>()?;
    Ok(ToolUse::new("todo_write", &json!({ "todos": todos })))
}

fn parse_todo_entry(entry: &str) -> Option<Value> {
    let (mark, content) = entry.strip_prefix('[')?.split_once(']')?;
    let status = match mark {
        " " => "pending",
        "~" => "in_progress",
        "x" => "completed",
        "-" => "cancelled",
        _ => return None,
    };
    let content = content.trim();
    (!content.is_empty()).then(|| json!({ "content": content, "status": status }))
}

fn parse_undo(rest: &str, _: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    match rest {
        "" => Ok(ToolUse::new(UNDO, &json!({}))),
        _ => Err("it takes no arguments".to_owned()),
    }
}

/// The arguments are checked to be a JSON object and are then passed on unchanged.
fn parse_tool_call(rest: &str, _: &mut FollowingLines<'_>) -> Result<ToolUse, String> {
    let (tool, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, "{}"));
    if tool.is_empty() {
        return Err("the tool's name is missing".to_owned());
    }
    serde_json::from_str::<Map<String, Value>>(arguments)
        .map_err(|error| format!("the arguments are not a JSON object ({error})"))?;
    Ok(ToolUse { tool: tool.to_owned(), arguments: arguments.trim().to_owned() })
}

fn parse_single_path(text: &str) -> Result<&str, String> {
    match split_words(text)?[..] {
        [] => Err("a path is missing".to_owned()),
        [path] => Ok(path),
        _ => Err("too many words; quote a path that contains spaces".to_owned()),
    }
}

/// Splits a text into words. A word that begins with `'` or `"` extends to the next quote of the
/// same kind; backslashes have no special meaning.
fn split_words(text: &str) -> Result<Vec<&str>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => {
                rest[1..].split_once(first).ok_or_else(|| format!("{first} is never closed"))?
            }
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        if after.starts_with(|c: char| !c.is_whitespace()) {
            return Err(format!("a space is missing after {first}{word}{first}"));
        }
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn expect_block_start(lines: &mut FollowingLines<'_>) -> Result<(), String> {
    match lines.next() {
        Some((_, line)) if line.trim_end() == "<<<" => Ok(()),
        _ => Err("the next line must be `<<<`".to_owned()),
    }
}

/// Reads the lines up to the line `end`. Fails if a line `<<<` or `>>>` precedes the line `end`.
fn read_block_until<'a>(lines: &mut FollowingLines<'a>, end: &str) -> Result<Vec<&'a str>, String> {
    let mut section = Vec::new();
    for (_, line) in lines {
        match line.trim_end() {
            marker if marker == end => return Ok(section),
            "<<<" | ">>>" => break,
            _ => section.push(line),
        }
    }
    Err(format!("the line `{end}` is missing"))
}

#[cfg(test)]
mod tests;
