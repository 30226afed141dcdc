//! Checks of `callboard mcp add`: it refuses mistakes, and it refuses secrets, which do not belong
//! in the configuration file.
//!
//! A refused text may be a secret, so it is never shown.

use std::borrow::Cow;
use std::path::Path;

use callboard_process::env::is_secret_name_or_value;
use url::Url;

use super::args::McpAddArgs;
use crate::config::is_variable_name;
use crate::limits::MIN_TOKEN_SHAPE_LENGTH;
use crate::secrets;

/// The variables and headers of the arguments, as names and values.
#[derive(Debug)]
pub(super) struct Assignments {
    pub(super) env: Vec<(String, String)>,
    pub(super) headers: Vec<(String, String)>,
}

/// Checks the arguments. Returns why they are refused.
pub(super) fn check_server_args(args: &McpAddArgs) -> Result<Assignments, String> {
    let env = args.env.iter().map(|text| parse_env_assignment(text)).collect::<Result<_, _>>()?;
    let headers = args
        .header_env
        .iter()
        .map(|text| parse_header_env_assignment(text))
        .collect::<Result<_, _>>()?;
    if !args.env_pass.iter().all(|name| is_nonsecret_variable_name(name)) {
        return Err("--env-pass needs the name of a variable, without its value".to_owned());
    }
    if let Some(url) = &args.url {
        check_url_has_no_secret(url)?;
    } else if !args.header_env.is_empty() {
        return Err("--header-env needs --url, because a program receives no headers".to_owned());
    } else if args.command.first().is_none_or(|program| program.trim().is_empty()) {
        return Err("the command is empty".to_owned());
    }
    let words = args.command.iter().map(String::as_str);
    let before = std::iter::once("").chain(words.clone());
    if before.zip(words).any(|(before, word)| is_secret_command_argument(before, word)) {
        return Err(format!(
            "the command contains a secret, or a word that looks like one, which does not belong in \
             the file; give it to the server in a variable, with --env-pass. {BY_HAND}"
        ));
    }
    Ok(Assignments { env, headers })
}

const BY_HAND: &str = "If it is no secret, write the server to the configuration file yourself";

/// Parses a variable with its value.
fn parse_env_assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or_default();
    if !is_nonsecret_variable_name(name) {
        return Err("--env needs the name of a variable, an equals sign and its value".to_owned());
    }
    if is_secret_name_or_value(name, value) || holds_secret(value) {
        return Err(format!(
            "--env {name}: this looks like a secret, which does not belong in the file; set {name} \
             in your environment, and use --env-pass {name}. {BY_HAND}"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a header with its variable.
fn parse_header_env_assignment(text: &str) -> Result<(String, String), String> {
    let (name, variable) = text.split_once('=').unwrap_or_default();
    // The characters of header names (RFC 9110).
    let is_letter =
        |letter: u8| letter.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&letter);
    if name.is_empty() || !name.bytes().all(is_letter) || has_token_shape(name) {
        return Err("--header-env needs the name of a header, an equals sign and the name of a \
                    variable, e.g. X-Docs-User=DOCS_USER"
            .to_owned());
    }
    if !is_nonsecret_variable_name(variable) {
        return Err(
            "--header-env needs the name of a variable that holds the value of the header, \
                    e.g. X-Docs-User=DOCS_USER"
                .to_owned(),
        );
    }
    Ok((name.to_owned(), variable.to_owned()))
}

/// Returns whether a text is the name of a variable and not its value. A value may have the form of
/// a name, so texts that look like a token or contain a known secret are not accepted.
fn is_nonsecret_variable_name(name: &str) -> bool {
    is_variable_name(name) && !has_token_shape(name) && !contains_known_secret(name)
}

fn check_url_has_no_secret(url: &str) -> Result<(), String> {
    if holds_secret(url) {
        return Err(format!(
            "--url contains a secret, or a part that looks like one, which does not belong in the \
             file; put it in a variable, and use --header-env HEADER=VARIABLE. {BY_HAND}"
        ));
    }
    if url.contains('#') {
        return Err("--url has a part after #, which is never sent to a server".to_owned());
    }
    Ok(())
}

/// Returns whether a word of a command is a secret, by its form or by the flag before it.
fn is_secret_command_argument(before: &str, word: &str) -> bool {
    let is_secret_name =
        |name: &str| is_secret_name_or_value(&name.trim_start_matches('-').replace('-', "_"), "");
    let is_value = |value: &str| !value.is_empty() && !Path::new(value).exists();
    if holds_secret(word) {
        return true;
    }
    if let Some((name, value)) = word.split_once('=')
        && (holds_secret(value) || is_secret_name(name) && is_value(value))
    {
        return true;
    }
    let is_flag = before.starts_with('-') && !before.contains('=');
    let flag = before.to_ascii_lowercase();
    if is_flag
        && (before == "-H" || flag.contains("header"))
        && let Some((name, value)) = word.split_once(':')
    {
        return is_secret_name(name) && is_value(value.trim());
    }
    is_flag && is_secret_name(before) && !word.starts_with('-') && is_value(word)
}

/// Returns whether a text is or contains a secret.
fn holds_secret(text: &str) -> bool {
    if contains_known_secret(text) {
        return true;
    }
    match Url::parse(text) {
        Ok(url) if url.has_host() => {
            let is_secret_part = |(name, value): (Cow<'_, str>, Cow<'_, str>)| {
                let name = name.replace('-', "_");
                !value.is_empty()
                    && (is_secret_name_or_value(&name, &value) || has_token_shape(&value))
            };
            url.password().is_some_and(|password| !password.is_empty())
                || has_token_shape(url.username())
                || url.path_segments().into_iter().flatten().any(has_token_shape)
                || url.query_pairs().any(is_secret_part)
        }
        _ => !is_path(text) && has_token_shape(text),
    }
}

/// Returns whether a text contains a secret of this process, or credentials.
fn contains_known_secret(text: &str) -> bool {
    secrets::process_secrets().redact(text) != text
}

fn is_path(text: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start)) || Path::new(text).exists()
}

/// Returns whether a text contains a long run of letters and digits, as tokens do. A commit or
/// digest after `@`, `#` or `:` does not count.
fn has_token_shape(text: &str) -> bool {
    let is_run = |letter: char| letter.is_ascii_alphanumeric();
    let mut start = 0;
    for run in text.split(|letter| !is_run(letter)) {
        let before = text[..start].chars().next_back();
        start += run.len();
        start += text[start..].chars().next().map_or(0, char::len_utf8);
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        let is_digest = run.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && before.is_some_and(|before| "@#:".contains(before));
        if run.len() >= MIN_TOKEN_SHAPE_LENGTH && digits >= 2 && digits < run.len() && !is_digest {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

    #[test]
    fn words_of_commands_that_are_secrets_are_found() {
        for (before, word, expected) in [
            ("--token", "abc", true),
            ("--api-key", "abc", true),
            ("x", "--api-key=abc", true),
            ("-e", "GITHUB_TOKEN=abc", true),
            ("--header", "X-Api-Key: abc", true),
            ("x", TOKEN, true),
            ("x", "--y=https://a.example/?token=abc", true),
            ("x", "https://a.example/?api-key=abc", true),
            ("x", "https://a.example/?q=ghp_16C7e42F292c6912E7710c838347Ae178B4a", true),
            ("x", "https://ghp_16C7e42F292c6912E7710c838347Ae178B4a@a.example/", true),
            ("x", "https://a.example/s/ghp_16C7e42F292c6912E7710c838347Ae178B4a/mcp", true),
            ("-e", "GITHUB_TOKEN", false),
            ("--token", "--verbose", false),
            ("--key-file", "/", false),
            ("--api-key=", "abc", false),
            ("-y", "@modelcontextprotocol/server-filesystem@2025.8.21", false),
            ("x", "https://a.example/?q=words", false),
            ("x", "git+https://a.example/b@16c7e42f292c6912e7710c838347ae178b4a0000", false),
            ("x", "b@sha256:16c7e42f292c6912e7710c838347ae178b4a0000", false),
            ("x", "/nix/store/16c7e42f292c6912e7710c838347ae17-b/bin/c", false),
            ("x", "123e4567-e89b-12d3-a456-426614174000", false),
            ("--header", "Accept: text/html", false),
            ("", "", false),
        ] {
            assert_eq!(is_secret_command_argument(before, word), expected, "{before} {word}");
        }
    }

    #[test]
    fn names_are_no_values() {
        for (name, expected) in [
            ("GITHUB_PERSONAL_ACCESS_TOKEN", true),
            ("_x2", true),
            (TOKEN, false),
            ("AKIAIOSF0DNN7EXAMPLE", false),
            ("MY VARIABLE", false),
            ("", false),
        ] {
            assert_eq!(is_nonsecret_variable_name(name), expected, "{name}");
        }
    }
}
