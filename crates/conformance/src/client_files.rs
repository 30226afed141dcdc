//! The client's `fs/*` methods. A read returns the unsaved text of a file. If there is no unsaved
//! text, the read returns the file on the disk.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::behaviour::{FileService, ServiceBehaviour};

impl FileService {
    /// Returns the behaviour of the client for a method.
    pub(crate) fn behaviour_for_method(&self, method: &str) -> ServiceBehaviour {
        match self.reads {
            ServiceBehaviour::Works if method == "fs/write_text_file" => {
                self.writes.unwrap_or(ServiceBehaviour::Fails)
            }
            service => service,
        }
    }
}

/// Serves a request of the agent to read or write a file.
///
/// # Errors
///
/// Returns the message of a JSON-RPC error.
pub(crate) fn serve_file_request(
    files: &mut FileService,
    method: &str,
    params: &Value,
) -> Result<Value, String> {
    let path = params["path"].as_str().ok_or("no path")?;
    let path = Path::new(path);
    match method {
        "fs/read_text_file" => {
            let text = match files.unsaved.get(path) {
                Some(text) => text.clone(),
                None => fs::read_to_string(path).map_err(|error| error.to_string())?,
            };
            Ok(json!({"content": line_range(&text, &params["line"], &params["limit"])}))
        }
        "fs/write_text_file" => {
            let text = params["content"].as_str().ok_or("no content")?;
            fs::write(path, text).map_err(|error| error.to_string())?;
            files.unsaved.remove(path);
            Ok(json!({}))
        }
        _ => Err("no such method".to_owned()),
    }
}

/// Returns at most `limit` lines, starting with the line number `line`. Lines are counted from 1.
fn line_range(text: &str, line: &Value, limit: &Value) -> String {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    let skipped = number(line).map_or(0, |line| line.saturating_sub(1));
    let lines = text.split_inclusive('\n').skip(skipped);
    lines.take(number(limit).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::line_range;

    #[test]
    fn a_read_returns_the_requested_lines() {
        let text = "one\ntwo\nthree";
        for (line, limit, expected) in [
            (json!(null), json!(null), text),
            (json!(1), json!(1), "one\n"),
            (json!(2), json!(9), "two\nthree"),
            (json!(4), json!(null), ""),
            (json!(1), json!(0), ""),
        ] {
            assert_eq!(line_range(text, &line, &limit), expected, "{line} {limit}");
        }
    }
}
