//! Lines that a client should never send, each with the expected answer.
//!
//! The end-to-end tests and `cargo xtask accept` use the same table. xtask includes this file by
//! its path. The table concerns only the protocol, and not the processes.

use serde_json::Value;

use self::Answer::{Nothing, Null, Own, Request};
use self::Part::{Bytes, Text, Times};

/// A marker in nearly every line. No answer may contain it.
pub(crate) const MARKER: &str = "XYZZY";

/// Maximum number of bytes of an answer, including its newline.
const ANSWER_BYTES: usize = 2048;

/// One line, with the expected answer.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    parts: &'static [Part],
    pub(crate) answer: Answer,
}

/// A part of a line. In a text, `$ID` is replaced by the id for this line.
enum Part {
    Text(&'static str),
    Times(&'static str, usize),
    Bytes(&'static [u8]),
}

/// The expected answer to a line.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The agent sends no answer.
    Nothing,
    /// An error with this code and the id null.
    Null(i64),
    /// An error with this code and the id of the line.
    Own(i64),
    /// An error with this code and the id of the line, for a valid request with unsupported
    /// content. Before `initialize`, the agent instead answers that it is not initialized.
    Request(i64),
}

impl Row {
    /// Returns the line without a newline, with this number as its id.
    pub(crate) fn line(&self, id: u64) -> Vec<u8> {
        let mut line = Vec::new();
        for part in self.parts {
            match part {
                Text(text) => line.extend(text.replace("$ID", &id.to_string()).into_bytes()),
                Times(text, times) => line.extend(text.repeat(*times).into_bytes()),
                Bytes(bytes) => line.extend_from_slice(bytes),
            }
        }
        line
    }

    /// Returns the id and the code of the expected error. Returns `None` if no answer is expected.
    pub(crate) fn expected(&self, id: u64, is_initialized: bool) -> Option<(Value, i64)> {
        match self.answer {
            Nothing => None,
            Null(code) => Some((Value::Null, code)),
            Own(code) => Some((id.into(), code)),
            Request(code) => Some((id.into(), if is_initialized { code } else { INVALID_REQUEST })),
        }
    }
}

/// Parses an error, and returns its id and its code. Fails if the line is too long, contains the
/// marker, or is not an error.
pub(crate) fn error(line: &str) -> Result<(Value, i64), String> {
    let start: String = line.chars().take(200).collect();
    if line.len() > ANSWER_BYTES {
        return Err(format!("an answer of {} bytes: {start}", line.len()));
    }
    if line.contains(MARKER) {
        return Err(format!("an answer repeats the line: {start}"));
    }
    let mut answer: Value =
        serde_json::from_str(line).map_err(|error| format!("{error}: {start}"))?;
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    // A message of fewer than four words, e.g. `Parse error`, is only the name of the error code.
    if said.split(' ').count() < 4 || !answer["error"]["data"]["reason"].is_string() {
        return Err(format!("it does not say what is wrong: {start}"));
    }
    match answer["error"]["code"].as_i64() {
        Some(code) => Ok((answer["id"].take(), code)),
        None => Err(format!("no error: {start}")),
    }
}

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const RESOURCE_NOT_FOUND: i64 = -32002;

const fn row(name: &'static str, parts: &'static [Part], answer: Answer) -> Row {
    Row { name, parts, answer }
}

/// All malformed lines, in groups.
pub(crate) const ROWS: &[Row] = &[
    // Blank lines: the agent ignores them.
    row("empty", &[], Nothing),
    row("blank", &[Text(" \t ")], Nothing),
    row("carriage return", &[Text("\r")], Nothing),
    row("1 MiB of blanks", &[Times(" ", 1 << 20)], Nothing),
    // Lines that are not JSON.
    row("garbage", &[Text("XYZZY")], Null(PARSE_ERROR)),
    row("a header", &[Text("Content-Length: 17 XYZZY")], Null(PARSE_ERROR)),
    row("truncated", &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY""#)], Null(PARSE_ERROR)),
    row(
        "truncated string",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZ"#)],
        Null(PARSE_ERROR),
    ),
    row("truncated member", &[Text(r#"{"jsonrpc":"2.0","id":"#)], Null(PARSE_ERROR)),
    row(
        "one brace more",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY"}}"#)],
        Null(PARSE_ERROR),
    ),
    row(
        "two messages",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY"}{"XYZZY":1}"#)],
        Null(PARSE_ERROR),
    ),
    row("single quotes", &[Text("{'jsonrpc':'2.0','id':$ID,'method':'XYZZY'}")], Null(PARSE_ERROR)),
    row(
        "comma at the end",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY",}"#)],
        Null(PARSE_ERROR),
    ),
    row("comment", &[Text(r#"{"id":$ID} // XYZZY"#)], Null(PARSE_ERROR)),
    row(
        "NaN",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"m","params":[NaN]}"#)],
        Null(PARSE_ERROR),
    ),
    row(
        "Infinity",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"m","params":[-Infinity]}"#)],
        Null(PARSE_ERROR),
    ),
    row(
        "leading zeros",
        &[Text(r#"{"jsonrpc":"2.0","id":007,"method":"XYZZY"}"#)],
        Null(PARSE_ERROR),
    ),
    row(
        "unknown escape",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"\x41"}"#)],
        Null(PARSE_ERROR),
    ),
    row(
        "tab in a string",
        &[Text("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"XYZZY\t\"}")],
        Null(PARSE_ERROR),
    ),
    row(
        "NUL in a string",
        &[Text("{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"XYZZY\0\"}")],
        Null(PARSE_ERROR),
    ),
    row("NUL", &[Text("\0")], Null(PARSE_ERROR)),
    row("NULs", &[Times("\0", 4096), Text(MARKER)], Null(PARSE_ERROR)),
    row("lone byte", &[Bytes(b"\xff")], Null(PARSE_ERROR)),
    row(
        "lone byte in a string",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY"#), Bytes(b"\xc3\"}")],
        Own(PARSE_ERROR),
    ),
    row("overlong UTF-8", &[Bytes(b"{\"XYZZY\":\"\xc0\x80\"}")], Null(PARSE_ERROR)),
    row("surrogate in UTF-8", &[Bytes(b"{\"XYZZY\":\"\xed\xa0\x80\"}")], Null(PARSE_ERROR)),
    row("UTF-16", &[Bytes(b"\xff\xfe{\0}\0")], Null(PARSE_ERROR)),
    row(
        "byte order mark",
        &[Text("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"XYZZY\"}")],
        Null(PARSE_ERROR),
    ),
    row(
        "lone surrogate as id",
        &[Text(r#"{"jsonrpc":"2.0","id":"\ud800","method":"XYZZY"}"#)],
        Null(PARSE_ERROR),
    ),
    // Lines that are too large or too deeply nested to be parsed.
    row("65 levels", &[Times("[", 65), Text("17"), Times("]", 65)], Null(PARSE_ERROR)),
    row("10,000 levels", &[Times("[", 10_000), Times("]", 10_000)], Null(PARSE_ERROR)),
    row("10,000 levels of objects", &[Times(r#"{"XYZZY":"#, 10_000)], Null(PARSE_ERROR)),
    row("1,000,000 levels", &[Times("[", 1_000_000), Times("]", 1_000_000)], Null(PARSE_ERROR)),
    row(
        "1,000,000 levels in a request",
        &[
            Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":"#),
            Times("[", 1_000_000),
            Times("]", 1_000_000),
            Text("}"),
        ],
        Null(PARSE_ERROR),
    ),
    row(
        "100,000 keys",
        &[
            Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":{"#),
            Times(r#""k":0,"#, 100_000),
            Text(r#""k":0}}"#),
        ],
        Null(PARSE_ERROR),
    ),
    row("200,000 values", &[Text("[0"), Times(",0", 200_000), Text("]")], Null(PARSE_ERROR)),
    row("16 MiB and a byte", &[Text(MARKER), Times("a", (16 << 20) - 4)], Null(PARSE_ERROR)),
    row(
        "17 MiB in one string",
        &[
            Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":[""#),
            Times("a", 17 << 20),
            Text(r#""]}"#),
        ],
        Null(PARSE_ERROR),
    ),
    row("64 MiB of garbage", &[Times("XYZZY \0\"\\[{", 64 << 20 >> 4)], Null(PARSE_ERROR)),
    // JSON that is not a message.
    row("number", &[Text("17")], Null(INVALID_REQUEST)),
    row("string", &[Text(r#""XYZZY""#)], Null(INVALID_REQUEST)),
    row("null", &[Text("null")], Null(INVALID_REQUEST)),
    row("true", &[Text("true")], Null(INVALID_REQUEST)),
    row("empty array", &[Text("[]")], Null(INVALID_REQUEST)),
    row(
        "batch",
        &[Text(
            r#"[{"jsonrpc":"2.0","id":$ID,"method":"XYZZY"},{"jsonrpc":"2.0","id":"x","method":"m"}]"#,
        )],
        Null(INVALID_REQUEST),
    ),
    row("array of members", &[Text(r#"["2.0",$ID,"XYZZY"]"#)], Null(INVALID_REQUEST)),
    row("empty object", &[Text("{}")], Null(INVALID_REQUEST)),
    row("something else", &[Text(r#"{"XYZZY":1}"#)], Null(INVALID_REQUEST)),
    // Messages with exactly one fault.
    row("no version", &[Text(r#"{"id":$ID,"method":"XYZZY"}"#)], Own(INVALID_REQUEST)),
    row(
        "version 1.0",
        &[Text(r#"{"jsonrpc":"1.0","id":$ID,"method":"XYZZY"}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "version as number",
        &[Text(r#"{"jsonrpc":2.0,"id":$ID,"method":"XYZZY"}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "version null",
        &[Text(r#"{"jsonrpc":null,"id":$ID,"method":"XYZZY"}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "id null",
        &[Text(r#"{"jsonrpc":"2.0","id":null,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id float",
        &[Text(r#"{"jsonrpc":"2.0","id":1.5,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id exponent",
        &[Text(r#"{"jsonrpc":"2.0","id":1e2,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id of 64 bits and one",
        &[Text(r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id of 30 digits",
        &[Text(r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id true",
        &[Text(r#"{"jsonrpc":"2.0","id":true,"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id object",
        &[Text(r#"{"jsonrpc":"2.0","id":{"XYZZY":1},"method":"m"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id array",
        &[Text(r#"{"jsonrpc":"2.0","id":[$ID],"method":"XYZZY"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "id of 1 MiB",
        &[Text(r#"{"jsonrpc":"2.0","id":""#), Times("XYZZY ", 175_000), Text(r#"","method":"m"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "two ids",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"id":"XYZZY","method":"m"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "two ids, one in disguise",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"\u0069d":"XYZZY","method":"m"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "two methods",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","method":"m"}"#)],
        Null(INVALID_REQUEST),
    ),
    row(
        "two params",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":{},"params":{}}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "two sessions",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/close","params":{"sessionId":"XYZZY","sessionId":"x"}}"#,
        )],
        Own(INVALID_REQUEST),
    ),
    row(
        "two keys far below",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"m","params":[{"_meta":{"a":[{"XYZZY":1,"b":2,"XYZZY":1}]}}]}"#,
        )],
        Own(INVALID_REQUEST),
    ),
    row(
        "no method",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"params":["XYZZY"]}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "method null",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":null}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "method number",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":17}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "method array",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":["XYZZY"]}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "lone surrogate as method",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"\ud800XYZZY"}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "lone surrogate in params",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"m","params":["\udfffXYZZY"]}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "params string",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"m","params":"XYZZY"}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "params number",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":17}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "1e400",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","params":[1e400]}"#)],
        Own(INVALID_REQUEST),
    ),
    row(
        "method and result",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY","result":1}"#)],
        Own(INVALID_REQUEST),
    ),
    // Requests for an unknown method or session, or with invalid parameters.
    row(
        "empty method",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":""}"#)],
        Request(METHOD_NOT_FOUND),
    ),
    row(
        "unknown method",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"XYZZY/method","params":{}}"#)],
        Request(METHOD_NOT_FOUND),
    ),
    row(
        "unknown method of 1 MiB",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":""#), Times("XYZZY/", 175_000), Text(r#""}"#)],
        Request(METHOD_NOT_FOUND),
    ),
    row(
        "unknown session",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"XYZZY","prompt":[]}}"#,
        )],
        Request(RESOURCE_NOT_FOUND),
    ),
    row(
        "closing an unknown session",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/close","params":{"sessionId":"XYZZY"}}"#,
        )],
        Request(RESOURCE_NOT_FOUND),
    ),
    row(
        "no params",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt"}"#)],
        Request(INVALID_PARAMS),
    ),
    row(
        "params by position",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":["XYZZY"]}"#)],
        Request(INVALID_PARAMS),
    ),
    row(
        "params of other types",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"x","prompt":"XYZZY"}}"#,
        )],
        Request(INVALID_PARAMS),
    ),
    row(
        "bad params of 1 MiB",
        &[
            Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":17,"x":""#),
            Times("XYZZY ", 175_000),
            Text(r#""}}"#),
        ],
        Request(INVALID_PARAMS),
    ),
    row(
        "relative cwd",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":"relative","mcpServers":[],"_meta":{"XYZZY":1}}}"#,
        )],
        Request(INVALID_PARAMS),
    ),
    row(
        "cwd of 1 MiB",
        &[
            Text(r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":""#),
            Times("/abcde", 175_000),
            Text(r#"","mcpServers":[]}}"#),
        ],
        Request(INVALID_PARAMS),
    ),
    row(
        "cwd with NUL",
        &[Text(
            r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":"/nul\u0000","mcpServers":[],"_meta":{"XYZZY":1}}}"#,
        )],
        Request(INVALID_PARAMS),
    ),
    // Notifications and responses: the agent never answers them.
    row("unknown notification", &[Text(r#"{"jsonrpc":"2.0","method":"XYZZY"}"#)], Nothing),
    row(
        "notification with bad params",
        &[Text(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":["XYZZY"]}}"#)],
        Nothing,
    ),
    row(
        "cancel of an unknown session",
        &[Text(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"XYZZY"}}"#)],
        Nothing,
    ),
    row(
        "cancel of an unknown request",
        &[Text(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"XYZZY"}}"#)],
        Nothing,
    ),
    row("stray result", &[Text(r#"{"jsonrpc":"2.0","id":"XYZZY","result":{}}"#)], Nothing),
    row(
        "stray error",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"XYZZY"}}"#)],
        Nothing,
    ),
    row(
        "error for nobody",
        &[Text(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"XYZZY"}}"#)],
        Nothing,
    ),
    row(
        "result and error",
        &[Text(r#"{"jsonrpc":"2.0","id":$ID,"result":1,"error":{"code":1,"message":"XYZZY"}}"#)],
        Nothing,
    ),
    row("result without id", &[Text(r#"{"jsonrpc":"2.0","result":"XYZZY"}"#)], Nothing),
];
